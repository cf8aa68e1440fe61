"""``barnabas topics list``: the topics that the caller may see, with their partitions, replicas and sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from barnabas.cli.arguments.cluster_options import ClusterOptions, Flag
from barnabas.cli.arguments.topic_selection import select_topics
from barnabas.cli.output.answer import Answer
from barnabas.cli.output.table import Sheet, size_of

if TYPE_CHECKING:
    from barnabas.clients.admin import AdminClient, TopicListing

__all__ = ["list_topics"]


def list_topics(
    topic: list[str] | None = None,
    *,
    exclude_internal: Flag = False,
    names: Flag = False,
    options: ClusterOptions | None = None,
) -> int:
    """List the topics that you may see, with the numbers of their partitions and replicas, and their sizes.

    The size is that of all replicas on live brokers. It is missing if you lack DESCRIBE on the cluster.

    For example:

        barnabas topics list
        barnabas topics list 'pay.*' --exclude-internal --output json
        barnabas topics list --names | grep orders

    Parameters
    ----------
    topic
        Only topics with this name, or whose whole name matches this regular expression. May be repeated.
    exclude_internal
        Omit internal topics, such as __consumer_offsets.
    names
        Print only the names, one in a line, for pipes.
    """

    async def work(admin: AdminClient) -> Answer:
        wanted = await select_topics(admin, topic, include_internal=not exclude_internal)
        notes = [] if wanted else ["no such topics exist, or you may not see them"]
        if names:
            text = "".join(f"{listing.name}\n" for listing in wanted)
            return Answer({"topics": [listing.name for listing in wanted]}, notes=notes, text=text)
        sizes = await _sizes(admin) if wanted else {}
        document = {"topics": [_document(listing, sizes.get(listing.name)) for listing in wanted]}
        return Answer(document, [_sheet(wanted, sizes)] if wanted else [], notes)

    return (options or ClusterOptions()).run(work, right="DESCRIBE on the topics")


async def _sizes(admin: AdminClient) -> dict[str, int]:
    """Return the bytes of each topic. Topics without an answer, or all without the right, are missing."""
    from barnabas.clients.admin.errors import AdminError
    from barnabas.clients.errors import ClientError

    sizes: dict[str, int] = {}
    try:
        by_broker = await admin.describe_log_dirs()
    except (AdminError, ClientError):
        return {}
    for directories in by_broker.values.values():
        for directory in directories.values():
            for replica, info in directory.replicas.items():
                sizes[replica.topic] = sizes.get(replica.topic, 0) + info.size
    return sizes


def _sheet(topics: Sequence[TopicListing], sizes: dict[str, int]) -> Sheet:
    columns = ("topic", "partitions", "replicas", *(("size",) if sizes else ()), "id", "internal")
    sheet = Sheet(columns=columns, drop_first=("id", "internal"))
    for topic in topics:
        size = sizes.get(topic.name)
        sized = ("" if size is None else size_of(size),) if sizes else ()
        counts = (str(topic.partitions), str(topic.replication_factor))
        sheet.add(topic.name, *counts, *sized, str(topic.topic_id), "yes" if topic.is_internal else "")
    sheet.drop_last_column_if_empty()
    return sheet


def _document(topic: TopicListing, size: int | None) -> dict[str, object]:
    return {
        "topic": topic.name,
        "id": str(topic.topic_id),
        "internal": topic.is_internal,
        "partitions": topic.partitions,
        "replication_factor": topic.replication_factor,
        "size_bytes": size,
    }
