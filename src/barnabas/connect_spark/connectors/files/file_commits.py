"""Write the files of many batches to one folder. Each batch and its positions are committed together or not at all.

Beside the data is the folder ``_barnabas/<connector>`` (readers such as Spark skip names that begin with ``_``):

- ``staging/<batch>/``: the files of a batch that is being written; no other task reads them;
- ``pending/<batch>.json``: the manifest. It maps staged files to data files, and has the positions after the batch.
**The rename to this name is the commit**: before it the batch does not exist, after it the batch exists, even if its
files still have to be moved;
- ``positions.json``: the positions after all batches whose manifests were completed and deleted;
- ``schema.json``: the schema of all files (``file_schema``), which all tasks share. It is written before the first file
  that needs it.

The next task completes pending manifests: moving a file that was already moved does nothing. The name of a file depends
only on the ranges of its batch, so the same records get the same name.

A batch is committed under a lock, and only if it begins at the folder's positions. Of two tasks that both claim a
partition, such as one that was cut off by a network failure, the second is refused.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from barnabas.common.topic_partition import TopicPartition
from barnabas.connect.plugins.api import OffsetRange, TerminalError
from barnabas.connect_spark.positions.group_positions import from_kafka_json, kafka_json
from barnabas.connect_spark.positions.sink_positions import is_written, refuse_unless_next

__all__ = ["FileCommits", "Files", "batch_name", "staged_moves"]

_HOME = "_barnabas"


class Files:
    """Operations on the disk. Each call is an atomic step."""

    def write(self, path: Path, text: str) -> None:
        """Write the file atomically and durably."""
        scratch = path.with_name(f".{path.name}.new")
        with scratch.open("w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(scratch, path)
        _sync(path.parent)

    def move(self, source: Path, target: Path) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        os.replace(source, target)

    def remove(self, path: Path) -> None:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def batch_name(task: int, ranges: Mapping[TopicPartition, OffsetRange]) -> str:
    """Return a name that is the same for the same records. Names of a task sort in the order of its batches."""
    text = json.dumps([[*partition, offsets.start, offsets.end] for partition, offsets in sorted(ranges.items())])
    digest = hashlib.sha256(text.encode()).hexdigest()[:10]
    return f"{task}-{sum(offsets.start for offsets in ranges.values()):016d}-{digest}"


class FileCommits:
    def __init__(self, root: Path, connector: str, files: Files | None = None) -> None:
        self._root = root
        self._connector = quote(connector, safe="")
        self._home = root / _HOME / self._connector
        self._files = files or Files()

    @property
    def home(self) -> Path:
        return self._home

    def prepare(self) -> None:
        """Create the folders. Complete or remove what a crash has left. Raise OSError."""
        for name in ("staging", "pending"):
            (self._home / name).mkdir(parents=True, exist_ok=True)
        with self._locked():
            self._finish_pending()

    def forget_staging(self, task: int) -> None:
        """Remove the files that a task has written and not committed. One that still runs can't commit them then."""
        with self._locked():
            self._finish_pending()
            for path in self._home.glob(f"staging/{task}-*"):
                self._files.remove(path)

    def begin(self, name: str, ranges: Mapping[TopicPartition, OffsetRange]) -> Path | None:
        """Return an empty folder for the batch; None if the batch is committed already.

        It may be committed already when a write is retried that failed after its commit.
        """
        with self._locked():
            self._finish_pending()
            positions = self._positions()
        if is_written(positions, ranges):
            return None
        folder = self._home / "staging" / name
        if folder.exists():
            self._files.remove(folder)
        return folder

    def positions(self) -> dict[TopicPartition, int]:
        with self._locked():
            self._finish_pending()
            return self._positions()

    def commit(self, name: str, ranges: Mapping[TopicPartition, OffsetRange]) -> None:
        """Turn the staged files of a batch into data. Raise TerminalError if another task was faster."""
        staged = self._home / "staging" / name
        with self._locked():
            self._finish_pending()
            refuse_unless_next(self._positions(), ranges, str(self._root))
            if not staged.exists():
                raise TerminalError(
                    f"the files of the batch in {staged} were removed: this task was started elsewhere, and writes "
                    f"{self._root} there."
                )
            found = [str(path.relative_to(staged)) for path in staged.rglob("*") if path.is_file()]
            moves = staged_moves(found, f"{self._connector}-{name}")
            for source, _ in moves:
                _sync(staged / source)
            ends = {partition: offsets.end for partition, offsets in ranges.items()}
            manifest = {"files": moves, "positions": kafka_json(ends)}
            self._files.write(self._home / "pending" / f"{name}.json", json.dumps(manifest))
            self._finish_pending()

    def change_schema(self, change: Callable[[str | None], str | None]) -> None:
        """Change the stored schema. ``change`` receives it, or None, and returns the new one.

        No other task changes the schema meanwhile. Raise what ``change`` raises.
        """
        path = self._home / "schema.json"
        with self._locked():
            try:
                stored = path.read_text()
            except FileNotFoundError:
                stored = None
            changed = change(stored)
            if changed is not None and changed != stored:
                self._files.write(path, changed)

    @property
    def schema_place(self) -> str:
        """Where the schema is, for messages."""
        return str(self._home / "schema.json")

    def data_files(self, extension: str) -> list[str]:
        """Return the data files that this connector has committed."""
        name = re.compile(rf"{re.escape(self._connector)}-\d+-\d{{16}}-[0-9a-f]{{10}}-\d{{5}}\.(.*\.)?{extension}")
        return [
            str(path)
            for path in sorted(self._root.rglob(f"*.{extension}"))
            if name.fullmatch(path.name) and path.relative_to(self._root).parts[0] != _HOME
        ]

    def set_positions(self, offsets: Mapping[TopicPartition, int | None]) -> None:
        """Set positions on request; None removes one. The data stay unchanged."""
        for name in ("staging", "pending"):
            (self._home / name).mkdir(parents=True, exist_ok=True)
        with self._locked():
            self._finish_pending()
            positions = self._positions()
            for partition, offset in offsets.items():
                positions.pop(partition, None)
                if offset is not None:
                    positions[partition] = offset
            self._write_positions(positions)

    # ---- under the lock

    def _finish_pending(self) -> None:
        for path in sorted(self._home.glob("pending/*.json")):
            manifest = json.loads(path.read_text())
            staged = self._home / "staging" / path.stem
            folders: set[Path] = set()
            for source, target in manifest["files"]:
                if (staged / source).exists():
                    self._files.move(staged / source, self._root / target)
                    folders.add((self._root / target).parent)
            for folder in folders:
                _sync(folder)
            self._write_positions(self._positions() | from_kafka_json(manifest["positions"]))
            self._files.remove(path)
            if staged.exists():
                self._files.remove(staged)

    def _positions(self) -> dict[TopicPartition, int]:
        try:
            return from_kafka_json(json.loads((self._home / "positions.json").read_text()))
        except FileNotFoundError:
            return {}

    def _write_positions(self, positions: Mapping[TopicPartition, int]) -> None:
        self._files.write(self._home / "positions.json", json.dumps(kafka_json(positions)))

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with (self._home / "lock").open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def staged_moves(staged: Sequence[str], prefix: str) -> Sequence[tuple[str, str]]:
    """Return the moves of a batch's staged files to the root, by their paths below the staging folder and the root.

    Spark's own names have a random part. Its files that are not data have names that begin with ``_`` or a dot.
    """
    data = sorted(Path(path) for path in staged if not any(part.startswith(("_", ".")) for part in Path(path).parts))
    moves: list[tuple[str, str]] = []
    for index, path in enumerate(data):
        extension = path.name.partition(".")[2]
        moves.append((str(path), str(path.parent / f"{prefix}-{index:05d}.{extension}")))
    return moves
