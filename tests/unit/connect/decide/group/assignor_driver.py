"""A group of members that follow the assignor round by round, without a coordinator."""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.connect.decide.group.assignor import AssignmentRound
from barnabas.connect.decide.group.connect_protocol import Assignment, ProtocolVersion, WorkerMetadata
from barnabas.connect.decide.group.cooperative_assignor import CooperativeAssignor
from barnabas.connect.identifiers import ConnectorTaskId
from tests.unit.connect.decide.group.configs import Configs

__all__ = ["AssignorDriver", "Item"]

Item = str | ConnectorTaskId


class AssignorDriver:
    """``round`` runs one rebalance, ``settle`` all rebalances that follow from it."""

    def __init__(self, *, max_delay_ms: int = 300_000, immediately: bool = False, **task_counts: int) -> None:
        self.max_delay_ms = max_delay_ms
        self.immediately = immediately
        self.configs = Configs(1, task_counts)
        self.allocations: dict[str, Assignment | None] = {}
        self.now_ms = 0
        self.generation = 0
        self.last: dict[str, Assignment] = {}
        self._completed = -1
        self._leader = ""
        self._assignor = self._new_assignor()

    def _new_assignor(self) -> CooperativeAssignor:
        return CooperativeAssignor(max_delay_ms=self.max_delay_ms, reassign_immediately=self.immediately)

    def join(self, *members: str) -> None:
        for member in members:
            self.allocations[member] = None

    def leave(self, *members: str) -> None:
        for member in members:
            del self.allocations[member]

    def configure(self, **task_counts: int) -> None:
        self.configs = Configs(self.configs.offset + 2, task_counts)

    def round(self, *, loses: Iterable[str] = ()) -> dict[str, Assignment]:
        """``loses``: members that the assignments don't reach; the leader may be one of them."""
        if self._leader not in self.allocations:
            self._leader = min(self.allocations)
            self._assignor = self._new_assignor()
            self._completed = -1
        self.generation += 1
        members = {
            member: WorkerMetadata(f"http://{member}/", self.configs.offset, allocation)
            for member, allocation in self.allocations.items()
        }
        round_ = AssignmentRound(
            self._leader,
            ProtocolVersion.SESSIONED,
            self.generation,
            self._completed,
            members,
            self.configs,
            self.now_ms,
        )
        self.last = self._assignor.assign(round_)
        self.check_increments()
        lost = set(loses)
        for member, assignment in self.last.items():
            if member not in lost:
                self.allocations[member] = (self.allocations[member] or Assignment()).followed_by(assignment)
        if self._leader not in lost:
            self._completed = self.generation
        return self.last

    def settle(self, *, waits: bool = True) -> None:
        """Members that gave up units rejoin immediately, and all members rejoin when the delay ends."""
        for _ in range(40):
            self.round()
            if any(assignment.revokes for assignment in self.last.values()):
                continue
            if self.delay_ms == 0 or not waits:
                return
            self.now_ms += self.delay_ms
        raise AssertionError(f"the group does not settle: {self.running}")

    @property
    def delay_ms(self) -> int:
        return next(iter(self.last.values())).delay_ms

    @property
    def running(self) -> dict[str, list[Item]]:
        """Return the connectors and tasks of each member, in order."""
        return {
            member: [] if assignment is None else [*sorted(assignment.connectors), *sorted(assignment.tasks)]
            for member, assignment in self.allocations.items()
        }

    def counts(self) -> dict[str, tuple[int, int]]:
        return {
            member: (0, 0) if assignment is None else (len(assignment.connectors), len(assignment.tasks))
            for member, assignment in self.allocations.items()
        }

    @property
    def configured(self) -> set[Item]:
        names = self.configs.connectors()
        return {*names, *(task for name in names for task in self.configs.tasks(name))}

    def check_increments(self) -> None:
        """Check that members receive only units they lack, give up only their own, and share none that run."""
        given: set[Item] = set()
        for member, assignment in self.last.items():
            has = self.allocations[member] or Assignment()
            assert not set(assignment.connectors) & set(has.connectors)
            assert not set(assignment.tasks) & set(has.tasks)
            assert set(assignment.revoked_connectors) <= set(has.connectors)
            assert set(assignment.revoked_tasks) <= set(has.tasks)
            new: set[Item] = {*assignment.connectors, *assignment.tasks}
            assert not new & given
            assert new <= self.configured
            given |= new
        for other in self.allocations.values():
            assert other is None or not given & {*other.connectors, *other.tasks}

    def check_balance(self) -> None:
        """Check that all units have one owner, and that members differ by at most one connector and one task."""
        everything = [item for items in self.running.values() for item in items]
        assert len(everything) == len(set(everything))
        assert set(everything) == self.configured
        for kind in (0, 1):
            sizes = [counts[kind] for counts in self.counts().values()]
            assert max(sizes) - min(sizes) <= 1
