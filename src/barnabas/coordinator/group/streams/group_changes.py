"""Changes of a streams group that requests and deadlines make: its topology, epochs, target, and members that leave.

Each adds the records of its change; state changes when they are replayed.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.steps import whole
from barnabas.coordinator.coordinator_result import CoordinatorRecord, CoordinatorResult
from barnabas.coordinator.group.cluster_view import ClusterView
from barnabas.coordinator.group.group_coordinator_config import GroupCoordinatorConfig
from barnabas.coordinator.group.groups import Groups
from barnabas.coordinator.group.large_target import LargeTargets, is_large
from barnabas.coordinator.group.member_timers import (
    REMOVAL_RETRY_PAUSE_MS,
    MemberAction,
    MemberTimers,
    TimerKind,
)
from barnabas.coordinator.group.metadata_hashes import MetadataHashes
from barnabas.coordinator.group.stepped_work import SteppedWork
from barnabas.coordinator.group.streams.configured_topology import ConfiguredTopology
from barnabas.coordinator.group.streams.current_assignment import next_assignment
from barnabas.coordinator.group.streams.heartbeat_status import assignment_delayed
from barnabas.coordinator.group.streams.internal_topic_manager import configure_topics
from barnabas.coordinator.group.streams.streams_group import StreamsGroup
from barnabas.coordinator.group.streams.streams_group_member import MemberState, StreamsGroupMember
from barnabas.coordinator.group.streams.streams_group_records import (
    current_assignment_record,
    epoch_record,
    member_tombstones,
    target_assignment_epoch_record,
    target_assignment_record,
    topology_record,
)
from barnabas.coordinator.group.streams.streams_group_settings import StreamsGroupSettings
from barnabas.coordinator.group.streams.target_assignment import TARGETS, AssignmentInput, Targets
from barnabas.coordinator.group.streams.tasks import NO_TASKS, TasksTuple
from barnabas.coordinator.group.streams.topology import StreamsTopology, topology_value
from barnabas.protocol.messages.streams_group_heartbeat import EndpointToPartitions, Status, Topology

__all__ = ["GroupChanges", "Preparation", "Target"]

log = logging.getLogger(__name__)

_FAR_MS = 2_147_483_647
_NOT_READY = -1
_NO_MEMBER = ""
Nothing = CoordinatorResult[None]


class Preparation(NamedTuple):
    """A topology, compared with the topics of the cluster."""

    configured: ConfiguredTopology
    metadata_hash: int
    has_topic_change: bool
    """Whether topics have changed since the group's epoch last grew."""


class Target(NamedTuple):
    epoch: int
    tasks: TasksTuple


class GroupChanges:
    def __init__(
        self,
        config: GroupCoordinatorConfig,
        groups: Groups,
        view: ClusterView,
        timers: MemberTimers,
        work: SteppedWork,
    ) -> None:
        self.config = config
        self.settings = StreamsGroupSettings(config, view)
        self.timers = timers
        self.work = work
        self.rebalance_count = 0
        self._groups = groups
        self._view = view
        self._end_session: MemberAction = partial(self._remove, TimerKind.SESSION, "its session expired", None)
        self._hashes = MetadataHashes(view, work)
        self._targets = LargeTargets(groups, StreamsGroup, TARGETS, work)

    def find(self, group_id: str) -> StreamsGroup | None:
        return self._groups.find_of_kind(group_id, StreamsGroup)

    # -- topology

    def update_topology(
        self, group: StreamsGroup, sent: Topology | None, records: list[CoordinatorRecord]
    ) -> StreamsTopology:
        """Return the topology of the group; that of its first member becomes it.

        A member with an older topology learns it from a status. Kafka 4.3 refuses a newer one.
        """
        known = group.topology
        if sent is None:
            if known is None:
                raise ApiException(ErrorCode.UNKNOWN_SERVER_ERROR, "Neither the group nor the request has a topology.")
            return known
        if known is not None and group.has_accepted(sent):
            return known
        value = topology_value(sent)
        topology = StreamsTopology.of(value)
        if known is None:
            records.append(topology_record(group.group_id, value))
            return topology
        if known.epoch <= topology.epoch and known != topology:
            raise ApiException(ErrorCode.INVALID_REQUEST, "Topology updates are not supported yet.")
        group.accept(sent)
        return known

    def prepare(self, group: StreamsGroup, topology: StreamsTopology, now_ms: int) -> Preparation:
        """Compare the topology with the topics of the cluster, unless neither can have changed."""
        configured = group.configured_topology
        if group.topology is not None and configured is not None and not group.has_metadata_expired(now_ms):
            return Preparation(configured, group.metadata_hash, has_topic_change=False)
        metadata_hash = self._hashes.of(group.group_id, topology.required_topics(), now_ms)
        has_topic_change = metadata_hash != group.metadata_hash
        if has_topic_change or group.topology is None or configured is None:
            configured = configure_topics(topology, metadata_hash, self._view.partition_count_of)
            group.configure(configured)
        return Preparation(configured, metadata_hash, has_topic_change)

    def of_endpoints(self, group: StreamsGroup, changed: StreamsGroupMember) -> list[EndpointToPartitions]:
        """Return the endpoints of all members, where ``changed`` replaces the member of its id."""
        members = [member for member in group.members.values() if member.member_id != changed.member_id]
        configured = group.configured_topology
        subtopologies = None if configured is None else configured.subtopologies
        return group.endpoints.of_members([*members, changed], subtopologies or {}, self._view.partition_count_of)

    # -- epochs and targets

    def update_epoch(
        self,
        group: StreamsGroup,
        topology: StreamsTopology,
        preparation: Preparation,
        assignment_configs: Mapping[str, str],
        records: list[CoordinatorRecord],
        now_ms: int,
        *,
        has_member_change: bool,
    ) -> int:
        """Return the group epoch, which each change that matters for the assignment increases."""
        validated = topology.epoch if preparation.configured.is_ready else _NOT_READY
        epoch = group.epoch
        if (
            has_member_change
            or preparation.has_topic_change
            or validated != group.validated_topology_epoch
            or assignment_configs != group.assignment_configs
        ):
            epoch += 1
            records.append(
                epoch_record(
                    group.group_id,
                    epoch=epoch,
                    metadata_hash=preparation.metadata_hash,
                    validated_topology_epoch=validated,
                    assignment_configs=assignment_configs,
                )
            )
            self.rebalance_count += 1
            group.set_metadata_deadline(now_ms + _FAR_MS, epoch)
        return epoch

    def update_target(
        self,
        group: StreamsGroup,
        epoch: int,
        configured: ConfiguredTopology,
        assignment_configs: Mapping[str, str],
        member: StreamsGroupMember,
        records: list[CoordinatorRecord],
        statuses: list[Status],
        now_ms: int,
    ) -> Target:
        """Return the member's target, computed for this epoch unless a delay applies; then ``statuses`` says so.

        That of a large group is computed later, between requests.
        """
        if self.timers.is_scheduled(group.group_id, _NO_MEMBER, TimerKind.INITIAL_REBALANCE):
            statuses.append(assignment_delayed("initial rebalance delay"))
            return Target(group.assignment_epoch, NO_TASKS)
        if group.assignment_epoch < epoch and self._may_assign(group, now_ms):
            if not self._is_large(group, configured):
                input_ = AssignmentInput.of(group, epoch, configured, assignment_configs, member)
                targets = self._store_target(group, input_, records, now_ms)
                return Target(epoch, targets[member.member_id])
            self._start_target(group, configured, assignment_configs, now_ms)
        if group.assignment_epoch < epoch:
            statuses.append(assignment_delayed("assignment interval"))
        return Target(group.assignment_epoch, group.target.get(member.member_id, NO_TASKS))

    def _is_large(self, group: StreamsGroup, configured: ConfiguredTopology) -> bool:
        subtopologies = configured.subtopologies or {}
        return is_large(len(group.members), (subtopology.task_count for subtopology in subtopologies.values()))

    def _start_target(
        self, group: StreamsGroup, configured: ConfiguredTopology, assignment_configs: Mapping[str, str], now_ms: int
    ) -> None:
        self._targets.start(
            group.group_id, lambda found: AssignmentInput.copied(found, configured, assignment_configs), now_ms
        )

    def _store_target(
        self, group: StreamsGroup, input_: AssignmentInput, records: list[CoordinatorRecord], now_ms: int
    ) -> Targets:
        """Add the records of a target that is computed in one step."""
        targets = whole(input_.targets_in_steps())
        for member_id, target in targets.items():
            if group.target.get(member_id) != target:
                records.append(target_assignment_record(group.group_id, member_id, target))
        records.append(target_assignment_epoch_record(group.group_id, input_.epoch, now_ms))
        return targets

    def _may_assign(self, group: StreamsGroup, now_ms: int) -> bool:
        if self._targets.is_running(group.group_id):
            return False
        return self.settings.may_assign(group.group_id, group.assignment_timestamp_ms, now_ms)

    def start_initial_delay(self, group_id: str, now_ms: int) -> None:
        """Let the first assignment of an empty group wait for more members."""
        delay_ms = self.settings.initial_rebalance_delay_ms(group_id)
        if delay_ms > 0 and not self.timers.is_scheduled(group_id, _NO_MEMBER, TimerKind.INITIAL_REBALANCE):
            deadline_ms = now_ms + delay_ms
            self.timers.schedule(
                group_id, _NO_MEMBER, TimerKind.INITIAL_REBALANCE, deadline_ms, self._assign_after_delay
            )

    def _assign_after_delay(self, group_id: str, no_member: str, now_ms: int) -> Nothing:
        group = self.find(group_id)
        records: list[CoordinatorRecord] = []
        if group is not None and group.members and group.configured_topology is not None:
            if group.assignment_epoch < group.epoch and self._may_assign(group, now_ms):
                configured, configs = group.configured_topology, group.assignment_configs
                if self._is_large(group, configured):
                    self._start_target(group, configured, configs, now_ms)
                else:
                    input_ = AssignmentInput.of(group, group.epoch, configured, configs, None)
                    self._store_target(group, input_, records, now_ms)
        return CoordinatorResult(records, is_ahead=True)

    def cancel_initial_delay(self, group_id: str) -> None:
        self.timers.cancel(group_id, _NO_MEMBER, TimerKind.INITIAL_REBALANCE)

    def reconcile(
        self,
        group: StreamsGroup,
        member: StreamsGroupMember,
        target: Target,
        owned: TasksTuple | None,
        records: list[CoordinatorRecord],
        now_ms: int,
    ) -> StreamsGroupMember:
        """Return the member after its next step."""
        if member.is_reconciled_to(target.epoch):
            return member
        reached = next_assignment(
            member, target_epoch=target.epoch, target=target.tasks, owned=owned, processes=group.processes
        )
        if reached == member:
            return member
        records.append(current_assignment_record(group.group_id, reached))
        if reached.state is MemberState.UNREVOKED_TASKS:
            self.start_rebalance_timeout(group.group_id, reached, now_ms)
        else:
            self.timers.cancel(group.group_id, reached.member_id, TimerKind.REBALANCE)
        return reached

    # -- members that leave

    def fence(self, group: StreamsGroup, member: StreamsGroupMember) -> Nothing:
        """Remove a member; the others receive its tasks with the next target."""
        group_id, member_id = group.group_id, member.member_id
        records: list[CoordinatorRecord] = [*member_tombstones(group_id, member_id)]
        records.append(
            epoch_record(
                group_id,
                epoch=group.epoch + 1,
                metadata_hash=group.metadata_hash,
                validated_topology_epoch=group.validated_topology_epoch,
                assignment_configs=group.assignment_configs,
            )
        )

        def cancel_timers(now_ms: int) -> Nothing:
            self.timers.cancel_all(group_id, [member_id])
            return CoordinatorResult()

        return CoordinatorResult(records, is_ahead=True, on_append=cancel_timers)

    # -- deadlines

    def start_session(self, group_id: str, member_id: str, now_ms: int) -> None:
        deadline_ms = now_ms + self.settings.session_timeout_ms(group_id)
        self.timers.schedule(group_id, member_id, TimerKind.SESSION, deadline_ms, self._end_session)

    def start_rebalance_timeout(self, group_id: str, member: StreamsGroupMember, now_ms: int) -> None:
        """Let a member be removed that does not give up its tasks in time."""
        deadline_ms = now_ms + member.rebalance_timeout_ms
        epoch, reason = member.member_epoch, "it did not give up its tasks within its rebalance timeout"
        remove = partial(self._remove, TimerKind.REBALANCE, reason, epoch)
        self.timers.schedule(group_id, member.member_id, TimerKind.REBALANCE, deadline_ms, remove)

    def _remove(
        self, kind: TimerKind, reason: str, in_epoch: int | None, group_id: str, member_id: str, now_ms: int
    ) -> Nothing:
        """Remove a member at its deadline, with ``in_epoch`` only if it is still in that epoch."""

        def again(code: ErrorCode, now_ms: int) -> Nothing:
            retry = partial(self._remove, kind, reason, in_epoch)
            self.timers.schedule(group_id, member_id, kind, now_ms + REMOVAL_RETRY_PAUSE_MS, retry)
            return CoordinatorResult()

        group = self.find(group_id)
        member = None if group is None else group.members.get(member_id)
        if group is None or member is None or in_epoch not in (None, member.member_epoch):
            return CoordinatorResult()
        log.info("Member %s of streams group %s is removed: %s", member_id, group_id, reason)
        result = self.fence(group, member)
        result.on_error = again
        return result
