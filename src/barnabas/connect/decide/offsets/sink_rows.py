"""Rows of a request that changes the positions of a sink: a partition of a topic, and an offset or null (KIP-875)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from barnabas.common.topic_partition import TopicPartition
from barnabas.connect.entities import ConnectorOffset
from barnabas.connect.errors import BadRequest

__all__ = ["sink_entry", "sink_offsets", "sink_row"]

_TOPIC, _PARTITION, _OFFSET = "kafka_topic", "kafka_partition", "kafka_offset"


def sink_entry(partition: TopicPartition, offset: int | None) -> ConnectorOffset:
    return ConnectorOffset(
        {_PARTITION: partition.partition, _TOPIC: partition.topic}, None if offset is None else {_OFFSET: offset}
    )


def sink_offsets(offsets: Sequence[ConnectorOffset]) -> dict[TopicPartition, int | None]:
    """Parse the rows; the last of equal partitions counts. Raise BadRequest."""
    return dict(sink_row(entry) for entry in offsets)


def sink_row(entry: ConnectorOffset) -> tuple[TopicPartition, int | None]:
    """Parse a row. Raise BadRequest."""
    if entry.partition is None:
        raise BadRequest("The partition for a sink connector offset cannot be null or missing")
    if _TOPIC not in entry.partition or _PARTITION not in entry.partition:
        raise BadRequest(
            f"The partition for a sink connector offset must contain the keys '{_TOPIC}' and '{_PARTITION}'"
        )
    topic = entry.partition[_TOPIC]
    if topic is None:
        raise BadRequest("Kafka topic names must be valid strings and may not be null")
    partition = TopicPartition(str(topic), _integer(entry.partition[_PARTITION], "Kafka partitions"))
    if entry.offset is None:
        return partition, None
    if _OFFSET not in entry.offset:
        raise BadRequest(f"The offset for a sink connector should either be null or contain the key '{_OFFSET}'")
    return partition, _integer(entry.offset[_OFFSET], "Kafka offsets")


def _integer(value: Any, what: str) -> int:
    try:
        if value is None or isinstance(value, bool):
            raise ValueError
        return int(str(value))
    except ValueError:
        raise BadRequest(f"{what} must be integers, not {value!r}") from None
