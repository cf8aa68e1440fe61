"""``sticky``: the task assignor of streams groups (KIP-1071).

A task first returns to the member that had it, if that member has less than its share of the active tasks. Otherwise a
member with a standby of it receives it, or else the process with the lowest load: the number of tasks for each of its
members. Standby tasks are assigned in the same way, never to a process that already has the task. Kafka 4.3 assigns no
warm-up tasks, and considers neither racks nor client tags.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from barnabas.common.stepped_sort import sorted_in_steps
from barnabas.common.steps import whole
from barnabas.coordinator.group.assignor.group_spec import Steps, WorkMeter, cleared
from barnabas.coordinator.group.assignor.hash_order import (
    SpreadHashes,
    grown_capacity,
    hash_order_in_steps,
    java_sort_key,
    table_size,
)
from barnabas.coordinator.group.assignor.priority_queue import PriorityQueue
from barnabas.coordinator.group.assignor.process_state import ProcessState, TaskId
from barnabas.coordinator.group.assignor.task_group_spec import (
    MemberTasks,
    StreamsMember,
    Subtopology,
    TaskAssignorError,
    TaskGroupSpec,
    Tasks,
)
from barnabas.coordinator.partitioner import java_string_hash

__all__ = ["StickyTaskAssignor"]


class StickyTaskAssignor:
    name = "sticky"

    def assign(self, spec: TaskGroupSpec, subtopologies: Mapping[str, Subtopology]) -> dict[str, MemberTasks]:
        """Compute the target assignment of all members. Raise TaskAssignorError."""
        return whole(self.assign_in_steps(spec, subtopologies))

    def assign_in_steps(
        self, spec: TaskGroupSpec, subtopologies: Mapping[str, Subtopology]
    ) -> Steps[dict[str, MemberTasks]]:
        """Do the same in steps of a few milliseconds."""
        members = yield from spec.ordered_members()
        return (yield from _TaskAssignment(members, subtopologies, spec.standby_replicas).build())


class _Holder(NamedTuple):
    """A member that had a task."""

    process: ProcessState
    member_id: str


class _Quota:
    """How many tasks each member may have. When a member has as many, the other members share the rest."""

    def __init__(self, task_count: int, member_count: int) -> None:
        self._task_count = task_count
        self._member_count = member_count
        self.per_member = self._share()

    def count(self, member_task_count: int) -> None:
        """Count a task that a member received. The number is that of all its tasks."""
        if member_task_count == self.per_member:
            self._member_count -= 1
            self._task_count -= member_task_count
            self.per_member = self._share()

    def _share(self) -> int:
        if self._task_count <= 0 or self._member_count == 0:
            return 0
        return -(-self._task_count // self._member_count)


class _TaskAssignment:
    def __init__(
        self, members: Mapping[str, StreamsMember], subtopologies: Mapping[str, Subtopology], standby_replicas: int
    ) -> None:
        self._members = members
        self._subtopology_ids = sorted(subtopologies, key=java_sort_key)
        self._subtopologies = [subtopologies[subtopology_id] for subtopology_id in self._subtopology_ids]
        self._standby_replicas = standby_replicas
        active_count = sum(subtopology.task_count for subtopology in self._subtopologies)
        stateful_count = sum(subtopology.task_count for subtopology in self._subtopologies if subtopology.is_stateful)
        self._active_quota = _Quota(active_count, len(members))
        self._quota = _Quota(active_count + stateful_count * standby_replicas, len(members))
        self._processes: dict[str, ProcessState] = {}
        self._previous_active: dict[TaskId, _Holder] = {}
        self._previous_standby: dict[TaskId, list[_Holder]] = {}
        self._meter = WorkMeter()

    def build(self) -> Steps[dict[str, MemberTasks]]:
        yield from self._collect_members()
        yield from self._assign_active()
        if self._standby_replicas > 0:
            yield from self._assign_standby()
        return (yield from self._result())

    # -- what members have

    def _collect_members(self) -> Steps[None]:
        numbers = {subtopology_id: number for number, subtopology_id in enumerate(self._subtopology_ids)}
        spread = SpreadHashes(java_string_hash)
        for member_id, member in self._members.items():
            process = self._processes.get(member.process_id)
            if process is None:
                self._processes[member.process_id] = process = ProcessState(spread)
            process.add_member(member_id)
            holder = _Holder(process, member_id)
            for task in _task_ids(member.assigned.active, numbers):
                self._previous_active[task] = holder
                if self._meter.is_full(1):
                    yield
            for task in _task_ids(member.assigned.standby, numbers):
                self._previous_standby.setdefault(task, []).append(holder)
                if self._meter.is_full(1):
                    yield
            if self._meter.is_full(1):
                yield

    # -- active tasks

    def _assign_active(self) -> Steps[None]:
        waiting: list[TaskId] = []
        for task in self._tasks_by_partition(range(len(self._subtopologies))):
            holder = self._previous_active.get(task)
            if holder is None or not self._give_active(task, holder):
                waiting.append(task)
            if self._meter.is_full(1):
                yield
        left: list[TaskId] = []
        for task in waiting:
            holder = _least_loaded(self._previous_standby.get(task))
            if holder is None or not self._give_active(task, holder):
                left.append(task)
            if self._meter.is_full(1):
                yield
        yield from self._assign_active_to_least_loaded((yield from sorted_in_steps(left)))

    def _give_active(self, task: TaskId, holder: _Holder) -> bool:
        """Give a member a task if it has less than its share."""
        if holder.process.task_counts[holder.member_id] >= self._active_quota.per_member:
            return False
        self._count_active(holder.process.add_task(holder.member_id, task, is_active=True))
        return True

    def _assign_active_to_least_loaded(self, tasks: Sequence[TaskId]) -> Steps[None]:
        queue = yield from self._processes_by_load()
        for task in tasks:
            if not queue:
                raise TaskAssignorError(f"no process available to assign active task {self._name(task)}")
            process = queue.poll()
            self._count_active(process.add_task_to_least_loaded_member(task, is_active=True))
            queue.add(process.load, process)
            if self._meter.is_full(2):
                yield

    def _count_active(self, member_task_count: int) -> None:
        self._active_quota.count(member_task_count)
        self._quota.count(member_task_count)

    # -- standby tasks

    def _assign_standby(self) -> Steps[None]:
        stateful = [number for number, subtopology in enumerate(self._subtopologies) if subtopology.is_stateful]
        missing: list[tuple[TaskId, int]] = []
        for task in reversed(list(self._tasks_by_partition(stateful))):
            given = 0
            while given < self._standby_replicas and self._give_standby(task):
                given += 1
            if given < self._standby_replicas:
                missing.append((task, self._standby_replicas - given))
            if self._meter.is_full(1 + 2 * given):
                yield
        missing = yield from sorted_in_steps(missing)
        queue = yield from self._processes_by_load()
        for task, count in reversed(missing):
            while count > 0 and self._give_standby_to_least_loaded(task, queue):
                count -= 1
            if self._meter.is_full(4):
                yield

    def _give_standby(self, task: TaskId) -> bool:
        """Give a task to the member that had it as active, or as standby."""
        holder = self._previous_active.get(task)
        if holder is not None and task not in holder.process.tasks and self._has_room(holder):
            self._quota.count(holder.process.add_task(holder.member_id, task, is_active=False))
            return True
        holder = _least_loaded(self._previous_standby.get(task), without=task)
        if holder is not None and self._has_room(holder):
            self._quota.count(holder.process.add_task(holder.member_id, task, is_active=False))
            return True
        return False

    def _has_room(self, holder: _Holder) -> bool:
        return holder.process.task_counts[holder.member_id] < self._quota.per_member

    def _give_standby_to_least_loaded(self, task: TaskId, queue: PriorityQueue[ProcessState]) -> bool:
        """Give a task to the process with the lowest load that does not have it. Return whether one was found."""
        passed: list[ProcessState] = []
        has_given = False
        while queue and not has_given:
            process = queue.poll()
            passed.append(process)
            if task not in process.tasks:
                self._quota.count(process.add_task_to_least_loaded_member(task, is_active=False))
                has_given = True
        for process in reversed(passed):
            queue.add(process.load, process)
        return has_given

    # -- helpers

    def _tasks_by_partition(self, numbers: Iterable[int]) -> Iterable[TaskId]:
        """Return the tasks of these subtopologies in the order of partitions."""
        counts = [(number, self._subtopologies[number].task_count) for number in numbers]
        for partition in range(max((count for _, count in counts), default=0)):
            for number, count in counts:
                if partition < count:
                    yield number, partition

    def _processes_by_load(self) -> Steps[PriorityQueue[ProcessState]]:
        capacity = grown_capacity(len(self._processes), table_size(len(self._members)))
        in_order = yield from hash_order_in_steps(list(self._processes), SpreadHashes(java_string_hash), capacity)
        queue: PriorityQueue[ProcessState] = PriorityQueue()
        for process_id in in_order:
            process = self._processes[process_id]
            queue.add(process.load, process)
            if self._meter.is_full(1):
                yield
        return queue

    def _name(self, task: TaskId) -> str:
        return f"{self._subtopology_ids[task[0]]}_{task[1]}"

    def _result(self) -> Steps[dict[str, MemberTasks]]:
        yield from cleared(self._previous_active)
        yield from cleared(self._previous_standby)
        assigned: dict[str, MemberTasks] = {}
        for member_id, member in self._members.items():
            process = self._processes[member.process_id]
            active = process.active.pop(member_id, [])
            standby = process.standby.pop(member_id, [])
            assigned[member_id] = MemberTasks(self._partitions(active), self._partitions(standby))
            if self._meter.is_full(2 + len(active) + len(standby)):
                yield
        yield from cleared(self._processes)
        return assigned

    def _partitions(self, tasks: Iterable[TaskId]) -> Tasks:
        partitions: dict[int, list[int]] = {}
        for number, partition in tasks:
            partitions.setdefault(number, []).append(partition)
        return {self._subtopology_ids[number]: frozenset(partitions[number]) for number in sorted(partitions)}


def _task_ids(tasks: Tasks, numbers: Mapping[str, int]) -> Iterator[TaskId]:
    """Return the tasks of subtopologies that exist."""
    for subtopology_id, partitions in tasks.items():
        number = numbers.get(subtopology_id)
        if number is not None:
            for partition in partitions:
                yield number, partition


def _least_loaded(holders: Sequence[_Holder] | None, *, without: TaskId | None = None) -> _Holder | None:
    """Return the member whose process and itself have the lowest load, except those whose process has the task.

    As in Kafka, the result is None if the process of the first member has the task, even if another process has not.
    """
    if not holders:
        return None
    first = best = holders[0]
    for holder in holders[1:]:
        if (
            holder.process.load < best.process.load
            and (without is None or without not in holder.process.tasks)
            and holder.process.task_counts[holder.member_id] < best.process.task_counts[best.member_id]
        ):
            best = holder
    return None if without is not None and without in first.process.tasks else best
