from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from barnabas.broker.partition import Partition
from barnabas.broker.replica_manager import ReplicaManager
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.topic_config import TopicConfig
from barnabas.common.topic_partition import TopicPartition
from barnabas.common.uuid import Uuid
from barnabas.protocol.compression import Compression
from barnabas.protocol.produce_validation import WorkBudget
from barnabas.protocol.record_batch import Record
from barnabas.protocol.record_batch_builder import build_batch
from barnabas.storage.file_pool import FilePool
from barnabas.storage.log_directories import LogDirectoryOffline
from barnabas.storage.log_manager import LogManager
from barnabas.storage.partition_log import AppendInfo, PartitionLog

NOW = 1_750_000_000_000
ORDERS, BILLS = TopicPartition("orders", 0), TopicPartition("bills", 0)


class Clock:
    def now_ms(self) -> int:
        return NOW

    def monotonic_ms(self) -> int:
        return 0


@pytest.fixture
def replicas(tmp_path: Path) -> Iterator[ReplicaManager]:
    made = ReplicaManager(broker_id=1, logs=LogManager([str(tmp_path)]), clock=Clock(), defaults=TopicConfig({}))
    pool = FilePool(100)

    def create_log(partition: Partition) -> PartitionLog:
        return PartitionLog.create(
            str(tmp_path / str(partition.topic_partition)),
            partition.topic_partition,
            topic_id=partition.topic_id,
            config=TopicConfig({"compression.type": "producer"}),
            pool=pool,
            now_ms=NOW,
        )

    for topic_partition in (ORDERS, BILLS):
        partition = made.partitions[topic_partition] = Partition(topic_partition, Uuid.from_int(1), create_log)
        partition.leader_id = partition.isr_count = partition.replica_count = 1
        partition.leader_epoch = 0
    yield made
    made.close()


def batch(count: int) -> bytes:
    return build_batch([Record(i, NOW, None, b"") for i in range(count)])


def produce(
    replicas: ReplicaManager, topic_partition: TopicPartition, count: int
) -> AppendInfo | asyncio.Task[AppendInfo]:
    return replicas.append_produced(
        topic_partition, batch(count), requires_all_in_sync=True, budget=WorkBudget(records=100)
    )


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await scenario()

    asyncio.run(main())


def test_a_small_batch_is_appended_at_once(replicas: ReplicaManager) -> None:
    info = produce(replicas, ORDERS, 5)
    assert isinstance(info, tuple)
    assert (info.first_offset, info.last_offset) == (0, 4)
    assert replicas.partitions[ORDERS].log.high_watermark == 5


def test_min_insync_replicas_is_limited_by_the_number_of_replicas(replicas: ReplicaManager) -> None:
    """As in Kafka: min.insync.replicas=2 with one replica requires that one."""
    partition = replicas.partitions[ORDERS]
    partition.log.config = TopicConfig({"compression.type": "producer", "min.insync.replicas": 2})
    assert isinstance(produce(replicas, ORDERS, 5), tuple)
    partition.replica_count = 3
    with pytest.raises(ApiException) as refused:
        produce(replicas, ORDERS, 5)
    assert refused.value.code is ErrorCode.NOT_ENOUGH_REPLICAS


def test_a_large_batch_is_appended_later_and_its_partition_waits_while_others_do_not(replicas: ReplicaManager) -> None:
    async def scenario() -> None:
        large = produce(replicas, ORDERS, 1000)
        behind = produce(replicas, ORDERS, 1)
        other = produce(replicas, BILLS, 1)
        assert isinstance(large, asyncio.Task)
        assert isinstance(behind, asyncio.Task)
        assert isinstance(other, tuple)
        assert replicas.partitions[ORDERS].log.log_end_offset == 0
        assert (await behind).first_offset == 1000
        assert (await large).last_offset == 999
        await asyncio.sleep(0)
        assert isinstance(produce(replicas, ORDERS, 1), tuple)

    run(scenario)


def test_first_records_of_many_partitions_let_others_have_turns(tmp_path: Path) -> None:
    """Each log needs a directory and files: a broker that created thousands in one turn would miss its heartbeats."""

    async def scenario() -> None:
        made = ReplicaManager(broker_id=1, logs=LogManager([str(tmp_path)]), clock=Clock(), defaults=TopicConfig({}))
        opened: list[int] = []
        turns: list[int] = []

        def create_log(partition: Partition) -> PartitionLog:
            opened.append(turns[-1] if turns else 0)
            return PartitionLog.create(
                str(tmp_path / str(partition.topic_partition)),
                partition.topic_partition,
                topic_id=partition.topic_id,
                config=TopicConfig({}),
                pool=FilePool(100),
                now_ms=NOW,
            )

        async def count_turns() -> None:
            while True:
                turns.append(len(turns) + 1)
                await asyncio.sleep(0)

        counting = asyncio.get_running_loop().create_task(count_turns())
        budget, answers = WorkBudget(new_logs=4), []
        for number in range(12):
            name = TopicPartition("many", number)
            partition = made.partitions[name] = Partition(name, Uuid.from_int(1), create_log)
            partition.leader_id = partition.isr_count = partition.replica_count = 1
            partition.leader_epoch = 0
            answers.append(made.append_produced(name, batch(1), requires_all_in_sync=True, budget=budget))
        assert [isinstance(answer, tuple) for answer in answers] == [True] * 4 + [False] * 8
        for answer in answers:
            if not isinstance(answer, tuple):
                assert (await answer).last_offset == 0
        counting.cancel()
        later = opened[4:]
        assert len(set(later)) == len(later) == 8, "no two in one turn of the loop"
        made.close()

    run(scenario)


def test_a_refused_large_batch_does_not_block_the_next_one(replicas: ReplicaManager) -> None:
    async def scenario() -> None:
        bad = build_batch([Record(i, NOW + 10**9, None, b"") for i in range(1000)])
        refused = replicas.append_produced(ORDERS, bad, requires_all_in_sync=True, budget=WorkBudget(records=100))
        behind = produce(replicas, ORDERS, 1)
        assert isinstance(refused, asyncio.Task)
        assert isinstance(behind, asyncio.Task)
        with pytest.raises(ApiException) as caught:
            await refused
        assert caught.value.code == ErrorCode.INVALID_TIMESTAMP
        assert (await behind).first_offset == 0

    run(scenario)


@pytest.mark.parametrize("budget", [WorkBudget(records=100), WorkBudget(headers=10)])
def test_a_refused_batch_keeps_nothing_of_its_request(replicas: ReplicaManager, budget: WorkBudget) -> None:
    """Otherwise the memory of refused batches would wait for the next full garbage collection."""
    records = [Record(i, NOW, None, b"", (("h", b""),)) for i in range(200)]
    bad = bytearray(build_batch([*records, Record(200, NOW + 48 * 3_600_000, None, b"")], compression=Compression.ZSTD))

    async def refuse() -> None:
        waiting = replicas.append_produced(ORDERS, memoryview(bad), requires_all_in_sync=True, budget=budget)
        assert isinstance(waiting, asyncio.Task)
        try:
            await waiting
        except ApiException as refused:
            assert refused.code is ErrorCode.INVALID_TIMESTAMP
        else:
            raise AssertionError("a record is of the day after tomorrow")
        finally:
            del waiting

    async def scenario() -> None:
        gc.disable()
        try:
            await refuse()
            await asyncio.sleep(0)
            replicas._threads.close()  # A thread releases its work when it looks for the next.
            bad.append(0)  # Raises BufferError while anything refers to the bytes.
        finally:
            gc.enable()

    run(scenario)


def test_a_cancelled_append_releases_the_partition(replicas: ReplicaManager) -> None:
    async def scenario() -> None:
        large = produce(replicas, ORDERS, 1000)
        behind = produce(replicas, ORDERS, 1)
        assert isinstance(large, asyncio.Task)
        assert isinstance(behind, asyncio.Task)
        large.cancel()
        assert (await behind).first_offset == 0
        assert large.cancelled()
        await asyncio.sleep(0)
        assert replicas.partitions[ORDERS].appends_waiting == 0

    run(scenario)


def test_a_partition_removed_meanwhile_receives_no_records(replicas: ReplicaManager) -> None:
    async def scenario() -> None:
        large = produce(replicas, ORDERS, 1000)
        assert isinstance(large, asyncio.Task)
        partition = replicas.partitions.pop(ORDERS)
        with pytest.raises(ApiException) as caught:
            await large
        assert caught.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert partition.log.log_end_offset == 0

    run(scenario)


def test_a_partition_that_lost_its_leadership_meanwhile_receives_no_records(replicas: ReplicaManager) -> None:
    async def scenario() -> None:
        large = produce(replicas, ORDERS, 1000)
        assert isinstance(large, asyncio.Task)
        replicas.partitions[ORDERS].leader_id = 2
        with pytest.raises(ApiException) as caught:
            await large
        assert caught.value.code == ErrorCode.NOT_LEADER_OR_FOLLOWER

    run(scenario)


def test_a_full_disk_is_a_storage_error_that_clients_retry(
    replicas: ReplicaManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(PartitionLog, "append_batch", full)
    with pytest.raises(ApiException) as caught:
        produce(replicas, ORDERS, 1)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert caught.value.retriable


def test_a_log_that_cannot_be_opened_is_logged_once_and_not_for_each_request(
    replicas: ReplicaManager, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    reasons = ["the directory is offline", "the directory is offline", "the records are in a stray directory"]

    partition = Partition(TopicPartition("offline", 0), Uuid.from_int(7), replicas._open_log)
    logged = []
    for reason in reasons:
        monkeypatch.setattr(replicas.logs, "get_or_create", partial(_refuse, reason))
        with pytest.raises(ApiException) as caught:
            _ = partition.log
        assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        logged.append([record.getMessage() for record in caplog.records])
    assert logged == [reasons[:1], reasons[:1], [reasons[0], reasons[2]]]


def _refuse(reason: str, *_: object, **__: object) -> PartitionLog:
    raise LogDirectoryOffline(reason)
