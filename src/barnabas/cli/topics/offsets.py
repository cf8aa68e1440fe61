"""``barnabas topics offsets``: show first and last offsets of partitions, and offsets by time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from barnabas.cli.arguments.cluster_options import ClusterOptions, Flag, UsageError
from barnabas.cli.arguments.time_options import parse_datetime
from barnabas.cli.arguments.topic_selection import parse_partitions, select_topics
from barnabas.cli.output.advice import problems_of
from barnabas.cli.output.answer import Answer
from barnabas.cli.output.progress import in_steps
from barnabas.cli.output.table import Sheet
from barnabas.common.topic_partition import TopicPartition

if TYPE_CHECKING:
    from barnabas.clients.admin import AdminClient

__all__ = ["offsets"]

_STEP = 1000
_SPECS = {"latest": -1, "earliest": -2, "max-timestamp": -3, "earliest-local": -4, "latest-tiered": -5}


def offsets(
    topic: list[str] | None = None,
    *,
    time: str = "latest",
    partitions: str | None = None,
    exclude_internal: Flag = False,
    options: ClusterOptions | None = None,
) -> int:
    """Show offsets of partitions: by default, the log end offset.

    For example:

        barnabas topics offsets orders
        barnabas topics offsets 'pay.*' --time earliest --output json
        barnabas topics offsets orders --partitions 0,2 --time 2026-01-31T12:30:00.000

    Parameters
    ----------
    topic
        A name, or a regular expression that matches the whole name. May be repeated. Default: all topics.
    time
        latest; earliest; max-timestamp, the record with the largest timestamp; earliest-local or latest-tiered, of
        tiered storage; or a time, for example 2026-01-31T12:30:00.000 or in milliseconds since 1970, for the first
        record from that time on.
    partitions
        Only these partitions, for example 0,2.
    exclude_internal
        Omit internal topics, such as __consumer_offsets.
    """
    timestamp = _timestamp(time)
    numbers = None if partitions is None else parse_partitions(partitions)

    async def work(admin: AdminClient) -> Answer:
        from barnabas.clients.admin import OffsetSpec

        names = [listing.name for listing in await select_topics(admin, topic, include_internal=not exclude_internal)]
        described = await admin.describe_topics(names) if names else None
        wanted = sorted(
            TopicPartition(description.name, at.partition)
            for description in (described.values.values() if described else ())
            for at in description.partitions
            if numbers is None or at.partition in numbers
        )
        sheet = Sheet(columns=("topic", "partition", "offset"), keep=3)
        documents: list[dict[str, Any]] = []
        problems = problems_of(described.errors, right="DESCRIBE on Topic:{item}") if described else []
        for part in in_steps(wanted, _STEP, "reading offsets"):
            results = await admin.list_offsets(dict.fromkeys(part, OffsetSpec(timestamp)))
            problems += problems_of(results.errors, right="DESCRIBE on the topic")
            for partition, found in sorted(results.values.items()):
                offset = found.offset if found.offset >= 0 else None
                sheet.add(partition.topic, str(partition.partition), "none" if offset is None else str(offset))
                documents.append(
                    {
                        "topic": partition.topic, "partition": partition.partition, "offset": offset,
                        "timestamp_ms": found.timestamp if found.timestamp >= 0 else None,
                    }
                )  # fmt: skip
        notes = [] if wanted or problems else ["no such partitions exist, or you may not see them"]
        return Answer({"offsets": documents}, [sheet] if documents else [], notes, problems)

    return (options or ClusterOptions()).run(work, right="DESCRIBE on the topics")


def _timestamp(text: str) -> int:
    """Parse --time. Raise UsageError."""
    if text in _SPECS:
        return _SPECS[text]
    try:
        number = int(text)
    except ValueError:
        if not text[:1].isdigit():
            raise UsageError(f"--time {text}: use {', '.join(_SPECS)}, or a time") from None
        return parse_datetime(text, "--time")
    if number not in _SPECS.values() and not 0 <= number < 2**63:
        raise UsageError(f"--time {text}: a number must be milliseconds since 1970")
    return number
