"""A writer and brokers in memory: each record is there once and in order, whatever happens on the way."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.clients.client_config import client_config
from barnabas.clients.topic_metadata import TopicMetadataSource
from barnabas.common.error_code import ErrorCode
from barnabas.common.murmur2 import partition_for_key
from barnabas.connect.run.internal_topics.topic_writer import TopicWriter, WriteFailed
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.init_producer_id import InitProducerIdResponse
from barnabas.protocol.record_batch import BatchView, Record
from tests.unit.clients.memory_cluster import TOPIC, MemoryCluster

QUICK = client_config({"bootstrap.servers": "a:1", "retry.backoff.ms": "0", "retry.backoff.max.ms": "0"})


class Cluster(MemoryCluster):
    """Tells offsets, gives each producer an id of its own, and may refuse producers or large batches."""

    def __init__(self, partitions: int = 1) -> None:
        super().__init__(partitions)
        self.config = QUICK
        self.producers = 0
        self.producer_error = ErrorCode.NONE
        self.batch_bytes_max = 10_000_000

    def answer(self, node: int, message: Any) -> Any:
        if message.API_KEY == ApiKey.INIT_PRODUCER_ID:
            self.producers += 1
            return InitProducerIdResponse(
                producer_id=-1 if self.producer_error else self.producers,
                producer_epoch=0,
                error_code=self.producer_error,
            )
        if message.API_KEY != ApiKey.PRODUCE:
            return super().answer(node, message)
        ((each,),) = [topic.partition_data for topic in message.topic_data]
        if len(each.records) > self.batch_bytes_max:
            self.faults.appendleft("MESSAGE_TOO_LARGE")
        base_offset = self.end(each.index)
        response = super().answer(node, message)
        for topic in response.responses:
            for part in topic.partition_responses:
                part.base_offset = -1 if part.error_code else base_offset
        return response

    def records(self, partition: int = 0) -> list[Record]:
        return [record for batch in self.logs[partition] for record in BatchView(batch).records()]


def writing(cluster: Cluster, use: Callable[[TopicWriter], Awaitable[None]]) -> None:
    async def main() -> None:
        writer = TopicWriter(cluster.network, TOPIC, epoch_time=lambda: 1.5)
        writer.start(await TopicMetadataSource(cluster.network, TOPIC).load())
        try:
            async with asyncio.timeout(20):
                await use(writer)
        finally:
            await writer.close()

    asyncio.run(main())


def keyed(count: int, start: int = 0) -> list[tuple[bytes | None, bytes | None]]:
    return [(b"k%d" % number, b"%d" % number) for number in range(start, start + count)]


def test_records_of_one_call_are_in_one_batch_with_keys_tombstones_and_time() -> None:
    cluster = Cluster()

    async def use(writer: TopicWriter) -> None:
        assert await writer.write([], timeout_s=5) == []
        assert await writer.write([(b"a", b"1"), (b"b", None)], timeout_s=5) == [0, 1]
        assert await writer.write([(None, b"2")], timeout_s=5) == [2]

    writing(cluster, use)
    assert [record[1:4] for record in cluster.records()] == [(1500, b"a", b"1"), (1500, b"b", None), (1500, None, b"2")]
    assert len(cluster.logs[0]) == 2


def test_a_key_goes_to_the_partition_that_kafka_takes_for_it() -> None:
    cluster = Cluster(partitions=5)

    async def use(writer: TopicWriter) -> None:
        offsets = await writer.write(keyed(50), timeout_s=5)
        for (key, value), offset in zip(keyed(50), offsets, strict=True):
            assert key is not None
            record = cluster.records(partition_for_key(key, 5))[offset]
            assert (record.key, record.value) == (key, value)

    writing(cluster, use)


@given(
    st.lists(
        st.sampled_from(["ok", "lost", "unheard", "moved", "NOT_ENOUGH_REPLICAS", "REQUEST_TIMED_OUT"]), max_size=15
    ),
    st.lists(st.integers(1, 5), min_size=1, max_size=6),
)
def test_whatever_happens_each_record_is_there_once_and_in_the_order_of_the_calls(
    faults: list[str], sizes: list[int]
) -> None:
    cluster = Cluster()
    cluster.faults.extend(faults)
    calls = [keyed(size, start=sum(sizes[:place])) for place, size in enumerate(sizes)]

    async def use(writer: TopicWriter) -> None:
        offsets = await asyncio.gather(*(writer.write(call, timeout_s=10) for call in calls))
        if "unheard" not in faults:  # Of a duplicate the memory does not know where it is.
            assert [offset for written in offsets for offset in written] == list(range(sum(sizes)))

    writing(cluster, use)
    assert cluster.values(0) == [value for call in calls for _, value in call]


def test_what_is_written_at_the_same_time_goes_together() -> None:
    cluster = Cluster()

    async def use(writer: TopicWriter) -> None:
        await asyncio.gather(*(writer.write([record], timeout_s=5) for record in keyed(1000)))

    writing(cluster, use)
    assert cluster.values(0) == [value for _, value in keyed(1000)]
    assert cluster.produced < 5


def test_a_batch_that_is_too_large_is_divided_and_a_record_that_is_says_so() -> None:
    cluster = Cluster()
    cluster.batch_bytes_max = 400

    async def use(writer: TopicWriter) -> None:
        assert await writer.write(keyed(100), timeout_s=5) == list(range(100))
        with pytest.raises(WriteFailed, match=r"MESSAGE_TOO_LARGE.* -> raise max.message.bytes"):
            await writer.write([(b"k", b"x" * 1000)], timeout_s=5)
        assert await writer.write(keyed(1), timeout_s=5) == [100]

    writing(cluster, use)
    assert cluster.values(0) == [value for _, value in keyed(100) + keyed(1)]


def test_a_right_that_is_lacking_fails_at_once_and_says_which_and_later_writes_succeed() -> None:
    cluster = Cluster()
    cluster.faults.append("TOPIC_AUTHORIZATION_FAILED")

    async def use(writer: TopicWriter) -> None:
        with pytest.raises(WriteFailed, match="TOPIC_AUTHORIZATION_FAILED.* -> the worker's principal needs WRITE"):
            await writer.write(keyed(3), timeout_s=5)
        assert await writer.write(keyed(1), timeout_s=5) == [0]

    writing(cluster, use)
    assert cluster.producers == 2  # What the cluster knows of the first one is not known.


def test_a_call_whose_time_is_over_says_what_was_in_the_way_and_is_not_written_later() -> None:
    cluster = Cluster()
    cluster.faults.extend(["NOT_ENOUGH_REPLICAS"] * 100_000)

    async def use(writer: TopicWriter) -> None:
        with pytest.raises(WriteFailed, match=r"topic orders .*: orders-0: NOT_ENOUGH_REPLICAS"):
            await writer.write(keyed(3), timeout_s=0.05)
        cluster.faults.clear()
        await writer.write(keyed(1, start=9), timeout_s=5)

    writing(cluster, use)
    assert cluster.values(0) == [b"9"]


def test_a_producer_that_the_cluster_has_forgotten_is_replaced() -> None:
    cluster = Cluster()

    async def use(writer: TopicWriter) -> None:
        await writer.write(keyed(1), timeout_s=5)
        cluster.faults.append("UNKNOWN_PRODUCER_ID")
        assert await writer.write(keyed(1, start=1), timeout_s=5) == [1]

    writing(cluster, use)
    assert cluster.producers == 2
    assert cluster.values(0) == [b"0", b"1"]


@pytest.mark.parametrize("is_offered", [True, False])
def test_who_may_have_no_producer_id_writes_without(is_offered: bool, caplog: pytest.LogCaptureFixture) -> None:
    cluster = Cluster()
    cluster.producer_error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    if not is_offered:
        del cluster.versions[ApiKey.INIT_PRODUCER_ID]

    async def use(writer: TopicWriter) -> None:
        assert await writer.write(keyed(2), timeout_s=5) == [0, 1]
        assert await writer.write(keyed(2), timeout_s=5) == [2, 3]

    with caplog.at_level(logging.INFO):
        writing(cluster, use)
    assert ("IDEMPOTENT_WRITE" in caplog.text) == is_offered
    assert all(BatchView(batch).producer_id == -1 for batch in cluster.logs[0])


def test_a_call_that_is_given_up_by_its_caller_is_left_out() -> None:
    cluster = Cluster()

    async def use(writer: TopicWriter) -> None:
        first = asyncio.ensure_future(writer.write(keyed(1), timeout_s=5))
        await asyncio.sleep(0)
        second = asyncio.ensure_future(writer.write(keyed(1, start=1), timeout_s=5))
        await asyncio.sleep(0)
        second.cancel()
        third = await writer.write(keyed(1, start=2), timeout_s=5)
        assert (await first, third) == ([0], [1])

    writing(cluster, use)
    assert cluster.values(0) == [b"0", b"2"]


def test_what_is_under_way_or_waits_fails_when_the_writer_is_closed() -> None:
    cluster = Cluster()
    cluster.faults.extend(["NOT_ENOUGH_REPLICAS"] * 100_000)

    async def use(writer: TopicWriter) -> None:
        under_way = asyncio.ensure_future(writer.write(keyed(1), timeout_s=20))
        await asyncio.sleep(0)
        waiting = asyncio.ensure_future(writer.write(keyed(1), timeout_s=20))
        await asyncio.sleep(0)
        await writer.close()
        for each in (under_way, waiting):
            with pytest.raises(WriteFailed, match="closed"):
                await each

    writing(cluster, use)


def test_a_fault_fails_the_calls_it_hit_and_no_later_ones(caplog: pytest.LogCaptureFixture) -> None:
    cluster = Cluster()

    async def use(writer: TopicWriter) -> None:
        source, writer._source = writer._source, None
        cluster.faults.append("NOT_LEADER_OR_FOLLOWER")  # It looks for the leader, and can't.
        with pytest.raises(AttributeError):
            await writer.write(keyed(2), timeout_s=5)
        writer._source = source
        await writer.write(keyed(1, start=2), timeout_s=5)

    writing(cluster, use)
    assert "failed by a fault" in caplog.text
    assert cluster.values(0) == [b"2"]
