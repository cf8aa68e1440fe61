"""The state of groups as coordinators describe it: epochs never go back, and a partition or a task has one owner.

A description tells what the coordinator had stored at some moment between its request and its answer. So a description
that was requested after another one was answered is not older, whichever broker coordinates the group by then. This
shows that the state of a group survives the moves of its coordinator.

Kafka's coordinators guarantee less: one that was frozen or cut off describes an old state until it learns that another
broker coordinates the group. With ``may_be_stale`` such descriptions are counted, and only the last one must be new.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import attrgetter

from tests.history.violations import Broken, Violation

__all__ = ["Description", "EpochsCheck"]


@dataclass(frozen=True, slots=True)
class Description:
    """``owned``: what each member has, partitions or tasks, if one member at a time may have it. ``epochs``: of the
    members, by their ids."""

    group: str
    began_s: float
    ended_s: float
    group_epoch: int
    assignment_epoch: int
    epochs: Mapping[str, int] = field(default_factory=dict)
    owned: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def named_epochs(self) -> Iterator[tuple[str, int]]:
        yield "group epoch", self.group_epoch
        yield "assignment epoch", self.assignment_epoch
        for member, epoch in self.epochs.items():
            if epoch >= 0:  # A static member that has left has a negative one.
                yield f"epoch of {member}", epoch

    def __str__(self) -> str:
        return f"{self.group} at {self.began_s:.1f} to {self.ended_s:.1f} s"


class EpochsCheck:
    def __init__(self, *, may_be_stale: bool = False) -> None:
        self._may_be_stale = may_be_stale
        self._descriptions: dict[str, list[Description]] = defaultdict(list)
        self.counts: Counter[str] = Counter()

    def described(self, description: Description) -> None:
        self._descriptions[description.group].append(description)
        self.counts["descriptions"] += 1
        self.counts["descriptions with owners"] += any(description.owned.values())

    def violations(self) -> list[Violation]:
        """The last description of each group was requested when no broker was disturbed."""
        found: list[Violation] = []
        for _, descriptions in sorted(self._descriptions.items()):
            last = max(descriptions, key=attrgetter("began_s"))
            for description, what in _older(descriptions):
                if self._may_be_stale and description is not last:
                    self.counts["descriptions of an older state"] += 1
                else:
                    found.append(Violation(Broken.EPOCH_WENT_BACK, f"{description}: {what}"))
            for description in descriptions:
                found += _with_two_owners(description)
                found += _ahead_of_the_group(description)
        return found


def _older(descriptions: Iterable[Description]) -> Iterator[tuple[Description, str]]:
    """Yield the descriptions that are older than one that ended before they began, and what shows it."""
    by_begin, by_end = (sorted(descriptions, key=attrgetter(name)) for name in ("began_s", "ended_s"))
    newest: dict[str, int] = {}
    ended = 0
    for description in by_begin:
        while by_end[ended].ended_s < description.began_s:
            for name, epoch in by_end[ended].named_epochs():
                newest[name] = max(epoch, newest.get(name, epoch))
            ended += 1
        if back := [f"{name} {epoch} after {newest[name]}" for name, epoch in description.named_epochs()
                    if epoch < newest.get(name, epoch)]:  # fmt: skip
            yield description, ", ".join(back)


def _with_two_owners(description: Description) -> Iterator[Violation]:
    owners = Counter(owned for of_member in description.owned.values() for owned in of_member)
    for owned in sorted(owned for owned, count in owners.items() if count > 1):
        members = [member for member, of_member in description.owned.items() if owned in of_member]
        yield Violation(Broken.TWO_OWNERS, f"{description}: {owned} of {' and '.join(members)}")


def _ahead_of_the_group(description: Description) -> Iterator[Violation]:
    epoch = description.group_epoch
    ahead = [f"{name} {value}" for name, value in description.named_epochs() if value > epoch]
    if ahead:
        yield Violation(Broken.EPOCH_WENT_BACK, f"{description}: group epoch {epoch}, but {', '.join(ahead)}")
