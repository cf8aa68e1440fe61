"""Select the partitions for ``barnabas transactions``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.cli.arguments.cluster_options import UsageError
from barnabas.cli.arguments.partition_selection import parse_topics
from barnabas.cli.arguments.topic_selection import topic_names
from barnabas.cli.output.advice import UnknownName, nearest
from barnabas.common.topic_name import topic_name_problem
from barnabas.common.topic_partition import TopicPartition

if TYPE_CHECKING:
    from barnabas.clients.admin import AdminClient

__all__ = ["parse_partition", "partitions_of"]


def parse_partition(topic: str, partition: int | None) -> TopicPartition:
    """Parse ``orders:0``, or ``orders`` and 0. Raise UsageError."""
    name, number = _parsed(topic, partition)
    if number is None:
        raise UsageError(f"no partition of {name} given: write {name}:0, or use --partition")
    return TopicPartition(name, number)


def _parsed(topic: str, partition: int | None) -> tuple[str, int | None]:
    ((name, numbers),) = parse_topics([topic])
    problem = topic_name_problem(name)
    if problem is not None:
        raise UsageError(f"{name}: {problem}")
    given = [*(numbers or ()), *([] if partition is None else [partition])]
    if len(given) > 1 or min(given, default=0) < 0:
        raise UsageError(f"--topic {topic}: write a single partition, as in {name}:0")
    return name, given[0] if given else None


async def partitions_of(
    admin: AdminClient, topic: str | None, partition: int | None, broker_id: int | None
) -> list[TopicPartition]:
    """Return the partitions of a topic or of all topics; with ``broker_id``, only those that this broker leads.

    Raise UnknownName or AdminError.
    """
    name, number = (None, None) if topic is None else _parsed(topic, partition)
    known = await topic_names(admin)
    if name is not None and name not in known:
        raise UnknownName(name, "no topic of this name exists, or you may not see it", nearest(name, known))
    described = await admin.describe_topics(known if name is None else [name])
    found = {
        TopicPartition(topic.name, at.partition): at for topic in described.values.values() for at in topic.partitions
    }
    if number is not None and TopicPartition(name or "", number) not in found:
        raise UnknownName(f"{name}-{number}", f"topic {name} has the partitions 0 to {len(found) - 1}")
    return sorted(
        partition
        for partition, at in found.items()
        if number in (None, partition.partition) and broker_id in (None, at.leader) and at.leader is not None
    )
