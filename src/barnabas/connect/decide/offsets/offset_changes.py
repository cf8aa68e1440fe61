"""What a change of positions would do, before it is done: which records a connector would read again or never read.

Of a sink, records are counted by offsets, within those that still exist. Of a source only its own system knows what
lies between two positions, so a change shows the position before and after. A row with a ``problem`` would be refused,
or would have no effect that anybody wants; a ``note`` only says what to expect.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from barnabas.common.topic_partition import TopicPartition
from barnabas.connect.decide.offsets.sink_rows import sink_entry, sink_row
from barnabas.connect.decide.tasks.task_work import check_spark_positions
from barnabas.connect.entities import ConnectorOffset, OffsetChange
from barnabas.connect.errors import BadRequest

__all__ = ["PartitionEnds", "sink_changes", "source_changes"]

_LATEST = "latest"


@dataclass(frozen=True, slots=True)
class PartitionEnds:
    """``first`` is the offset of the first record that exists, ``end`` that of the next one."""

    first: int
    end: int

    def within(self, offset: int) -> int:
        return min(max(offset, self.first), self.end)


def sink_changes(
    rows: Sequence[ConnectorOffset],
    committed: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, PartitionEnds],
    reset: str,
) -> list[OffsetChange]:
    """Return a change for each row. ``reset`` is ``auto.offset.reset``: where a partition without a position begins."""
    parsed: list[tuple[TopicPartition, int | None] | BadRequest] = [_parsed(row) for row in rows]
    last = {entry[0]: number for number, entry in enumerate(parsed) if not isinstance(entry, BadRequest)}
    changes = []
    for number, (row, entry) in enumerate(zip(rows, parsed, strict=True)):
        if isinstance(entry, BadRequest):
            changes.append(OffsetChange(row.partition, None, row.offset, problem=str(entry)))
        elif last[entry[0]] != number:
            before = sink_entry(entry[0], committed.get(entry[0])).offset
            changes.append(OffsetChange(row.partition, before, row.offset, problem="A later row has this partition."))
        else:
            changes.append(_sink_change(*entry, committed.get(entry[0]), ends.get(entry[0]), reset))
    return changes


def _parsed(row: ConnectorOffset) -> tuple[TopicPartition, int | None] | BadRequest:
    try:
        return sink_row(row)
    except BadRequest as error:
        return error


def _sink_change(
    partition: TopicPartition, wanted: int | None, committed: int | None, ends: PartitionEnds | None, reset: str
) -> OffsetChange:
    entry = sink_entry(partition, wanted)
    before = sink_entry(partition, committed).offset
    if ends is None and wanted is None and committed is not None:
        return OffsetChange(
            entry.partition, before, None, note="The partition does not exist: its position is deleted."
        )
    if ends is None:
        text = f"Topic {partition.topic} has no partition {partition.partition}, or this worker may not describe it."
        return OffsetChange(entry.partition, before, entry.offset, problem=text)
    begin = ends.end if reset == _LATEST else ends.first
    problem = _sink_problem(wanted, ends)
    old, new = (ends.within(begin if offset is None else offset) for offset in (committed, wanted))
    return OffsetChange(
        entry.partition,
        before,
        entry.offset,
        again=None if problem else max(0, old - new),
        skipped=None if problem else max(0, new - old),
        first=ends.first,
        end=ends.end,
        note="" if problem else _sink_note(wanted, begin, ends),
        problem=problem,
    )


def _sink_problem(wanted: int | None, ends: PartitionEnds) -> str:
    if wanted is None:
        return ""
    if wanted < 0:
        return f"Offset {wanted} is negative."
    return f"Offset {wanted} is after the end, which is {ends.end}." if wanted > ends.end else ""


def _sink_note(wanted: int | None, begin: int, ends: PartitionEnds) -> str:
    if wanted is None:
        return f"Without a position it begins at {begin} (auto.offset.reset)."
    if wanted < ends.first:
        return f"Records before {ends.first} do not exist any more: it begins there."
    return ""


def source_changes(rows: Sequence[ConnectorOffset], known: Sequence[ConnectorOffset]) -> list[OffsetChange]:
    """Return a change for each row. ``known`` are the present positions."""
    positions = {_key(entry.partition): entry.offset for entry in known}
    last = {_key(row.partition): number for number, row in enumerate(rows)}
    return [
        _source_change(row, known, positions, is_last=last[_key(row.partition)] == number)
        for number, row in enumerate(rows)
    ]


def _source_change(
    row: ConnectorOffset,
    known: Sequence[ConnectorOffset],
    positions: Mapping[str, Mapping[str, object] | None],
    *,
    is_last: bool,
) -> OffsetChange:
    key = _key(row.partition)
    before = positions.get(key)
    note = "" if key in positions else "The connector has no position for this partition; it may not know it."
    return OffsetChange(
        row.partition,
        None if before is None else dict(before),
        row.offset,
        note=note,
        problem=_source_problem(row, known) if is_last else "A later row has this partition.",
    )


def _source_problem(row: ConnectorOffset, known: Sequence[ConnectorOffset]) -> str:
    if row.partition is None:
        return "A row needs a partition, an object such as GET shows it."
    try:
        check_spark_positions([(row.partition, row.offset)], [entry.partition for entry in known])
    except ValueError as error:
        return str(error)
    return ""


def _key(partition: Mapping[str, object] | None) -> str:
    return json.dumps(partition, sort_keys=True)
