"""What Kafka refuses in a StreamsGroupHeartbeat, each with Kafka's error and text.

Some parts of KIP-1071 are not in Kafka 4.3 yet: static members, warm-up tasks, offsets of tasks, and patterns of source
topics. It refuses them by name, and so do we.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.topic_name import INTERNAL_TOPIC_NAMES, topic_name_problem
from barnabas.coordinator.group.heartbeat_request import JOIN_EPOCH, require_text
from barnabas.coordinator.group.streams.configured_topology import ConfiguredSubtopology
from barnabas.coordinator.group.streams.streams_group_member import StreamsGroupMember
from barnabas.coordinator.group.streams.tasks import EpochTasks, Tasks
from barnabas.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest, TaskIds, Topology

__all__ = ["named_topics", "validate_heartbeat", "validate_member_epoch", "validate_owned_tasks", "validate_topics"]

_LEAVE_STATIC_EPOCH = -2
_NO_TIMEOUT = -1


def validate_heartbeat(request: StreamsGroupHeartbeatRequest) -> None:
    """Raise ApiException if the request contradicts itself, or uses what is not supported."""
    _refuse_unsupported(request)
    require_text(request.member_id, "MemberId can't be empty.")
    require_text(request.group_id, "GroupId can't be empty.")
    require_text(request.rack_id, "RackId can't be empty.")
    if request.member_epoch == JOIN_EPOCH:
        _validate_join(request)
    elif request.member_epoch == _LEAVE_STATIC_EPOCH:
        raise _invalid("InstanceId can't be null.")
    elif request.member_epoch < _LEAVE_STATIC_EPOCH:
        raise _invalid(f"MemberEpoch is {request.member_epoch}, but must be greater than or equal to -2.")
    tasks = (request.active_tasks, request.standby_tasks, request.warmup_tasks)
    if None in tasks and any(ids is not None for ids in tasks):
        raise _invalid("If one task-type is non-null, all must be non-null.")
    if request.member_epoch != JOIN_EPOCH and request.topology is not None:
        raise _invalid("Topology can only be provided when (re-)joining.")


def _refuse_unsupported(request: StreamsGroupHeartbeatRequest) -> None:
    if request.instance_id is not None:
        raise _invalid("Static membership is not yet supported.")
    if request.task_offsets is not None:
        raise _invalid("TaskOffsets are not supported yet.")
    if request.task_end_offsets is not None:
        raise _invalid("TaskEndOffsets are not supported yet.")
    if request.warmup_tasks:
        raise _invalid("WarmupTasks are not supported yet.")
    if request.topology is not None:
        if any(subtopology.source_topic_regex for subtopology in request.topology.subtopologies):
            raise _invalid("Regular expressions for source topics are not supported yet.")


def _validate_join(request: StreamsGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == _NO_TIMEOUT:
        raise _invalid("RebalanceTimeoutMs must be provided in first request.")
    for name, ids in (
        ("ActiveTasks", request.active_tasks),
        ("StandbyTasks", request.standby_tasks),
        ("WarmupTasks", request.warmup_tasks),
    ):
        if ids is None or ids:
            raise _invalid(f"{name} must be empty when (re-)joining.")
    if request.topology is None:
        raise _invalid("Topology must be non-null when (re-)joining.")
    for subtopology in request.topology.subtopologies:
        for topic in subtopology.state_changelog_topics:
            if topic.partitions != 0:
                raise ApiException(
                    ErrorCode.STREAMS_INVALID_TOPOLOGY,
                    f"Changelog topic {topic.name} must have an undefined partition count, but it is set to "
                    f"{topic.partitions}.",
                )


def named_topics(topology: Topology) -> list[str]:
    """Return every topic that a topology names, once."""
    names: dict[str, None] = {}
    for subtopology in topology.subtopologies:
        names.update(dict.fromkeys(subtopology.source_topics))
        names.update(dict.fromkeys(subtopology.repartition_sink_topics))
        names.update(dict.fromkeys(topic.name for topic in subtopology.repartition_source_topics))
        names.update(dict.fromkeys(topic.name for topic in subtopology.state_changelog_topics))
    return list(names)


def validate_topics(names: Sequence[str]) -> None:
    """Raise ApiException if a topology names a topic of the cluster itself, or an impossible one."""
    prohibited = [name for name in names if name in INTERNAL_TOPIC_NAMES]
    if prohibited:
        raise ApiException(
            ErrorCode.STREAMS_INVALID_TOPOLOGY,
            f"Use of Kafka internal topics {','.join(prohibited)} in a Kafka Streams topology is prohibited.",
        )
    invalid = [name for name in names if topic_name_problem(name) is not None]
    if invalid:
        raise ApiException(
            ErrorCode.STREAMS_INVALID_TOPOLOGY, f"Topic names {','.join(invalid)} are not valid topic names."
        )


def validate_owned_tasks(
    subtopologies: Mapping[str, ConfiguredSubtopology], task_ids: Sequence[TaskIds] | None
) -> None:
    """Raise ApiException if a member reports a task that the topology does not have."""
    for ids in task_ids or ():
        subtopology = subtopologies.get(ids.subtopology_id)
        if subtopology is None:
            raise _invalid(f"Subtopology {ids.subtopology_id} does not exist in the topology.")
        for partition in ids.partitions:
            if not 0 <= partition < subtopology.task_count:
                raise _invalid(
                    f"Task {partition} for subtopology {ids.subtopology_id} is invalid. Number of tasks for this "
                    f"subtopology: {subtopology.task_count}"
                )


def validate_member_epoch(member: StreamsGroupMember, request: StreamsGroupHeartbeatRequest) -> None:
    """Raise ApiException if the member has missed a change of its epoch, other than by the loss of the last answer."""
    epoch = request.member_epoch
    if epoch in (JOIN_EPOCH, member.member_epoch):
        return
    relation = "greater" if epoch > member.member_epoch else "smaller"
    missed_answer = epoch == member.previous_member_epoch and _has_only_assigned(member, request)
    if relation == "greater" or not missed_answer:
        raise ApiException(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"The streams group member has a {relation} member epoch ({epoch}) than the one known by the group "
            f"coordinator ({member.member_epoch}). The member must abandon all its partitions and rejoin.",
        )


def _has_only_assigned(member: StreamsGroupMember, request: StreamsGroupHeartbeatRequest) -> bool:
    assigned = member.assigned_tasks
    return (
        _contains(assigned.active, request.active_tasks)
        and _contains(assigned.standby, request.standby_tasks)
        and _contains(assigned.warmup, request.warmup_tasks)
    )


def _contains(assigned: Tasks | EpochTasks, owned: Sequence[TaskIds] | None) -> bool:
    if owned is None:
        return False
    return all(
        ids.subtopology_id in assigned and set(ids.partitions).issubset(assigned[ids.subtopology_id]) for ids in owned
    )


def _invalid(message: str) -> ApiException:
    return ApiException(ErrorCode.INVALID_REQUEST, message)
