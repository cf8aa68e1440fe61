"""Drives the share groups of a GroupCoordinator as members, administrators and the persister would."""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.common.config_codes import ConfigResourceType
from barnabas.common.steps import whole
from barnabas.common.uuid import Uuid
from barnabas.coordinator.group.group_coordinator_config import GroupCoordinatorConfig
from barnabas.coordinator.group.group_request_context import GroupRequestContext
from barnabas.coordinator.group.share.share_group import ShareGroup
from barnabas.coordinator.group.share.state_calls import InitializeStates
from barnabas.metadata.image.metadata_image import MetadataDelta, MetadataProvenance
from barnabas.protocol.messages.list_groups import ListedGroup, ListGroupsRequest
from barnabas.protocol.messages.share_group_describe import DescribedGroup
from barnabas.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from barnabas.protocol.record_serde import CoordinatorKind, decode_coordinator_record
from barnabas.protocol.records.config_record import ConfigRecord
from barnabas.protocol.records.partition_record import PartitionRecord
from barnabas.protocol.records.remove_topic_record import RemoveTopicRecord
from barnabas.protocol.records.topic_record import TopicRecord
from barnabas.protocol.schema import Message
from tests.unit.coordinator.group_driver import GroupDriver
from tests.unit.coordinator.memory_log import MemoryTopic

__all__ = ["QUEUE", "ShareGroupDriver"]

QUEUE = "queue"
CONFIG = GroupCoordinatorConfig(
    offsets_topic_num_partitions=1, group_initial_rebalance_delay_ms=0, group_share_assignment_interval_ms=0
)


class ShareGroupDriver(GroupDriver):
    def __init__(self, config: GroupCoordinatorConfig = CONFIG, topic: MemoryTopic | None = None) -> None:
        super().__init__(config, topic)
        self.asked: list[InitializeStates] = []
        """The states that heartbeats wanted to be initialized, and that are not yet."""
        self._seen = 0

    def restarted(self) -> ShareGroupDriver:
        """Return another coordinator that has read the same log, and sees the same topics."""
        successor = ShareGroupDriver(self.coordinator.config, self.topic)
        successor.coordinator.view.update(self.coordinator.view.image, (), has_new_topics=False)
        successor.now_ms = self.now_ms
        successor.load(leader_epoch=1)
        successor._seen = self._seen
        return successor

    @property
    def group(self) -> ShareGroup:
        group = self.shard.share.find(QUEUE)
        assert group is not None
        return group

    # -- members

    def beat(
        self,
        member_id: str,
        epoch: int,
        *topics: str,
        group: str = QUEUE,
        rack: str | None = None,
        client: str = "client",
    ) -> ShareGroupHeartbeatResponse:
        request = ShareGroupHeartbeatRequest(
            group_id=group,
            member_id=member_id,
            member_epoch=epoch,
            rack_id=rack,
            subscribed_topic_names=list(topics) or None,
        )
        context = GroupRequestContext(1, client, "/127.0.0.1")
        decided = self.coordinator.share.heartbeat(context, request, self.now_ms).value
        if decided.initialize is not None:
            self.asked.append(decided.initialize)
        return decided.response

    def initialized(self) -> None:
        """Let the persister succeed with all that it was asked for."""
        for wanted in self.asked:
            code = self.coordinator.share.states_initialized(wanted.group_id, wanted.partitions, self.now_ms).value
            assert not code
        self.asked = []

    def joined(self, member_id: str, *topics: str) -> int:
        """Join, and return the epoch in which the member has its partitions."""
        epoch = self.beat(member_id, 0, *(topics or ("orders",))).member_epoch
        self.initialized()
        return self.beat(member_id, epoch).member_epoch

    def assigned(self, member_id: str) -> dict[str, list[int]]:
        (member,) = (member for member in self.described().members if member.member_id == member_id)
        return {topic.topic_name: topic.partitions for topic in member.assignment.topic_partitions}

    def described(self, group: str = QUEUE) -> DescribedGroup:
        return whole(self.coordinator.share.describe(group))

    def listed(self, *states: str, types: Iterable[str] = ()) -> list[ListedGroup]:
        request = ListGroupsRequest(states_filter=list(states), types_filter=list(types))
        return self.coordinator.list_groups(request).groups

    # -- records

    def written(self) -> list[tuple[int, Message | None]]:
        """Return types and values of the records since the last call."""
        records = self.topic.log(0).records()
        new, self._seen = records[self._seen :], len(records)
        decoded = [decode_coordinator_record(CoordinatorKind.GROUP, key or b"", value) for key, value in new]
        return [(record.key.API_KEY, record.value) for record in decoded]

    def written_types(self) -> list[int]:
        return [record_type for record_type, _ in self.written()]

    # -- topics and settings

    def create(self, name: str, partitions: int = 1) -> Uuid:
        topic_id = Uuid.from_int(len(self.coordinator.view.image.topics.by_name) + 1_000 + self.now_ms)
        delta = MetadataDelta(self.coordinator.view.image)
        delta.replay(TopicRecord(name=name, topic_id=topic_id))
        self._add_partitions(delta, topic_id, range(partitions))
        self._publish(delta)
        return topic_id

    def grow(self, name: str, partitions: int) -> None:
        topic = self.coordinator.view.image.topics.by_name[name]
        delta = MetadataDelta(self.coordinator.view.image)
        self._add_partitions(delta, topic.id, range(len(topic.partitions), partitions))
        self._publish(delta)

    def delete(self, name: str) -> None:
        delta = MetadataDelta(self.coordinator.view.image)
        delta.replay(RemoveTopicRecord(topic_id=self.coordinator.view.image.topics.by_name[name].id))
        self._publish(delta)

    def configure(self, group: str, name: str, value: str) -> None:
        delta = MetadataDelta(self.coordinator.view.image)
        delta.replay(ConfigRecord(resource_type=ConfigResourceType.GROUP, resource_name=group, name=name, value=value))
        self._publish(delta)

    def _add_partitions(self, delta: MetadataDelta, topic_id: Uuid, partitions: Iterable[int]) -> None:
        for partition in partitions:
            delta.replay(PartitionRecord(topic_id=topic_id, partition_id=partition, replicas=[1], isr=[1], leader=1))

    def _publish(self, delta: MetadataDelta) -> None:
        """Do what the owner of the coordinator does when the metadata log moves on."""
        view = self.coordinator.view
        image = delta.apply(MetadataProvenance(view.image.offset + 1, 1, self.now_ms))
        self.coordinator.follow_metadata(delta, image)
        if delta.topics is not None:
            self.coordinator.share.on_topics_deleted(delta.topics.deleted.keys(), self.now_ms)
