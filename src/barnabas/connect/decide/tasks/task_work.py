"""The work of a source's task, as part of the key of Spark's own positions of it.

The number of a task does not identify its work: with another ``tasks.max``, or another division of the work, task 0
reads other data. A position belongs to the work, so a task continues only where a task with the same work has been.
Unknown work starts at the beginning of its source: records may be repeated, but none is skipped.

The worker can't know how a connector divides its work, so it considers work equal only if all of this is equal:

* the settings of the task that ``task_configs`` made: those that the connector's own settings don't have, and those in
  which the tasks differ;
* the number of tasks, because a task may read each n-th record;
* the number of the task, if another task has the same settings.

A connector can define it more precisely (``SourceConnector.source_partition``). A single task with only the connector's
settings reads everything: its key has no addition, as before positions belonged to work.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = [
    "SPARK_SOURCE",
    "SPARK_TASK",
    "SPARK_TASKS",
    "TaskWork",
    "check_spark_positions",
    "declared_work",
    "default_work",
]

SPARK_SOURCE = "spark.source"
"""The number of a query's source, from 0."""
SPARK_TASK = "spark.task"
SPARK_TASKS = "spark.tasks"

_OF_THE_WORKER = frozenset({"task.class"})
_TEXT_LENGTH_MAX = 400
"""Longer texts become a digest: people read the key, and it is repeated with every position."""


@dataclass(frozen=True, slots=True)
class TaskWork:
    partition: Mapping[str, Any] = field(default_factory=dict)
    """The addition to ``{"spark.source": n}``. Empty for a single task that reads everything."""
    is_all: bool = True
    """Whether the connector has no other task, so that positions without work can only be those of this one."""


def default_work(
    connector_config: Mapping[str, str | None], task_configs: Sequence[Mapping[str, str | None]], task: int
) -> TaskWork:
    """Return the work by default. All maps are as published, with references instead of secrets."""
    own = [_own_settings(connector_config, task_configs, config) for config in task_configs]
    if len(own) == 1 and not own[0]:
        return TaskWork()
    text = _text(own[task])
    if own.count(own[task]) > 1:
        text = f"{task} {text}" if own[task] else str(task)
    return TaskWork({SPARK_TASK: text, SPARK_TASKS: len(own)}, is_all=len(own) == 1)


def declared_work(partitions: Sequence[Mapping[str, Any] | None], task: int) -> TaskWork | None:
    """Return the connector's own definition for all its tasks; None if it has none for this one.

    Raise ValueError if two tasks would share positions, or for values that can't be stored.
    """
    declared = partitions[task]
    if declared is None:
        return None
    if SPARK_SOURCE in declared or not all(isinstance(value, str | int | float | bool) for value in declared.values()):
        raise ValueError(
            f"source_partition of task {task} returns {json.dumps(dict(declared), default=repr)}: return a flat map of "
            f"strings, numbers and booleans without {SPARK_SOURCE}"
        )
    same = [number for number, partition in enumerate(partitions) if partition == declared]
    if len(same) > 1:
        raise ValueError(
            f"source_partition returns {json.dumps(dict(declared))} for the tasks {', '.join(map(str, same))}, which "
            "would continue at each other's positions: give each task a partition of its own"
        )
    return TaskWork(dict(declared), is_all=len(partitions) == 1)


def check_spark_positions(
    offsets: Iterable[tuple[Mapping[str, object] | None, Mapping[str, object] | None]],
    known: Iterable[Mapping[str, object] | None],
) -> None:
    """Check manually set positions of a source whose tasks continue from Spark's own ones.

    Refuse those that no task could read, and those without work where tasks have work of their own. ``known`` are the
    partitions that have a position.

    Raise ValueError.
    """
    works = [partition for partition in known if partition is not None and set(partition) > {SPARK_SOURCE}]
    for partition, offset in offsets:
        if partition is None or offset is None or SPARK_SOURCE not in partition:
            continue
        if set(partition) == {SPARK_SOURCE} and works:
            raise ValueError(
                f"the partition {json.dumps(dict(partition))} lacks a task, but each task of this connector has a "
                f"position of its own: write it as GET shows it, such as {json.dumps(dict(works[0]))}"
            )
        if set(offset) != {"offset"} or not _is_json(offset["offset"]):
            raise ValueError(
                f"the offset of {json.dumps(dict(partition))} must have only offset, with Spark's offset as "
                f"JSON text, such as {json.dumps({'offset': json.dumps({'offset': 7})})}"
            )


def _is_json(text: Any) -> bool:
    try:
        json.loads(text)
    except (TypeError, ValueError):
        return False
    return isinstance(text, str)


def _own_settings(
    connector_config: Mapping[str, str | None],
    task_configs: Sequence[Mapping[str, str | None]],
    config: Mapping[str, str | None],
) -> dict[str, str | None]:
    def is_own(name: str) -> bool:
        if name in _OF_THE_WORKER:
            return False
        if name not in connector_config or connector_config[name] != config[name]:
            return True
        return any(other.get(name) != config[name] for other in task_configs)

    return {name: config[name] for name in sorted(config) if is_own(name)}


def _text(settings: Mapping[str, str | None]) -> str:
    text = json.dumps(settings, separators=(",", ":"), ensure_ascii=False, sort_keys=True)
    if len(text) <= _TEXT_LENGTH_MAX:
        return text
    return f"sha256:{hashlib.sha256(text.encode(errors='surrogatepass')).hexdigest()}"
