"""A reader and brokers in memory: each record is delivered once and in order, whatever happens on the way."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.clients.consumer import topic_consumer
from barnabas.clients.consumer.topic_consumer import ConsumerRecord, TopicConsumer
from barnabas.clients.topic_metadata import TopicMetadataSource
from barnabas.protocol.record_batch import Record
from barnabas.protocol.record_batch_builder import build_batch
from tests.unit.clients.memory_cluster import TOPIC, MemoryCluster


def fill(cluster: MemoryCluster, partition: int, count: int, *, is_control: bool = False) -> None:
    begin = cluster.end(partition)
    records = [Record(place, 7, b"k", b"%d" % (begin + place)) for place in range(count)]
    cluster.append(partition, build_batch(records, is_control=is_control, is_transactional=is_control))


def reading(cluster: MemoryCluster, use: Callable[[TopicConsumer], Awaitable[None]]) -> list[ConsumerRecord]:
    received: list[ConsumerRecord] = []

    async def main() -> None:
        source = TopicMetadataSource(cluster.network, TOPIC)
        reader = TopicConsumer(cluster.network, source, received.append)
        reader.start(await source.load(), dict.fromkeys(cluster.logs, 0))
        try:
            async with asyncio.timeout(20):
                await use(reader)
        finally:
            await reader.close()

    asyncio.run(main())
    return received


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_consumer, "_PAUSE_S", 0.0)
    monkeypatch.setattr(topic_consumer, "_PAUSE_MAX_S", 0.0)


def offsets(received: list[ConsumerRecord], partition: int) -> list[int]:
    return [record.offset for record in received if record.partition == partition]


def test_everything_up_to_an_end_is_delivered_and_later_records_too() -> None:
    cluster = MemoryCluster(2)
    fill(cluster, 0, 10)

    async def use(reader: TopicConsumer) -> None:
        await reader.reach({0: 10, 1: 0})
        fill(cluster, 1, 5)
        await reader.reach({1: 5})

    received = reading(cluster, use)
    assert (offsets(received, 0), offsets(received, 1)) == (list(range(10)), list(range(5)))
    assert received[3] == ConsumerRecord(0, 3, 7, b"k", b"3")


def test_markers_advance_the_position_and_are_not_delivered() -> None:
    cluster = MemoryCluster()
    fill(cluster, 0, 2)
    fill(cluster, 0, 1, is_control=True)

    async def use(reader: TopicConsumer) -> None:
        await reader.reach({0: 3})

    assert offsets(reading(cluster, use), 0) == [0, 1]


@settings(deadline=None, max_examples=40)
@given(
    st.lists(
        st.sampled_from(
            ["ok", "moved", "NOT_LEADER_OR_FOLLOWER", "TOPIC_AUTHORIZATION_FAILED", "UNKNOWN_SERVER_ERROR"]
        ),
        max_size=12,
    )
)
def test_each_record_is_delivered_once_and_in_order_despite_faults(faults: list[str]) -> None:
    cluster = MemoryCluster(2)
    for _ in range(3):
        fill(cluster, 0, 4)
        fill(cluster, 1, 4)
    cluster.faults.extend(faults)

    async def use(reader: TopicConsumer) -> None:
        await reader.reach({0: 12, 1: 12})

    received = reading(cluster, use)
    assert (offsets(received, 0), offsets(received, 1)) == (list(range(12)), list(range(12)))


def test_a_topic_that_ends_before_the_position_is_read_from_its_beginning(caplog: pytest.LogCaptureFixture) -> None:
    cluster = MemoryCluster()
    fill(cluster, 0, 10)
    restarted = asyncio.Event()

    async def use(reader: TopicConsumer) -> None:
        await reader.reach({0: 10})
        begin = reader._begin_anew_if_gone

        def begin_and_notify() -> None:
            begin()
            restarted.set()

        reader._begin_anew_if_gone = begin_and_notify  # type: ignore[method-assign]
        cluster.logs[0].clear()
        fill(cluster, 0, 3)
        await restarted.wait()
        await reader.reach({0: 3})

    received = reading(cluster, use)
    assert offsets(received, 0) == [*range(10), *range(3)]
    assert "reading it from its beginning" in caplog.text
