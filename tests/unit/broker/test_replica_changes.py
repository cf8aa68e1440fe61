"""A publication that changes many replicas is applied in steps, between which the broker serves other requests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.broker import replica_changes
from barnabas.broker.replica_manager import ReplicaManager
from barnabas.common.topic_config import TopicConfig
from barnabas.common.topic_partition import TopicPartition
from barnabas.common.uuid import Uuid
from barnabas.metadata import loader as metadata_loader
from barnabas.metadata.image.metadata_image import MetadataDelta, MetadataImage
from barnabas.metadata.loader import CommittedBatch, MetadataLoader
from barnabas.metadata.publisher import LoaderManifest
from barnabas.protocol.records.config_record import ConfigRecord
from barnabas.protocol.records.partition_record import PartitionRecord
from barnabas.protocol.records.remove_topic_record import RemoveTopicRecord
from barnabas.protocol.records.topic_record import TopicRecord
from barnabas.storage.log_manager import LogManager

HERE, THERE = 1, 2
TOPIC = Uuid.from_int(7)


class Clock:
    def now_ms(self) -> int:
        return 0

    def monotonic_ms(self) -> int:
        return 0


class Fetchers:
    """Records the fetched partitions."""

    def __init__(self) -> None:
        self.followed: set[TopicPartition] = set()

    def follow(self, partitions: Any) -> None:
        self.followed |= {partition.topic_partition for partition in partitions}

    def stop(self, partitions: Any) -> None:
        self.followed -= set(partitions)


class Broker:
    def __init__(self, folder: Path) -> None:
        self.fetchers = Fetchers()
        self.replicas = ReplicaManager(
            broker_id=HERE,
            logs=LogManager([str(folder)]),
            clock=Clock(),
            defaults=TopicConfig({}),
            fetchers=self.fetchers,  # type: ignore[arg-type]
        )
        self.image = MetadataImage.EMPTY

    def steps(self, *records: Any) -> Iterator[None]:
        delta = MetadataDelta(self.image)
        for record in records:
            delta.replay(record)
        self.image = delta.apply(self.image.provenance)
        return self.replicas.publish_in_steps(delta, self.image, LoaderManifest(self.image.provenance, False))


@pytest.fixture
def broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Broker]:
    monkeypatch.setattr(replica_changes, "REPLICAS_A_STEP", 2)
    monkeypatch.setattr(replica_changes, "DELETIONS_A_STEP", 3)
    made = Broker(tmp_path)
    yield made
    made.replicas.close()


def _topic(count: int, leader: int) -> list[Any]:
    partitions = [
        PartitionRecord(
            partition_id=number,
            topic_id=TOPIC,
            replicas=[HERE] if leader == HERE else [leader, HERE],
            isr=[leader],
            leader=leader,
            leader_epoch=0,
            directories=[Uuid.from_int(0)] * (1 if leader == HERE else 2),
        )
        for number in range(count)
    ]
    return [TopicRecord(name="orders", topic_id=TOPIC), *partitions]


def test_partitions_led_here_are_added_some_in_each_step(broker: Broker) -> None:
    counts = [len(broker.replicas.partitions) for _ in broker.steps(*_topic(5, HERE))]
    assert counts[:2] == [2, 4]
    assert len(broker.replicas.partitions) == 5
    assert all(partition.leader_id == HERE for partition in broker.replicas.partitions.values())


def test_partitions_led_elsewhere_are_fetched_from_the_step_that_adds_them(broker: Broker) -> None:
    counts = [len(broker.fetchers.followed) for _ in broker.steps(*_topic(5, THERE))]
    assert counts[:2] == [2, 4]
    assert len(broker.fetchers.followed) == 5


def test_partitions_of_a_deleted_topic_are_removed_some_in_each_step(broker: Broker) -> None:
    list(broker.steps(*_topic(5, THERE)))
    counts = [len(broker.replicas.partitions) for _ in broker.steps(RemoveTopicRecord(topic_id=TOPIC))]
    assert counts == [2]
    assert broker.replicas.partitions == {}
    assert broker.fetchers.followed == set()


def test_a_topic_that_replaces_a_deleted_one_is_added_after_the_removal(broker: Broker) -> None:
    list(broker.steps(*_topic(5, HERE)))
    records = _topic(5, HERE)
    for record in records:
        record.topic_id = Uuid.from_int(8)
    list(broker.steps(RemoveTopicRecord(topic_id=TOPIC), *records))
    assert {partition.topic_id for partition in broker.replicas.partitions.values()} == {Uuid.from_int(8)}


def test_settings_of_topics_take_effect_some_in_each_step(broker: Broker) -> None:
    def change(number: int) -> ConfigRecord:
        return ConfigRecord(resource_type=2, resource_name=f"t{number}", name="retention.ms", value=str(number))

    assert sum(1 for _ in broker.steps(*map(change, range(5)))) == 2
    assert [broker.replicas.topic_config(f"t{number}").retention_ms for number in range(5)] == [0, 1, 2, 3, 4]


def test_the_loader_publishes_in_the_steps_of_its_publishers(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata_loader, "RECORDS_A_STEP", 100)
    loader = MetadataLoader()
    loader.install(broker.replicas)
    batch = CommittedBatch(base_offset=0, last_offset=5, epoch=1, append_time_ms=0, records=_topic(5, HERE))
    counts = [len(broker.replicas.partitions) for _ in loader.handle_commit_in_steps([batch])]
    assert counts[:2] == [2, 4]


def test_a_small_publication_takes_one_step(broker: Broker) -> None:
    loader = MetadataLoader()
    loader.install(broker.replicas)
    batch = CommittedBatch(base_offset=0, last_offset=1, epoch=1, append_time_ms=0, records=_topic(1, HERE))
    assert list(loader.handle_commit_in_steps([batch])) == []
    assert len(broker.replicas.partitions) == 1
