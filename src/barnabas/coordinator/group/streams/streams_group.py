"""A streams group: its topology, its members, and their target and present tasks.

A group is ready when the topics of its topology exist with the right partition counts; until then it assigns no tasks.
What it knows of the topics (``configured_topology``), its endpoints and a requested shutdown are kept in memory only:
after a failover the next heartbeats find them out again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.uuid import Uuid
from barnabas.coordinator.coordinator_result import CoordinatorRecord
from barnabas.coordinator.group.group import CheckPartition, OffsetCommitter, OffsetExpiry
from barnabas.coordinator.group.group_state import GroupType
from barnabas.coordinator.group.modern_group import ModernGroup
from barnabas.coordinator.group.streams.configured_topology import ConfiguredTopology
from barnabas.coordinator.group.streams.endpoint_to_partitions import EndpointInformation
from barnabas.coordinator.group.streams.streams_group_member import StreamsGroupMember
from barnabas.coordinator.group.streams.streams_group_records import group_tombstones
from barnabas.coordinator.group.streams.task_processes import TaskProcessIndex
from barnabas.coordinator.group.streams.tasks import TasksTuple
from barnabas.coordinator.group.streams.topology import StreamsTopology
from barnabas.protocol.messages import streams_group_heartbeat as heartbeat

__all__ = ["StreamsGroup", "StreamsGroupState"]

_COMMIT_WITH_EPOCH_SINCE = 9
_NOTHING_VALIDATED = 0


class StreamsGroupState(Enum):
    """The value is the name that ListGroups and StreamsGroupDescribe show."""

    EMPTY = "Empty"
    NOT_READY = "NotReady"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


class StreamsGroup(ModernGroup[StreamsGroupMember, TasksTuple]):
    group_type = GroupType.STREAMS

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.topology: StreamsTopology | None = None
        self.validated_topology_epoch = _NOTHING_VALIDATED
        """The epoch of the topology for which the group was ready when its epoch last grew, or -1."""
        self.assignment_configs: Mapping[str, str] = {}
        """The settings for which the group's epoch last grew."""
        self.configured_topology: ConfiguredTopology | None = None
        self.processes = TaskProcessIndex()
        self.endpoints = EndpointInformation()
        self.shutdown_requester: str | None = None
        """The member that requested the shutdown of the application."""
        self.member_count_max = 0
        self._accepted: tuple[StreamsTopology | None, heartbeat.Topology | None] = (None, None)
        """The group's topology, and one that a member sent and that was compared with it."""

    # -- Group

    @property
    def state(self) -> StreamsGroupState:
        if not self.members:
            return StreamsGroupState.EMPTY
        if self.topology is None or self.topology.epoch != self.validated_topology_epoch:
            return StreamsGroupState.NOT_READY
        if self.epoch > self.assignment_epoch:
            return StreamsGroupState.ASSIGNING
        if all(member.is_reconciled_to(self.assignment_epoch) for member in list(self.members.values())):
            return StreamsGroupState.STABLE
        return StreamsGroupState.RECONCILING

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def listed_protocol_type(self) -> str:
        return "streams"

    def is_subscribed_to(self, topic: str) -> bool:
        return bool(self.members) and self.topology is not None and self.topology.reads(topic)

    def validate_offset_commit(self, committer: OffsetCommitter) -> CheckPartition | None:
        """Accept a member's present epoch; an older one only for active tasks that it has had since then."""
        if committer.epoch < 0 and not self.members:
            return None
        names_nobody = committer.epoch == -1 and not committer.member_id and committer.instance_id is None
        if committer.is_transactional and names_nobody:
            return None
        member = self.member(committer.member_id)
        if not committer.is_transactional and committer.api_version < _COMMIT_WITH_EPOCH_SINCE:
            raise ApiException(
                ErrorCode.UNSUPPORTED_VERSION,
                "OffsetCommit version 9 or above must be used by members using the streams group protocol",
            )
        if committer.epoch == member.member_epoch:
            return None
        topology = self.topology
        if committer.epoch > member.member_epoch or topology is None:
            raise ApiException(ErrorCode.STALE_MEMBER_EPOCH)

        def check(topic: str, topic_id: Uuid, partition: int) -> None:
            subtopology_id = topology.subtopology_id_by_source_topic.get(topic)
            received_in = None if subtopology_id is None else member.epoch_of(subtopology_id, partition)
            if received_in is None or committer.epoch < received_in:
                raise ApiException(ErrorCode.STALE_MEMBER_EPOCH)

        return check

    def validate_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        if member_id is None and member_epoch < 0:
            return
        if member_epoch != self.member(member_id or "").member_epoch:
            raise ApiException(ErrorCode.STALE_MEMBER_EPOCH)

    def validate_offset_delete(self) -> None:
        """Offsets of topics that the application does not read can be deleted at any time."""

    def offset_expiry(self) -> OffsetExpiry | None:
        return OffsetExpiry(since_ms=None)

    def tombstones(self) -> Sequence[CoordinatorRecord]:
        return group_tombstones(self.group_id, self.members)

    # -- members

    def update_member(self, member: StreamsGroupMember) -> None:
        self.processes.update(self.members.get(member.member_id), member)
        self.members[member.member_id] = member
        self.member_count_max = max(self.member_count_max, len(self.members))
        self.endpoints.forget(member.member_id)

    def remove_member(self, member_id: str) -> None:
        self.processes.update(self.members.pop(member_id), None)
        self.endpoints.forget(member_id)
        if not self.members:
            self.shutdown_requester = None

    def request_shutdown(self, member_id: str) -> None:
        """Let every member learn that the application must stop; the first request counts."""
        if self.shutdown_requester is None:
            self.shutdown_requester = member_id

    # -- topology

    def accept(self, sent: heartbeat.Topology) -> None:
        """Remember a topology that fits the group's: most members send the same one, with hundreds of names."""
        self._accepted = self.topology, sent

    def has_accepted(self, sent: heartbeat.Topology) -> bool:
        topology, accepted = self._accepted
        return topology is self.topology and accepted == sent

    def configure(self, configured: ConfiguredTopology) -> None:
        self.configured_topology = configured
        self.endpoints.forget_all()
