"""The partition counts of repartition topics.

A topic for which the application sets no count gets that of the subtopology which writes it: the largest count among
the topics that this subtopology reads, as far as they are known. Kafka passes over the subtopologies until all counts
are known, and so does this module, except that it visits a subtopology again only when one of its topics became known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heappush

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.coordinator.group.streams.topology import PartitionCountOf
from barnabas.protocol.records.streams_group_topology_value import Subtopology

__all__ = ["repartition_topic_counts"]

Visit = tuple[int, int]
"""A pass, and the position of a subtopology in it."""


def repartition_topic_counts(
    subtopologies: Sequence[Subtopology], partition_count_of: PartitionCountOf
) -> dict[str, int]:
    """Return the count of each topic that some subtopology writes or for which the application sets one.

    Raises ApiException if the topology leaves a count open.
    """
    counts = _fixed_counts(subtopologies)
    readers = _readers_by_topic(subtopologies)
    visits: list[Visit] = [(0, position) for position in range(len(subtopologies))]
    heapify(visits)
    while visits:
        pass_, position = heappop(visits)
        subtopology = subtopologies[position]
        open_topics = [topic for topic in subtopology.repartition_sink_topics if topic not in counts]
        count = _task_count(subtopology, counts, partition_count_of) if open_topics else None
        if count is None:
            continue
        for topic in open_topics:
            counts[topic] = count
            for reader in readers.get(topic, ()):
                heappush(visits, (pass_ if reader > position else pass_ + 1, reader))
    _check_all_known(subtopologies, counts)
    return counts


def _fixed_counts(subtopologies: Sequence[Subtopology]) -> dict[str, int]:
    return {
        topic.name: topic.partitions
        for subtopology in subtopologies
        for topic in subtopology.repartition_source_topics
        if topic.partitions != 0
    }


def _readers_by_topic(subtopologies: Sequence[Subtopology]) -> dict[str, list[int]]:
    readers: dict[str, list[int]] = {}
    for position, subtopology in enumerate(subtopologies):
        for topic in subtopology.repartition_source_topics:
            readers.setdefault(topic.name, []).append(position)
    return readers


def _task_count(
    subtopology: Subtopology, counts: Mapping[str, int], partition_count_of: PartitionCountOf
) -> int | None:
    known = [counts.get(topic.name) for topic in subtopology.repartition_source_topics]
    known += [partition_count_of(topic) for topic in subtopology.source_topics]
    return max((count for count in known if count is not None), default=None)


def _check_all_known(subtopologies: Sequence[Subtopology], counts: Mapping[str, int]) -> None:
    for subtopology in subtopologies:
        for topic in subtopology.repartition_sink_topics:
            if topic not in counts:
                raise ApiException(
                    ErrorCode.STREAMS_INVALID_TOPOLOGY,
                    "Failed to compute number of partitions for all repartition topics. There may be loops in the "
                    "topology that cannot be resolved.",
                )
    for subtopology in subtopologies:
        for info in subtopology.repartition_source_topics:
            if info.name not in counts:
                raise ApiException(
                    ErrorCode.STREAMS_INVALID_TOPOLOGY,
                    "Failed to compute number of partitions for all repartition topics, because a repartition source "
                    "topic is never used as a sink topic.",
                )
