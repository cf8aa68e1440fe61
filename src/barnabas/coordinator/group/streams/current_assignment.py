"""Reconciles a member with its target assignment, one step at a time.

A member first gives up the tasks that it is not to have any more, and keeps its epoch until a heartbeat shows that it
owns none of them. Then it moves to the epoch of the target, and receives its new tasks as they become free: an active
task when no process has it, and a standby or warm-up task when its own process does not have it in any role. So an
active task never runs twice, and a process never opens the stores of a task twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from typing import NamedTuple, Protocol

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.coordinator.group.streams.streams_group_member import MemberState, StreamsGroupMember
from barnabas.coordinator.group.streams.tasks import (
    NO_TASKS_WITH_EPOCHS,
    EpochTasks,
    Tasks,
    TasksTuple,
    TasksTupleWithEpochs,
)

__all__ = ["TaskProcesses", "next_assignment"]

_IsUnreleased = Callable[[str, int], bool]


class TaskProcesses(Protocol):
    """Which processes have a task now, in each role."""

    def active(self, subtopology_id: str, partition: int) -> str | None: ...

    def standby(self, subtopology_id: str, partition: int) -> Set[str]: ...

    def warmup(self, subtopology_id: str, partition: int) -> Set[str]: ...


def next_assignment(
    member: StreamsGroupMember,
    *,
    target_epoch: int,
    target: TasksTuple,
    owned: TasksTuple | None,
    processes: TaskProcesses,
) -> StreamsGroupMember:
    """Return the member after its next step, or the same member if it must wait.

    ``owned`` are the tasks that its heartbeat reports, None if it reports none. Raises ApiException for a member in an
    unknown state that does not report to have given up everything.
    """
    step = _Step(member, target_epoch, target, owned, processes)
    match member.state:
        case MemberState.STABLE:
            return member if member.member_epoch == target_epoch else step.take(member.member_epoch)
        case MemberState.UNREVOKED_TASKS:
            if owned is None or owned.contains_any(member.tasks_pending_revocation):
                return member
            # The next epoch shows that the revocation is complete. A further one may follow before the target's epoch.
            return step.take(member.member_epoch + 1)
        case MemberState.UNRELEASED_TASKS:
            return step.take(member.member_epoch)
        case MemberState.UNKNOWN:
            if owned is None or not owned.is_empty:
                raise ApiException(
                    ErrorCode.FENCED_MEMBER_EPOCH,
                    "The streams group member is in a unknown state. The member must abandon all its tasks and rejoin.",
                )
            return step.take(target_epoch)


class _Step(NamedTuple):
    member: StreamsGroupMember
    target_epoch: int
    target: TasksTuple
    owned: TasksTuple | None
    processes: TaskProcesses

    def take(self, epoch_while_revoking: int) -> StreamsGroupMember:
        current = self.member.assigned_tasks
        active = _active_difference(current.active, self.target.active, self.target_epoch, self._is_active_unreleased)
        standby = _difference(current.standby, self.target.standby, self._has_own_process)
        warmup = _difference(current.warmup, self.target.warmup, self._has_own_process)
        kept = TasksTupleWithEpochs(active.kept, standby.kept, warmup.kept)
        revoked = TasksTupleWithEpochs(active.revoked, standby.revoked, warmup.revoked)
        if not revoked.is_empty and (self.owned is None or self.owned.contains_any(revoked)):
            return self._moved(MemberState.UNREVOKED_TASKS, epoch_while_revoking, kept, revoked)
        new = TasksTupleWithEpochs(active.new, standby.new, warmup.new)
        is_waiting = active.is_waiting or standby.is_waiting or warmup.is_waiting
        state = MemberState.UNRELEASED_TASKS if is_waiting else MemberState.STABLE
        return self._moved(state, self.target_epoch, kept.merged(new), NO_TASKS_WITH_EPOCHS)

    def _moved(
        self, state: MemberState, epoch: int, assigned: TasksTupleWithEpochs, pending_revocation: TasksTupleWithEpochs
    ) -> StreamsGroupMember:
        return self.member._replace(
            state=state,
            member_epoch=epoch,
            previous_member_epoch=self.member.member_epoch,
            assigned_tasks=assigned,
            tasks_pending_revocation=pending_revocation,
        )

    def _is_active_unreleased(self, subtopology_id: str, partition: int) -> bool:
        return (
            self.processes.active(subtopology_id, partition) is not None
            or self.member.process_id in self.processes.standby(subtopology_id, partition)
            or self.member.process_id in self.processes.warmup(subtopology_id, partition)
        )

    def _has_own_process(self, subtopology_id: str, partition: int) -> bool:
        return (
            self.processes.active(subtopology_id, partition) == self.member.process_id
            or self.member.process_id in self.processes.standby(subtopology_id, partition)
            or self.member.process_id in self.processes.warmup(subtopology_id, partition)
        )


class _ActiveDifference(NamedTuple):
    kept: EpochTasks
    revoked: EpochTasks
    new: EpochTasks
    is_waiting: bool


class _Difference(NamedTuple):
    """``is_waiting``: a task of the target is neither kept nor new, because it is not free yet."""

    kept: Tasks
    revoked: Tasks
    new: Tasks
    is_waiting: bool


def _active_difference(
    current: EpochTasks, target: Tasks, target_epoch: int, is_unreleased: _IsUnreleased
) -> _ActiveDifference:
    """The tasks that stay keep their epochs; new ones have that of the target."""
    difference = _difference({id_: epochs.keys() for id_, epochs in current.items()}, target, is_unreleased)
    return _ActiveDifference(
        {id_: {partition: current[id_][partition] for partition in kept} for id_, kept in difference.kept.items()},
        {id_: {partition: current[id_][partition] for partition in gone} for id_, gone in difference.revoked.items()},
        {id_: dict.fromkeys(new, target_epoch) for id_, new in difference.new.items()},
        difference.is_waiting,
    )


def _difference(current: Tasks, target: Tasks, is_unreleased: _IsUnreleased) -> _Difference:
    kept: dict[str, Set[int]] = {}
    revoked: dict[str, Set[int]] = {}
    new: dict[str, Set[int]] = {}
    is_waiting = False
    for subtopology_id in _union(target, current):
        current_here = current.get(subtopology_id, frozenset())
        target_here = target.get(subtopology_id, frozenset())
        wanted = target_here - current_here
        unreleased = {partition for partition in wanted if is_unreleased(subtopology_id, partition)}
        is_waiting = is_waiting or bool(unreleased)
        _put(kept, subtopology_id, current_here & target_here)
        _put(revoked, subtopology_id, current_here - target_here)
        _put(new, subtopology_id, wanted - unreleased)
    return _Difference(kept, revoked, new, is_waiting)


def _union(target: Tasks, current: Tasks) -> Iterable[str]:
    return dict.fromkeys((*target, *current))


def _put(tasks: dict[str, Set[int]], subtopology_id: str, partitions: Set[int]) -> None:
    if partitions:
        tasks[subtopology_id] = frozenset(partitions)
