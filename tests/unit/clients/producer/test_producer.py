"""A producer and brokers in memory: accepted records are written once and in order, whatever happens on the way."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.clients.admin.errors import AdminError
from barnabas.clients.errors import ClientError, Disconnected, RequestTimedOut, UnsupportedVersion
from barnabas.clients.producer.batch import ProducerBatch
from barnabas.clients.producer.config import ProducerConfig
from barnabas.clients.producer.producer import TopicProducer
from barnabas.common.error_code import ErrorCode
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.compression import Compression
from tests.unit.clients.memory_cluster import TOPIC, MemoryCluster

QUICK = {"linger_s": 0.0, "retry_backoff_s": 0.0, "retry_backoff_max_s": 0.0, "batch_size": 256}


def producing(
    cluster: MemoryCluster, scenario: Callable[[TopicProducer], Awaitable[None]], **options: object
) -> tuple[TopicProducer, list[ProducerBatch]]:
    delivered: list[ProducerBatch] = []

    async def main() -> TopicProducer:
        config = ProducerConfig(**(QUICK | options))  # type: ignore[arg-type]
        async with (
            asyncio.timeout(20),
            TopicProducer(cluster.network, TOPIC, config, lambda batch, now: delivered.append(batch)) as producer,
        ):
            await scenario(producer)
            return producer

    return asyncio.run(main()), delivered


def values(count: int) -> list[bytes]:
    return [b"%06d" % index for index in range(count)]


def all_of(count: int) -> Callable[[TopicProducer], Awaitable[None]]:
    async def scenario(producer: TopicProducer) -> None:
        left = values(count)
        while left and producer.failure is None:
            room = producer.capacity(6)
            if not room:
                await producer.room()
                continue
            producer.append(left[:room], 0.0, 0.0, asyncio.get_running_loop().time())
            del left[:room]
            await asyncio.sleep(0)
        await producer.flush()

    return scenario


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.ZSTD])
def test_records_arrive_in_the_order_of_each_partition(compression: Compression) -> None:
    cluster = MemoryCluster(partitions=3)
    producer, delivered = producing(cluster, all_of(500), compression=compression)
    assert producer.is_idempotent
    assert sorted(value for partition in range(3) for value in cluster.values(partition)) == values(500)
    assert all(cluster.values(partition) == sorted(cluster.values(partition)) for partition in range(3))
    assert (sum(batch.count for batch in delivered), producer.waiting) == (500, 0)


@given(
    st.lists(
        st.sampled_from(
            ["ok", "lost", "unheard", "moved", "NOT_ENOUGH_REPLICAS", "NOT_LEADER_OR_FOLLOWER", "REQUEST_TIMED_OUT"]
        ),
        max_size=12,
    )
)
def test_each_record_is_written_once_and_in_order_despite_faults(faults: list[str]) -> None:
    cluster = MemoryCluster(partitions=2)
    cluster.faults.extend(faults)
    producer, delivered = producing(cluster, all_of(300))
    assert producer.failure is None
    for partition in range(2):
        assert [value for value, _ in groupby(cluster.values(partition))] == sorted(set(cluster.values(partition)))
    assert sorted(value for partition in range(2) for value in cluster.values(partition)) == values(300)
    assert sum(batch.count for batch in delivered) == 300


def test_the_leader_is_looked_up_again_where_it_moved() -> None:
    cluster = MemoryCluster()
    cluster.faults.extend(["ok", "moved"])
    producer, _ = producing(cluster, all_of(100))
    assert cluster.leaders == {0: 2}
    assert producer.statistics.retried.keys() >= {"NOT_LEADER_OR_FOLLOWER"}


@pytest.mark.parametrize("code", ["TOPIC_AUTHORIZATION_FAILED", "MESSAGE_TOO_LARGE", "INVALID_RECORD"])
def test_a_permanent_error_ends_the_producer(code: str) -> None:
    cluster = MemoryCluster()
    cluster.faults.extend(["ok", code])
    producer, _ = producing(cluster, all_of(10_000))
    assert isinstance(producer.failure, AdminError)
    assert producer.failure.code.name == code


def test_without_retries_the_first_error_is_the_last() -> None:
    cluster = MemoryCluster()
    cluster.faults.append("NOT_ENOUGH_REPLICAS")
    producer, _ = producing(cluster, all_of(10), retries=0, idempotence=False)
    assert isinstance(producer.failure, AdminError)
    cluster = MemoryCluster()
    cluster.faults.append("lost")
    producer, _ = producing(cluster, all_of(10), retries=0, idempotence=False)
    assert isinstance(producer.failure, Disconnected)


def test_a_delivery_timeout_names_the_reason() -> None:
    cluster = MemoryCluster()
    cluster.faults.extend(["NOT_ENOUGH_REPLICAS"] * 100_000)
    producer, _ = producing(cluster, all_of(10), delivery_timeout_s=0.0, retry_backoff_s=0.02)
    assert isinstance(producer.failure, AdminError)
    assert producer.failure.code is ErrorCode.NOT_ENOUGH_REPLICAS
    assert "10 records were not delivered in 0 s (delivery.timeout.ms)" in str(producer.failure)
    cluster = MemoryCluster()
    cluster.leaders[0] = -1
    producer, _ = producing(cluster, all_of(10), delivery_timeout_s=0.0)
    assert isinstance(producer.failure, RequestTimedOut)


def test_a_throttled_producer_sends_nothing_until_the_throttle_ends() -> None:
    cluster = MemoryCluster()
    cluster.throttle_ms = 3_600_000

    async def scenario(producer: TopicProducer) -> None:
        for _ in range(30):
            producer.append([b"value"] * min(5, producer.capacity(5)), 0.0, 0.0, asyncio.get_running_loop().time())
            for _ in range(5):
                await asyncio.sleep(0)

    producer, _ = producing(cluster, scenario, max_in_flight=1)
    assert cluster.produced == 1
    assert producer.statistics.throttle_max_s == 3600
    assert producer.waiting > 0


def test_acks_0_waits_for_no_response() -> None:
    cluster = MemoryCluster()
    producer, delivered = producing(cluster, all_of(100), acks=0, idempotence=False)
    assert len(cluster.values(0)) == sum(batch.count for batch in delivered) == 100
    assert not producer.is_idempotent


def test_used_up_memory_is_released() -> None:
    cluster = MemoryCluster()
    producing(cluster, all_of(2_000), buffer_memory=1024)
    assert cluster.values(0) == values(2_000)


def test_a_cluster_without_idempotence_is_accepted_unless_it_is_required() -> None:
    cluster = MemoryCluster()
    del cluster.versions[ApiKey.INIT_PRODUCER_ID]
    producer, _ = producing(cluster, all_of(10))
    assert (producer.is_idempotent, len(cluster.values(0))) == (False, 10)
    with pytest.raises(UnsupportedVersion):
        producing(cluster, all_of(1), idempotence=True)


def test_a_missing_topic_is_reported_immediately() -> None:
    cluster = MemoryCluster()
    cluster.topic_error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    with pytest.raises(AdminError, match="orders"):
        producing(cluster, all_of(1))


def test_an_internal_error_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("barnabas.clients.producer.accumulator.RecordAccumulator.drain", broken)
    producer, _ = producing(MemoryCluster(), all_of(10))
    assert isinstance(producer.failure, ZeroDivisionError)
    assert not isinstance(producer.failure, ClientError)
