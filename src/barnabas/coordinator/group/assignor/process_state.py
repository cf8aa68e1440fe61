"""The members of one process of a streams application, and the tasks that they receive."""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.coordinator.group.assignor.hash_order import grown_capacity, hash_order
from barnabas.coordinator.group.assignor.priority_queue import PriorityQueue

__all__ = ["ProcessState", "TaskId"]

TaskId = tuple[int, int]
"""The number of the subtopology, in the order of their ids, and the partition."""


class ProcessState:
    """``load`` is the number of tasks for each member. ``spread`` has the hashes of member ids."""

    __slots__ = ("_members_by_load", "_spread", "active", "load", "standby", "task_count", "task_counts", "tasks")

    def __init__(self, spread: Mapping[str, int]) -> None:
        self._spread = spread
        self.load = 0.0
        self.task_count = 0
        self.task_counts: dict[str, int] = {}
        """The number of tasks of each member."""
        self.tasks: set[TaskId] = set()
        self.active: dict[str, list[TaskId]] = {}
        self.standby: dict[str, list[TaskId]] = {}
        self._members_by_load: PriorityQueue[str] | None = None

    def add_member(self, member_id: str) -> None:
        self.task_counts[member_id] = 0
        self._compute_load()

    def add_task(self, member_id: str, task: TaskId, *, is_active: bool) -> int:
        """Return how many tasks the member now has."""
        self._members_by_load = None
        return self._add_task(member_id, task, is_active=is_active)

    def add_task_to_least_loaded_member(self, task: TaskId, *, is_active: bool) -> int:
        """Return how many tasks the member that received it now has."""
        if len(self.task_counts) == 1:
            return self._add_task(next(iter(self.task_counts)), task, is_active=is_active)
        if self._members_by_load is None:
            self._members_by_load = self._queue()
        member_id = self._members_by_load.poll()
        count = self._add_task(member_id, task, is_active=is_active)
        self._members_by_load.add(count, member_id)
        return count

    def _queue(self) -> PriorityQueue[str]:
        queue: PriorityQueue[str] = PriorityQueue()
        for member_id in hash_order(self.task_counts, self._spread, grown_capacity(len(self.task_counts))):
            queue.add(self.task_counts[member_id], member_id)
        return queue

    def _add_task(self, member_id: str, task: TaskId, *, is_active: bool) -> int:
        self.task_count += 1
        self.tasks.add(task)
        (self.active if is_active else self.standby).setdefault(member_id, []).append(task)
        count = self.task_counts[member_id] + 1
        self.task_counts[member_id] = count
        self._compute_load()
        return count

    def _compute_load(self) -> None:
        self.load = self.task_count / len(self.task_counts)
