"""A replica that lost records leaves the ISR first, then copies the lost records, and rejoins when it has them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from barnabas.broker.partition import Partition
from barnabas.broker.replica_manager import ReplicaManager
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.topic_config import TopicConfig
from barnabas.common.topic_partition import TopicPartition
from barnabas.common.uuid import Uuid
from barnabas.metadata.image.metadata_image import MetadataDelta, MetadataImage
from barnabas.metadata.image.partition_registration import DIRECTORY_LOST
from barnabas.metadata.publisher import LoaderManifest
from barnabas.protocol.record_batch import Record
from barnabas.protocol.record_batch_builder import build_batch
from barnabas.protocol.records.partition_change_record import PartitionChangeRecord
from barnabas.protocol.records.partition_record import PartitionRecord
from barnabas.protocol.records.topic_record import TopicRecord
from barnabas.storage.log_manager import LogManager

NOW = 1_750_000_000_000
ORDERS = TopicPartition("orders", 0)
TOPIC, HERE, ELSEWHERE = Uuid.from_int(4711), Uuid.from_int(1001), Uuid.from_int(2001)
KEY = (TOPIC, 0)
LOST_HERE = [DIRECTORY_LOST, ELSEWHERE]
COUNT = 10


class Clock:
    def now_ms(self) -> int:
        return NOW

    def monotonic_ms(self) -> int:
        return 0


class Fetchers:
    def __init__(self) -> None:
        self.followed: list[TopicPartition] = []
        self.lag: int | None = None

    def follow(self, partitions: Iterable[Partition]) -> None:
        self.followed += [partition.topic_partition for partition in partitions]

    def stop(self, partitions: Iterable[TopicPartition]) -> None:
        pass

    def lag_of(self, topic_partition: TopicPartition) -> int | None:
        return self.lag


class Broker:
    """Broker 1; ``reported_assignments`` returns the assignments for the controller."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.logs = LogManager([str(folder)], directory_ids={str(folder): HERE})
        self.logs.startup(now_ms=NOW)
        self.fetchers = Fetchers()
        self.replicas = ReplicaManager(
            broker_id=1, logs=self.logs, clock=Clock(), defaults=TopicConfig({}), fetchers=self.fetchers,
            new_leader_replicas=lambda cluster: cast("Any", LeaderReplicas()),
        )  # fmt: skip
        self.directories = self.replicas.directories
        self.logs.on_damaged = self.replicas.impaired.handle
        self.image = MetadataImage.EMPTY

    def publish(self, *records: Any) -> None:
        delta = MetadataDelta(self.image)
        for record in records:
            delta.replay(record)
        self.image = delta.apply(cast("Any", self.image.provenance))
        self.replicas.publish(delta, self.image, LoaderManifest(self.image.provenance, is_snapshot=False))

    def create(self, leader: int = 1, isr: tuple[int, ...] = (1, 2), elr: tuple[int, ...] = ()) -> None:
        self.publish(
            TopicRecord(name="orders", topic_id=TOPIC),
            PartitionRecord(
                partition_id=0, topic_id=TOPIC, replicas=[1, 2], isr=list(isr), leader=leader, leader_epoch=0,
                partition_epoch=0, directories=[HERE, ELSEWHERE], eligible_leader_replicas=list(elr) or None,
            ),
        )  # fmt: skip

    def reported_assignments(self) -> dict[tuple[Uuid, int], Uuid]:
        reported_assignments = self.directories.assignments.next_request()
        self.directories.assignments.handle_answer(dict.fromkeys(reported_assignments, ErrorCode.NONE))
        return reported_assignments

    @property
    def partition(self) -> Partition:
        return self.replicas.partitions[ORDERS]

    def read(self, offset: int) -> bytes | memoryview:
        return self.partition.log.read(offset, 1 << 20).records

    def unlock(self) -> None:
        for directory in self.logs.directories.all:
            directory.unlock()


class LeaderReplicas:
    def lead(self, partition: Partition, registration: object) -> None:
        pass

    def follow_cluster(self, cluster: object) -> None:
        pass


Start = Callable[..., Broker]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """A broker with ten records, one of which is damaged while the broker is down."""
    started: list[Broker] = []

    def begin() -> Broker:
        for broker in started:
            broker.unlock()
        started.append(Broker(tmp_path))
        return started[-1]

    broker = begin()
    broker.create()
    log = broker.partition.log
    for index in range(COUNT):
        log.append_as_leader(build_batch([Record(0, NOW, None, b"%d" % index)]), leader_epoch=0, now_ms=NOW)
    found = log.active_segment.find(4)
    assert found is not None
    broker.logs.shutdown(now_ms=NOW, broker_epoch=7)
    path = tmp_path / "orders-0" / "00000000000000000000.log"
    content = bytearray(path.read_bytes())
    content[found[0] + found[1] - 1] ^= 1
    path.write_bytes(content)
    yield begin
    for running in started:
        running.unlock()


def refused(broker: Broker, offset: int) -> ErrorCode:
    with pytest.raises(ApiException) as raised:
        broker.read(offset)
    return raised.value.code


def test_a_leader_that_reads_damage_asks_to_leave_the_isr_and_truncates_nothing(start: Start) -> None:
    broker = start()
    broker.create()
    assert refused(broker, 4) is ErrorCode.CORRUPT_MESSAGE
    assert broker.reported_assignments() == {KEY: DIRECTORY_LOST}
    assert refused(broker, 4) is ErrorCode.CORRUPT_MESSAGE
    broker.publish(PartitionChangeRecord(partition_id=0, topic_id=TOPIC, isr=[1, 2]))
    assert broker.reported_assignments() == {}
    assert broker.partition.log.log_end_offset == COUNT
    assert len(broker.read(5)) > 0


def test_a_damaged_replica_alone_in_sync_serves_its_intact_records(start: Start) -> None:
    broker = start()
    broker.create(isr=(1,))
    assert refused(broker, 4) is ErrorCode.CORRUPT_MESSAGE
    assert broker.reported_assignments() == {}
    assert len(broker.read(0)) > 0
    assert len(broker.read(5)) > 0


def test_outside_the_isr_a_replica_copies_its_lost_records_and_rejoins(start: Start, tmp_path: Path) -> None:
    broker = start()
    broker.create()
    refused(broker, 4)
    broker.reported_assignments()
    content = (tmp_path / "orders-0" / "00000000000000000000.log").read_bytes()
    broker.publish(PartitionChangeRecord(partition_id=0, topic_id=TOPIC, leader=2, isr=[2], directories=LOST_HERE))
    assert broker.partition.log.log_end_offset == 4
    assert broker.fetchers.followed
    (aside,) = (tmp_path / "orders-0").glob("*.damaged")
    assert aside.read_bytes() == content
    for broker.fetchers.lag in (None, 3):
        broker.replicas.impaired.tick()
        assert broker.reported_assignments() == {}
    broker.fetchers.lag = 0
    broker.replicas.impaired.tick()
    assert broker.reported_assignments() == {KEY: HERE}


def test_a_follower_leaves_the_isr_before_it_truncates(start: Start) -> None:
    broker = start()
    broker.create(leader=2)
    broker.partition.log.maybe_advance_high_watermark(COUNT)
    refused(broker, 4)
    assert broker.reported_assignments() == {KEY: DIRECTORY_LOST}
    assert broker.partition.log.log_end_offset == COUNT
    broker.publish(PartitionChangeRecord(partition_id=0, topic_id=TOPIC, isr=[2], directories=LOST_HERE))
    assert broker.partition.log.log_end_offset == 4


def test_a_replica_that_could_still_be_elected_is_not_truncated(start: Start) -> None:
    broker = start()
    broker.create(leader=2, isr=(2,), elr=(1,))
    refused(broker, 4)
    assert broker.partition.log.log_end_offset == COUNT


def test_damage_found_at_the_start_makes_the_shutdown_unclean(start: Start, tmp_path: Path) -> None:
    (tmp_path / "orders-0" / "00000000000000000000.index").unlink()
    broker = start()
    assert broker.logs.damaged == {ORDERS}
    assert broker.logs.previous_broker_epoch == -1
    broker.create(leader=2, isr=(2,))
    assert broker.partition.log.log_end_offset == 4
    assert broker.logs.damaged == set()


def test_a_broker_that_starts_with_a_lost_replica_waits_until_it_has_caught_up(start: Start) -> None:
    broker = start()
    broker.create(leader=2, isr=(2,))
    broker.publish(PartitionChangeRecord(partition_id=0, topic_id=TOPIC, directories=LOST_HERE))
    assert broker.reported_assignments() == {}
    broker.fetchers.lag = 0
    broker.replicas.impaired.tick()
    assert broker.reported_assignments() == {KEY: HERE}


def test_a_lost_replica_that_leads_anyway_is_restored_immediately(start: Start) -> None:
    broker = start()
    broker.create()
    broker.publish(PartitionChangeRecord(partition_id=0, topic_id=TOPIC, leader=-1, isr=[1], directories=LOST_HERE))
    assert broker.reported_assignments() == {KEY: HERE}
