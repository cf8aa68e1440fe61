"""Read the latest dead letters of a connector from its dead-letter topic, within bounds of offsets and time.

The client has the settings with which the dead letters are written (``producer.``, ``producer.override.``), so it reads
them from the same cluster. Its principal needs READ on the topic. Nothing is committed: looking changes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from barnabas.clients.admin.client import AdminClient
from barnabas.clients.admin.errors import AdminError
from barnabas.clients.admin.partitions import OffsetSpec
from barnabas.clients.client_config import client_config, is_client_property
from barnabas.clients.consumer.completed_fetch import Fetched
from barnabas.clients.consumer.config import ConsumerConfig
from barnabas.clients.consumer.fetcher import Fetcher
from barnabas.clients.errors import ClientError, InvalidClientConfig
from barnabas.clients.network_client import NetworkClient
from barnabas.clients.topic_metadata import TopicMetadataSource
from barnabas.common.error_code import ErrorCode
from barnabas.common.topic_partition import TopicPartition
from barnabas.connect.decide.herder.outside import ConfigMap
from barnabas.connect.decide.tasks.dead_letter_records import LatestLetters
from barnabas.connect.entities import DeadLetters
from barnabas.connect.errors import ConnectError, NotFound
from barnabas.connect.run.known_secrets import KnownSecrets
from barnabas.protocol.errors import DecodeError

__all__ = ["DeadLetterReader"]

_TOPIC = "errors.deadletterqueue.topic.name"
_OFFSETS_MAX = 1000
"""The offsets that are examined in all partitions together, from the end."""
_TIMEOUT_S = 10.0
_AT_A_TIME = 2
_LIMITS = ConsumerConfig(max_bytes=4 << 20, partition_max_bytes=1 << 20)


@dataclass(frozen=True, slots=True)
class _Ranges:
    starts: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]
    total: int
    """All records of the topic, counted by offsets."""


class DeadLetterReader:
    def __init__(self, worker_config: Mapping[str, str], secrets: KnownSecrets) -> None:
        """``worker_config`` are the worker's settings, with references resolved."""
        self._worker_config = worker_config
        self._secrets = secrets
        self._turn = asyncio.Semaphore(_AT_A_TIME)

    async def read(self, connector: str, config: ConfigMap, count: int) -> DeadLetters:
        """Return the latest ``count`` dead letters, the last first.

        Raise NotFound for a connector without a dead-letter topic, and ConnectError.
        """
        resolved = await asyncio.to_thread(self._secrets.resolve, config)
        topic = resolved.get(_TOPIC, "").strip()
        if not topic:
            raise NotFound(f"Connector {connector} has no dead-letter topic: {_TOPIC} is not set")
        async with self._turn:
            try:
                async with asyncio.timeout(_TIMEOUT_S):
                    return await self._read(connector, topic, resolved, count)
            except TimeoutError:
                raise ConnectError(f"The dead-letter topic {topic} was not read within {_TIMEOUT_S:g} s") from None
            except InvalidClientConfig as error:
                raise ConnectError(self._secrets.hide(str(error))) from error
            except (AdminError, ClientError, DecodeError, ExceptionGroup, OSError) as error:
                text = self._secrets.hide(str(error) or type(error).__name__)
                raise ConnectError(f"The dead-letter topic {topic} can't be read: {text}") from error

    async def _read(self, connector: str, topic: str, config: Mapping[str, str], count: int) -> DeadLetters:
        settings = client_config(self._properties(config), source=f"the producer of connector {connector}")
        async with NetworkClient(settings) as network, AdminClient(config=settings) as admin:
            source = TopicMetadataSource(network, topic)
            try:
                metadata = await source.load()
            except AdminError as error:
                if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise
                return DeadLetters(topic, exists=False)
            ranges = await _ranges(admin, [TopicPartition(topic, number) for number in metadata.partitions])
            letters = LatestLetters(connector, count)

            def take(fetched: Fetched) -> None:
                end = ranges.ends[TopicPartition(fetched.topic, fetched.partition)]
                for record in fetched.records():
                    if record.offset < end:
                        letters.add(fetched.partition, record)

            if ranges.starts:
                fetcher = Fetcher(network, source, _LIMITS, ranges.starts, take, until=ranges.ends)
                try:
                    fetcher.start(metadata)
                    await fetcher.finished.wait()
                finally:
                    await fetcher.close()
                if fetcher.failure is not None:
                    raise fetcher.failure
        examined = sum(ranges.ends[partition] - start for partition, start in ranges.starts.items())
        return DeadLetters(topic, total=ranges.total, examined=examined, letters=list(letters.latest_first()))

    def _properties(self, config: Mapping[str, str]) -> dict[str, str]:
        properties = {"bootstrap.servers": self._worker_config.get("bootstrap.servers", "")}
        for prefix, settings in (("producer.", self._worker_config), ("producer.override.", config)):
            for name, text in settings.items():
                if name.startswith(prefix) and is_client_property(name.removeprefix(prefix)):
                    properties[name.removeprefix(prefix)] = text
        return properties


async def _ranges(admin: AdminClient, partitions: list[TopicPartition]) -> _Ranges:
    """Return the offsets to examine. Empty partitions are omitted."""
    first, last = [
        {
            partition: found.offset
            for partition, found in (await admin.list_offsets(dict.fromkeys(partitions, spec), timeout_s=_TIMEOUT_S))
            .raise_for_errors()
            .items()
        }
        for spec in (OffsetSpec.earliest(), OffsetSpec.latest())
    ]
    filled = [partition for partition in partitions if last[partition] > first[partition]]
    each = max(1, _OFFSETS_MAX // max(1, len(filled)))
    starts = {partition: max(first[partition], last[partition] - each) for partition in filled}
    total = sum(last[partition] - first[partition] for partition in filled)
    return _Ranges(starts, {partition: last[partition] for partition in filled}, total)
