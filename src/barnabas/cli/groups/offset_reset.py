"""Where a group is to go on: which partitions are meant, and which offset each gets. Kafka's ways, with its names.

An offset outside of what a partition holds becomes the nearest that it holds, as in Kafka's tool.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from barnabas.cli.arguments.cluster_options import UsageError
from barnabas.cli.output.advice import UnknownName, nearest
from barnabas.common.topic_partition import TopicPartition

if TYPE_CHECKING:
    from barnabas.clients.admin import AdminClient, OffsetAndMetadata

__all__ = ["Topics", "Way", "meant_partitions", "parse_datetime", "parse_duration", "parse_topics", "wanted_offsets"]

Topics = list[tuple[str, list[int] | None]]
_DURATION = re.compile(
    r"P(?:(?P<days>\d+)D)?(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?"
)


@dataclass(frozen=True, slots=True)
class Way:
    """``kind`` is the option without its dashes; ``number`` its offset, its shift, or its moment in milliseconds.

    ``offsets`` are those of a file.
    """

    kind: str
    number: int = 0
    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)


def parse_topics(texts: Iterable[str] | None) -> Topics:
    """``orders`` or ``orders:0,2``. Raises UsageError."""
    found: Topics = []
    for text in texts or ():
        name, colon, partitions = text.partition(":")
        try:
            found.append((name, [int(part) for part in partitions.split(",")] if colon else None))
        except ValueError:
            raise UsageError(f"--topic {text}: partitions are written as in {name}:0,2") from None
    return found


def parse_datetime(text: str, option: str = "--to-datetime") -> int:
    """Milliseconds since 1970. Without a zone it is UTC, as in Kafka's tool. Raises UsageError."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{option} {text}: write it as in 2026-01-31T12:30:00.000, with +01:00 for a zone") from None
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def parse_duration(text: str) -> timedelta:
    """Raises UsageError."""
    match = _DURATION.fullmatch(text)
    parts = {unit: float(value) for unit, value in match.groupdict().items() if value} if match else {}
    if not parts:
        raise UsageError(f"--by-duration {text}: write it as in P7D, PT12H or P1DT2H30M")
    return timedelta(**parts)


async def meant_partitions(
    admin: AdminClient, topics: Topics, committed: Iterable[TopicPartition], *, all_topics: bool
) -> list[TopicPartition]:
    """Those that are named; with ``all_topics`` those that the group has offsets of. Raises UnknownName."""
    if all_topics:
        return sorted(committed)
    whole = [name for name, partitions in topics if partitions is None]
    counts: dict[str, int] = {}
    if whole:
        described = await admin.describe_topics(whole)
        for name in described.errors:
            known = [each.name async for each in admin.list_topics(include_internal=True)]
            near = nearest(str(name), known)
            raise UnknownName(str(name), "there is no topic of this name that you may see", near)
        counts = {topic.name: len(topic.partitions) for topic in described.values.values()}
    return sorted(
        {
            TopicPartition(name, partition)
            for name, partitions in topics
            for partition in (range(counts[name]) if partitions is None else partitions)
        }
    )


async def wanted_offsets(
    admin: AdminClient,
    way: Way,
    partitions: Sequence[TopicPartition],
    committed: Mapping[TopicPartition, OffsetAndMetadata],
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, Any]]:
    """The new offset of each partition, and why there is none."""
    from barnabas.clients.admin import OffsetSpec

    earliest = await admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.earliest()))
    latest = await admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.latest()))
    errors = earliest.errors | latest.errors
    left = [each for each in partitions if each not in errors]
    by_time: dict[TopicPartition, int] = {}
    if way.kind in ("to-datetime", "by-duration"):
        found = await admin.list_offsets(dict.fromkeys(left, OffsetSpec.for_timestamp(max(0, way.number))))
        errors |= found.errors
        by_time = {each: listed.offset for each, listed in found.values.items()}
        left = [each for each in left if each not in errors]
    new: dict[TopicPartition, int] = {}
    for each in left:
        first, end = earliest.values[each].offset, latest.values[each].offset
        at = committed[each].offset if each in committed else None
        meant = way.offsets[each] if way.kind == "from-file" else _offset(way, first, end, at, by_time.get(each, -1))
        new[each] = min(end, max(first, meant))
    return new, errors


def _offset(way: Way, first: int, end: int, at: int | None, by_time: int) -> int:
    """Where nothing is committed, the end stands for it."""
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
