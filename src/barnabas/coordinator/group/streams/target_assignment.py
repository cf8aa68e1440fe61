"""The target assignment of a streams group: which member shall have which tasks."""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.coordinator.group.assignor.sticky_tasks import StickyTaskAssignor
from barnabas.coordinator.group.assignor.task_group_spec import (
    MemberTasks,
    StreamsMember,
    Subtopology,
    TaskAssignorError,
    TaskGroupSpec,
)
from barnabas.coordinator.group.group_records import KeyedRecord
from barnabas.coordinator.group.streams.configured_topology import ConfiguredTopology
from barnabas.coordinator.group.streams.streams_group import StreamsGroup
from barnabas.coordinator.group.streams.streams_group_member import StreamsGroupMember
from barnabas.coordinator.group.streams.streams_group_records import (
    target_assignment_epoch_record,
    target_assignment_record,
)
from barnabas.coordinator.group.streams.streams_group_settings import NUM_STANDBY_REPLICAS
from barnabas.coordinator.group.streams.tasks import NO_TASKS, TasksTuple

__all__ = ["new_target"]

_ASSIGNOR = StickyTaskAssignor()


def new_target(
    group: StreamsGroup,
    epoch: int,
    topology: ConfiguredTopology,
    assignment_configs: Mapping[str, str],
    changed: StreamsGroupMember | None,
    now_ms: int,
) -> tuple[Mapping[str, TasksTuple], list[KeyedRecord]]:
    """Return the target of each member for an epoch, and the records that store what has changed.

    ``changed`` joins the group, or replaces the member of its id. A group that is not ready assigns no tasks.
    """
    members = group.members if changed is None else {**group.members, changed.member_id: changed}
    if topology.is_ready:
        assigned = _assigned(group, epoch, topology, assignment_configs, changed)
    else:
        assigned = dict.fromkeys(members, NO_TASKS)
    records = [
        target_assignment_record(group.group_id, member_id, assigned[member_id])
        for member_id in members
        if group.target.get(member_id) != assigned[member_id]
    ]
    records.append(target_assignment_epoch_record(group.group_id, epoch, now_ms))
    return assigned, records


def _assigned(
    group: StreamsGroup,
    epoch: int,
    topology: ConfiguredTopology,
    assignment_configs: Mapping[str, str],
    changed: StreamsGroupMember | None,
) -> dict[str, TasksTuple]:
    spec = TaskGroupSpec(
        {member_id: _spec_of(group, member) for member_id, member in group.members.items()},
        updates={} if changed is None else {changed.member_id: _spec_of(group, changed)},
        standby_replicas=int(assignment_configs.get(NUM_STANDBY_REPLICAS, 0)),
        member_count_max=group.member_count_max,
    )
    subtopologies = {
        name: Subtopology(subtopology.task_count, subtopology.is_stateful)
        for name, subtopology in (topology.subtopologies or {}).items()
    }
    try:
        assigned = _ASSIGNOR.assign(spec, subtopologies)
    except TaskAssignorError as error:
        raise ApiException(
            ErrorCode.UNKNOWN_SERVER_ERROR, f"Failed to compute a new target assignment for epoch {epoch}: {error}"
        ) from error
    return {member_id: TasksTuple(*tasks) for member_id, tasks in assigned.items()}


def _spec_of(group: StreamsGroup, member: StreamsGroupMember) -> StreamsMember:
    return StreamsMember(
        member.process_id,
        MemberTasks(*group.target.get(member.member_id, NO_TASKS)),
        member.instance_id,
        member.rack_id,
        member.client_tags,
    )
