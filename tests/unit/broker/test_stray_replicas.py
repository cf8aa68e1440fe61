"""How the broker handles logs on disk that the metadata log does not assign to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from barnabas.broker.replica_manager import ReplicaManager
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.topic_config import TopicConfig
from barnabas.common.topic_partition import TopicPartition
from barnabas.common.uuid import Uuid
from barnabas.metadata.image.metadata_image import MetadataDelta, MetadataImage
from barnabas.metadata.publisher import LoaderManifest
from barnabas.protocol.record_batch import Record
from barnabas.protocol.record_batch_builder import build_batch
from barnabas.protocol.records.partition_change_record import PartitionChangeRecord
from barnabas.protocol.records.partition_record import PartitionRecord
from barnabas.protocol.records.remove_topic_record import RemoveTopicRecord
from barnabas.protocol.records.topic_record import TopicRecord
from barnabas.server.metrics.log_dirs import log_dir_values
from barnabas.storage.log_manager import LogManager
from barnabas.storage.stray_directory import list_strays

NOW = 1_750_000_000_000
ORDERS = TopicPartition("orders", 0)
FIRST_ID, SECOND_ID = Uuid.from_int(4711), Uuid.from_int(4712)


class Clock:
    def now_ms(self) -> int:
        return NOW

    def monotonic_ms(self) -> int:
        return 0


class Broker:
    """Broker 1, across restarts."""

    def __init__(self, folder: Path) -> None:
        self.logs = LogManager([str(folder)])
        self.logs.startup(now_ms=NOW)
        self.replicas = ReplicaManager(broker_id=1, logs=self.logs, clock=Clock(), defaults=TopicConfig({}))
        self.image = MetadataImage.EMPTY

    def publish(self, *records: Any, is_snapshot: bool = False) -> None:
        delta = MetadataDelta(self.image)
        for record in records:
            delta.replay(record)
        if is_snapshot:
            delta.finish_snapshot()
        self.image = delta.apply(cast("Any", self.image.provenance))
        self.replicas.publish(delta, self.image, LoaderManifest(self.image.provenance, is_snapshot=is_snapshot))

    def append(self) -> None:
        batch = build_batch([Record(0, NOW, None, b"x")])
        self.replicas.append(self.replicas.partitions[ORDERS], batch, requires_all_in_sync=False)

    def log_end_offset(self) -> int:
        return self.replicas.partitions[ORDERS].log.log_end_offset

    def stop(self) -> None:
        for directory in self.logs.directories.all:
            directory.unlock()


Start = Callable[[], Broker]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[Broker] = []

    def start() -> Broker:
        for broker in started:
            broker.stop()
        started.append(Broker(tmp_path))
        return started[-1]

    yield start
    for broker in started:
        broker.stop()


def created(topic_id: Uuid = FIRST_ID, replicas: tuple[int, ...] = (1,), leader: int = 1, epoch: int = 0) -> list[Any]:
    return [
        TopicRecord(name="orders", topic_id=topic_id),
        PartitionRecord(
            partition_id=0, topic_id=topic_id, replicas=list(replicas), isr=[leader], leader=leader,
            leader_epoch=epoch, partition_epoch=0, directories=[Uuid.from_int(1)] * len(replicas),
        ),
    ]  # fmt: skip


def names(path: Path) -> list[str]:
    return sorted(entry.name for entry in path.iterdir() if entry.is_dir())


@pytest.fixture
def written(start: Start) -> None:
    broker = start()
    broker.publish(*created())
    broker.replicas.settle_strays()
    broker.append()
    broker.logs.topic_id_notes.write()


@pytest.mark.usefixtures("written")
def test_a_log_of_an_unknown_topic_is_kept_and_returns_with_the_topic(start: Start, tmp_path: Path) -> None:
    broker = start()
    broker.publish()
    broker.replicas.settle_strays()
    (stray,) = list_strays(str(tmp_path))
    assert (stray.topic_partition, stray.topic_id) == (ORDERS, FIRST_ID)
    assert "no record in the metadata log says that it was deleted" in stray.reason
    assert dict(log_dir_values(broker.replicas))["barnabas_log_stray_count"] == 1
    broker.publish(*created())
    assert broker.log_end_offset() == 1
    assert dict(log_dir_values(broker.replicas))["barnabas_log_stray_count"] == 0
    assert names(tmp_path) == ["orders-0"]


@pytest.mark.usefixtures("written")
def test_a_deletion_record_also_deletes_logs_of_a_broker_that_was_down(start: Start, tmp_path: Path) -> None:
    broker = start()
    broker.publish(*created(), RemoveTopicRecord(topic_id=FIRST_ID), *created(SECOND_ID))
    broker.replicas.settle_strays()
    assert broker.log_end_offset() == 0
    assert list_strays(str(tmp_path)) == []
    assert [name for name in names(tmp_path) if not name.endswith("-delete")] == ["orders-0"]


@pytest.mark.usefixtures("written")
def test_the_log_of_an_earlier_topic_is_kept_if_only_a_snapshot_remains(start: Start, tmp_path: Path) -> None:
    broker = start()
    broker.publish(*created(SECOND_ID), is_snapshot=True)
    broker.replicas.settle_strays()
    assert broker.log_end_offset() == 0
    assert [stray.topic_id for stray in list_strays(str(tmp_path))] == [FIRST_ID]


def test_a_running_broker_keeps_logs_that_a_snapshot_no_longer_names(start: Start, tmp_path: Path) -> None:
    broker = start()
    broker.publish(*created())
    broker.replicas.settle_strays()
    broker.append()
    broker.publish(is_snapshot=True)
    assert broker.replicas.partitions == {}
    assert [stray.topic_id for stray in list_strays(str(tmp_path))] == [FIRST_ID]
    broker.publish(*created())
    assert broker.log_end_offset() == 1


def test_a_running_broker_deletes_logs_of_deleted_topics_and_moved_replicas(start: Start, tmp_path: Path) -> None:
    broker = start()
    for gone in (
        RemoveTopicRecord(topic_id=FIRST_ID),
        PartitionChangeRecord(topic_id=SECOND_ID, partition_id=0, replicas=[2], isr=[2], leader=2),
    ):
        broker.publish(*created(gone.topic_id))
        broker.append()
        broker.publish(gone)
        assert all(name.endswith("-delete") for name in names(tmp_path))


@pytest.mark.usefixtures("written")
def test_a_replica_that_moved_elsewhere_while_the_broker_was_down_is_kept(start: Start, tmp_path: Path) -> None:
    broker = start()
    broker.publish(*created(replicas=(2, 3), leader=2))
    broker.replicas.settle_strays()
    assert ["assigns no replica" in stray.reason for stray in list_strays(str(tmp_path))] == [True]


@pytest.mark.usefixtures("written")
def test_a_stray_of_a_later_epoch_than_the_partitions_is_not_taken_back(start: Start, tmp_path: Path) -> None:
    broker = start()
    broker.publish(*created(epoch=5))
    broker.replicas.settle_strays()
    broker.append()
    broker = start()
    broker.publish()
    broker.replicas.settle_strays()
    broker.publish(*created(epoch=4))
    assert broker.log_end_offset() == 0
    assert len(list_strays(str(tmp_path))) == 1


@pytest.mark.usefixtures("written")
def test_a_leader_without_its_records_refuses_instead_of_serving_an_empty_log(start: Start, tmp_path: Path) -> None:
    for name in ("orders-0/partition.metadata", "barnabas-topic-ids"):
        (tmp_path / name).unlink()
    broker = start()
    broker.publish(*created())
    broker.replicas.settle_strays()
    with pytest.raises(ApiException) as raised:
        broker.replicas.leader_of(ORDERS)
    assert raised.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    with pytest.raises(ApiException):
        broker.append()
    assert len(list_strays(str(tmp_path))) == 1
