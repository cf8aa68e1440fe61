"""The guarantees of a group: committed offsets don't go back, and no offset below them was skipped.

For each partition the committed offset is a register: commits are writes; offset fetches, and members that start at the
offset, are reads. A member commits only what it received, so some member received every offset below the last committed
one.
"""

from __future__ import annotations

from collections import defaultdict

from tests.history.register_check import Read, RegisterCheck, Write
from tests.history.violations import Broken, Violation

__all__ = ["GroupsCheck"]


class GroupsCheck:
    """``partition`` numbers are those of one topic; offset 0 means that nothing is committed."""

    def __init__(self) -> None:
        self._registers: dict[tuple[str, int], RegisterCheck] = {}
        self._given: dict[tuple[str, int], set[int]] = defaultdict(set)
        self._last: dict[tuple[str, int], int] = {}

    def committed(self, group: str, partition: int, write: Write) -> int:
        """Record a commit. Return its number, for ``answered``."""
        return self._register(group, partition).wrote(write)

    def answered(self, group: str, partition: int, number: int, ended: float) -> None:
        self._register(group, partition).answered(number, ended)

    def fetched(self, group: str, partition: int, read: Read) -> None:
        self._register(group, partition).read(read)

    def given(self, group: str, partition: int, offset: int) -> None:
        self._given[group, partition].add(offset)

    def final(self, group: str, partition: int, read: Read) -> None:
        """Record the committed offset after all faults have ended and all members have left."""
        self.fetched(group, partition, read)
        self._last[group, partition] = read.value

    @property
    def count_commits(self) -> int:
        return sum(register.count_writes for register in self._registers.values())

    @property
    def count_reads(self) -> int:
        return sum(register.count_reads for register in self._registers.values())

    def violations(self) -> list[Violation]:
        found = [violation for register in self._registers.values() for violation in register.violations()]
        for (group, partition), end in sorted(self._last.items()):
            given = self._given[group, partition]
            skipped = [offset for offset in range(end) if offset not in given]
            if skipped:
                what = f"{group}, partition {partition}: {len(skipped)} below {end}, the first is {skipped[0]}"
                found.append(Violation(Broken.SKIPPED, what))
        return found

    def _register(self, group: str, partition: int) -> RegisterCheck:
        name = f"the committed offset of {group} in partition {partition}"
        return self._registers.setdefault((group, partition), RegisterCheck(name, initial=0))
