"""The metadata of a cluster, as the metadata log would build it: topics, racks, settings of groups."""

from __future__ import annotations

from typing import Any

from barnabas.common.config_codes import ConfigResourceType
from barnabas.common.uuid import Uuid
from barnabas.coordinator.group.cluster_view import ClusterView
from barnabas.coordinator.group.group_coordinator import GroupCoordinator
from barnabas.metadata.image.metadata_image import MetadataDelta, MetadataImage, MetadataProvenance
from barnabas.protocol.records.config_record import ConfigRecord
from barnabas.protocol.records.partition_record import PartitionRecord
from barnabas.protocol.records.register_broker_record import RegisterBrokerRecord
from barnabas.protocol.records.remove_topic_record import RemoveTopicRecord
from barnabas.protocol.records.topic_record import TopicRecord


class ClusterMetadata:
    """``coordinators`` follow each change."""

    def __init__(self) -> None:
        self.image = MetadataImage.EMPTY
        self.view = ClusterView(self.image)
        self.coordinators: list[GroupCoordinator] = []
        self._last_id = 0

    def id_of(self, topic: str) -> Uuid:
        found = self.view.id_of(topic)
        assert found is not None, f"{topic} does not exist"
        return found

    def register_broker(self, broker_id: int, rack: str | None) -> None:
        self._change(RegisterBrokerRecord(broker_id=broker_id, broker_epoch=broker_id, rack=rack, fenced=False))

    def create_topic(self, name: str, partition_count: int, replicas: tuple[int, ...] = (1,)) -> Uuid:
        self._last_id += 1
        topic_id = Uuid.from_int(1_000 + self._last_id)
        partitions = [_partition(topic_id, index, replicas) for index in range(partition_count)]
        self._change(TopicRecord(name=name, topic_id=topic_id), *partitions)
        return topic_id

    def add_partitions(self, name: str, partition_count: int) -> None:
        topic_id = self.id_of(name)
        present = self.view.partition_count(topic_id)
        self._change(*(_partition(topic_id, index, (1,)) for index in range(present, partition_count)))

    def delete_topic(self, name: str) -> None:
        self._change(RemoveTopicRecord(topic_id=self.id_of(name)))

    def configure_group(self, group_id: str, name: str, value: str | None) -> None:
        group = int(ConfigResourceType.GROUP)
        self._change(ConfigRecord(resource_type=group, resource_name=group_id, name=name, value=value))

    def _change(self, *records: Any) -> None:
        delta = MetadataDelta(self.image)
        for record in records:
            delta.replay(record)
        self.image = delta.apply(MetadataProvenance(self.image.offset + len(records), 1, 1))
        if not self.coordinators:
            self.view.update(self.image, (), has_new_topics=delta.topics is not None)
        for coordinator in self.coordinators:
            coordinator.follow_metadata(delta, self.image)


def _partition(topic_id: Uuid, index: int, replicas: tuple[int, ...]) -> PartitionRecord:
    return PartitionRecord(
        partition_id=index, topic_id=topic_id, replicas=list(replicas), isr=list(replicas), leader=replicas[0]
    )
