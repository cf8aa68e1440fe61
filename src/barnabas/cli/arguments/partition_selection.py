"""Parse partitions and brokers on a command line: ``orders``, ``orders:0,2``, and ``1,2`` for brokers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from barnabas.cli.arguments.cluster_options import UsageError
from barnabas.cli.output.advice import UnknownName, nearest
from barnabas.common.topic_partition import TopicPartition

if TYPE_CHECKING:
    from barnabas.clients.admin import AdminClient

__all__ = ["Topics", "broker_ids", "is_meant", "meant_partitions", "parse_topics"]

Topics = list[tuple[str, list[int] | None]]
"""Names of topics, each with its partitions, or None for all partitions."""


def parse_topics(texts: Iterable[str] | None) -> Topics:
    """Parse ``orders`` or ``orders:0,2``. Raise UsageError."""
    found: Topics = []
    for text in texts or ():
        name, colon, partitions = text.partition(":")
        try:
            found.append((name, [int(part) for part in partitions.split(",")] if colon else None))
        except ValueError:
            raise UsageError(f"--topic {text}: write partitions as in {name}:0,2") from None
    return found


def is_meant(partition: TopicPartition, topics: Topics) -> bool:
    return any(
        partition.topic == name and (numbers is None or partition.partition in numbers) for name, numbers in topics
    )


async def meant_partitions(
    admin: AdminClient, topics: Topics, committed: Iterable[TopicPartition], *, all_topics: bool
) -> list[TopicPartition]:
    """Return the named partitions; with ``all_topics``, those with committed offsets. Raise UnknownName."""
    if all_topics:
        return sorted(committed)
    whole = [name for name, partitions in topics if partitions is None]
    counts: dict[str, int] = {}
    if whole:
        described = await admin.describe_topics(whole)
        for name in described.errors:
            known = [topic.name async for topic in admin.list_topics(include_internal=True)]
            near = nearest(str(name), known)
            raise UnknownName(str(name), "no topic of this name exists, or you may not see it", near)
        counts = {topic.name: len(topic.partitions) for topic in described.values.values()}
    return sorted(
        {
            TopicPartition(name, partition)
            for name, partitions in topics
            for partition in (range(counts[name]) if partitions is None else partitions)
        }
    )


def broker_ids(text: str | None, option: str) -> tuple[int, ...] | None:
    if text is None:
        return None
    try:
        found = tuple(int(part) for part in text.split(","))
    except ValueError:
        raise UsageError(f"{option} {text}: write broker ids separated by commas, for example 1,2") from None
    if len(set(found)) < len(found):
        raise UsageError(f"{option} {text}: a broker is listed twice")
    return found
