"""The target assignment of a streams group: which member shall have which tasks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.coordinator.group.assignor.group_spec import Steps, WorkMeter
from barnabas.coordinator.group.assignor.sticky_tasks import StickyTaskAssignor
from barnabas.coordinator.group.assignor.task_group_spec import (
    MemberTasks,
    StreamsMember,
    Subtopology,
    TaskAssignorError,
    TaskGroupSpec,
)
from barnabas.coordinator.group.large_target import TargetKind, of_present
from barnabas.coordinator.group.streams.configured_topology import ConfiguredTopology
from barnabas.coordinator.group.streams.streams_group import StreamsGroup
from barnabas.coordinator.group.streams.streams_group_member import StreamsGroupMember
from barnabas.coordinator.group.streams.streams_group_records import (
    target_assignment_epoch_record,
    target_assignment_record,
)
from barnabas.coordinator.group.streams.streams_group_settings import NUM_STANDBY_REPLICAS
from barnabas.coordinator.group.streams.tasks import NO_TASKS, Tasks, TasksTuple

__all__ = ["TARGETS", "AssignmentInput", "Targets"]

_ASSIGNOR = StickyTaskAssignor()
Targets = Mapping[str, TasksTuple]


class AssignmentInput(NamedTuple):
    """What a target is computed from. Nothing of it may change while that is done in steps."""

    epoch: int
    """The group epoch that the target is for."""
    topology: ConfiguredTopology
    standby_replicas: int
    members: Mapping[str, StreamsGroupMember]
    target: Mapping[str, TasksTuple]
    member_count_max: int
    changed: StreamsGroupMember | None
    """A member that joins the group, or replaces the one of its id."""

    @classmethod
    def of(
        cls,
        group: StreamsGroup,
        epoch: int,
        topology: ConfiguredTopology,
        assignment_configs: Mapping[str, str],
        changed: StreamsGroupMember | None,
    ) -> AssignmentInput:
        """Return the input of a computation in one step."""
        replicas = int(assignment_configs.get(NUM_STANDBY_REPLICAS, 0))
        return cls(epoch, topology, replicas, group.members, group.target, group.member_count_max, changed)

    @classmethod
    def copied(
        cls, group: StreamsGroup, topology: ConfiguredTopology, assignment_configs: Mapping[str, str]
    ) -> AssignmentInput:
        """Return an input that stays as it is."""
        input_ = cls.of(group, group.epoch, topology, assignment_configs, None)
        return input_._replace(members=dict(group.members), target=dict(group.target))

    def targets_in_steps(self) -> Steps[Targets]:
        """Compute the target of each member in steps of a few milliseconds. A group that is not ready has no tasks."""
        if not self.topology.is_ready:
            return dict.fromkeys(self._member_ids(), NO_TASKS)
        spec = yield from self._spec()
        subtopologies = {
            name: Subtopology(subtopology.task_count, subtopology.is_stateful)
            for name, subtopology in (self.topology.subtopologies or {}).items()
        }
        try:
            assigned = yield from _ASSIGNOR.assign_in_steps(spec, subtopologies)
        except TaskAssignorError as error:
            message = f"Failed to compute a new target assignment for epoch {self.epoch}: {error}"
            raise ApiException(ErrorCode.UNKNOWN_SERVER_ERROR, message) from error
        return {member_id: TasksTuple(*assigned[member_id]) for member_id in self._member_ids()}

    def _member_ids(self) -> Iterable[str]:
        changed = {} if self.changed is None else {self.changed.member_id: self.changed}
        return {**self.members, **changed}

    def held(self, group: StreamsGroup, targets: Targets) -> Iterator[tuple[str, TasksTuple]]:
        return of_present(group, targets)

    def _spec(self) -> Steps[TaskGroupSpec]:
        members: dict[str, StreamsMember] = {}
        meter = WorkMeter()
        for member_id, member in self.members.items():
            members[member_id] = self._spec_of(member)
            if meter.is_full(1):
                yield
        return TaskGroupSpec(
            members,
            updates={} if self.changed is None else {self.changed.member_id: self._spec_of(self.changed)},
            standby_replicas=self.standby_replicas,
            member_count_max=self.member_count_max,
        )

    def _spec_of(self, member: StreamsGroupMember) -> StreamsMember:
        return StreamsMember(
            member.process_id,
            MemberTasks(*self.target.get(member.member_id, NO_TASKS)),
            member.instance_id,
            member.rack_id,
            member.client_tags,
        )


def _kept(before: TasksTuple, target: TasksTuple) -> TasksTuple:
    if before == target:
        return before
    return TasksTuple(*(_common(of_role, new) for of_role, new in zip(before, target, strict=True)))


def _common(before: Tasks, target: Tasks) -> Tasks:
    kept = {name: partitions & target.get(name, frozenset()) for name, partitions in before.items()}
    return {name: partitions for name, partitions in kept.items() if partitions}


def _size(target: TasksTuple) -> int:
    return sum(len(partitions) for of_role in target for partitions in of_role.values())


TARGETS: TargetKind[TasksTuple] = TargetKind(
    NO_TASKS, target_assignment_record, target_assignment_epoch_record, _size, _kept
)
