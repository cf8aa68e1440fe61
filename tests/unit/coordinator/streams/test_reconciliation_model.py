"""Members follow changing targets, and send heartbeats in any order; some of their reports are late.

At every moment: an active task belongs to one member, and no process has a task twice, in whatever roles. When targets
stop changing, every member reaches its own.
"""

from __future__ import annotations

from collections import Counter

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from barnabas.coordinator.group.streams.current_assignment import next_assignment
from barnabas.coordinator.group.streams.streams_group_member import MemberState, StreamsGroupMember
from barnabas.coordinator.group.streams.task_processes import TaskProcessIndex
from barnabas.coordinator.group.streams.tasks import NO_TASKS, Tasks, TasksTuple, TasksTupleWithEpochs

PROCESSES = {"m0": "p0", "m1": "p0", "m2": "p1", "m3": "p2"}
PARTITIONS = range(4)
TASKS = [(name, partition) for name in ("0", "1") for partition in PARTITIONS]

Placement = tuple[int, int, int]
"""Who has a task: the member, and by how many members further on its replicas are (0: no replica)."""


class Reconciliation(RuleBasedStateMachine):
    @initialize()
    def start(self) -> None:
        self.members = {name: StreamsGroupMember(name, process_id=process) for name, process in PROCESSES.items()}
        self.owned = dict.fromkeys(PROCESSES, NO_TASKS)
        """What the clients have: they follow the answers to their heartbeats, sooner or later."""
        self.targets = dict.fromkeys(PROCESSES, NO_TASKS)
        self.epoch = 1
        self.processes = TaskProcessIndex()

    @rule(
        placements=st.lists(
            st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 3)),
            min_size=len(TASKS),
            max_size=len(TASKS),
        )
    )
    def assign(self, placements: list[Placement]) -> None:
        self.epoch += 1
        names = list(PROCESSES)
        targets: dict[str, tuple[dict[str, set[int]], ...]] = {name: ({}, {}, {}) for name in names}
        for (subtopology_id, partition), (first, *distances) in zip(TASKS, placements, strict=True):
            used: set[str] = set()
            for role, distance in enumerate((0, *distances)):
                name = names[(first + distance) % len(names)]
                if (role == 0 or distance) and PROCESSES[name] not in used:
                    used.add(PROCESSES[name])
                    targets[name][role].setdefault(subtopology_id, set()).add(partition)
        self.targets = {name: TasksTuple(*map(_frozen, of_member)) for name, of_member in targets.items()}

    @rule(name=st.sampled_from(list(PROCESSES)), does_report=st.booleans())
    def heartbeat(self, name: str, does_report: bool) -> None:
        member = self.members[name]
        if member.is_reconciled_to(self.epoch):
            return
        moved = next_assignment(
            member,
            target_epoch=self.epoch,
            target=self.targets[name],
            owned=self.owned[name] if does_report else None,
            processes=self.processes,
        )
        self.processes.update(member, moved)
        self.members[name] = moved

    @rule(name=st.sampled_from(list(PROCESSES)))
    def obey(self, name: str) -> None:
        """The client starts and stops tasks until it has what it was told."""
        self.owned[name] = _without_epochs(self.members[name].assigned_tasks)

    @invariant()
    def no_process_has_a_task_twice(self) -> None:
        for held in (self._held_by_coordinator(), self._held_by_clients()):
            repeated = [task for task, count in Counter(held).items() if count > 1]
            assert not repeated

    @invariant()
    def an_active_task_runs_once(self) -> None:
        running = Counter(task for owned in self.owned.values() for task in _tasks(owned.active))
        assert not [task for task, count in running.items() if count > 1]

    def _held_by_coordinator(self) -> list[tuple[str, str, int]]:
        return [
            (member.process_id, *task)
            for member in self.members.values()
            for tasks in (member.assigned_tasks, member.tasks_pending_revocation)
            for role in _without_epochs(tasks)
            for task in _tasks(role)
        ]

    def _held_by_clients(self) -> list[tuple[str, str, int]]:
        return [
            (PROCESSES[name], *task) for name, owned in self.owned.items() for role in owned for task in _tasks(role)
        ]

    def teardown(self) -> None:
        """All of them obey and report: a revocation takes two rounds, and a task may pass through each member."""
        for _ in range(4 * len(PROCESSES)):
            for name in PROCESSES:
                self.heartbeat(name, does_report=True)
                self.obey(name)
            self.no_process_has_a_task_twice()
        for name, member in self.members.items():
            assert member.state is MemberState.STABLE
            assert _without_epochs(member.assigned_tasks) == self.targets[name]


def _frozen(tasks: dict[str, set[int]]) -> dict[str, frozenset[int]]:
    return {name: frozenset(partitions) for name, partitions in tasks.items()}


def _without_epochs(tasks: TasksTupleWithEpochs) -> TasksTuple:
    active = {name: frozenset(epochs) for name, epochs in tasks.active.items()}
    return TasksTuple(active, tasks.standby, tasks.warmup)


def _tasks(tasks: Tasks) -> list[tuple[str, int]]:
    return [(name, partition) for name, partitions in tasks.items() for partition in partitions]


TestReconciliation = Reconciliation.TestCase
