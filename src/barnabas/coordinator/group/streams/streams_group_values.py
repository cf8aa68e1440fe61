"""The values of the records of a streams group: makes them from its members and their tasks, and reads them back.

The order of everything in them is Kafka's: subtopologies, partitions and tags are sorted.
"""

from __future__ import annotations

from collections.abc import Mapping
from sys import intern

from barnabas.coordinator.group.streams.streams_group_member import Endpoint, MemberState, StreamsGroupMember
from barnabas.coordinator.group.streams.tasks import (
    NO_TASKS,
    NO_TASKS_WITH_EPOCHS,
    EpochTasks,
    Tasks,
    TasksTuple,
    TasksTupleWithEpochs,
    sorted_tasks,
    tasks_of,
)
from barnabas.protocol.records import streams_group_current_member_assignment_value as current_assignment
from barnabas.protocol.records import streams_group_member_metadata_value as member_metadata
from barnabas.protocol.records import streams_group_target_assignment_member_value as target_assignment
from barnabas.protocol.records.streams_group_current_member_assignment_value import (
    StreamsGroupCurrentMemberAssignmentValue,
)
from barnabas.protocol.records.streams_group_member_metadata_value import StreamsGroupMemberMetadataValue
from barnabas.protocol.records.streams_group_metadata_value import LastAssignmentConfig, StreamsGroupMetadataValue
from barnabas.protocol.records.streams_group_target_assignment_member_value import (
    StreamsGroupTargetAssignmentMemberValue,
)

__all__ = [
    "current_assignment_value",
    "group_metadata_value",
    "member_metadata_value",
    "member_with_assignment",
    "member_with_metadata",
    "member_without_assignment",
    "target_assignment_tasks",
    "target_assignment_value",
]

_GONE = -1
_NO_TAGS: Mapping[str, str] = {}


def group_metadata_value(
    *, epoch: int, metadata_hash: int, validated_topology_epoch: int, assignment_configs: Mapping[str, str]
) -> StreamsGroupMetadataValue:
    return StreamsGroupMetadataValue(
        epoch=epoch,
        metadata_hash=metadata_hash,
        validated_topology_epoch=validated_topology_epoch,
        last_assignment_configs=[
            LastAssignmentConfig(key=key, value=assignment_configs[key]) for key in sorted(assignment_configs)
        ],
    )


# -- what a member said about itself


def member_metadata_value(member: StreamsGroupMember) -> StreamsGroupMemberMetadataValue:
    endpoint = member.user_endpoint
    return StreamsGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None if endpoint is None else member_metadata.Endpoint(host=endpoint.host, port=endpoint.port),
        client_tags=[
            member_metadata.KeyValue(key=key, value=member.client_tags[key]) for key in sorted(member.client_tags)
        ],
    )


def member_with_metadata(member: StreamsGroupMember, value: StreamsGroupMemberMetadataValue) -> StreamsGroupMember:
    endpoint = value.user_endpoint
    return member._replace(
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=intern(value.client_id),
        client_host=intern(value.client_host),
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        topology_epoch=value.topology_epoch,
        process_id=value.process_id,
        user_endpoint=None if endpoint is None else Endpoint(endpoint.host, endpoint.port),
        client_tags={tag.key: tag.value for tag in value.client_tags} or _NO_TAGS,
    )


# -- what a member has


def current_assignment_value(member: StreamsGroupMember) -> StreamsGroupCurrentMemberAssignmentValue:
    assigned, pending = member.assigned_tasks, member.tasks_pending_revocation
    return StreamsGroupCurrentMemberAssignmentValue(
        member_epoch=member.member_epoch,
        previous_member_epoch=member.previous_member_epoch,
        state=member.state,
        active_tasks=_ids_with_epochs(assigned.active),
        standby_tasks=_ids(assigned.standby),
        warmup_tasks=_ids(assigned.warmup),
        active_tasks_pending_revocation=_ids_with_epochs(pending.active),
        standby_tasks_pending_revocation=_ids(pending.standby),
        warmup_tasks_pending_revocation=_ids(pending.warmup),
    )


def member_with_assignment(
    member: StreamsGroupMember, value: StreamsGroupCurrentMemberAssignmentValue
) -> StreamsGroupMember:
    return member._replace(
        member_epoch=value.member_epoch,
        previous_member_epoch=value.previous_member_epoch,
        state=MemberState(value.state),
        assigned_tasks=TasksTupleWithEpochs(
            _epochs_of(value.active_tasks, value.member_epoch),
            _tasks_of(value.standby_tasks),
            _tasks_of(value.warmup_tasks),
        ),
        tasks_pending_revocation=TasksTupleWithEpochs(
            _epochs_of(value.active_tasks_pending_revocation, value.member_epoch),
            _tasks_of(value.standby_tasks_pending_revocation),
            _tasks_of(value.warmup_tasks_pending_revocation),
        ),
    )


def member_without_assignment(member: StreamsGroupMember) -> StreamsGroupMember:
    """Return a member after the tombstone of its assignment; that of the member itself follows."""
    return member._replace(
        member_epoch=_GONE,
        previous_member_epoch=_GONE,
        assigned_tasks=NO_TASKS_WITH_EPOCHS,
        tasks_pending_revocation=NO_TASKS_WITH_EPOCHS,
    )


def _ids(tasks: Tasks) -> list[current_assignment.TaskIds]:
    return [
        current_assignment.TaskIds(subtopology_id=subtopology_id, partitions=partitions)
        for subtopology_id, partitions in sorted_tasks(tasks)
    ]


def _ids_with_epochs(tasks: EpochTasks) -> list[current_assignment.TaskIds]:
    return [
        current_assignment.TaskIds(
            subtopology_id=subtopology_id,
            partitions=partitions,
            assignment_epochs=[tasks[subtopology_id][partition] for partition in partitions],
        )
        for subtopology_id, partitions in sorted_tasks(tasks)
    ]


def _epochs_of(task_ids: list[current_assignment.TaskIds], member_epoch: int) -> EpochTasks:
    """Tasks without epochs, which an older version wrote, count as received at the epoch of the member."""
    if not task_ids:
        return NO_TASKS_WITH_EPOCHS.active
    return {
        ids.subtopology_id: dict(zip(ids.partitions, ids.assignment_epochs, strict=True))
        if ids.assignment_epochs is not None and len(ids.assignment_epochs) == len(ids.partitions)
        else dict.fromkeys(ids.partitions, member_epoch)
        for ids in task_ids
    }


# -- what a member is to have


def target_assignment_value(target: TasksTuple) -> StreamsGroupTargetAssignmentMemberValue:
    return StreamsGroupTargetAssignmentMemberValue(
        active_tasks=_target_ids(target.active),
        standby_tasks=_target_ids(target.standby),
        warmup_tasks=_target_ids(target.warmup),
    )


def target_assignment_tasks(value: StreamsGroupTargetAssignmentMemberValue) -> TasksTuple:
    return TasksTuple(_tasks_of(value.active_tasks), _tasks_of(value.standby_tasks), _tasks_of(value.warmup_tasks))


def _tasks_of(task_ids: list[current_assignment.TaskIds] | list[target_assignment.TaskIds]) -> Tasks:
    """Return the tasks; the same empty object for all members without any."""
    return tasks_of(task_ids) if task_ids else NO_TASKS.active


def _target_ids(tasks: Tasks) -> list[target_assignment.TaskIds]:
    return [
        target_assignment.TaskIds(subtopology_id=subtopology_id, partitions=partitions)
        for subtopology_id, partitions in sorted_tasks(tasks)
    ]
