"""Copies: a group's offsets and the records made from them are committed together.

A copier receives committed records of a source topic, writes a copy of each, and commits the offsets of its group in
the same transaction. So each source record below the group's committed offset has exactly one committed copy, and no
record at or above it has one. A copy's note names its source. The committed offset itself is a register
(``register_check``): a transaction that was aborted is not a write.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping

from tests.history.transaction_log import Logged, TopicLog
from tests.history.violations import Broken, Violation

__all__ = ["check_copies", "source_note"]


def source_note(partition: int, offset: int) -> bytes:
    return b"%d@%d" % (partition, offset)


def check_copies(
    source: TopicLog, copies: TopicLog, committed_offsets: Mapping[int, int], *, are_equal: bool = False
) -> list[Violation]:
    """``committed_offsets``: the group's final ones, by partition of the source. ``are_equal``: the copies have the
    keys and values of their sources, and name them so."""
    made: dict[Hashable, list[Logged]] = defaultdict(list)
    for records in copies.committed().values():
        for logged in records:
            made[logged.record if are_equal else logged.note].append(logged)
    found: list[Violation] = []
    for partition, records in source.committed().items():
        end = committed_offsets.get(partition, 0)
        for logged in records:
            copied = made.pop(logged.record if are_equal else source_note(partition, logged.offset), [])
            found += _judge(f"{logged.record} at {partition}@{logged.offset}", logged.offset < end, copied)
    for name, extra in made.items():
        what = f"{extra[0].record} at {extra[0].offset} copies {name}, and no committed record is that"
        found.append(Violation(Broken.ABORTED_READ, what))
    return found


def _judge(place: str, is_committed: bool, copied: list[Logged]) -> list[Violation]:
    names = ", ".join(str(copy.record) for copy in copied)
    if is_committed and not copied:
        return [Violation(Broken.WITHOUT_RECORDS, f"the group committed past {place}, and no copy is committed")]
    if not is_committed and copied:
        return [Violation(Broken.WITHOUT_RECORDS, f"{names} is a copy of {place}, whose offset is not committed")]
    if len(copied) > 1:
        return [Violation(Broken.DOUBLED, f"{place} was copied more than once: {names}")]
    return []
