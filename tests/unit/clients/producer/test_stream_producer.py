"""A producer of a stream and brokers in memory: each record is written once, in order, to the partition of its key."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.clients.admin.errors import AdminError
from barnabas.clients.producer.config import ProducerConfig
from barnabas.clients.producer.stream_batches import PairRun, StreamBatch, StreamRecord, encode_pairs
from barnabas.clients.producer.stream_producer import StreamProducer
from barnabas.common.error_code import ErrorCode
from barnabas.common.murmur2 import partition_for_key
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.record_batch import BatchView, Record
from barnabas.protocol.record_batch_builder import RecordBatchBuilder
from tests.unit.clients.memory_cluster import TOPIC, MemoryCluster

QUICK = {"linger_s": 0.0, "retry_backoff_s": 0.0, "retry_backoff_max_s": 0.0, "batch_size": 400}


class Cluster(MemoryCluster):
    """Refuses batches of more than ``batch_bytes_max``."""

    batch_bytes_max = 10_000_000

    def answer(self, node: int, message: Any) -> Any:
        if message.API_KEY == ApiKey.PRODUCE:
            (produced,) = message.topic_data
            if any(len(part.records) > self.batch_bytes_max for part in produced.partition_data):
                self.faults.appendleft("MESSAGE_TOO_LARGE")
        return super().answer(node, message)

    def records(self, partition: int = 0) -> list[Record]:
        return [record for batch in self.logs[partition] for record in BatchView(batch).records()]


def producing(
    cluster: Cluster, use: Callable[[StreamProducer], Awaitable[None]], **options: Any
) -> tuple[StreamProducer, list[StreamBatch]]:
    delivered: list[StreamBatch] = []

    async def main() -> StreamProducer:
        producer = StreamProducer(
            cluster.network, TOPIC, ProducerConfig(**(QUICK | options)), delivered.append, epoch_time=lambda: 1.5
        )
        async with asyncio.timeout(20), producer:
            await use(producer)
        return producer

    return asyncio.run(main()), delivered


def numbers(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


def test_values_arrive_once_and_in_order_with_one_time() -> None:
    cluster = Cluster()

    async def use(producer: StreamProducer) -> None:
        producer.append_values(numbers(100), producer.now_ms())
        producer.append_values(numbers(100), 7)
        await producer.flush()

    _, delivered = producing(cluster, use)
    assert cluster.values(0) == numbers(100) * 2
    assert {record.timestamp for record in cluster.records()[:100]} == {1500}
    assert {record.timestamp for record in cluster.records()[100:]} == {7}
    assert len(delivered) > 5
    assert sum(batch.payload_bytes for batch in delivered) == 2 * sum(map(len, numbers(100)))


def test_a_key_goes_to_the_partition_of_kafkas_clients_and_values_are_spread() -> None:
    cluster = Cluster(partitions=3)
    pairs = [(b"key-%d" % number, b"%d" % number) for number in range(90)]

    async def use(producer: StreamProducer) -> None:
        producer.append_pairs(pairs, 5)
        producer.append([StreamRecord(6, key, value, (("h", b"1"), ("n", None))) for key, value in pairs])
        producer.append_pairs([(None, value) for value in numbers(300)], 5)
        await producer.flush()

    producing(cluster, use)
    for partition in range(3):
        keyed = [record for record in cluster.records(partition) if record.key is not None]
        own = [pair for pair in pairs if partition_for_key(pair[0], 3) == partition]
        assert [(record.key, record.value) for record in keyed] == own * 2
        assert {(record.timestamp, record.headers) for record in keyed} == {(5, ()), (6, (("h", b"1"), ("n", None)))}
        assert len(cluster.records(partition)) > len(keyed)


def test_a_given_partition_takes_everything() -> None:
    cluster = Cluster(partitions=3)

    async def use(producer: StreamProducer) -> None:
        producer.append_values(numbers(50), 5, partition=2)
        producer.append_pairs([(b"a", None)], 5, partition=2)
        producer.append([StreamRecord(5, b"b", b"c")], partition=2)
        await producer.flush()

    producing(cluster, use)
    assert cluster.values(2) == [*numbers(50), None, b"c"]
    assert cluster.values(0) == cluster.values(1) == []


@pytest.mark.parametrize("idempotence", [None, False])
def test_lost_answers_and_moved_leaders_change_nothing(idempotence: bool | None) -> None:
    cluster = Cluster(partitions=2)
    cluster.faults.extend(["lost", "moved", "NOT_ENOUGH_REPLICAS", "lost"])

    async def use(producer: StreamProducer) -> None:
        for start in range(0, 200, 20):
            producer.append_values(numbers(200)[start : start + 20], 5, partition=0)
            await asyncio.sleep(0)
        await producer.flush()

    producing(cluster, use, idempotence=idempotence)
    assert cluster.values(0) == numbers(200)


def test_a_batch_that_is_too_large_is_divided_and_later_ones_are_smaller() -> None:
    cluster = Cluster()
    cluster.batch_bytes_max = 300

    async def use(producer: StreamProducer) -> None:
        producer.append_values(numbers(30), 5)
        producer.append_pairs([(b"k", value) for value in numbers(30)], 5)
        producer.append([StreamRecord(5, b"k", value, (("h", b"1"),)) for value in numbers(30)])
        await producer.flush()
        producer.append_values(numbers(100), 5)
        await producer.flush()

    producer, _ = producing(cluster, use, batch_size=4000)
    assert producer.failure is None
    assert cluster.values(0) == [*numbers(30) * 3, *numbers(100)]


def test_a_record_that_is_too_large_ends_the_stream() -> None:
    cluster = Cluster()
    cluster.batch_bytes_max = 300

    async def use(producer: StreamProducer) -> None:
        producer.append_values([b"a", b"b" * 500, b"c"], 5)
        await producer.flush()

    producer, _ = producing(cluster, use, batch_size=4000)
    assert isinstance(producer.failure, AdminError)
    assert producer.failure.code == ErrorCode.MESSAGE_TOO_LARGE
    assert b"b" * 500 not in cluster.values(0)


def test_memory_is_bounded_and_freed() -> None:
    cluster = Cluster()

    async def use(producer: StreamProducer) -> None:
        for _ in range(40):
            producer.append_values(numbers(100), 5)
            while producer.is_full:
                await producer.room()
        await producer.flush()
        assert not producer.is_full

    producing(cluster, use, buffer_memory=5000)
    assert cluster.values(0) == numbers(100) * 40


contents = st.none() | st.binary(max_size=200)


@given(
    st.lists(st.tuples(st.integers(0, 2**40), st.lists(st.tuples(contents, contents), min_size=1)), min_size=1),
    st.integers(0, 2**40),
)
def test_pairs_are_encoded_as_single_records_are(runs: list[tuple[int, list[Any]]], base_ms: int) -> None:
    encoded = encode_pairs([PairRun(timestamp_ms, pairs) for timestamp_ms, pairs in runs], base_ms)
    builder = RecordBatchBuilder(delete_horizon_ms=base_ms)
    for timestamp_ms, pairs in runs:
        for key, value in pairs:
            builder.append(builder.last_offset + 1, timestamp_ms, key, value)
    assert encoded == BatchView(builder.build()).record_section()


def test_more_records_than_a_two_byte_offset_delta_are_encoded() -> None:
    pairs = [(b"k", b"v")] * 9000
    builder = RecordBatchBuilder()
    for number, (key, value) in enumerate(pairs):
        builder.append(number, 0, key, value)
    assert encode_pairs([PairRun(0, pairs)], 0) == BatchView(builder.build()).record_section()
