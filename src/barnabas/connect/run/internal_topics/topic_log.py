"""A compacted topic as a log that several workers share: each may write, and all read it for the current state.

``start`` creates or checks the topic and reads it to its end; after that every record is reported as it arrives. A
worker calls ``read_to_end`` to be up to date, or to confirm its own write. Reads, writes and end-offset requests have
separate connections, because a broker answers the requests of one connection in turn.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Self

from barnabas.clients.admin.client import AdminClient
from barnabas.clients.admin.errors import AdminError
from barnabas.clients.admin.partitions import IsolationLevel, OffsetSpec
from barnabas.clients.client_config import client_config
from barnabas.clients.consumer.topic_consumer import ConsumerRecord, TopicConsumer
from barnabas.clients.errors import ClientError
from barnabas.clients.network_client import NetworkClient
from barnabas.clients.topic_metadata import TopicMetadata, TopicMetadataSource
from barnabas.common.error_code import ErrorCode
from barnabas.common.errors import Transient
from barnabas.common.topic_partition import TopicPartition
from barnabas.connect.errors import ConnectError
from barnabas.connect.run.internal_topics.topic_admin import InternalTopic, ensure_internal_topic, ensure_partitions
from barnabas.connect.run.internal_topics.topic_writer import TopicWriter, WriteFailed
from barnabas.connect.run.retries import Retries

__all__ = ["ReadFailed", "TopicLog", "WriteFailed"]

_PAUSE_S = 0.1
_GRACE_S = 2.0
"""A topic that was just created may be unknown to some brokers."""
_PASSING = frozenset(
    {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.REPLICA_NOT_AVAILABLE}
)


class ReadFailed(ConnectError):
    """The end of the topic was not reached in time."""


class TopicLog:
    """Use it as ``async with``, or close it. ``properties`` are Kafka's client properties (``internal_topics``).

    ``received`` is called for each record, from ``start`` on, on the event loop; it must be quick and not raise.
    """

    def __init__(
        self,
        topic: InternalTopic,
        properties: Mapping[str, str],
        received: Callable[[ConsumerRecord], None],
        *,
        read_committed: bool = False,
        epoch_time: Callable[[], float] = time.time,
    ) -> None:
        """Raise InvalidClientConfig for invalid properties."""
        config = client_config(properties, source="worker settings")
        self.topic = topic
        self.is_started = False
        self._isolation = IsolationLevel.READ_COMMITTED if read_committed else IsolationLevel.READ_UNCOMMITTED
        self._admin = AdminClient(config=config)
        self._reading = NetworkClient(config)
        self._writing = NetworkClient(config)
        self._source = TopicMetadataSource(self._reading, topic.name)
        self._consumer = TopicConsumer(self._reading, self._source, received, read_committed=read_committed)
        self._writer = TopicWriter(self._writing, topic.name, epoch_time=epoch_time)

    @property
    def partitions(self) -> list[int]:
        """Known after ``start``."""
        return sorted(self._consumer.positions)

    @property
    def positions(self) -> Mapping[int, int]:
        """The next offset of each partition, after the last record that was read."""
        return self._consumer.positions

    async def start(self, *, timeout_s: float = 60) -> None:
        """Create or check the topic, and read it to its end. A large topic may take longer, as long as reading
        progresses.

        Raise UnusableTopic for a topic that must not be used, ReadFailed, ClientError.
        """
        retries = Retries(pause_s=_PAUSE_S, grace_s=_GRACE_S)
        try:
            refusal = await ensure_internal_topic(self._admin, self.topic, timeout_s=timeout_s)
            async with asyncio.timeout(timeout_s):
                metadata = await self._load(retries, refusal)
        except TimeoutError as error:
            raise ReadFailed(
                f"{retries.problem or f'topic {self.topic.name} was not found'}. The worker has tried for "
                f"{timeout_s:g} s -> check bootstrap.servers and {self.topic.setting}, and whether the brokers run"
            ) from error
        ensure_partitions(self.topic, len(metadata.partitions))
        beginnings = await self._offsets(metadata.partitions, OffsetSpec.earliest(), timeout_s)
        self._consumer.start(metadata, beginnings)
        self._writer.start(metadata)
        ends = await self._offsets(metadata.partitions, OffsetSpec.latest(), timeout_s)
        await self._reach(ends, timeout_s, goes_on=True)
        self.is_started = True

    async def write(self, records: Sequence[tuple[bytes | None, bytes | None]], *, timeout_s: float = 30) -> list[int]:
        """See ``TopicWriter.write``; records are (key, value). Raise WriteFailed."""
        return await self._writer.write(records, timeout_s=timeout_s)

    async def read_to_end(self, *, timeout_s: float = 30) -> None:
        """Return when all records in the topic at the time of the call were reported. Raise ReadFailed."""
        loop = asyncio.get_running_loop()
        until = loop.time() + timeout_s
        ends = await self._offsets(self.partitions, OffsetSpec.latest(), timeout_s)
        await self._reach(ends, max(0.0, until - loop.time()))

    async def close(self) -> None:
        await self._consumer.close()
        await self._writer.close()
        await self._admin.close()
        await self._reading.close()
        await self._writing.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _load(self, retries: Retries, refusal: str | None) -> TopicMetadata:
        """``refusal`` says why this worker could not create the topic."""
        while True:
            try:
                return await self._source.load()
            except AdminError as error:
                if error.code not in _PASSING:
                    raise ReadFailed(self._unreadable(error)) from error
                problem = self._missing(error, refusal)
            except ClientError as error:
                if not isinstance(error, Transient):
                    raise
                problem = f"topic {self.topic.name} ({self.topic.setting}) can't be read yet: {error}"
            await retries.failed(problem)

    def _missing(self, error: AdminError, refusal: str | None) -> str:
        name, setting = self.topic.name, self.topic.setting
        if refusal is None:
            return f"topic {name} ({setting}) can't be read yet: {error}"
        return (
            f"topic {name} ({setting}) does not exist, and the worker's principal may not create it ({refusal}) "
            f"-> create it with cleanup.policy=compact, or allow the principal CREATE and DESCRIBE on it"
        )

    def _unreadable(self, error: AdminError) -> str:
        hint = (
            " -> the worker's principal needs READ, WRITE and DESCRIBE on it"
            if error.code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
            else ""
        )
        return f"topic {self.topic.name} ({self.topic.setting}) can't be read: {error}{hint}"

    async def _offsets(self, partitions: Sequence[int], which: OffsetSpec, timeout_s: float) -> dict[int, int]:
        wanted = {TopicPartition(self.topic.name, partition): which for partition in partitions}
        try:
            found = await self._admin.list_offsets(wanted, isolation_level=self._isolation, timeout_s=timeout_s)
            return {partition.partition: listed.offset for partition, listed in found.raise_for_errors().items()}
        except (AdminError, ClientError, ExceptionGroup) as error:
            raise ReadFailed(f"the end offsets of topic {self.topic.name} can't be read: {error}") from error

    async def _reach(self, ends: Mapping[int, int], timeout_s: float, *, goes_on: bool = False) -> None:
        """Read up to the offsets. ``goes_on``: the limit applies to the time without progress."""
        while True:
            before = dict(self._consumer.positions)
            try:
                async with asyncio.timeout(timeout_s):
                    await self._consumer.reach(ends)
                return
            except TimeoutError as error:
                if goes_on and self._consumer.positions != before:
                    continue
                raise ReadFailed(self._behind(ends, timeout_s)) from error

    def _behind(self, ends: Mapping[int, int], timeout_s: float) -> str:
        positions = self._consumer.positions
        behind = ", ".join(
            f"partition {partition} at {positions[partition]} of {end}"
            for partition, end in ends.items()
            if positions[partition] < end
        )
        why = f": {self._consumer.failure}" if self._consumer.failure is not None else ""
        return f"topic {self.topic.name} was not read to its end in {timeout_s:g} s ({behind}){why}"
