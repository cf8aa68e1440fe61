"""Choose partitions and new offsets of a group, by the methods and names of Kafka's tool.

An offset outside the range of a partition becomes the nearest offset inside it, as in Kafka's tool.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from barnabas.common.topic_partition import TopicPartition

if TYPE_CHECKING:
    from barnabas.clients.admin import AdminClient

__all__ = ["OffsetTarget", "wanted_offsets"]


@dataclass(frozen=True, slots=True)
class OffsetTarget:
    """The new offsets. ``kind`` is the option without dashes; ``number`` its offset, shift, or time in milliseconds.

    ``offsets`` are the offsets of a file.
    """

    kind: str
    number: int = 0
    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)


async def wanted_offsets(
    admin: AdminClient,
    way: OffsetTarget,
    partitions: Sequence[TopicPartition],
    committed: Mapping[TopicPartition, int],
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, Any]]:
    """Return the new offset of each partition, and errors of partitions without one."""
    from barnabas.clients.admin import OffsetSpec

    earliest = await admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.earliest()))
    latest = await admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.latest()))
    errors = earliest.errors | latest.errors
    left = [partition for partition in partitions if partition not in errors]
    by_time: dict[TopicPartition, int] = {}
    if way.kind in ("to-datetime", "by-duration"):
        found = await admin.list_offsets(dict.fromkeys(left, OffsetSpec.for_timestamp(max(0, way.number))))
        errors |= found.errors
        by_time = {partition: listed.offset for partition, listed in found.values.items()}
        left = [partition for partition in left if partition not in errors]
    new: dict[TopicPartition, int] = {}
    for partition in left:
        first, end = earliest.values[partition].offset, latest.values[partition].offset
        at = committed.get(partition)
        meant = (
            way.offsets[partition]
            if way.kind == "from-file"
            else _offset(way, first, end, at, by_time.get(partition, -1))
        )
        new[partition] = min(end, max(first, meant))
    return new, errors


def _offset(way: OffsetTarget, first: int, end: int, at: int | None, by_time: int) -> int:
    """Return the new offset, which may be outside the range. The log end offset replaces a missing committed offset."""
    match way.kind:
        case "to-earliest":
            return first
        case "to-latest":
            return end
        case "to-offset":
            return way.number
        case "shift-by":
            return (end if at is None else at) + way.number
        case "to-current":
            return end if at is None else at
        case _:
            return end if by_time < 0 else by_time
