"""Checks of the answers that members of groups receive, against all earlier answers.

A committed offset never decreases, and a member has committed it. A partition belongs to one member of a generation.
Once a generation has begun, commits of an older one are refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from barnabas.common.errors import ErrorCode

if TYPE_CHECKING:
    from tests.simulation.cluster.checks import Checks

__all__ = ["GroupChecks"]


class Moment(NamedTuple):
    """The state of a group when a member sent a request."""

    generation: int
    """The newest generation that had begun."""
    losses: int


class GroupChecks:
    def __init__(self, checks: Checks) -> None:
        self._checks = checks
        self.sent: dict[tuple[str, int], set[int]] = {}
        """The offsets that members have tried to commit, by group and partition."""
        self._committed: dict[tuple[str, int], int] = {}
        """The greatest acknowledged offset, by group and partition."""
        self._generation: dict[str, int] = {}
        """The newest generation of which a member has received its assignment."""
        self._losses: dict[str, int] = {}
        self._owners: dict[tuple[str, int, int], str] = {}
        """By group, generation and partition."""

    def moment(self, group: str) -> Moment:
        """Return the current state of the group. Call this before a request is sent."""
        return Moment(self._generation.get(group, -1), self._losses.get(group, 0))

    def lost(self, groups: list[str]) -> None:
        """Forget these groups: a power failure took the only replica of their records, so they may start again."""
        for group in groups:
            self._committed = {key: offset for key, offset in self._committed.items() if key[0] != group}
            self._owners = {key: owner for key, owner in self._owners.items() if key[0] != group}
            self._generation.pop(group, None)
            self._losses[group] = self._losses.get(group, 0) + 1

    # --- assignments

    def assigned(self, group: str, generation: int, member: str, partitions: list[int], at_request: Moment) -> None:
        what = f"{member} of {group} is assigned {partitions} in generation {generation}"
        if at_request.losses != self._losses.get(group, 0):
            return
        if generation < at_request.generation:
            self._checks.fail(f"{what}, but {at_request.generation} had begun before its request")
        for partition in partitions:
            owner = self._owners.setdefault((group, generation, partition), member)
            if owner != member:
                self._checks.fail(f"{what}, but {partition} belongs to {owner}")
        self._generation[group] = max(self._generation.get(group, -1), generation)
        self._checks.counts["assignments"] += 1

    def heartbeat_answered(self, group: str, broker: int, leader: int, error_code: int) -> None:
        """Check that a broker refuses a heartbeat if another broker leads the group's partition.

        ``leader`` is the partition's leader in the broker's applied image when the heartbeat was sent.
        """
        if error_code in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS) and leader != broker:
            self._checks.fail(
                f"broker {broker} accepts a heartbeat of {group}, although it has applied leader {leader}"
            )

    # --- offsets

    def floor(self, group: str, partitions: list[int]) -> dict[int, int]:
        """Return the acknowledged offsets: a request that is sent from now on must return at least these."""
        return {partition: self._committed.get((group, partition), -1) for partition in partitions}

    def committed(self, group: str, generation: int, offsets: dict[int, int], at_request: Moment) -> None:
        if at_request.losses != self._losses.get(group, 0):
            return
        if generation < at_request.generation:
            self._checks.fail(
                f"{group} accepts offsets of generation {generation}, but {at_request.generation} had begun"
            )
        for partition, offset in offsets.items():
            known = self._committed.get((group, partition), -1)
            self._committed[group, partition] = max(known, offset)
        self._checks.counts["offsets committed"] += 1

    def fetched(self, group: str, offsets: dict[int, int], floor: dict[int, int]) -> None:
        for partition, offset in offsets.items():
            # Offsets that were lost with their disk since the request are not expected.
            least = min(floor[partition], self._committed.get((group, partition), -1))
            if offset < least:
                self._checks.fail(f"{group} has offset {offset} for {partition}, but {least} was acknowledged before")
            if offset != -1 and offset not in self.sent.get((group, partition), ()):
                self._checks.fail(f"{group} has offset {offset} for {partition}, which no member has committed")
        self._checks.counts["offsets fetched"] += 1
