"""A producer with transactions and a coordinator in memory: each transaction is whole, whatever fails."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.clients.admin import OffsetAndMetadata
from barnabas.clients.errors import InvalidClientConfig
from barnabas.clients.producer.config import ProducerConfig
from barnabas.clients.producer.prepared_transaction import PreparedTransaction, end_prepared_transaction
from barnabas.clients.producer.stream_batches import StreamRecord
from barnabas.clients.producer.transaction_errors import (
    CommitFailed,
    FatalTransactionError,
    ProducerFenced,
    TransactionAbortable,
    TransactionError,
    TransactionTimedOut,
)
from barnabas.clients.producer.transaction_requests import GroupMetadata
from barnabas.clients.producer.transactional_producer import TransactionalProducer
from barnabas.common.topic_partition import TopicPartition
from barnabas.protocol.api_keys import ApiKey
from tests.unit.clients.memory_cluster import TOPIC
from tests.unit.clients.transaction_cluster import TransactionCluster

Use = Callable[[TransactionalProducer], Awaitable[None]]
QUICK = {"linger_s": 0.0, "retry_backoff_s": 0.0, "retry_backoff_max_s": 0.0, "batch_size": 400}
VERSIONS = pytest.mark.parametrize("version", [1, 2])


def producing(cluster: TransactionCluster, use: Use, *, timeout_s: float = 5, **options: Any) -> None:
    async def main() -> None:
        config = ProducerConfig(transactional_id="billing", **(QUICK | options))
        async with (
            asyncio.timeout(20),
            TransactionalProducer(cluster.network, config, timeout_s=timeout_s, epoch_time=lambda: 1.5) as producer,
        ):
            await producer.init_transactions()
            await use(producer)

    asyncio.run(main())


async def write(producer: TransactionalProducer, *values: bytes, partition: int = 0) -> None:
    await producer.send(TOPIC, [StreamRecord(5, None, value) for value in values], partition=partition)


@VERSIONS
def test_transactions_are_committed_and_aborted(version: int) -> None:
    cluster = TransactionCluster(transaction_version=version)

    async def use(producer: TransactionalProducer) -> None:
        for name, is_commit in ((b"a", True), (b"b", False), (b"c", True)):
            producer.begin()
            await write(producer, name, partition=0)
            await write(producer, name, partition=1)
            await producer.flush()
            await (producer.commit() if is_commit else producer.abort())

    producing(cluster, use)
    assert cluster.ends == [([b"a", b"a"], True), ([b"b", b"b"], False), ([b"c", b"c"], True)]
    assert cluster.epoch == (3 if version == 2 else 0)
    assert {message.transactional_id for message in cluster.requests(ApiKey.PRODUCE)} == {"billing"}
    assert bool(cluster.requests(ApiKey.ADD_PARTITIONS_TO_TXN)) is (version == 1)


@VERSIONS
def test_an_empty_transaction_sends_nothing(version: int) -> None:
    cluster = TransactionCluster(transaction_version=version)

    async def use(producer: TransactionalProducer) -> None:
        producer.begin()
        await producer.commit()
        producer.begin()
        await producer.abort()

    producing(cluster, use)
    assert cluster.requests(ApiKey.END_TXN) == []


@VERSIONS
def test_records_that_were_not_sent_are_dropped_by_an_abort(version: int) -> None:
    cluster = TransactionCluster(transaction_version=version)

    async def use(producer: TransactionalProducer) -> None:
        producer.begin()
        await write(producer, b"dropped")
        await producer.abort()
        assert producer.waiting == 0
        producer.begin()
        await write(producer, b"kept")
        await producer.commit()

    producing(cluster, use, linger_s=60.0)
    assert cluster.ends[-1] == ([b"kept"], True)
    assert cluster.values(0) == [b"kept"]


async def failing(producer: TransactionalProducer) -> None:
    async with producer.transaction():
        await write(producer, b"b")
        await producer.flush()
        raise ZeroDivisionError


@VERSIONS
def test_a_block_commits_or_aborts(version: int) -> None:
    cluster = TransactionCluster(transaction_version=version)

    async def use(producer: TransactionalProducer) -> None:
        async with producer.transaction():
            await write(producer, b"a")
        with pytest.raises(ZeroDivisionError):
            await failing(producer)

    producing(cluster, use)
    assert cluster.ends == [([b"a"], True), ([b"b"], False)]


@VERSIONS
def test_offsets_are_committed_for_the_member_of_the_group(version: int) -> None:
    cluster = TransactionCluster(transaction_version=version)
    group = GroupMetadata("g", 3, "member", "instance")

    async def use(producer: TransactionalProducer) -> None:
        producer.begin()
        await producer.send_offsets({TopicPartition("orders", 1): OffsetAndMetadata(9, 2, "why")}, group)
        await producer.commit()

    producing(cluster, use)
    assert cluster.offsets == {1: 9}
    assert cluster.ends == [([], True)]
    (sent,) = cluster.requests(ApiKey.TXN_OFFSET_COMMIT)
    assert (sent.group_id, sent.generation_id, sent.member_id, sent.group_instance_id) == ("g", 3, "member", "instance")
    (partition,) = sent.topics[0].partitions
    assert (partition.committed_leader_epoch, partition.committed_metadata) == (2, "why")
    assert len(cluster.requests(ApiKey.ADD_OFFSETS_TO_TXN)) == (1 if version == 1 else 0)


@VERSIONS
def test_offsets_of_a_former_member_abort_the_transaction(version: int) -> None:
    cluster = TransactionCluster(transaction_version=version)
    cluster.coordinator_faults[ApiKey.TXN_OFFSET_COMMIT].append("ILLEGAL_GENERATION")

    async def use(producer: TransactionalProducer) -> None:
        producer.begin()
        with pytest.raises(CommitFailed, match="ILLEGAL_GENERATION"):
            await producer.send_offsets({TopicPartition("orders", 1): OffsetAndMetadata(9)}, GroupMetadata("g", 3, "m"))
        with pytest.raises(CommitFailed):
            await producer.commit()
        await producer.abort()
        producer.begin()
        await write(producer, b"again")
        await producer.commit()

    producing(cluster, use)
    assert cluster.ends[-1] == ([b"again"], True)


@pytest.mark.parametrize("fault", ["lost", "unheard", "NOT_COORDINATOR", "CONCURRENT_TRANSACTIONS"])
@VERSIONS
def test_requests_to_the_coordinator_are_repeated(version: int, fault: str) -> None:
    cluster = TransactionCluster(transaction_version=version)
    for faults in cluster.coordinator_faults.values():
        faults.extend([fault, fault])
    if fault == "unheard" and version == 1:
        cluster.coordinator_faults[ApiKey.END_TXN].clear()  # This coordinator does not recognize a repetition.
    for key in (ApiKey.METADATA, ApiKey.PRODUCE):
        cluster.coordinator_faults[key].clear()

    async def use(producer: TransactionalProducer) -> None:
        producer.begin()
        await write(producer, b"a")
        await producer.send_offsets({TopicPartition("orders", 1): OffsetAndMetadata(9)}, GroupMetadata("g"))
        await producer.commit()

    if fault in ("NOT_COORDINATOR", "CONCURRENT_TRANSACTIONS"):
        cluster.coordinator_faults[ApiKey.FIND_COORDINATOR].clear()
    producing(cluster, use)
    assert cluster.ends == [([b"a"], True)]
    assert cluster.offsets == {1: 9}


@pytest.mark.parametrize("fault", ["lost", "unheard", "moved", "CONCURRENT_TRANSACTIONS", "NOT_ENOUGH_REPLICAS"])
@VERSIONS
def test_batches_are_repeated_in_their_order(version: int, fault: str) -> None:
    cluster = TransactionCluster(transaction_version=version)
    values = [b"%03d" % number for number in range(200)]

    async def use(producer: TransactionalProducer) -> None:
        producer.begin()
        for start in range(0, 200, 20):
            await write(producer, *values[start : start + 20])
            await asyncio.sleep(0)
        await producer.commit()

    cluster.faults.extend([fault, "ok", fault])
    producing(cluster, use)
    assert cluster.ends == [(values, True)]


@VERSIONS
def test_a_refused_batch_aborts_and_the_next_transaction_has_another_epoch(version: int) -> None:
    cluster = TransactionCluster(transaction_version=version)

    async def use(producer: TransactionalProducer) -> None:
        producer.begin()
        await write(producer, b"a")
        await producer.flush()
        cluster.faults.append("INVALID_RECORD")
        await write(producer, b"refused")
        with pytest.raises(TransactionAbortable, match="INVALID_RECORD"):
            await producer.commit()
        assert isinstance(producer.error, TransactionAbortable)
        await producer.abort()
        producer.begin()
        await write(producer, b"b")
        await producer.commit()

    producing(cluster, use)
    assert cluster.ends == [([b"a"], False), ([b"b"], True)]
    assert cluster.epoch == (2 if version == 2 else 1)
    bumps = [message for message in cluster.requests(ApiKey.INIT_PRODUCER_ID) if message.producer_id >= 0]
    assert len(bumps) == (0 if version == 2 else 1)


@VERSIONS
def test_records_that_are_late_abort_the_transaction(version: int) -> None:
    cluster = TransactionCluster(transaction_version=version)
    cluster.faults.extend(["NOT_ENOUGH_REPLICAS"] * 10_000)

    async def use(producer: TransactionalProducer) -> None:
        producer.begin()
        await write(producer, b"late")
        with pytest.raises(TransactionAbortable, match=r"delivery\.timeout\.ms\): .*NOT_ENOUGH_REPLICAS"):
            await producer.commit()
        cluster.faults.clear()
        await producer.abort()
        async with producer.transaction():
            await write(producer, b"a")

    producing(cluster, use, delivery_timeout_s=0.05, retry_backoff_s=0.01, retry_backoff_max_s=0.01)
    assert cluster.ends[-1] == ([b"a"], True)


@VERSIONS
def test_a_producer_that_was_fenced_ends(version: int) -> None:
    cluster = TransactionCluster(transaction_version=version)

    async def use(producer: TransactionalProducer) -> None:
        producer.begin()
        await write(producer, b"a")
        await producer.flush()
        cluster.epoch += 1
        with pytest.raises(ProducerFenced, match=r"another producer has started .*transaction\.timeout\.ms"):
            await producer.commit()
        with pytest.raises(ProducerFenced):
            await producer.abort()
        with pytest.raises(ProducerFenced):
            producer.begin()

    producing(cluster, use)


def test_a_denied_transactional_id_is_named() -> None:
    cluster = TransactionCluster()
    cluster.coordinator_faults[ApiKey.FIND_COORDINATOR].append("TRANSACTIONAL_ID_AUTHORIZATION_FAILED")

    async def use(producer: TransactionalProducer) -> None:
        raise AssertionError

    with pytest.raises(FatalTransactionError, match="billing: TRANSACTIONAL_ID_AUTHORIZATION_FAILED"):
        producing(cluster, use)


@VERSIONS
def test_an_end_that_was_not_answered_in_time_is_repeated(version: int) -> None:
    cluster = TransactionCluster(transaction_version=version)

    async def use(producer: TransactionalProducer) -> None:
        producer.begin()
        await write(producer, b"a")
        await producer.flush()
        cluster.coordinator_faults[ApiKey.END_TXN].extend(["COORDINATOR_LOAD_IN_PROGRESS"] * 100_000)
        with pytest.raises(TransactionTimedOut, match="COORDINATOR_LOAD_IN_PROGRESS"):
            await producer.commit()
        cluster.coordinator_faults[ApiKey.END_TXN].clear()
        with pytest.raises(TransactionError, match="has begun to commit"):
            await producer.abort()
        await producer.commit()

    producing(cluster, use, timeout_s=0.05)
    assert cluster.ends == [([b"a"], True)]


@VERSIONS
def test_the_end_completes_a_commit_that_has_begun_and_aborts_an_open_transaction(version: int) -> None:
    cluster = TransactionCluster(transaction_version=version)

    async def begin_to_commit(producer: TransactionalProducer) -> None:
        producer.begin()
        await write(producer, b"a")
        await producer.flush()
        cluster.coordinator_faults[ApiKey.END_TXN].extend(["CONCURRENT_TRANSACTIONS"] * 5)
        commit = asyncio.ensure_future(producer.commit())
        for _ in range(10):
            await asyncio.sleep(0)
        assert len(cluster.requests(ApiKey.END_TXN)) == 1
        commit.cancel()
        await asyncio.gather(commit, return_exceptions=True)

    async def leave_open(producer: TransactionalProducer) -> None:
        producer.begin()
        await write(producer, b"b")
        await producer.flush()

    producing(cluster, begin_to_commit)
    producing(cluster, leave_open)
    assert cluster.ends == [([b"a"], True), ([b"b"], False)]


@pytest.mark.parametrize("is_commit", [True, False])
@VERSIONS
def test_another_process_ends_a_prepared_transaction(version: int, is_commit: bool) -> None:
    cluster = TransactionCluster(transaction_version=version)
    found: list[PreparedTransaction] = []

    async def use(producer: TransactionalProducer) -> None:
        producer.begin()
        await write(producer, b"a")
        found.append(await producer.prepare())

    producing(cluster, use)
    assert cluster.ends == []
    assert found == [PreparedTransaction("billing", 77, 0)]
    asyncio.run(end_prepared_transaction(cluster.network, found[0], is_commit=is_commit))
    assert cluster.ends == [([b"a"], is_commit)]


def test_a_prepared_transaction_of_an_older_producer_is_fenced() -> None:
    cluster = TransactionCluster()
    cluster.epoch = 5
    with pytest.raises(ProducerFenced):
        asyncio.run(end_prepared_transaction(cluster.network, PreparedTransaction("billing", 77, 2), is_commit=True))


def test_the_change_to_version_2_takes_a_new_epoch_first() -> None:
    cluster = TransactionCluster(transaction_version=1)

    async def use(producer: TransactionalProducer) -> None:
        async with producer.transaction():
            await write(producer, b"a")
        cluster.transaction_version = 2
        cluster.coordinator_faults[ApiKey.ADD_PARTITIONS_TO_TXN].append("lost")  # The next connection sees it.
        async with producer.transaction():
            await write(producer, b"b")
        async with producer.transaction():
            await write(producer, b"c")

    producing(cluster, use)
    assert cluster.ends == [([name], True) for name in (b"a", b"b", b"c")]
    assert len(cluster.requests(ApiKey.ADD_PARTITIONS_TO_TXN)) == 3
    assert len([message for message in cluster.requests(ApiKey.INIT_PRODUCER_ID) if message.producer_id >= 0]) == 1


@pytest.mark.parametrize("options", [{"transactional_id": None}, {"acks": 1}, {"idempotence": False}])
def test_settings_that_contradict_transactions_are_refused(options: dict[str, Any]) -> None:
    config = ProducerConfig(**({"transactional_id": "billing"} | options))
    with pytest.raises(InvalidClientConfig, match=r"transactional\.id"):
        TransactionalProducer(TransactionCluster().network, config)


steps = st.lists(
    st.tuples(
        st.lists(st.integers(0, 1), max_size=4),
        st.booleans(),
        st.lists(st.sampled_from(["ok", "lost", "unheard", "moved", "INVALID_RECORD", "NOT_ENOUGH_REPLICAS"])),
    ),
    max_size=6,
)


@given(steps, st.sampled_from([1, 2]))
def test_any_faults_leave_whole_transactions(plan: list[tuple[list[int], bool, list[str]]], version: int) -> None:
    cluster = TransactionCluster(transaction_version=version)
    committed: list[list[bytes]] = []

    async def use(producer: TransactionalProducer) -> None:
        for number, (partitions, is_commit, faults) in enumerate(plan):
            cluster.faults.extend(faults)
            values = [b"%d-%d" % (number, place) for place in range(len(partitions))]
            producer.begin()
            try:
                for value, partition in zip(values, partitions, strict=True):
                    await write(producer, value, partition=partition)
                if is_commit:
                    await producer.commit()
                    committed.append(values)
                    continue
            except TransactionAbortable:
                pass
            cluster.faults.clear()
            await producer.abort()

    producing(cluster, use)
    seen = [sorted(value for value in values if value) for values, is_commit in cluster.ends if is_commit]
    assert seen == [sorted(values) for values in committed if values]
