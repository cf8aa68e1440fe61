"""A fetcher and brokers in memory: each record arrives once and in order, whatever happens on the way."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.clients.admin.errors import AdminError
from barnabas.clients.consumer.completed_fetch import Fetched
from barnabas.clients.consumer.config import ConsumerConfig
from barnabas.clients.consumer.fetcher import Fetcher, of_topic
from barnabas.clients.errors import RemoteProtocolError
from barnabas.clients.topic_metadata import TopicMetadataSource
from barnabas.common.error_code import ErrorCode
from barnabas.protocol.record_batch import Record
from barnabas.protocol.record_batch_builder import build_batch
from tests.unit.clients.memory_cluster import TOPIC, MemoryCluster

QUICK = ConsumerConfig(retry_backoff_s=0.0, retry_backoff_max_s=0.0, partition_max_bytes=200)


def filled(partitions: int = 1, batches: int = 20) -> MemoryCluster:
    """Five records in each batch."""
    cluster = MemoryCluster(partitions)
    for partition in range(partitions):
        for number in range(batches):
            values = [b"%06d" % (number * 5 + offset) for offset in range(5)]
            cluster.append(partition, build_batch([Record(i, 0, b"k", value) for i, value in enumerate(values)]))
    return cluster


def fetching(
    cluster: MemoryCluster, positions: dict[int, int], until: dict[int, int] | None
) -> tuple[Fetcher, dict[int, list[bytes | None]]]:
    got: dict[int, list[bytes | None]] = {partition: [] for partition in positions}

    def received(fetched: Fetched) -> None:
        got[fetched.partition] += [record.value for record in fetched.records()]

    async def main() -> Fetcher:
        source = TopicMetadataSource(cluster.network, TOPIC)
        ends = None if until is None else of_topic(TOPIC, until)
        fetcher = Fetcher(cluster.network, source, QUICK, of_topic(TOPIC, positions), received, until=ends)
        async with asyncio.timeout(20):
            fetcher.start(await source.load())
            try:
                await fetcher.finished.wait()
            finally:
                await fetcher.close()
        return fetcher

    return asyncio.run(main()), got


def test_everything_between_two_offsets_is_returned() -> None:
    cluster = filled(partitions=3)
    fetcher, got = fetching(cluster, {0: 0, 1: 7, 2: 100}, {0: 100, 1: 100, 2: 100})
    assert got == {0: cluster.values(0), 1: cluster.values(1)[7:], 2: []}
    assert fetcher.failure is None
    assert fetcher.statistics.received_bytes > 0


@given(st.lists(st.sampled_from(["ok", "lost", "moved", "NOT_LEADER_OR_FOLLOWER", "UNKNOWN_TOPIC_ID"]), max_size=12))
def test_each_record_arrives_once_and_in_order_despite_faults(faults: list[str]) -> None:
    cluster = filled(partitions=2)
    cluster.faults.extend(faults)
    fetcher, got = fetching(cluster, {0: 0, 1: 0}, {0: 100, 1: 100})
    assert fetcher.failure is None
    assert got == {0: cluster.values(0), 1: cluster.values(1)}


def test_records_deleted_meanwhile_are_skipped_and_reported() -> None:
    cluster = filled()
    cluster.logs[0] = cluster.logs[0][:]
    cluster.log_starts[0] = 50
    fetcher, got = fetching(cluster, {0: 10}, {0: 100})
    assert got[0] == cluster.values(0)[50:]
    assert fetcher.statistics.skipped == 40


def test_an_offset_beyond_the_log_end_is_an_error() -> None:
    fetcher, _ = fetching(filled(), {0: 1000}, None)
    assert isinstance(fetcher.failure, AdminError)
    assert fetcher.failure.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_permanent_error_ends_the_fetching() -> None:
    cluster = filled()
    cluster.faults.extend(["ok", "TOPIC_AUTHORIZATION_FAILED"])
    fetcher, _ = fetching(cluster, {0: 0}, {0: 100})
    assert isinstance(fetcher.failure, AdminError)
    assert fetcher.failure.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_an_empty_range_is_done_immediately() -> None:
    cluster = filled()
    fetching(cluster, {0: 100}, {0: 100})
    assert cluster.fetched == 0


def test_malformed_batches_end_the_fetching(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = filled()
    monkeypatch.setattr(cluster, "_slice", lambda *_: (ErrorCode.NONE, b"\xff" * 100))
    fetcher, _ = fetching(cluster, {0: 0}, {0: 100})
    assert isinstance(fetcher.failure, RemoteProtocolError)
