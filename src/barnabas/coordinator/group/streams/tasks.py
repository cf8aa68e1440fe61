"""Tasks: a task is a partition of a subtopology. Active tasks process records, standby tasks only follow the changelogs
of an active task, and warm-up tasks do so until they can take over."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import NamedTuple, Protocol

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.protocol.messages import streams_group_heartbeat as heartbeat

__all__ = [
    "NO_TASKS",
    "NO_TASKS_WITH_EPOCHS",
    "EpochTasks",
    "Tasks",
    "TasksTuple",
    "TasksTupleWithEpochs",
    "owned_tasks",
    "sorted_tasks",
    "tasks_of",
]

Tasks = Mapping[str, Set[int]]
"""The partitions of tasks by subtopology."""

EpochTasks = Mapping[str, Mapping[int, int]]
"""The same for active tasks, with the epoch at which the member received each of them."""


class TasksTupleWithEpochs(NamedTuple):
    """What a member has. An offset commit with an older epoch is valid for tasks that the member received before."""

    active: EpochTasks
    standby: Tasks
    warmup: Tasks

    @property
    def is_empty(self) -> bool:
        return not (self.active or self.standby or self.warmup)

    def merged(self, other: TasksTupleWithEpochs) -> TasksTupleWithEpochs:
        active = {subtopology_id: dict(epochs) for subtopology_id, epochs in self.active.items()}
        for subtopology_id, epochs in other.active.items():
            active.setdefault(subtopology_id, {}).update(epochs)
        return TasksTupleWithEpochs(active, _merged(self.standby, other.standby), _merged(self.warmup, other.warmup))


class TasksTuple(NamedTuple):
    """What a member is to have, or what it reports to own."""

    active: Tasks
    standby: Tasks
    warmup: Tasks

    @property
    def is_empty(self) -> bool:
        return not (self.active or self.standby or self.warmup)

    def has_the_tasks_of(self, other: TasksTupleWithEpochs) -> bool:
        """Return whether it has the same tasks, in the same roles."""
        active = {subtopology_id: epochs.keys() for subtopology_id, epochs in other.active.items()}
        return _are_equal(self.active, active) and (
            _are_equal(self.standby, other.standby) and _are_equal(self.warmup, other.warmup)
        )

    def contains_any(self, other: TasksTupleWithEpochs) -> bool:
        """Return whether it has one of the other's tasks, in the same role."""
        return (
            any(not partitions.isdisjoint(other.active.get(id_, ())) for id_, partitions in self.active.items())
            or any(not partitions.isdisjoint(other.standby.get(id_, ())) for id_, partitions in self.standby.items())
            or any(not partitions.isdisjoint(other.warmup.get(id_, ())) for id_, partitions in self.warmup.items())
        )


NO_TASKS = TasksTuple({}, {}, {})
NO_TASKS_WITH_EPOCHS = TasksTupleWithEpochs({}, {}, {})


class _TaskIds(Protocol):
    """The declarations of five messages that name tasks."""

    subtopology_id: str
    partitions: list[int]


def tasks_of(task_ids: Iterable[_TaskIds]) -> dict[str, Set[int]]:
    return {ids.subtopology_id: frozenset(ids.partitions) for ids in task_ids}


def sorted_tasks(tasks: Mapping[str, Iterable[int]]) -> list[tuple[str, list[int]]]:
    """Return subtopologies and partitions in the order that records and answers have."""
    return [(subtopology_id, sorted(tasks[subtopology_id])) for subtopology_id in sorted(tasks)]


def owned_tasks(request: heartbeat.StreamsGroupHeartbeatRequest) -> TasksTuple | None:
    """Return the tasks that a member reports to own, None if it does not report them this time."""
    if request.active_tasks is None or request.standby_tasks is None or request.warmup_tasks is None:
        return None
    return TasksTuple(*(_without_repetition(ids) for ids in
                        (request.active_tasks, request.standby_tasks, request.warmup_tasks)))  # fmt: skip


def _without_repetition(task_ids: Sequence[heartbeat.TaskIds]) -> dict[str, Set[int]]:
    tasks = tasks_of(task_ids)
    if len(tasks) < len(task_ids):
        raise ApiException(ErrorCode.UNKNOWN_SERVER_ERROR, "The tasks of a subtopology are listed twice.")
    return tasks


def _are_equal(tasks: Tasks, other: Tasks) -> bool:
    return all(tasks.get(id_, frozenset()) == other.get(id_, frozenset()) for id_ in tasks.keys() | other.keys())


def _merged(tasks: Tasks, other: Tasks) -> Tasks:
    if not other:
        return tasks
    merged = dict(tasks)
    for subtopology_id, partitions in other.items():
        merged[subtopology_id] = merged.get(subtopology_id, frozenset()) | partitions
    return merged
