"""One step of a member towards its target assignment."""

from __future__ import annotations

from collections.abc import Set

import pytest

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.coordinator.group.streams.current_assignment import next_assignment
from barnabas.coordinator.group.streams.streams_group_member import MemberState, StreamsGroupMember
from barnabas.coordinator.group.streams.task_processes import TaskProcessIndex
from barnabas.coordinator.group.streams.tasks import (
    NO_TASKS,
    NO_TASKS_WITH_EPOCHS,
    TasksTuple,
    TasksTupleWithEpochs,
)

ROLES = ("active", "standby", "warmup")


def tasks(**partitions: Set[int]) -> TasksTuple:
    """Tasks of subtopology "0" by role."""
    return TasksTuple(*({"0": frozenset(partitions[role])} if role in partitions else {} for role in ROLES))


def held(epoch: int, **partitions: Set[int]) -> TasksTupleWithEpochs:
    """The same with an epoch."""
    of_role = tasks(**partitions)
    active = {name: dict.fromkeys(of_name, epoch) for name, of_name in of_role.active.items()}
    return TasksTupleWithEpochs(active, of_role.standby, of_role.warmup)


def member(
    assigned: TasksTupleWithEpochs = NO_TASKS_WITH_EPOCHS,
    pending: TasksTupleWithEpochs = NO_TASKS_WITH_EPOCHS,
    *,
    state: MemberState = MemberState.STABLE,
    epoch: int = 5,
    process: str = "p1",
    name: str = "m1",
) -> StreamsGroupMember:
    return StreamsGroupMember(
        name,
        member_epoch=epoch,
        previous_member_epoch=epoch - 1,
        state=state,
        process_id=process,
        assigned_tasks=assigned,
        tasks_pending_revocation=pending,
    )


def step(
    of: StreamsGroupMember,
    target: TasksTuple,
    *others: StreamsGroupMember,
    owned: TasksTuple | None = None,
    epoch: int = 6,
) -> StreamsGroupMember:
    processes = TaskProcessIndex()
    for existing in (of, *others):
        processes.update(None, existing)
    return next_assignment(of, target_epoch=epoch, target=target, owned=owned, processes=processes)


def epochs_of(moved: StreamsGroupMember) -> tuple[int, int]:
    return moved.previous_member_epoch, moved.member_epoch


# -- stable


def test_a_member_that_has_its_target_stays() -> None:
    there = member(held(5, active={1}), epoch=6)
    assert step(there, tasks(active={1}, standby={2})) is there


def test_a_member_takes_free_tasks_at_the_epoch_of_the_target_and_keeps_the_epochs_of_the_others() -> None:
    moved = step(member(held(2, active={1})), tasks(active={1, 2}, standby={3}, warmup={4}))
    assert moved.state is MemberState.STABLE
    assert epochs_of(moved) == (5, 6)
    assert moved.assigned_tasks == TasksTupleWithEpochs({"0": {1: 2, 2: 6}}, {"0": {3}}, {"0": {4}})
    assert moved.tasks_pending_revocation.is_empty


def test_a_member_first_gives_up_tasks_and_keeps_its_epoch() -> None:
    moved = step(member(held(2, active={1, 2}, standby={3})), tasks(active={2, 7}))
    assert moved.state is MemberState.UNREVOKED_TASKS
    assert epochs_of(moved) == (5, 5)
    assert moved.assigned_tasks == held(2, active={2})
    assert moved.tasks_pending_revocation == held(2, active={1}, standby={3})


def test_a_member_that_reports_to_own_none_of_the_revoked_tasks_moves_at_once() -> None:
    moved = step(member(held(2, active={1, 2})), tasks(active={2}), owned=tasks(active={2}))
    assert moved.state is MemberState.STABLE
    assert moved.assigned_tasks == held(2, active={2})


def test_the_role_matters_for_what_is_revoked() -> None:
    moved = step(member(held(2, standby={1})), NO_TASKS, owned=tasks(active={1}))
    assert moved.state is MemberState.STABLE
    assert step(member(held(2, standby={1})), NO_TASKS, owned=tasks(standby={1})).state is MemberState.UNREVOKED_TASKS


# -- tasks of others


def test_an_active_task_waits_for_any_process_that_has_it() -> None:
    other = member(held(3, active={2}), name="m2", process="p2")
    moved = step(member(), tasks(active={1, 2}), other)
    assert moved.state is MemberState.UNRELEASED_TASKS
    assert epochs_of(moved) == (5, 6)
    assert moved.assigned_tasks == held(6, active={1})


def test_a_task_that_is_still_to_be_given_up_is_not_free() -> None:
    other = member(pending=held(3, active={2}), name="m2", process="p2", state=MemberState.UNREVOKED_TASKS)
    assert step(member(), tasks(active={2}), other).state is MemberState.UNRELEASED_TASKS


@pytest.mark.parametrize("role", ["standby", "warmup"])
def test_an_active_task_does_not_wait_for_replicas_of_other_processes(role: str) -> None:
    other = member(held(3, **{role: {2}}), name="m2", process="p2")
    assert step(member(), tasks(active={2}), other).state is MemberState.STABLE


@pytest.mark.parametrize("wanted", ROLES)
@pytest.mark.parametrize("held_as", ROLES)
def test_no_task_starts_while_the_own_process_has_it_in_any_role(wanted: str, held_as: str) -> None:
    thread = member(held(3, **{held_as: {2}}), name="m2")
    moved = step(member(), tasks(**{wanted: {2}}), thread)
    assert moved.state is MemberState.UNRELEASED_TASKS
    assert moved.assigned_tasks.is_empty


@pytest.mark.parametrize("wanted", ["standby", "warmup"])
@pytest.mark.parametrize("held_as", ROLES)
def test_a_replica_does_not_wait_for_other_processes(wanted: str, held_as: str) -> None:
    other = member(held(3, **{held_as: {2}}), name="m2", process="p2")
    assert step(member(), tasks(**{wanted: {2}}), other).state is MemberState.STABLE


def test_a_standby_task_becomes_active_in_three_steps() -> None:
    first = step(member(held(2, standby={1})), tasks(active={1}))
    assert first.state is MemberState.UNREVOKED_TASKS
    second = step(first, tasks(active={1}), owned=NO_TASKS)
    assert second.state is MemberState.UNRELEASED_TASKS
    third = step(second, tasks(active={1}), owned=NO_TASKS)
    assert third.state is MemberState.STABLE
    assert third.assigned_tasks == held(6, active={1})


# -- tasks to give up


REVOKING = member(held(2, active={2}), held(2, active={1}), state=MemberState.UNREVOKED_TASKS)


@pytest.mark.parametrize("owned", [None, tasks(active={1, 2}), tasks(active={1})])
def test_a_member_stays_until_it_reports_to_have_given_up_its_tasks(owned: TasksTuple | None) -> None:
    assert step(REVOKING, tasks(active={2}), owned=owned) is REVOKING


def test_a_member_that_has_given_up_its_tasks_reaches_the_target() -> None:
    moved = step(REVOKING, tasks(active={2, 3}), owned=tasks(active={2}))
    assert moved.state is MemberState.STABLE
    assert epochs_of(moved) == (5, 6)
    assert moved.assigned_tasks.active == {"0": {2: 2, 3: 6}}


def test_a_member_that_must_give_up_more_moves_by_one_epoch() -> None:
    """Its epoch grows, so that the end of the first revocation is visible, but not to that of the target."""
    moved = step(REVOKING, tasks(active={3}), owned=tasks(active={2}), epoch=9)
    assert moved.state is MemberState.UNREVOKED_TASKS
    assert epochs_of(moved) == (5, 6)
    assert moved.tasks_pending_revocation == held(2, active={2})


# -- tasks to receive


def test_a_waiting_member_receives_what_has_become_free() -> None:
    waiting = member(held(6, active={1}), state=MemberState.UNRELEASED_TASKS, epoch=6)
    other = member(held(3, active={3}), name="m2", process="p2")
    moved = step(waiting, tasks(active={1, 2, 3}), other)
    assert moved.state is MemberState.UNRELEASED_TASKS
    assert moved.assigned_tasks == held(6, active={1, 2})
    assert step(moved, tasks(active={1, 2, 3})).state is MemberState.STABLE


def test_a_waiting_member_gives_up_tasks_of_an_older_target() -> None:
    waiting = member(held(6, active={1}), state=MemberState.UNRELEASED_TASKS, epoch=6)
    moved = step(waiting, tasks(active={2}), epoch=7)
    assert moved.state is MemberState.UNREVOKED_TASKS
    assert epochs_of(moved) == (6, 6)


# -- unknown


@pytest.mark.parametrize("owned", [None, tasks(active={1})])
def test_a_member_in_an_unknown_state_is_fenced(owned: TasksTuple | None) -> None:
    with pytest.raises(ApiException) as fenced:
        step(member(held(2, active={1}), state=MemberState.UNKNOWN), tasks(active={1}), owned=owned)
    assert fenced.value.code is ErrorCode.FENCED_MEMBER_EPOCH


def test_a_member_in_an_unknown_state_that_has_given_up_everything_starts_over() -> None:
    moved = step(member(state=MemberState.UNKNOWN), tasks(active={1}), owned=NO_TASKS)
    assert moved.state is MemberState.STABLE
    assert moved.assigned_tasks == held(6, active={1})
