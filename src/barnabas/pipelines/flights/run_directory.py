"""The files that a run leaves behind, so that the next run can resume or start over.

One process at a time works in the folder. ``run.json`` says what the run does and whether it is finished; it is written
before the work starts, and again after the outcome was checked. All other progress is derived from the topic's content,
the connectors' groups and the tables.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import IO

from barnabas.pipelines.errors import PipelineError
from barnabas.pipelines.flights.starting_point import RunRecord, RunState

__all__ = ["RunDirectory", "write_durably"]

_BYTES_FREE_MIN = 500 * 1024 * 1024  # A run leaves some 50 MB; Spark's scratch files need more.
_BYTES_FULL = 20 * 1024 * 1024  # Writers of large files fail, and remove their partial files, before the last byte.


class RunDirectory:
    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.plot = self.path / "delays.png"
        self.node = self.path / "node"
        self.node_log = self.path / "node.log"
        self.node_record = self.path / "node.json"
        self.worker = self.path / "worker"
        """Spark's log, checkpoints and scratch files. A worker that was left running continues to use it."""
        self.worker_log = self.path / "worker.log"
        self.worker_record = self.path / "worker.json"
        self.worker_properties = self.path / "worker.properties"
        self.flights = self.path / "flights"
        self.delays = self.path / "delays_by_carrier_hour"
        self.landed = self.path / "landed"
        self.database = self.path / "flights.db"
        self._scratch = self.path / "scratch"
        self._record = self.path / "run.json"
        self._lock_file: IO[str] | None = None

    @property
    def scratch(self) -> Path:
        """A folder that is emptied at every start. It is on the same file system as the targets of its files."""
        return self._scratch

    def open(self) -> None:
        """Create the folder, lock it for this process, and remove the unfinished files of a killed run."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock()
            self.trash(self._scratch)
            shutil.rmtree(self.path / "trash", ignore_errors=True)
            self._scratch.mkdir()
        except OSError as error:
            raise PipelineError(
                f"can't work in {self.path}: {error.strerror}. Choose another folder with --run-directory."
            ) from error
        free = shutil.disk_usage(self.path).free
        if free < _BYTES_FREE_MIN:
            raise PipelineError(
                f"{self.path} has {free // 1024**2} MB free, and a run needs {_BYTES_FREE_MIN // 1024**2} MB. "
                "Free some space, or choose another folder with --run-directory."
            )

    def close(self) -> None:
        self.trash(self._scratch)
        if self._lock_file is not None:
            self._lock_file.close()
            self._lock_file = None

    def is_full(self) -> bool:
        return self.path.exists() and shutil.disk_usage(self.path).free < _BYTES_FULL

    def record(self) -> RunRecord | None:
        """Return the record of the last run; None if it does not exist or can't be parsed."""
        try:
            values = json.loads(self._record.read_text())
            return RunRecord(**{**values, "state": RunState(values["state"])})
        except (OSError, ValueError, TypeError, KeyError):
            return None

    def write_record(self, record: RunRecord) -> None:
        write_durably(self._record, json.dumps(asdict(record), indent=2) + "\n")

    def forget_results(self) -> None:
        """Remove tables and plot. No process may be writing to them."""
        beside = [self.path / f"{self.database.name}{suffix}" for suffix in ("-wal", "-shm", "-journal")]
        self.trash(self.delays, self.flights, self.landed, *beside, self.database, self.plot)

    def trash(self, *paths: Path) -> None:
        """Remove folders atomically, by a rename, so that a half-removed folder never counts as a result."""
        bin_folder = self.path / "trash"
        for path in paths:
            if path.exists():
                bin_folder.mkdir(exist_ok=True)
                target = bin_folder / f"{path.name}-{os.getpid()}-{os.urandom(4).hex()}"
                os.replace(path, target)
        shutil.rmtree(bin_folder, ignore_errors=True)

    def _lock(self) -> None:
        lock_file = (self.path / ".lock").open("a+")
        try:
            fcntl.flock(lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock_file.seek(0)
            owner = lock_file.read().strip() or "unknown"
            lock_file.close()
            raise PipelineError(
                f"another run works in {self.path} (process {owner}). Wait for it, or choose another folder with "
                "--run-directory."
            ) from None
        lock_file.truncate(0)
        lock_file.write(f"{os.getpid()}\n")
        lock_file.flush()
        self._lock_file = lock_file


def write_durably(path: Path, text: str) -> None:
    """Replace the file atomically: a reader sees the old text or the new one."""
    new = path.with_name(f".{path.name}.new")
    with new.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(new, path)
