"""The requests of a member of a streams group (KIP-1071), its tasks, and the meaning of errors and statuses."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from barnabas.common.errors import ErrorCode
from barnabas.coordinator.group.streams.heartbeat_status import HeartbeatStatus
from barnabas.protocol.messages import streams_group_heartbeat as heartbeats
from tests.simulation.cluster.consumer_group_checks import TopicPartition
from tests.simulation.cluster.streams_group_shape import COUNTER, READER, StreamsMemberShape, TopologyShape

__all__ = [
    "NOT_READY",
    "RETRIED",
    "STANDBY",
    "add_tasks",
    "heartbeat",
    "is_join",
    "join",
    "leave",
    "task_of",
    "tasks_of",
]

RETRIED = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)
NOT_READY = frozenset({HeartbeatStatus.MISSING_SOURCE_TOPICS, HeartbeatStatus.INCORRECTLY_PARTITIONED_TOPICS})
"""Statuses of a group that assigns no tasks, and that the broker does not change by itself."""
LEAVES = -1
STANDBY = "standby "
"""Precedes the subtopology in the names of standby tasks."""


def heartbeat(shape: StreamsMemberShape, member_id: str, epoch: int, endpoint_epoch: int = -1) -> Any:
    return heartbeats.StreamsGroupHeartbeatRequest(
        group_id=shape.group, member_id=member_id, member_epoch=epoch, endpoint_information_epoch=endpoint_epoch
    )


def join(shape: StreamsMemberShape, member_id: str, rebalance_ms: int, replicas: int) -> Any:
    """``replicas`` are those of the topics that the broker creates."""
    request = heartbeat(shape, member_id, 0)
    request.topology = _topology(shape.topology, replicas)
    add_process(request, shape, rebalance_ms)
    add_tasks(request, ())
    return request


def is_join(request: Any) -> bool:
    return isinstance(request, heartbeats.StreamsGroupHeartbeatRequest) and request.member_epoch == 0


def leave(shape: StreamsMemberShape, member_id: str) -> Any:
    return heartbeat(shape, member_id, LEAVES)


def add_process(request: Any, shape: StreamsMemberShape, rebalance_ms: int) -> None:
    request.rebalance_timeout_ms = rebalance_ms
    request.process_id = shape.instance
    if shape.has_endpoint:
        request.user_endpoint = heartbeats.Endpoint(host=shape.instance, port=8080)


def _topology(shape: TopologyShape, replicas: int) -> Any:
    repartition = heartbeats.TopicInfo(name=shape.repartition_topic, replication_factor=replicas)
    changelog = heartbeats.TopicInfo(name=shape.changelog_topic, replication_factor=replicas)
    subtopologies = [
        heartbeats.Subtopology(
            subtopology_id=READER,
            source_topics=list(shape.sources),
            repartition_sink_topics=[shape.repartition_topic] * shape.repartitions,
        )
    ]
    if shape.repartitions:
        subtopologies.append(heartbeats.Subtopology(subtopology_id=COUNTER, repartition_source_topics=[repartition]))
    if shape.is_stateful:
        subtopologies[-1].state_changelog_topics = [changelog]
    return heartbeats.Topology(epoch=0, subtopologies=subtopologies)


# --- tasks: an active task is named like its subtopology, a standby task has another name


def add_tasks(request: Any, tasks: Iterable[TopicPartition]) -> None:
    active: dict[str, list[int]] = {}
    standby: dict[str, list[int]] = {}
    for name, index in sorted(tasks):
        of_role = standby if name.startswith(STANDBY) else active
        of_role.setdefault(name.removeprefix(STANDBY), []).append(index)
    request.active_tasks, request.standby_tasks, request.warmup_tasks = _ids(active), _ids(standby), []


def _ids(tasks: dict[str, list[int]]) -> list[Any]:
    return [heartbeats.TaskIds(subtopology_id=name, partitions=indexes) for name, indexes in tasks.items()]


def tasks_of(answer: Any) -> frozenset[TopicPartition] | None:
    """Return the tasks that a member shall have, None if the answer does not say."""
    if answer.active_tasks is None:
        return None
    active = (TopicPartition(ids.subtopology_id, index) for ids in answer.active_tasks for index in ids.partitions)
    standby = (
        TopicPartition(f"{STANDBY}{ids.subtopology_id}", index)
        for ids in answer.standby_tasks
        for index in ids.partitions
    )
    return frozenset((*active, *standby))


def task_of(held: TopicPartition) -> TopicPartition:
    """Return the task without its role."""
    return TopicPartition(held.topic.removeprefix(STANDBY), held.partition)
