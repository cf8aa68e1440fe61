"""Decide whether Spark's checkpoint may be used. Kafka has the authoritative positions; a checkpoint may disagree.

It agrees when its last finished batch ended at Kafka's position, or when exactly one batch beyond that was planned:
Spark then repeats it with the same records. Otherwise the checkpoint is discarded, and the query starts at Kafka's
position. That happens when it is behind (the batch was committed to Kafka, but Spark's own note of it was lost), ahead
by more, of other partitions, or unreadable. So a task can move to a worker without the folder, and offsets are changed
only in Kafka.

A folder has Spark's ``offsets/N`` (batch N was planned to end there) and ``commits/N`` (it was finished), and our
``barnabas.json``: where batch 0 began, and the number that is added to Spark's batch numbers. The sum is never repeated
for different records: a fresh checkpoint begins at the clock's milliseconds, and a batch takes longer than one.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = [
    "Checkpoint",
    "CheckpointState",
    "Position",
    "agrees",
    "fresh_checkpoint",
    "note_finished",
    "note_planned",
    "open_checkpoint",
    "planned_checkpoint",
    "read_state",
]

_OURS = "barnabas.json"
_KEPT = 10

Position = Any
"""Any JSON value that is only compared: offsets by topic and partition for a sink; for a source the value that its
plugin derives from Spark's offsets."""


@dataclass(frozen=True, slots=True)
class CheckpointState:
    start: Position
    """Where batch 0 began."""
    first_id: int
    planned: int | None
    """The last batch whose end was written; None before the first one."""
    finished: int | None
    ends: Mapping[int, list[Any]]
    """Spark's end offset of each source, by batch: the last two planned batches."""
    work: Mapping[str, object] = field(default_factory=dict)
    """The work of the task, if its position does not include it."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The folder of a query, ready for use. The id of a batch is ``first_id`` plus Spark's number."""

    folder: Path
    first_id: int
    is_resumed: bool


def agrees(state: CheckpointState, truth: Position, position_of: Callable[[list[object]], Position]) -> bool:
    """Return whether the checkpoint matches ``truth``. ``position_of`` converts Spark's end offsets for comparison."""
    if state.planned is None:
        return state.finished is None and bool(state.start == truth)
    finished = -1 if state.finished is None else state.finished
    if state.planned not in (finished, finished + 1):
        return False
    if finished < 0:
        return bool(state.start == truth)
    return finished in state.ends and bool(position_of(state.ends[finished]) == truth)


def open_checkpoint(
    folder: Path,
    truth: Position,
    position_of: Callable[[list[object]], Position],
    *,
    now_ms: int,
    spark_ends: Sequence[object] | None = None,
    work: Mapping[str, object] | None = None,
) -> Checkpoint:
    """Return the folder unchanged if it agrees, else an empty one.

    It does not agree if it is of other ``work``: task 0 may read other data than before, at an equal position.

    With ``spark_ends`` an empty folder is written as if batch 0 had ended there. That is how a source continues whose
    start can't be set by an option.
    """
    state = read_state(folder)
    if state is not None and state.work == (work or {}) and agrees(state, truth, position_of):
        return Checkpoint(folder, state.first_id, is_resumed=state.planned is not None)
    checkpoint = fresh_checkpoint(folder, now_ms=max(now_ms, _after(state)), start=truth, work=work)
    if spark_ends is not None:
        _pretend(folder, spark_ends)
    return checkpoint


def planned_checkpoint(checkpoint: Checkpoint, start: Position, ends: Sequence[object], *, now_ms: int) -> Checkpoint:
    """Return a checkpoint whose next batch is the one from ``start`` to ``ends``, which another worker began.

    The same folder is returned if that batch is planned there. Otherwise it is emptied, and batch 0 is planned.
    """
    state = read_state(checkpoint.folder)
    if state is not None and state.planned != state.finished and state.planned is not None:
        if list(ends) == state.ends[state.planned]:
            return checkpoint
    fresh = fresh_checkpoint(checkpoint.folder, now_ms=max(now_ms, _after(state)), start=start)
    note_planned(fresh.folder, 0, ends)
    return Checkpoint(fresh.folder, fresh.first_id, is_resumed=True)


def fresh_checkpoint(
    folder: Path, *, now_ms: int, start: Position = None, work: Mapping[str, object] | None = None
) -> Checkpoint:
    """Return an empty folder. Remove any existing contents."""
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    (folder / _OURS).write_text(json.dumps({"start": start, "first_id": now_ms, "work": dict(work or {})}))
    return Checkpoint(folder, now_ms, is_resumed=False)


def read_state(folder: Path) -> CheckpointState | None:
    """Read the state. Return None for a folder that does not exist or is inconsistent."""
    try:
        ours = json.loads((folder / _OURS).read_text())
        planned, finished = _last(folder / "offsets"), _last(folder / "commits")
        batches = [] if planned is None else [batch for batch in (planned - 1, planned) if batch >= 0]
        ends = {batch: _ends(folder / "offsets" / str(batch)) for batch in batches}
        work = dict(ours.get("work", {}))  # Folders of earlier releases, whose positions had no work, have none.
        return CheckpointState(ours["start"], int(ours["first_id"]), planned, finished, ends, work)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _after(state: CheckpointState | None) -> int:
    """Return an id that no batch of the discarded checkpoint had, even if the clock was set back."""
    return 0 if state is None else state.first_id + (-1 if state.planned is None else state.planned) + 1


def _last(folder: Path) -> int | None:
    """Return the last batch. Skip Spark's hidden files with checksums, and unfinished files."""
    return max((int(path.name) for path in folder.glob("*") if path.name.isdigit()), default=None)


def _ends(path: Path) -> list[object]:
    """Parse version, metadata, and a line for each source: its offset, or ``-`` if it has none yet."""
    version, _, *lines = path.read_text().splitlines()
    if version != "v1":
        raise ValueError(f"{path} has version {version}")
    return [None if line == "-" else json.loads(line) for line in lines]


def note_planned(folder: Path, batch_number: int, ends: Sequence[Any]) -> None:
    """Write before a batch the offsets that Spark would write, so that either can continue after the other."""
    metadata = {"batchWatermarkMs": 0, "batchTimestampMs": 0, "conf": {}}
    lines = ["v1", json.dumps(metadata), *("-" if end is None else json.dumps(end) for end in ends)]
    _write(folder / "offsets", batch_number, "\n".join(lines))


def note_finished(folder: Path, batch_number: int) -> None:
    _write(folder / "commits", batch_number, 'v1\n{"nextBatchWatermarkMs":0}')


def _write(folder: Path, batch_number: int, text: str) -> None:
    """Write the file atomically, and remove old ones. A checksum that Spark wrote for an earlier file would not fit."""
    folder.mkdir(exist_ok=True)
    part = folder / f".{batch_number}.part"
    part.write_text(text)
    (folder / f".{batch_number}.crc").unlink(missing_ok=True)
    part.rename(folder / str(batch_number))
    (folder / str(batch_number - _KEPT)).unlink(missing_ok=True)


def _pretend(folder: Path, ends: Sequence[Any]) -> None:
    note_planned(folder, 0, ends)
    note_finished(folder, 0)
