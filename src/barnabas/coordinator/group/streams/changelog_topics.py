"""The partition counts of changelog topics: a partition for each task of their subtopology."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.coordinator.group.streams.topology import source_topics_of
from barnabas.protocol.records.streams_group_topology_value import Subtopology

__all__ = ["changelog_topic_counts"]


def changelog_topic_counts(subtopologies: Iterable[Subtopology], count_of: Callable[[str], int]) -> dict[str, int]:
    """Return the count of each changelog topic; ``count_of`` knows every source topic.

    Raises ApiException for a subtopology that reads no topic.
    """
    counts: dict[str, int] = {}
    for subtopology in subtopologies:
        source_topics = source_topics_of(subtopology)
        if not source_topics:
            raise ApiException(
                ErrorCode.STREAMS_INVALID_TOPOLOGY,
                f"No source topics found for subtopology {subtopology.subtopology_id}",
            )
        count = max(map(count_of, source_topics))
        counts.update((topic.name, count) for topic in subtopology.state_changelog_topics)
    return counts
