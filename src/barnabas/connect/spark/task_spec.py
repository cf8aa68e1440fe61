"""All that is known about a task before it starts, and what it may ask of its worker."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from barnabas.connect.identifiers import ConnectorTaskId
from barnabas.connect.plugins.config_def import ConfigValue

__all__ = ["OffsetWriter", "TaskSpec", "WorkerTaskContext"]

SourceOffsetReader = Callable[[Mapping[str, Any]], "Mapping[str, Any] | None"]

OffsetWriter = Callable[[Sequence[tuple[Mapping[str, Any], "Mapping[str, Any] | None"]]], None]
"""Blocks until the offsets of a source are safe in Kafka."""


def _nobody(rows: int, duration_ms: int) -> None:
    pass


@dataclass(frozen=True, slots=True)
class TaskSpec:
    task: ConnectorTaskId
    connector_config: Mapping[str, str]
    task_config: Mapping[str, str]
    worker_config: Mapping[str, str]
    folder: Path
    """The task's own, for checkpoints."""
    note_batch: Callable[[int, int], None] = _nobody
    """Told rows and milliseconds of each batch that no query of Spark's reports."""

    @property
    def query_name(self) -> str:
        return str(self.task)


@dataclass(frozen=True, slots=True)
class WorkerTaskContext:
    """What a plugin's task sees of its worker."""

    connector: str
    task: int
    config: Mapping[str, str]
    settings: Mapping[str, ConfigValue]
    read_offset: SourceOffsetReader

    def source_offset(self, partition: Mapping[str, Any]) -> Mapping[str, Any] | None:
        return self.read_offset(partition)
