"""What the task assignor of streams groups guarantees, whatever Kafka does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.common.steps import whole
from barnabas.coordinator.group.assignor import group_spec
from barnabas.coordinator.group.assignor.priority_queue import PriorityQueue
from barnabas.coordinator.group.assignor.sticky_tasks import StickyTaskAssignor
from barnabas.coordinator.group.assignor.task_group_spec import (
    MemberTasks,
    StreamsMember,
    Subtopology,
    TaskAssignorError,
    TaskGroupSpec,
)

STICKY = StickyTaskAssignor()
Group = tuple[dict[str, StreamsMember], dict[str, Subtopology], int]


@st.composite
def groups(draw: Callable[[Any], Any]) -> Group:
    ids = draw(st.lists(st.text("abcXYZ09-", min_size=1, max_size=8), min_size=1, max_size=15, unique=True))
    members = {id_: StreamsMember(draw(st.sampled_from(("p1", "p2", "p3", id_))), MemberTasks()) for id_ in ids}
    subtopologies = draw(
        st.dictionaries(st.sampled_from("0123"), st.builds(Subtopology, st.integers(1, 12), st.booleans()), min_size=1)
    )
    return members, subtopologies, draw(st.integers(0, 2))


def assign(group: Group) -> dict[str, MemberTasks]:
    members, subtopologies, standby_replicas = group
    return STICKY.assign(TaskGroupSpec(members, standby_replicas=standby_replicas), subtopologies)


def listed(tasks: Any) -> list[tuple[str, int]]:
    return [(subtopology_id, partition) for subtopology_id in tasks for partition in tasks[subtopology_id]]


@given(groups())
def test_each_task_is_active_once(group: Group) -> None:
    subtopologies = group[1]
    active = [task for tasks in assign(group).values() for task in listed(tasks.active)]
    assert sorted(active) == sorted(
        (subtopology_id, partition)
        for subtopology_id, subtopology in subtopologies.items()
        for partition in range(subtopology.task_count)
    )


@given(groups())
def test_no_process_has_a_task_twice_and_stateless_tasks_have_no_standby(group: Group) -> None:
    members, subtopologies, standby_replicas = group
    of_processes: dict[str, list[tuple[str, int]]] = {}
    for member_id, tasks in assign(group).items():
        of_processes.setdefault(members[member_id].process_id, []).extend(listed(tasks.active) + listed(tasks.standby))
        assert all(subtopologies[subtopology_id].is_stateful for subtopology_id in tasks.standby)
    for tasks_of_process in of_processes.values():
        assert len(tasks_of_process) == len(set(tasks_of_process))
    for subtopology_id, subtopology in subtopologies.items():
        copies = 1 + min(standby_replicas, len(of_processes) - 1) * subtopology.is_stateful
        all_tasks = [task for tasks in of_processes.values() for task in tasks]
        for partition in range(subtopology.task_count):
            assert all_tasks.count((subtopology_id, partition)) == copies


@given(groups())
def test_nothing_moves_when_nothing_changes(group: Group) -> None:
    members, subtopologies, _ = group
    assigned = assign((members, subtopologies, 0))
    after = {member_id: member._replace(assigned=assigned[member_id]) for member_id, member in members.items()}
    assert assign((after, subtopologies, 0)) == assigned


def test_a_standby_becomes_active_when_the_active_member_leaves() -> None:
    members = {id_: StreamsMember(id_, MemberTasks()) for id_ in ("a", "b")}
    subtopologies = {"0": Subtopology(2, True)}
    assigned = assign((members, subtopologies, 1))
    assert {id_: listed(tasks.standby) for id_, tasks in assigned.items()} == {
        "a": listed(assigned["b"].active), "b": listed(assigned["a"].active)
    }  # fmt: skip
    alone = {"a": members["a"]._replace(assigned=assigned["a"])}
    joined = {**alone, "c": StreamsMember("c", MemberTasks())}
    after = assign((joined, subtopologies, 1))
    assert after["a"].active == assigned["a"].active


def test_a_member_that_leaves_with_the_request_has_no_tasks() -> None:
    members = {id_: StreamsMember(id_, MemberTasks()) for id_ in ("a", "b")}
    spec = TaskGroupSpec(members, {"a": None, "c": StreamsMember("c", MemberTasks())})
    assert sorted(STICKY.assign(spec, {"0": Subtopology(2, False)})) == ["b", "c"]


def test_tasks_without_any_process_are_refused() -> None:
    with pytest.raises(TaskAssignorError, match="active task 7_0"):
        STICKY.assign(TaskGroupSpec({}), {"7": Subtopology(1, False)})


def test_tasks_of_subtopologies_that_no_longer_exist_are_dropped() -> None:
    had = MemberTasks({"gone": frozenset({0, 1})}, {"gone": frozenset({2})})
    assert assign(({"a": StreamsMember("p", had)}, {"0": Subtopology(1, True)}, 1)) == {
        "a": MemberTasks({"0": frozenset({0})})
    }


@given(groups(), st.integers(1, 5))
def test_steps_give_the_same_assignment(group: Group, work: int) -> None:
    members, subtopologies, standby_replicas = group
    spec = TaskGroupSpec(members, standby_replicas=standby_replicas)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(group_spec, "WORK_A_STEP", work)
        assert whole(STICKY.assign_in_steps(spec, subtopologies)) == assign(group)


def test_equal_items_leave_the_queue_in_javas_order() -> None:
    queue: PriorityQueue[int] = PriorityQueue()
    priorities: list[float] = [1, 0, 1, 0, 2, 0, 1, 1]
    for item, priority in enumerate(priorities):
        queue.add(priority, item)
    polled = []
    for _ in range(20):
        item = queue.poll()
        polled.append(item)
        priorities[item] += 0.5
        queue.add(priorities[item], item)
    assert polled == [1, 3, 5, 1, 3, 5, 3, 5, 1, 7, 0, 2, 6, 2, 6, 5, 3, 0, 1, 7]


@given(st.lists(st.integers(0, 5)))
def test_the_queue_returns_the_lowest_first(priorities: list[int]) -> None:
    queue: PriorityQueue[int] = PriorityQueue()
    for priority in priorities:
        queue.add(priority, priority)
    assert [queue.poll() for _ in priorities] == sorted(priorities)
    assert not queue
