"""Turn changes of rows into Debezium's events: one change is one event or several. No I/O.

An update that changes the key is a deletion of the old key, its tombstone, and a creation of the new key, so that a
compacted topic and a consumer by key stay right. A tombstone is an event without an operation.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from barnabas.connect_spark.connectors.postgresql.pgoutput.messages import UNCHANGED, Column, Row
from barnabas.connect_spark.connectors.postgresql.pgoutput.transactions import Change

__all__ = ["Event", "Origin", "Table", "events_of"]


@dataclass(frozen=True, slots=True)
class Table:
    """A table as it is at a moment: another list of columns is another Table."""

    schema: str
    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    """The columns of the key, in the order of the table; empty if it has none."""

    @property
    def full_name(self) -> str:
        return f"{self.schema}.{self.name}"

    @property
    def key_places(self) -> list[int]:
        return [at for at, column in enumerate(self.columns) if column.name in self.key]


@dataclass(frozen=True, slots=True)
class Origin:
    """Where an event comes from, for its field ``source``."""

    lsn: int
    xid: int | None
    at_us: int
    """When the transaction was committed, or the snapshot was taken: microseconds since 1970."""
    commit_lsn: int | None = None
    previous_lsn: int | None = None
    is_snapshot: bool = False


@dataclass(frozen=True, slots=True)
class Event:
    table: Table
    operation: str | None
    """``c``, ``u``, ``d``, ``r``, ``t``; None for a tombstone."""
    before: Row | None
    after: Row | None
    key: Row | None
    origin: Origin


def events_of(
    change: Change, table: Table, *, has_tombstones: bool = True, skipped: Collection[str] = ("t",)
) -> list[Event]:
    """Return the events of a change. ``skipped`` are operations without events."""
    origin = Origin(change.lsn, change.begin.xid, change.begin.commit_us, change.begin.final_lsn, change.previous_lsn)
    found = _events(change, table, origin, has_tombstones)
    if not skipped:
        return found
    allowed = [event.operation not in skipped for event in found]
    # A tombstone follows its deletion.
    return [
        event
        for at, event in enumerate(found)
        if allowed[at] and (event.operation is not None or (at > 0 and allowed[at - 1]))
    ]


def _events(change: Change, table: Table, origin: Origin, has_tombstones: bool) -> list[Event]:
    if change.operation == "t":
        return [Event(table, "t", None, None, None, origin)]
    if change.operation == "c":
        return [Event(table, "c", None, change.new, _key(table, change.new), origin)]
    if change.operation == "d":
        return _deletion(table, change.old, origin, has_tombstones)
    new = _filled(change.new or (), change.old)
    old_key, new_key = _key(table, change.old), _key(table, new)
    if old_key is not None and old_key != new_key:
        return [*_deletion(table, change.old, origin, has_tombstones), Event(table, "c", None, new, new_key, origin)]
    return [Event(table, "u", change.old if change.is_old_complete else None, new, new_key, origin)]


def _deletion(table: Table, old: Row | None, origin: Origin, has_tombstones: bool) -> list[Event]:
    key = _key(table, old)
    found = [Event(table, "d", old, None, key, origin)]
    if has_tombstones and key is not None:
        found.append(Event(table, None, None, None, key, origin))
    return found


def _filled(new: Row, old: Row | None) -> Row:
    """Return the new row. Take values that the log does not repeat from the old row, if it has them."""
    if old is None or UNCHANGED not in new:
        return new
    return tuple([was if now is UNCHANGED and was is not None else now for now, was in zip(new, old, strict=True)])


def _key(table: Table, row: Row | None) -> Row | None:
    if row is None or not table.key:
        return None
    return tuple([row[at] for at in table.key_places])
