"""Where a query begins in each partition of its topics: at its own position, or where ``start`` says."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from barnabas.clients.admin.partitions import IsolationLevel, OffsetSpec
from barnabas.common.topic_partition import TopicPartition
from barnabas.connect_spark.sql.declarations import InputDeclaration, StartKind, StartPoint

if TYPE_CHECKING:
    from barnabas.clients.admin.sync_client import SyncAdminClient

__all__ = ["partitions_of", "starting_offsets"]

log = logging.getLogger(__name__)

Offsets = Mapping[TopicPartition, int]


def partitions_of(admin: SyncAdminClient, topic: str) -> list[TopicPartition]:
    """Return the partitions of a topic. Raise AdminError or ClientError, also for a topic that does not exist."""
    described = admin.describe_topics([topic]).raise_for_errors()
    return [TopicPartition(topic, number) for number in range(len(described[topic].partitions))]


def starting_offsets(
    admin: SyncAdminClient, declaration: InputDeclaration, known: Offsets, partitions: list[TopicPartition]
) -> dict[TopicPartition, int]:
    """Return the next offset to read of each partition. ``known`` are the positions of the query.

    A position that its partition no longer has is replaced, with a warning. Raise AdminError or ClientError.
    """
    first = _offsets(admin, partitions, OffsetSpec.earliest())
    end = _offsets(admin, partitions, OffsetSpec.latest())
    starts: dict[TopicPartition, int] = {}
    unknown: list[TopicPartition] = []
    for partition in partitions:
        position = known.get(partition)
        if position is not None and first[partition] <= position <= end[partition]:
            starts[partition] = position
            continue
        unknown.append(partition)
        if position is not None:
            log.warning(
                "input %s: offset %d is not in %s, which has %d to %d: continuing at its start",
                *(declaration.name, position, partition, first[partition], end[partition]),
            )
    return {**starts, **_begin(admin, declaration.start, unknown, first, end)}


def _begin(
    admin: SyncAdminClient, start: StartPoint, partitions: list[TopicPartition], first: Offsets, end: Offsets
) -> dict[TopicPartition, int]:
    if start.kind is StartKind.EARLIEST:
        return {partition: first[partition] for partition in partitions}
    if start.kind is StartKind.LATEST or not partitions:
        return {partition: end[partition] for partition in partitions}
    found = _offsets(admin, partitions, OffsetSpec.for_timestamp(start.time_ms))
    return {partition: end[partition] if offset < 0 else offset for partition, offset in found.items()}


def _offsets(admin: SyncAdminClient, partitions: list[TopicPartition], spec: OffsetSpec) -> dict[TopicPartition, int]:
    if not partitions:
        return {}
    level = IsolationLevel.READ_UNCOMMITTED
    found = admin.list_offsets(dict.fromkeys(partitions, spec), isolation_level=level).raise_for_errors()
    return {partition: found[partition].offset for partition in partitions}
