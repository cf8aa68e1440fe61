"""All that is known about a task before it starts, and the calls that it may make to its worker."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from barnabas.connect.decide.tasks.task_work import TaskWork
from barnabas.connect.decide.tasks.transaction_requests import TransactionRequests
from barnabas.connect.identifiers import ConnectorTaskId
from barnabas.connect.metrics.task_metrics import TaskFigures
from barnabas.connect.settings.plugin_config_def import ConfigValue

__all__ = ["OffsetWriter", "TaskSpec", "WorkerTaskContext", "new_figures"]

SourceOffsetReader = Callable[[Mapping[str, Any]], "Mapping[str, Any] | None"]

OffsetWriter = Callable[[Sequence[tuple[Mapping[str, Any], "Mapping[str, Any] | None"]]], None]
"""Write offsets. Blocks until the offsets of a source are safe in Kafka."""


def _ignore(rows: int, duration_ms: int) -> None:
    pass


def new_figures(
    succeeded: Callable[[], None] = lambda: None,
    skipped: Callable[[int, int], None] = lambda records, dead_letters: None,
) -> TaskFigures:
    return TaskFigures(
        monotonic_ms=lambda: time.monotonic_ns() // 1_000_000,
        epoch_ms=lambda: time.time_ns() // 1_000_000,
        succeeded=succeeded,
        skipped=skipped,
    )


@dataclass(frozen=True, slots=True)
class TaskSpec:
    task: ConnectorTaskId
    connector_config: Mapping[str, str]
    task_config: Mapping[str, str]
    worker_config: Mapping[str, str]
    folder: Path
    """The task's own folder, for checkpoints and files that a plugin needs only while it runs."""
    note_batch: Callable[[int, int], None] = _ignore
    """Receives rows and milliseconds of each batch that this process does not write itself."""
    figures: TaskFigures = field(default_factory=new_figures)
    """Counts the work of the task."""
    work: TaskWork = field(default_factory=TaskWork)
    """The work of a source task."""

    def empty_scratch(self) -> Path:
        """Create an empty scratch folder; files left by a crash are removed."""
        self.remove_scratch()
        scratch = self._scratch
        scratch.mkdir(parents=True)
        return scratch

    def remove_scratch(self) -> None:
        """Remove the scratch folder after the task: it may never run here again. Files being written may stay."""
        shutil.rmtree(self._scratch, ignore_errors=True)

    @property
    def _scratch(self) -> Path:
        return self.folder / "scratch"

    @property
    def query_name(self) -> str:
        return str(self.task)


@dataclass(frozen=True, slots=True)
class WorkerTaskContext:
    """The worker as a plugin's task sees it."""

    connector: str
    task: int
    config: Mapping[str, str]
    settings: Mapping[str, ConfigValue]
    read_offset: SourceOffsetReader
    scratch: Path
    is_exactly_once: bool = False
    transactions: TransactionRequests | None = None
    figures: TaskFigures = field(default_factory=new_figures)

    def report(self, name: str, description: str, value: float) -> None:
        self.figures.has_reported(name, description, value)

    def source_offset(self, partition: Mapping[str, object]) -> Mapping[str, object] | None:
        return self.read_offset(partition)
