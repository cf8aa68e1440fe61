"""The positions of a sink in the snapshots of an Iceberg table.

Each snapshot of ours has in its summary the positions of all partitions that the connector has written to the table.
So the newest of them is enough, and after a rollback of the table the positions are those of the data that is left. The
same positions are in a property of the table, committed with the snapshot: it counts if the snapshot has expired.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from barnabas.common.topic_partition import TopicPartition
from barnabas.connect_spark.positions.group_positions import from_kafka_json, kafka_json

__all__ = ["APPLICATION", "positions_in", "property_of", "summary_of"]

APPLICATION = "barnabas.application"
_CONNECTOR, _TASK = "barnabas.connector", "barnabas.task"
_OFFSETS, _POSITIONS = "barnabas.offsets", "barnabas.positions"


def property_of(application: str) -> str:
    return f"{_POSITIONS}.{application}"


def positions_in(metadata: Any, application: str) -> dict[TopicPartition, int]:
    """Return the positions that a table's metadata (Iceberg's ``TableMetadata``) has for an application."""
    snapshot = metadata.currentSnapshot()
    while snapshot is not None:
        summary = snapshot.summary()
        if summary.get(APPLICATION) == application:
            return _parsed(summary.get(_POSITIONS))
        parent = snapshot.parentId()
        if parent is None:
            return {}  # The whole history is there, and has nothing of ours.
        snapshot = metadata.snapshot(parent)
    return _parsed(metadata.properties().get(property_of(application)))


def summary_of(
    application: str,
    connector: str,
    task: int | None,
    batch: Mapping[TopicPartition, int],
    positions: Mapping[TopicPartition, int],
) -> dict[str, str]:
    """Return what a snapshot's summary says: who wrote it, where its batch ends, and where all partitions stand.

    ``task`` is None for positions that were set on request.
    """
    return {
        APPLICATION: application,
        _CONNECTOR: connector,
        **({} if task is None else {_TASK: str(task)}),
        _OFFSETS: _text(batch),
        _POSITIONS: _text(positions),
    }


def _text(positions: Mapping[TopicPartition, int]) -> str:
    return json.dumps(kafka_json(dict(sorted(positions.items()))), separators=(",", ":"))


def _parsed(text: str | None) -> dict[TopicPartition, int]:
    return from_kafka_json(json.loads(text)) if text else {}
