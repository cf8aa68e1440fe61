"""The hand-over from reading to streaming, on a model of a database: any runs, any changes, any order of commits."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.connect_spark.connectors.postgresql.debezium.events import Event, Origin, Table
from barnabas.connect_spark.connectors.postgresql.handover.filter import uncovered
from barnabas.connect_spark.connectors.postgresql.handover.progress import (
    Run,
    TableProgress,
    check_offset,
    place_of,
    table_partition,
)
from barnabas.connect_spark.connectors.postgresql.handover.visibility import Snapshot
from barnabas.connect_spark.connectors.postgresql.pgoutput.messages import Column

TABLE = Table("public", "t", (Column("id", 23, -1, True), Column("item", 25, -1, False)), ("id",))
KEYS = 8


@pytest.mark.parametrize(
    ("text", "xid", "is_seen"),
    [
        ("10:20:12,15", 9, True),
        ("10:20:12,15", 11, True),
        ("10:20:12,15", 12, False),
        ("10:20:12,15", 20, False),
        ("4294967290:4294967300:", 4294967295, True),
        ("4294967290:4294967300:", 3, True),
        ("4294967290:4294967300:", 4, False),
        ("8589934592:8589934600:", 4294967290, True),
    ],
)
def test_a_snapshot_sees_what_had_ended(text: str, xid: int, is_seen: bool) -> None:
    assert Snapshot.parse(text).sees(xid) is is_seen


@dataclass
class _Database:
    """Rows by key, and the log of commits. Transactions of several changes may overlap."""

    rows: dict[int, str] = field(default_factory=dict)
    log: list[Event] = field(default_factory=list)
    next_xid: int = 100
    open: dict[int, list[tuple[int, str | None]]] = field(default_factory=dict)

    def begin(self, changes: list[tuple[int, str | None]]) -> None:
        """Begin a transaction that will change rows. Rows of another open one are locked, and left out."""
        locked = {key for others in self.open.values() for key, _ in others}
        free = {key: item for key, item in changes if key not in locked}
        self.open[self.next_xid] = [*free.items()]
        self.next_xid += 1

    def commit(self, at: int) -> None:
        if not self.open:
            return
        xid = sorted(self.open)[at % len(self.open)]
        for key, item in self.open.pop(xid):
            self._change(xid, key, item)

    def _change(self, xid: int, key: int, item: str | None) -> None:
        origin = Origin(len(self.log), xid, 0)
        if item is None:
            if self.rows.pop(key, None) is not None:
                self.log.append(Event(TABLE, "d", None, None, (str(key),), origin))
            return
        operation = "u" if key in self.rows else "c"
        self.rows[key] = item
        self.log.append(Event(TABLE, operation, None, (str(key), item), (str(key),), origin))

    def snapshot(self) -> str:
        return f"{min(self.open, default=self.next_xid)}:{self.next_xid}:{','.join(map(str, self.open))}"


CHANGES = st.lists(st.tuples(st.integers(0, KEYS - 1), st.none() | st.sampled_from("abc")), min_size=1, max_size=3)
STEPS = st.lists(
    st.one_of(
        CHANGES.map(lambda changes: ("begin", changes)),
        st.integers(0, 5).map(lambda at: ("commit", at)),
        st.integers(1, 3).map(lambda keys: ("read", keys)),
        st.just(("die", 0)),
    ),
    max_size=40,
)


@given(STEPS)
def test_any_history_gives_each_row_once(steps: list[tuple[str, Any]]) -> None:
    database, progress = _Database(), TableProgress(is_done=False)
    snapshot, rows, seen = "", {}, []
    for step, detail in [*steps, *(("read", 3) for _ in range(KEYS))]:
        if step == "begin":
            database.begin(detail)
        elif step == "commit":
            database.commit(detail)
        elif step == "die":
            snapshot = ""
        elif not progress.is_done:
            if not snapshot:  # A new run.
                snapshot, rows = database.snapshot(), dict(database.rows)
            after = int(progress.last_key[0]) if progress.last_key else -1
            part = sorted(key for key in rows if key > after)[:detail]
            is_done = len(part) < detail
            until = None if is_done else (str(part[-1]),)
            progress = progress.after(Run(Snapshot.parse(snapshot), snapshot, 0, until), is_done=is_done)
            seen += [Event(TABLE, "r", None, (str(key), rows[key]), (str(key),), Origin(0, None, 0)) for key in part]
    progress = TableProgress.of(progress.offset())  # As a task that starts again reads it.
    assert progress.is_done
    while database.open:
        database.commit(0)

    def are_after(
        table: str, columns: tuple[str, ...], until: tuple[str, ...], keys: list[tuple[str, ...]]
    ) -> list[bool]:
        return [int(key[0]) > int(until[0]) for key in keys]

    found: dict[int, Any] = {}
    for event in [*seen, *uncovered(database.log, {"public.t": progress}, are_after)]:
        key = int(str(event.key[0]))
        assert (key in found) is (event.operation in ("u", "d")), event
        if event.operation == "d":
            del found[key]
        else:
            found[key] = event.after[1]
    assert found == database.rows


def test_offsets_that_can_not_be_used_are_named() -> None:
    for offset, reason in (
        ({"snapshot": "half"}, "snapshot must be done or running"),
        ({"snapshot": "done", "runs": "[1]"}, "runs can't be read"),
        ({"snapshot": "done", "runs": "[]", "file": "x"}, "file must be a whole number"),
    ):
        with pytest.raises(ValueError, match=reason):
            check_offset("p", table_partition("p", "public.t"), offset)
    with pytest.raises(ValueError, match="lsn is missing"):
        place_of({})
    with pytest.raises(ValueError, match="is not a partition of this connector"):
        check_offset("p", {"server": "other"}, {"lsn": 1})
    check_offset("p", {"server": "p"}, {"lsn": 1})
