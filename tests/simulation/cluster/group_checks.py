"""What members of groups were told, and what they must never be told after it.

A committed offset never goes back, and is one that somebody has committed. A partition belongs to one member of a
generation. Once a generation has begun, nobody commits in an older one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tests.simulation.cluster.checks import Checks

__all__ = ["GroupChecks"]


class Moment(NamedTuple):
    generation: int
    """The newest that had begun."""
    losses: int


class GroupChecks:
    def __init__(self, checks: Checks) -> None:
        self._checks = checks
        self.sent: dict[tuple[str, int], set[int]] = {}
        """The offsets that members have tried to commit, by group and partition."""
        self._committed: dict[tuple[str, int], int] = {}
        """The greatest that was acknowledged."""
        self._generation: dict[str, int] = {}
        """The newest whose assignments somebody has been given."""
        self._losses: dict[str, int] = {}
        self._owners: dict[tuple[str, int, int], str] = {}
        """By group, generation and partition."""

    def moment(self, group: str) -> Moment:
        """To be taken before something is asked."""
        return Moment(self._generation.get(group, -1), self._losses.get(group, 0))

    def lost(self, groups: list[str]) -> None:
        """The only replica of what these groups had told was on a disk whose power failed: they may begin anew."""
        for group in groups:
            self._committed = {key: offset for key, offset in self._committed.items() if key[0] != group}
            self._owners = {key: owner for key, owner in self._owners.items() if key[0] != group}
            self._generation.pop(group, None)
            self._losses[group] = self._losses.get(group, 0) + 1

    # --- assignments

    def assigned(self, group: str, generation: int, member: str, partitions: list[int], asked: Moment) -> None:
        what = f"{member} of {group} is given {partitions} in generation {generation}"
        if asked.losses != self._losses.get(group, 0):
            return
        if generation < asked.generation:
            self._checks.fail(f"{what}, and {asked.generation} had begun when it asked")
        for partition in partitions:
            owner = self._owners.setdefault((group, generation, partition), member)
            if owner != member:
                self._checks.fail(f"{what}, and {partition} is {owner}'s")
        self._generation[group] = max(self._generation.get(group, -1), generation)
        self._checks.counts["assignments"] += 1

    # --- offsets

    def floor(self, group: str, partitions: list[int]) -> dict[int, int]:
        """What is acknowledged now: a question that is asked from now on is answered with as much."""
        return {partition: self._committed.get((group, partition), -1) for partition in partitions}

    def committed(self, group: str, generation: int, offsets: dict[int, int], asked: Moment) -> None:
        if asked.losses != self._losses.get(group, 0):
            return
        if generation < asked.generation:
            self._checks.fail(f"{group} takes offsets of generation {generation}, and {asked.generation} had begun")
        for partition, offset in offsets.items():
            known = self._committed.get((group, partition), -1)
            self._committed[group, partition] = max(known, offset)
        self._checks.counts["offsets committed"] += 1

    def fetched(self, group: str, offsets: dict[int, int], floor: dict[int, int]) -> None:
        for partition, offset in offsets.items():
            # What was lost with its disk is not asked for any more.
            least = min(floor[partition], self._committed.get((group, partition), -1))
            if offset < least:
                self._checks.fail(f"{group} has offset {offset} for {partition}, and {least} was acknowledged before")
            if offset != -1 and offset not in self.sent.get((group, partition), ()):
                self._checks.fail(f"{group} has offset {offset} for {partition}, which nobody has committed")
        self._checks.counts["offsets fetched"] += 1
