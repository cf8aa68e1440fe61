"""What Kafka refuses in a StreamsGroupHeartbeat, each with the error of Kafka and a reason.

Some parts of KIP-1071 are not in Kafka 4.3 yet: static members, warm-up tasks, offsets of tasks, and patterns of source
topics. It refuses them by name, and so do we.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.topic_name import INTERNAL_TOPIC_NAMES, topic_name_problem
from barnabas.coordinator.group.streams.configured_topology import ConfiguredSubtopology
from barnabas.coordinator.group.streams.streams_group_member import StreamsGroupMember
from barnabas.coordinator.group.streams.tasks import EpochTasks, Tasks
from barnabas.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest, TaskIds, Topology

__all__ = ["named_topics", "validate_heartbeat", "validate_member_epoch", "validate_owned_tasks", "validate_topics"]

JOIN_EPOCH = 0
_LEAVE_STATIC_EPOCH = -2
_NO_TIMEOUT = -1
_BLANKS = "".join(map(chr, range(0x21)))


def validate_heartbeat(request: StreamsGroupHeartbeatRequest) -> None:
    """Raise ApiException if the request contradicts itself, or uses what is not supported."""
    _refuse_unsupported(request)
    for name, value in (("MemberId", request.member_id), ("GroupId", request.group_id), ("RackId", request.rack_id)):
        if value is not None and not value.strip(_BLANKS):
            raise _invalid(f"{name} can't be empty.")
    if request.member_epoch == JOIN_EPOCH:
        _validate_join(request)
    elif request.member_epoch <= _LEAVE_STATIC_EPOCH:
        raise _invalid(f"MemberEpoch {request.member_epoch} is neither -1, which leaves the group, nor greater.")
    tasks = (request.active_tasks, request.standby_tasks, request.warmup_tasks)
    if None in tasks and any(ids is not None for ids in tasks):
        raise _invalid("ActiveTasks, StandbyTasks and WarmupTasks must be sent together.")
    if request.member_epoch != JOIN_EPOCH and request.topology is not None:
        raise _invalid("A Topology can only be sent by a member that joins.")


def _refuse_unsupported(request: StreamsGroupHeartbeatRequest) -> None:
    if request.instance_id is not None:
        raise _invalid("Static members (InstanceId) are not supported in streams groups.")
    if request.task_offsets is not None or request.task_end_offsets is not None:
        raise _invalid("TaskOffsets and TaskEndOffsets are not supported.")
    if request.warmup_tasks:
        raise _invalid("WarmupTasks are not supported.")
    if request.topology is not None:
        if any(subtopology.source_topic_regex for subtopology in request.topology.subtopologies):
            raise _invalid("SourceTopicRegex is not supported: name the source topics.")


def _validate_join(request: StreamsGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == _NO_TIMEOUT:
        raise _invalid("A member that joins must send its RebalanceTimeoutMs.")
    for ids in (request.active_tasks, request.standby_tasks, request.warmup_tasks):
        if ids is None or ids:
            raise _invalid("A member that joins must send empty ActiveTasks, StandbyTasks and WarmupTasks.")
    if request.topology is None:
        raise _invalid("A member that joins must send its Topology.")
    for subtopology in request.topology.subtopologies:
        for topic in subtopology.state_changelog_topics:
            if topic.partitions != 0:
                raise ApiException(
                    ErrorCode.STREAMS_INVALID_TOPOLOGY,
                    f"Changelog topic {topic.name} must not have a partition count, but has {topic.partitions}: it "
                    "follows from the tasks.",
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
            ErrorCode.STREAMS_INVALID_TOPOLOGY, f"A topology can't use the internal topics {', '.join(prohibited)}."
        )
    invalid = [name for name in names if topic_name_problem(name) is not None]
    if invalid:
        raise ApiException(ErrorCode.STREAMS_INVALID_TOPOLOGY, f"These are not names of topics: {', '.join(invalid)}.")


def validate_owned_tasks(
    subtopologies: Mapping[str, ConfiguredSubtopology], task_ids: Sequence[TaskIds] | None
) -> None:
    """Raise ApiException if a member reports a task that the topology does not have."""
    for ids in task_ids or ():
        subtopology = subtopologies.get(ids.subtopology_id)
        if subtopology is None:
            raise _invalid(f"The topology has no subtopology {ids.subtopology_id}.")
        for partition in ids.partitions:
            if not 0 <= partition < subtopology.task_count:
                raise _invalid(
                    f"Subtopology {ids.subtopology_id} has no task {partition}, only {subtopology.task_count} tasks."
                )


def validate_member_epoch(member: StreamsGroupMember, request: StreamsGroupHeartbeatRequest) -> None:
    """Raise ApiException if the member has missed a change of its epoch, other than by the loss of the last answer."""
    epoch = request.member_epoch
    if epoch in (JOIN_EPOCH, member.member_epoch):
        return
    if epoch == member.previous_member_epoch and epoch < member.member_epoch and _has_only_assigned(member, request):
        return
    raise ApiException(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The member has epoch {epoch}, but the group coordinator knows it with epoch {member.member_epoch}. It must "
        "give up its tasks and rejoin.",
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
