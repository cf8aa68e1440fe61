"""Which processes have the tasks of a group now, by task and role: kept up to date with the members.

As in Kafka, a task that two members of one process have in one role is counted once, so it is free when the first of
them gives it up. Assignments don't do this: the members of a process share its stores.
"""

from __future__ import annotations

from collections.abc import Set

from barnabas.coordinator.group.streams.streams_group_member import StreamsGroupMember
from barnabas.coordinator.group.streams.tasks import Tasks, TasksTupleWithEpochs

__all__ = ["TaskProcessIndex"]

_Task = tuple[str, int]
_NONE: frozenset[str] = frozenset()


class TaskProcessIndex:
    """A member has its assigned tasks and those that it has yet to give up."""

    def __init__(self) -> None:
        self._active: dict[_Task, str] = {}
        self._standby: dict[_Task, set[str]] = {}
        self._warmup: dict[_Task, set[str]] = {}

    def active(self, subtopology_id: str, partition: int) -> str | None:
        return self._active.get((subtopology_id, partition))

    def standby(self, subtopology_id: str, partition: int) -> Set[str]:
        return self._standby.get((subtopology_id, partition), _NONE)

    def warmup(self, subtopology_id: str, partition: int) -> Set[str]:
        return self._warmup.get((subtopology_id, partition), _NONE)

    def update(self, old: StreamsGroupMember | None, new: StreamsGroupMember | None) -> None:
        """Replace a member; ``old`` is None for one that is new to the group, ``new`` for one that has left it."""
        if old is not None:
            self._remove(old.assigned_tasks, old.process_id)
            self._remove(old.tasks_pending_revocation, old.process_id)
        if new is not None:
            self._add(new.assigned_tasks, new.process_id)
            self._add(new.tasks_pending_revocation, new.process_id)

    def _remove(self, tasks: TasksTupleWithEpochs, process_id: str) -> None:
        for subtopology_id, epochs in tasks.active.items():
            for partition in epochs:
                if self._active.get((subtopology_id, partition)) == process_id:
                    del self._active[subtopology_id, partition]
        _remove_from(self._standby, tasks.standby, process_id)
        _remove_from(self._warmup, tasks.warmup, process_id)

    def _add(self, tasks: TasksTupleWithEpochs, process_id: str) -> None:
        for subtopology_id, epochs in tasks.active.items():
            for partition in epochs:
                self._active[subtopology_id, partition] = process_id
        _add_to(self._standby, tasks.standby, process_id)
        _add_to(self._warmup, tasks.warmup, process_id)


def _remove_from(processes: dict[_Task, set[str]], tasks: Tasks, process_id: str) -> None:
    for subtopology_id, partitions in tasks.items():
        for partition in partitions:
            of_task = processes.get((subtopology_id, partition))
            if of_task is not None:
                of_task.discard(process_id)
                if not of_task:
                    del processes[subtopology_id, partition]


def _add_to(processes: dict[_Task, set[str]], tasks: Tasks, process_id: str) -> None:
    for subtopology_id, partitions in tasks.items():
        for partition in partitions:
            processes.setdefault((subtopology_id, partition), set()).add(process_id)
