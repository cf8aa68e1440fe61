"""A producer of keyed records and brokers in memory: each record arrives once and in order, whatever happens."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.clients.client_config import client_config
from barnabas.clients.producer.record_producer import NotDelivered, RecordProducer
from barnabas.clients.topic_metadata import TopicMetadataSource
from barnabas.common.error_code import ErrorCode
from barnabas.common.murmur2 import partition_for_key
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.init_producer_id import InitProducerIdResponse
from barnabas.protocol.record_batch import BatchView, Record
from tests.unit.clients.memory_cluster import TOPIC, MemoryCluster

QUICK = client_config({"bootstrap.servers": "a:1", "retry.backoff.ms": "0", "retry.backoff.max.ms": "0"})


class Cluster(MemoryCluster):
    """Returns offsets, assigns each producer an id of its own, and may refuse producers or large batches."""

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
        (produced,) = message.topic_data
        if any(len(part.records) > self.batch_bytes_max for part in produced.partition_data):
            self.faults.appendleft("MESSAGE_TOO_LARGE")
        base_offsets = {part.index: self.end(part.index) for part in produced.partition_data}
        response = super().answer(node, message)
        for topic in response.responses:
            for part in topic.partition_responses:
                part.base_offset = -1 if part.error_code else base_offsets[part.index]
        return response

    def records(self, partition: int = 0) -> list[Record]:
        return [record for batch in self.logs[partition] for record in BatchView(batch).records()]


def producing(cluster: Cluster, use: Callable[[RecordProducer], Awaitable[None]]) -> None:
    async def main() -> None:
        producer = RecordProducer(cluster.network, TOPIC, epoch_time=lambda: 1.5)
        producer.start(await TopicMetadataSource(cluster.network, TOPIC).load())
        try:
            async with asyncio.timeout(20):
                await use(producer)
        finally:
            await producer.close()

    asyncio.run(main())


def keyed(count: int, start: int = 0) -> list[tuple[bytes | None, bytes | None]]:
    return [(b"k%d" % number, b"%d" % number) for number in range(start, start + count)]


def test_records_of_one_call_share_a_batch_with_keys_tombstones_and_time() -> None:
    cluster = Cluster()

    async def use(producer: RecordProducer) -> None:
        assert await producer.produce([], timeout_s=5) == []
        assert await producer.produce([(b"a", b"1"), (b"b", None)], timeout_s=5) == [0, 1]
        assert await producer.produce([(None, b"2")], timeout_s=5) == [2]

    producing(cluster, use)
    assert [record[1:4] for record in cluster.records()] == [(1500, b"a", b"1"), (1500, b"b", None), (1500, None, b"2")]
    assert len(cluster.logs[0]) == 2


def test_a_key_is_sent_to_the_partition_that_kafka_chooses() -> None:
    cluster = Cluster(partitions=5)

    async def use(producer: RecordProducer) -> None:
        offsets = await producer.produce(keyed(50), timeout_s=5)
        for (key, value), offset in zip(keyed(50), offsets, strict=True):
            assert key is not None
            record = cluster.records(partition_for_key(key, 5))[offset]
            assert (record.key, record.value) == (key, value)

    producing(cluster, use)


@given(
    st.lists(
        st.sampled_from(["ok", "lost", "unheard", "moved", "NOT_ENOUGH_REPLICAS", "REQUEST_TIMED_OUT"]), max_size=15
    ),
    st.lists(st.integers(1, 5), min_size=1, max_size=6),
)
def test_each_record_is_written_once_in_the_order_of_calls_despite_faults(faults: list[str], sizes: list[int]) -> None:
    cluster = Cluster()
    cluster.faults.extend(faults)
    calls = [keyed(size, start=sum(sizes[:place])) for place, size in enumerate(sizes)]

    async def use(producer: RecordProducer) -> None:
        offsets = await asyncio.gather(*(producer.produce(call, timeout_s=10) for call in calls))
        if "unheard" not in faults:  # The memory cluster does not know the offset of a duplicate.
            assert [offset for written in offsets for offset in written] == list(range(sum(sizes)))

    producing(cluster, use)
    assert cluster.values(0) == [value for call in calls for _, value in call]


def test_concurrent_writes_share_a_batch() -> None:
    cluster = Cluster()

    async def use(producer: RecordProducer) -> None:
        await asyncio.gather(*(producer.produce([record], timeout_s=5) for record in keyed(1000)))

    producing(cluster, use)
    assert cluster.values(0) == [value for _, value in keyed(1000)]
    assert cluster.produced < 5


def test_a_too_large_batch_is_divided_and_a_too_large_record_fails() -> None:
    cluster = Cluster()
    cluster.batch_bytes_max = 400

    async def use(producer: RecordProducer) -> None:
        assert await producer.produce(keyed(100), timeout_s=5) == list(range(100))
        with pytest.raises(NotDelivered, match="MESSAGE_TOO_LARGE"):
            await producer.produce([(b"k", b"x" * 1000)], timeout_s=5)
        assert await producer.produce(keyed(1), timeout_s=5) == [100]

    producing(cluster, use)
    assert cluster.values(0) == [value for _, value in keyed(100) + keyed(1)]


def test_a_missing_right_is_named_immediately_and_later_writes_succeed() -> None:
    cluster = Cluster()
    cluster.faults.append("TOPIC_AUTHORIZATION_FAILED")

    async def use(producer: RecordProducer) -> None:
        with pytest.raises(NotDelivered, match="TOPIC_AUTHORIZATION_FAILED"):
            await producer.produce(keyed(3), timeout_s=5)
        assert await producer.produce(keyed(1), timeout_s=5) == [0]

    producing(cluster, use)
    assert cluster.producers == 2  # Whether the cluster has the first one is unknown.


def test_an_expired_call_names_the_last_error_and_is_not_written_later() -> None:
    cluster = Cluster()
    cluster.faults.extend(["NOT_ENOUGH_REPLICAS"] * 100_000)

    async def use(producer: RecordProducer) -> None:
        with pytest.raises(NotDelivered, match=r"topic orders .*: orders-0: NOT_ENOUGH_REPLICAS"):
            await producer.produce(keyed(3), timeout_s=0.25)
        for _ in range(5):  # A request in flight is answered.
            await asyncio.sleep(0)
        cluster.faults.clear()
        await producer.produce(keyed(1, start=9), timeout_s=5)

    producing(cluster, use)
    assert cluster.values(0) == [b"9"]


def test_a_producer_that_the_cluster_has_forgotten_is_replaced() -> None:
    cluster = Cluster()

    async def use(producer: RecordProducer) -> None:
        await producer.produce(keyed(1), timeout_s=5)
        cluster.faults.append("UNKNOWN_PRODUCER_ID")
        assert await producer.produce(keyed(1, start=1), timeout_s=5) == [1]

    producing(cluster, use)
    assert cluster.producers == 2
    assert cluster.values(0) == [b"0", b"1"]


@pytest.mark.parametrize("is_offered", [True, False])
def test_a_client_without_the_right_to_a_producer_id_writes_without_one(
    is_offered: bool, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = Cluster()
    cluster.producer_error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    if not is_offered:
        del cluster.versions[ApiKey.INIT_PRODUCER_ID]

    async def use(producer: RecordProducer) -> None:
        assert await producer.produce(keyed(2), timeout_s=5) == [0, 1]
        assert await producer.produce(keyed(2), timeout_s=5) == [2, 3]

    with caplog.at_level(logging.INFO):
        producing(cluster, use)
    assert ("IDEMPOTENT_WRITE" in caplog.text) == is_offered
    assert all(BatchView(batch).producer_id == -1 for batch in cluster.logs[0])


def test_a_cancelled_call_is_not_written() -> None:
    cluster = Cluster()

    async def use(producer: RecordProducer) -> None:
        first = asyncio.ensure_future(producer.produce(keyed(1), timeout_s=5))
        await asyncio.sleep(0)
        second = asyncio.ensure_future(producer.produce(keyed(1, start=1), timeout_s=5))
        await asyncio.sleep(0)
        second.cancel()
        third = await producer.produce(keyed(1, start=2), timeout_s=5)
        assert (await first, third) == ([0], [1])

    producing(cluster, use)
    assert cluster.values(0) == [b"0", b"2"]


def test_pending_calls_fail_when_the_writer_is_closed() -> None:
    cluster = Cluster()
    cluster.faults.extend(["NOT_ENOUGH_REPLICAS"] * 100_000)

    async def use(producer: RecordProducer) -> None:
        under_way = asyncio.ensure_future(producer.produce(keyed(1), timeout_s=20))
        await asyncio.sleep(0)
        waiting = asyncio.ensure_future(producer.produce(keyed(1), timeout_s=20))
        await asyncio.sleep(0)
        await producer.close()
        for call in (under_way, waiting):
            with pytest.raises(NotDelivered, match="closed"):
                await call

    producing(cluster, use)


def test_an_internal_error_fails_only_the_calls_that_it_affects(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster()

    async def broken(source: TopicMetadataSource) -> None:
        raise AttributeError("a fault of ours")

    async def use(producer: RecordProducer) -> None:
        cluster.faults.extend(["NOT_LEADER_OR_FOLLOWER"] * 100_000)
        with monkeypatch.context() as patch:
            patch.setattr(TopicMetadataSource, "load", broken)  # It looks up the leader, and fails.
            with pytest.raises(AttributeError):
                await producer.produce(keyed(2), timeout_s=5)
        cluster.faults.clear()
        await producer.produce(keyed(1, start=2), timeout_s=5)

    producing(cluster, use)
    assert "failed unexpectedly" in caplog.text
    assert cluster.values(0) == [b"2"]


def test_a_failed_batch_affects_only_its_own_calls_and_partition() -> None:
    cluster = Cluster(partitions=2)
    first, second = (next(b"k%d" % n for n in range(99) if partition_for_key(b"k%d" % n, 2) == at) for at in range(2))

    def refuse_the_first(partition: int, data: bytes) -> ErrorCode:
        return ErrorCode.INVALID_RECORD if partition == 0 else append(partition, data)

    append, cluster.append = cluster.append, refuse_the_first  # type: ignore[method-assign]

    async def use(producer: RecordProducer) -> None:
        refused, taken = await asyncio.gather(
            producer.produce([(first, b"0")], timeout_s=5),
            producer.produce([(second, b"1")], timeout_s=5),
            return_exceptions=True,
        )
        assert isinstance(refused, NotDelivered)
        assert "orders-0: INVALID_RECORD" in str(refused)
        assert taken == [0]
        cluster.append = append  # type: ignore[method-assign]
        assert await producer.produce([(first, b"2"), (second, b"3")], timeout_s=5) == [0, 1]

    producing(cluster, use)
    assert (cluster.values(0), cluster.values(1)) == ([b"2"], [b"1", b"3"])
    assert cluster.producers == 2  # The failed partition has a new producer; the other partition keeps its own.
    assert [BatchView(batch).producer_id for batch in cluster.logs[1]] == [1, 1]
