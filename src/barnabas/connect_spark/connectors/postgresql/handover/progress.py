"""The positions of a task: of the stream, and of each table while it is read. No I/O.

The stream's position is ``{"server": prefix}`` -> ``{"lsn": n, "changes": n}`` (``Place``). A table's is ``{"server":
prefix, "table": "schema.name"}`` -> ``{"snapshot": "running" or "done", "runs": text, "file": n}``.

**Runs.** A table is read in the order of its key. A snapshot of the database ends with the process that took it, so a
task that continues takes a new one: each run reads the keys after those of the run before, up to ``until``. ``file`` is
the file of the table: another one means that the table was truncated or rewritten between two runs.

**The hand-over to the stream** needs no common moment. The slot exists before the first run, so the stream has every
change that a run may have missed. A change is left out if the run that read its key has seen its transaction, and only
then. Later runs see more transactions. So if the first run that sees a transaction is run n, the change is left out
for the keys after those of run n - 1. The database itself compares keys, because its order of texts is its own.

Runs are forgotten when the stream has passed the point in the log at which the last one began.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from barnabas.connect_spark.connectors.postgresql.handover.visibility import Snapshot
from barnabas.connect_spark.connectors.postgresql.pgoutput.transactions import Place

__all__ = [
    "Key",
    "Run",
    "TableProgress",
    "check_offset",
    "place_of",
    "place_offset",
    "server_partition",
    "table_partition",
]

Key = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Run:
    snapshot: Snapshot
    text: str
    """The snapshot as the database writes it."""
    lsn: int
    """A position in the log after all transactions that the snapshot sees."""
    until: Key | None = None
    """The last key that was read; None: all keys after those of the run before."""


@dataclass(frozen=True, slots=True)
class TableProgress:
    is_done: bool
    runs: tuple[Run, ...] = ()
    file: int = 0

    @property
    def last_key(self) -> Key | None:
        """Return the key after which to continue; None: at the beginning."""
        return self.runs[-1].until if self.runs and not self.is_done else None

    def after(self, run: Run, *, is_done: bool) -> TableProgress:
        """Return the progress after a part of a run, which replaces its former part."""
        kept = self.runs[:-1] if self.runs and self.runs[-1].text == run.text else self.runs
        return replace(self, is_done=is_done, runs=(*kept, run))

    def first_run_that_sees(self, xid: int) -> int | None:
        return next((number for number, run in enumerate(self.runs) if run.snapshot.sees(xid)), None)

    def passed(self, lsn: int) -> TableProgress:
        """Return the progress without runs, if the stream is past them all."""
        return replace(self, runs=()) if self.is_done and self.runs and lsn >= self.runs[-1].lsn else self

    def offset(self) -> dict[str, Any]:
        runs = [{"snapshot": run.text, "lsn": run.lsn, "until": run.until} for run in self.runs]
        return {
            "snapshot": "done" if self.is_done else "running",
            "runs": json.dumps(runs, separators=(",", ":")),
            "file": self.file,
        }

    @classmethod
    def of(cls, offset: Mapping[str, Any] | None) -> TableProgress | None:
        """Parse the offset; None without one. Raise ValueError."""
        if offset is None:
            return None
        state = offset.get("snapshot")
        if state not in ("done", "running"):
            raise ValueError(f"snapshot must be done or running, not {state!r}")
        try:
            runs = tuple(_run(form) for form in json.loads(offset.get("runs") or "[]"))
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"runs can't be read: {error!r}") from None
        return cls(state == "done", runs, _whole(offset, "file"))


def _run(form: Mapping[str, Any]) -> Run:
    until = form["until"]
    text = str(form["snapshot"])
    return Run(Snapshot.parse(text), text, int(form["lsn"]), None if until is None else tuple(map(str, until)))


def server_partition(prefix: str) -> dict[str, str]:
    return {"server": prefix}


def table_partition(prefix: str, table: str) -> dict[str, str]:
    return {"server": prefix, "table": table}


def place_offset(place: Place) -> dict[str, int]:
    return {"lsn": place.lsn, "changes": place.changes}


def place_of(offset: Mapping[str, Any] | None) -> Place | None:
    """Parse the stream's offset; None without one. Raise ValueError."""
    if offset is None:
        return None
    if "lsn" not in offset:
        raise ValueError("lsn is missing")
    return Place(_whole(offset, "lsn"), _whole(offset, "changes"))


def _whole(offset: Mapping[str, Any], name: str) -> int:
    value = offset.get(name, 0)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"{name} must be a whole number, not {value!r}")
    return value


def check_offset(prefix: str, partition: Mapping[str, Any], offset: Mapping[str, Any] | None) -> None:
    """Check an offset that a user sets. Raise ValueError."""
    is_table = partition.keys() == {"server", "table"}
    if partition.get("server") != prefix or not (is_table or partition.keys() == {"server"}):
        raise ValueError(
            f"{dict(partition)} is not a partition of this connector: it has {server_partition(prefix)} and "
            f"{table_partition(prefix, 'SCHEMA.TABLE')}"
        )
    if is_table:
        TableProgress.of(offset)
    else:
        place_of(offset)
