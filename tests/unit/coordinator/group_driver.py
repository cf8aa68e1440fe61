"""Drives a GroupCoordinator as clients would, and controls its time."""

from __future__ import annotations

from barnabas.common.steps import whole
from barnabas.common.uuid import Uuid
from barnabas.coordinator.coordinator_loader import CoordinatorLoader
from barnabas.coordinator.deferred import Deferred
from barnabas.coordinator.group.cluster_view import ClusterView
from barnabas.coordinator.group.group_coordinator import GroupCoordinator
from barnabas.coordinator.group.group_coordinator_config import GroupCoordinatorConfig
from barnabas.coordinator.group.group_coordinator_shard import GroupCoordinatorShard
from barnabas.coordinator.group.group_request_context import GroupRequestContext
from barnabas.metadata.image.metadata_image import MetadataImage
from barnabas.protocol.messages.delete_groups import DeletableGroupResult
from barnabas.protocol.messages.describe_groups import DescribedGroup
from barnabas.protocol.messages.heartbeat import HeartbeatRequest
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from barnabas.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from barnabas.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from barnabas.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from barnabas.protocol.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponseGroup,
)
from barnabas.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from barnabas.protocol.record_serde import encode_versioned
from barnabas.protocol.records.consumer_protocol_subscription import ConsumerProtocolSubscription
from tests.unit.coordinator.memory_log import MemoryTopic

GROUP = "orders-app"
TOPIC_ID = Uuid.from_int(77)
SESSION_MS = 10_000
REBALANCE_MS = 30_000


def subscription(*topics: str) -> bytes:
    return encode_versioned(ConsumerProtocolSubscription(topics=list(topics)), 1)


RANGE = {"range": subscription("orders")}


class GroupDriver:
    def __init__(
        self,
        config: GroupCoordinatorConfig | None = None,
        topic: MemoryTopic | None = None,
        view: ClusterView | None = None,
    ) -> None:
        self.now_ms = 1_000_000
        self.topic = topic or MemoryTopic()
        self._uuids = self.topic.uuids
        self.coordinator = GroupCoordinator(
            config or GroupCoordinatorConfig(group_initial_rebalance_delay_ms=0, offsets_topic_num_partitions=1),
            writer=self.topic,
            new_uuid=lambda: f"uuid-{next(self._uuids)}",
            view=view or ClusterView(MetadataImage.EMPTY),
        )
        self.topic.runtime = self.coordinator.runtime
        self.coordinator.start()

    def load(self, *, leader_epoch: int = 0) -> GroupDriver:
        runtime = self.coordinator.runtime
        shard = runtime.start_loading(0, leader_epoch, self.now_ms)
        assert shard is not None
        log = self.topic.log(0)
        log.high_watermark = log.log_end_offset
        CoordinatorLoader(runtime, 0, shard, log).run(self.now_ms)
        return self

    def restarted(self) -> GroupDriver:
        """Return another coordinator that has read the same log."""
        successor = GroupDriver(self.coordinator.config, self.topic)
        successor.now_ms = self.now_ms
        return successor.load(leader_epoch=1)

    @property
    def shard(self) -> GroupCoordinatorShard:
        return self.coordinator.runtime.shard(0)

    def advance(self, by_ms: int) -> None:
        """Let time pass, stopping at each deadline as a node's loop would."""
        end_ms = self.now_ms + by_ms
        while (deadline := self.coordinator.runtime.next_deadline_ms()) is not None and deadline <= end_ms:
            self.now_ms = max(self.now_ms, deadline)
            self._tick()
        self.now_ms = end_ms
        self._tick()

    def _tick(self) -> None:
        self.topic.now_ms = self.now_ms
        self.coordinator.runtime.tick(self.now_ms)
        assert self.coordinator.runtime.failed_deadline_count == 0

    # -- requests

    def join(
        self,
        member_id: str = "",
        *,
        version: int = 9,
        group: str = GROUP,
        instance: str | None = None,
        protocols: dict[str, bytes] | None = None,
        protocol_type: str = "consumer",
        session_ms: int = SESSION_MS,
        rebalance_ms: int = REBALANCE_MS,
        client: str = "client",
    ) -> Deferred[JoinGroupResponse]:
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocols=[
                JoinGroupRequestProtocol(name=name, metadata=metadata)
                for name, metadata in (RANGE if protocols is None else protocols).items()
            ],
        )
        return self.coordinator.join_group(GroupRequestContext(version, client, "/127.0.0.1"), request, self.now_ms)

    def join_known(self, **options: object) -> tuple[str, Deferred[JoinGroupResponse]]:
        """Join as a dynamic client does: receive a member id, then rejoin with it."""
        member_id = self.join(**options).value.member_id  # type: ignore[arg-type]
        return member_id, self.join(member_id, **options)  # type: ignore[arg-type]

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: dict[str, bytes] | None = None,
        *,
        group: str = GROUP,
        instance: str | None = None,
        protocol_type: str | None = "consumer",
        protocol_name: str | None = "range",
    ) -> Deferred[SyncGroupResponse]:
        request = SyncGroupRequest(
            group_id=group,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocol_name=protocol_name,
            assignments=[
                SyncGroupRequestAssignment(member_id=other, assignment=assignment)
                for other, assignment in (assignments or {}).items()
            ],
        )
        return self.coordinator.sync_group(request, self.now_ms)

    def heartbeat(self, member_id: str, generation: int, *, group: str = GROUP, instance: str | None = None) -> int:
        request = HeartbeatRequest(
            group_id=group, generation_id=generation, member_id=member_id, group_instance_id=instance
        )
        return self.coordinator.heartbeat(request, self.now_ms).value.error_code

    def leave(self, *identities: tuple[str, str | None], group: str = GROUP) -> Deferred[LeaveGroupResponse]:
        request = LeaveGroupRequest(
            group_id=group,
            members=[
                MemberIdentity(member_id=member_id, group_instance_id=instance) for member_id, instance in identities
            ],
        )
        return self.coordinator.leave_group(GroupRequestContext(5), request, self.now_ms)

    def commit_request(
        self,
        offset: int = 5,
        *,
        group: str = GROUP,
        topic: str = "orders",
        partition: int = 0,
        member_id: str = "",
        generation: int = -1,
        instance: str | None = None,
        metadata: str | None = "",
        retention_ms: int = -1,
    ) -> OffsetCommitRequest:
        committed = OffsetCommitRequestPartition(
            partition_index=partition, committed_offset=offset, committed_metadata=metadata
        )
        return OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            group_instance_id=instance,
            retention_time_ms=retention_ms,
            topics=[OffsetCommitRequestTopic(name=topic, topic_id=TOPIC_ID, partitions=[committed])],
        )

    def commit(self, offset: int = 5, *, version: int = 9, **options: object) -> Deferred[OffsetCommitResponse]:
        request = self.commit_request(offset, **options)  # type: ignore[arg-type]
        return self.coordinator.commit_offsets(GroupRequestContext(version), request, self.now_ms)

    def commit_code(self, offset: int = 5, **options: object) -> int:
        return self.commit(offset, **options).value.topics[0].partitions[0].error_code  # type: ignore[arg-type]

    def fetch(
        self,
        *partitions: int,
        group: str = GROUP,
        topic: str = "orders",
        topic_id: Uuid = Uuid.ZERO,
        require_stable: bool = False,
    ) -> OffsetFetchResponseGroup:
        request = OffsetFetchRequestGroup(
            group_id=group,
            topics=[OffsetFetchRequestTopics(name=topic, topic_id=topic_id, partition_indexes=list(partitions))],
        )
        return self.coordinator.fetch_offsets(request, require_stable=require_stable)

    def fetch_all(self, group: str = GROUP) -> dict[tuple[str, int], int]:
        response = self.coordinator.fetch_offsets(
            OffsetFetchRequestGroup(group_id=group, topics=None), require_stable=False
        )
        return {
            (topic.name, partition.partition_index): partition.committed_offset
            for topic in response.topics
            for partition in topic.partitions
        }

    def committed(self, partition: int = 0, *, group: str = GROUP, topic: str = "orders") -> int:
        return self.fetch(partition, group=group, topic=topic).topics[0].partitions[0].committed_offset

    def delete_offset(self, partition: int = 0, *, group: str = GROUP, topic: str = "orders") -> OffsetDeleteResponse:
        request = OffsetDeleteRequest(
            group_id=group,
            topics=[
                OffsetDeleteRequestTopic(
                    name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=partition)]
                )
            ],
        )
        return self.coordinator.delete_offsets(request, self.now_ms).value

    def delete_groups(self, *group_ids: str) -> list[DeletableGroupResult]:
        parts = self.coordinator.delete_groups(group_ids, self.now_ms).value
        return [result for part in parts for result in part]

    def describe(self, group: str = GROUP, version: int = 6) -> DescribedGroup:
        return whole(self.coordinator.describe_group(GroupRequestContext(version), group))

    def state(self, group: str = GROUP) -> str:
        return self.describe(group).group_state

    # -- situations

    def stable_member(self, *, group: str = GROUP, **options: object) -> tuple[str, int]:
        """Create a Stable group with one member; return the member's id and the generation."""
        member_id, joined = self.join_known(group=group, **options)
        generation = joined.value.generation_id
        self.sync(member_id, generation, {member_id: b"everything"}, group=group)
        return member_id, generation

    def two_members(self) -> tuple[str, str, int]:
        """Create a Stable group with a leader and a follower; return their ids and the generation."""
        leader, _ = self.stable_member()
        follower, joined = self.join_known()
        rejoined = self.join(leader)
        generation = joined.value.generation_id
        assert rejoined.value.leader == leader
        self.sync(follower, generation)
        self.sync(leader, generation, {leader: b"for the leader", follower: b"for the follower"})
        return leader, follower, generation
