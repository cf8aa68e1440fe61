"""What the helpers of test nodes do over the network, with the clients of barnabas: topics, rules and records."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from barnabas.clients.admin import AclBinding, AdminClient, IsolationLevel, NewTopic, OffsetSpec, TopicPartition
from barnabas.clients.client_config import ClientConfig, client_config
from barnabas.clients.consumer.config import ConsumerConfig
from barnabas.clients.consumer.fetcher import Fetcher
from barnabas.clients.errors import ClientError
from barnabas.clients.network_client import NetworkClient
from barnabas.clients.producer.record_producer import RecordProducer
from barnabas.clients.topic_metadata import TopicMetadata, TopicMetadataSource
from barnabas.common.uuid import Uuid
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.testing.records import KeyAndValue, ReceivedRecord

if TYPE_CHECKING:
    from barnabas.clients.consumer.completed_fetch import Fetched

__all__ = [
    "active_controller",
    "await_same_leaders",
    "consume",
    "create_acls",
    "create_topics",
    "delete_topics",
    "leader_of",
    "produce",
]

_Properties = Mapping[str, str]

_POLL_S = 0.02


async def create_topics(
    properties: _Properties, topics: Mapping[str, int], replication: int | None, configs: Mapping[str, str]
) -> None:
    """Create topics with these numbers of partitions, and wait until all brokers know them.

    Raise AdminError, or a group of them.
    """
    new = [NewTopic(name, partitions, replication, configs) for name, partitions in topics.items()]
    async with AdminClient(properties=properties) as admin:
        (await admin.create_topics(new, wait=True)).raise_for_errors()


async def delete_topics(properties: _Properties, names: Iterable[str]) -> None:
    async with AdminClient(properties=properties) as admin:
        (await admin.delete_topics(names, wait=True)).raise_for_errors()


async def create_acls(properties: _Properties, bindings: Iterable[AclBinding]) -> None:
    async with AdminClient(properties=properties) as admin:
        (await admin.create_acls(bindings, wait=True)).raise_for_errors()


async def leader_of(properties: _Properties, topic: str, partition: int) -> int | None:
    """Return the id of the partition's leader; None while it has none."""
    async with AdminClient(properties=properties) as admin:
        described = (await admin.describe_topics([topic]))[topic]
    for found in described.partitions:
        if found.partition == partition:
            return found.leader
    raise LookupError(f"topic {topic} has no partition {partition}; it has {len(described.partitions)}")


async def await_same_leaders(brokers: Sequence[_Properties], timeout_s: float) -> None:
    """Wait until all these brokers, each with properties of its own, know the latest leader of every partition.

    Return at the end of ``timeout_s`` in any case: without a quorum, a broker learns nothing.
    """
    with suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            while True:
                with suppress(ClientError):
                    known = [await _leader_epochs(properties) for properties in brokers]
                    if all(found == known[0] for found in known):
                        return
                await asyncio.sleep(_POLL_S)


async def _leader_epochs(properties: _Properties) -> dict[tuple[Uuid, int], int]:
    """Return what the first bootstrap server says."""
    async with NetworkClient(client_config(properties)) as network:
        metadata = await network.request(MetadataRequest(topics=None, allow_auto_topic_creation=False))
    return {
        (topic.topic_id, partition.partition_index): partition.leader_epoch
        for topic in metadata.topics
        for partition in topic.partitions
    }


async def active_controller(properties: _Properties) -> int:
    async with AdminClient(properties=properties) as admin:
        return (await admin.describe_quorum()).leader_id


async def produce(
    properties: _Properties, topic: str, records: Sequence[KeyAndValue], *, timeout_s: float
) -> list[int]:
    """Write records in their order, and return their offsets. Raise NotDelivered, AdminError or TimeoutError."""
    try:
        async with asyncio.timeout(timeout_s), NetworkClient(client_config(properties)) as network:
            producer = RecordProducer(network, topic)
            producer.start(await TopicMetadataSource(network, topic).load())
            try:
                return await producer.produce(records, timeout_s=timeout_s)
            finally:
                await producer.close()
    except TimeoutError as error:
        raise TimeoutError(
            f"topic {topic}: no acknowledgement of {len(records):,} records in {timeout_s:g} s"
        ) from error


async def consume(
    properties: _Properties, topic: str, *, count: int | None, timeout_s: float, read_committed: bool
) -> list[ReceivedRecord]:
    """Read the topic from its beginning: ``count`` records, or those that exist now.

    Raise AdminError, ClientError or TimeoutError.
    """
    received: list[ReceivedRecord] = []
    try:
        async with asyncio.timeout(timeout_s):
            await _consume(client_config(properties), topic, count, received, read_committed=read_committed)
    except TimeoutError as error:
        wanted = "all" if count is None else f"{count:,}"
        raise TimeoutError(
            f"topic {topic}: {len(received):,} of {wanted} records arrived in {timeout_s:g} s"
        ) from error
    return received if count is None else received[:count]


async def _consume(
    config: ClientConfig, topic: str, count: int | None, received: list[ReceivedRecord], *, read_committed: bool
) -> None:
    has_enough = asyncio.Event()

    def take(fetched: Fetched) -> None:
        received.extend(
            ReceivedRecord(
                topic, fetched.partition, record.offset, record.timestamp, record.key, record.value, record.headers
            )
            for record in fetched.records()
        )
        if count is not None and len(received) >= count:
            has_enough.set()

    async with NetworkClient(config) as network:
        source = TopicMetadataSource(network, topic)
        metadata = await source.load()
        positions = await _offsets(config, metadata, OffsetSpec.earliest(), read_committed=read_committed)
        until = None
        if count is None:
            until = await _offsets(config, metadata, OffsetSpec.latest(), read_committed=read_committed)
        settings = ConsumerConfig(read_committed=read_committed)
        fetcher = Fetcher(network, source, settings, positions, take, until=until)
        fetcher.start(metadata)
        try:
            await _first_of(has_enough, fetcher.finished)
        finally:
            await fetcher.close()
    if fetcher.failure is not None:
        raise fetcher.failure


async def _offsets(
    config: ClientConfig, metadata: TopicMetadata, spec: OffsetSpec, *, read_committed: bool
) -> dict[TopicPartition, int]:
    isolation = IsolationLevel.READ_COMMITTED if read_committed else IsolationLevel.READ_UNCOMMITTED
    async with AdminClient(config=config) as admin:
        wanted = {TopicPartition(metadata.name, partition): spec for partition in metadata.partitions}
        listed = (await admin.list_offsets(wanted, isolation_level=isolation)).raise_for_errors()
    return {partition: found.offset for partition, found in listed.items()}


async def _first_of(*events: asyncio.Event) -> None:
    waiting = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in waiting:
            task.cancel()
