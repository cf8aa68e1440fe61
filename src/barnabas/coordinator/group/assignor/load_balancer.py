"""Finds the subscribers of a topic with the fewest and with the most partitions, while partitions are assigned."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["LoadBalancer"]


class LoadBalancer:
    """``loads`` has the number of partitions of each member. The caller changes it, and then calls ``loads_changed``.

    ``begin`` sorts the members of a topic by their loads. Those with the lowest load receive one partition each. After
    that, the members with the next load belong to them, too. Those with the highest load give partitions in the same
    way, from the other end.
    """

    def __init__(self, loads: Sequence[int]) -> None:
        self._loads = loads
        self._sorted: list[int] = []
        self._version = 0
        self._sorted_at: dict[int, tuple[int, list[int]]] = {}
        self._least_end = self._least_next = self._least_load = 0
        self._most_begin = self._most_end = self._most_next = self._most_load = 0

    def loads_changed(self) -> None:
        self._version += 1

    def begin(self, members: list[int]) -> int:
        """Begin with the subscribers of a topic, in order. Return the difference of the highest and the lowest load."""
        loads = self._loads
        version, in_order = self._sorted_at.get(id(members), (-1, members))
        if version != self._version:
            in_order = sorted(members, key=loads.__getitem__)
            self._sorted_at[id(members)] = self._version, in_order
        self._sorted = in_order.copy()
        lowest, highest = loads[in_order[0]], loads[in_order[-1]]
        self._least_end = self._least_next = 0
        self._least_load = lowest - 1
        self._most_begin = self._most_end = len(in_order)
        self._most_next = len(in_order) - 1
        self._most_load = highest + 1
        return highest - lowest

    @property
    def is_balanced(self) -> bool:
        return self._most_load - self._least_load <= 1

    def next_least_loaded(self) -> int:
        if self._least_next >= self._least_end:
            self._least_load += 1
            self._least_end = self._end_of_load(self._least_end, self._least_load)
            self._least_next = 0
        member = self._sorted[self._least_next]
        self._least_next += 1
        return member

    def _end_of_load(self, end: int, load: int) -> int:
        while end < len(self._sorted) and self._loads[self._sorted[end]] == load:
            end += 1
        return end

    def next_most_loaded(self) -> int | None:
        """Return None when all members were excluded."""
        if self._most_next < self._most_begin:
            self._extend_most_loaded()
        if self._most_next < 0:
            return None
        member = self._sorted[self._most_next]
        self._most_next -= 1
        return member

    def _extend_most_loaded(self) -> None:
        if self._most_end <= self._most_begin and self._most_begin > 0:
            # All of the range were excluded: go on with the load of the next member.
            self._most_load = self._loads[self._sorted[self._most_begin - 1]]
        else:
            self._most_load -= 1
        while self._most_begin > 0 and self._loads[self._sorted[self._most_begin - 1]] == self._most_load:
            self._most_begin -= 1
        self._most_next = self._most_end - 1

    def exclude_most_loaded(self) -> None:
        """Exclude the member that ``next_most_loaded`` returned last: it has no partition of the topic to give."""
        place, last = self._most_next + 1, self._most_end - 1
        self._sorted[place], self._sorted[last] = self._sorted[last], self._sorted[place]
        self._most_end = last
