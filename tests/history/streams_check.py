"""The guarantees of a streams application that copies a topic exactly once and counts in a state.

Each record of the output names the record of the input, the count of its partition's records so far (the state of the
task), and the *life* that wrote it: one thread that processed the task from its assignment until it gave it up.

* Every record of the input is in the output once, in order.
* The count is the number of records up to this one, whichever members had the task, and whatever they lost.
* A task belongs to one member at a time: once another life has written to a partition, no earlier life does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tests.history.payload import Spoilt
from tests.history.violations import Broken, Violation

__all__ = ["Counted", "check_streams", "decode_counted"]


@dataclass(frozen=True, slots=True)
class Counted:
    """A committed record of the output. ``offset`` is that of the input."""

    life: str
    count: int
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.partition}@{self.offset}, counted {self.count} by {self.life}"


def decode_counted(value: bytes) -> Counted:
    """Raise Spoilt if the application did not write the value."""
    try:
        life, count, partition, offset = value.decode().split()
        return Counted(life, int(count), int(partition), int(offset))
    except ValueError:
        raise Spoilt(f"{value[:80]!r}") from None


def check_streams(outputs: Mapping[int, Sequence[Counted]], places: Iterable[tuple[int, int]]) -> list[Violation]:
    """``outputs``: the committed records of each partition, in order. ``places``: partition and offset of every record
    of the input."""
    expected: dict[int, list[int]] = {}
    for partition, offset in places:
        expected.setdefault(partition, []).append(offset)
    found: list[Violation] = []
    for partition in sorted(expected.keys() | outputs.keys()):
        output = outputs.get(partition, ())
        found += _not_once_in_order(partition, output, expected.get(partition, []))
        found += _miscounted(output)
        found += _interleaved(partition, output)
    return found


def _not_once_in_order(partition: int, output: Sequence[Counted], expected: Sequence[int]) -> Iterator[Violation]:
    exists, seen = set(expected), set[int]()
    last = -1
    for counted in output:
        if counted.partition != partition or counted.offset not in exists:
            yield Violation(Broken.NEVER_SENT, f"output {partition}: {counted}")
        elif counted.offset in seen:
            yield Violation(Broken.DOUBLED, f"output {partition}: {counted}")
        elif counted.offset < last:
            yield Violation(Broken.REORDERED, f"output {partition}: {counted} follows {last}")
        seen.add(counted.offset)
        last = max(last, counted.offset)
    for offset in expected:
        if offset not in seen:
            yield Violation(Broken.LOST, f"{partition}@{offset} is not in the output of the streams application")


def _miscounted(output: Sequence[Counted]) -> Iterator[Violation]:
    """Yield each record whose count does not continue the one before."""
    before = 0
    for counted in output:
        if counted.count != before + 1:
            yield Violation(Broken.MISCOUNTED, f"{counted}, where {before + 1} was next")
        before = counted.count


def _interleaved(partition: int, output: Sequence[Counted]) -> Iterator[Violation]:
    ended: set[str] = set()
    writes: str | None = None
    for counted in output:
        if counted.life == writes:
            continue
        if counted.life in ended:
            yield Violation(Broken.TWO_OWNERS, f"output {partition}: {counted} follows a record of {writes}")
        if writes is not None:
            ended.add(writes)
        writes = counted.life
