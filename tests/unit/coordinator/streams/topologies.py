"""Short ways to write topologies."""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.coordinator.group.streams.configured_topology import ConfiguredTopology
from barnabas.coordinator.group.streams.internal_topic_manager import configure_topics
from barnabas.coordinator.group.streams.topology import StreamsTopology
from barnabas.protocol.records.streams_group_topology_value import (
    CopartitionGroup,
    StreamsGroupTopologyValue,
    Subtopology,
    TopicConfig,
    TopicInfo,
)

__all__ = ["configured", "internal", "subtopology", "topology"]

METADATA_HASH = 99


def internal(name: str, partitions: int = 0, replication_factor: int = 0, **configs: str) -> TopicInfo:
    return TopicInfo(
        name=name,
        partitions=partitions,
        replication_factor=replication_factor,
        topic_configs=[TopicConfig(key=key.replace("_", "."), value=value) for key, value in configs.items()],
    )


def subtopology(
    name: str,
    *source_topics: str,
    reads: tuple[TopicInfo, ...] = (),
    writes: tuple[str, ...] = (),
    changelogs: tuple[TopicInfo, ...] = (),
    joins: tuple[tuple[list[int], list[int]], ...] = (),
) -> Subtopology:
    """``joins`` are groups of co-partitioned topics: indexes of source topics, and of the topics that it ``reads``."""
    return Subtopology(
        subtopology_id=name,
        source_topics=list(source_topics),
        repartition_source_topics=list(reads),
        repartition_sink_topics=list(writes),
        state_changelog_topics=list(changelogs),
        copartition_groups=[
            CopartitionGroup(source_topics=sources, repartition_source_topics=repartition)
            for sources, repartition in joins
        ],
    )


def topology(*subtopologies: Subtopology) -> StreamsTopology:
    return StreamsTopology.of(StreamsGroupTopologyValue(epoch=3, subtopologies=list(subtopologies)))


def configured(counts: Mapping[str, int], *subtopologies: Subtopology) -> ConfiguredTopology:
    """Configure a topology in a cluster whose topics have these partition counts."""
    return configure_topics(topology(*subtopologies), METADATA_HASH, counts.get)
