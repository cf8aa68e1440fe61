"""The topology of a streams application, as its members send it and its record keeps it (KIP-1071).

A subtopology reads source topics and repartition topics, writes repartition topics, and keeps its stores in changelog
topics. The structs of the record serve as its values; nothing changes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.coordinator.group.assignor.hash_order import SpreadHashes, filled_capacity, hash_order
from barnabas.coordinator.partitioner import java_string_hash
from barnabas.protocol.messages import streams_group_describe as describe
from barnabas.protocol.messages import streams_group_heartbeat as heartbeat
from barnabas.protocol.records.streams_group_topology_value import (
    CopartitionGroup,
    StreamsGroupTopologyValue,
    Subtopology,
    TopicConfig,
    TopicInfo,
)

__all__ = ["PartitionCountOf", "StreamsTopology", "in_hash_map_order", "source_topics_of", "topology_value"]

PartitionCountOf = Callable[[str], int | None]
"""Returns how many partitions a topic has, None for a topic that does not exist."""


class StreamsTopology(NamedTuple):
    """``subtopologies`` is in the order of Kafka's hash map, because the partition counts of repartition topics depend
    on it. A topic that two subtopologies read belongs to the last of them."""

    epoch: int
    subtopologies: dict[str, Subtopology]
    subtopology_id_by_source_topic: dict[str, str]

    @classmethod
    def of(cls, value: StreamsGroupTopologyValue) -> StreamsTopology:
        """Raises ApiException if the topology is impossible; a record never is."""
        if value.epoch < 0:
            raise ApiException(ErrorCode.UNKNOWN_SERVER_ERROR, f"the topology epoch {value.epoch} is negative")
        by_id = {subtopology.subtopology_id: subtopology for subtopology in value.subtopologies}
        if len(by_id) < len(value.subtopologies):
            raise ApiException(ErrorCode.UNKNOWN_SERVER_ERROR, "two subtopologies have the same id")
        subtopologies = {subtopology_id: by_id[subtopology_id] for subtopology_id in in_hash_map_order(by_id)}
        subtopology_id_by_source_topic = {
            topic: subtopology_id
            for subtopology_id, subtopology in subtopologies.items()
            for topic in source_topics_of(subtopology)
        }
        return cls(value.epoch, subtopologies, subtopology_id_by_source_topic)

    def required_topics(self) -> list[str]:
        """Return the topics that must exist before tasks can be assigned, each once, in the order of a hash map."""
        names: dict[str, None] = {}
        for subtopology in self.subtopologies.values():
            names.update(dict.fromkeys(source_topics_of(subtopology)))
            names.update(dict.fromkeys(topic.name for topic in subtopology.state_changelog_topics))
        return in_hash_map_order(names)

    def reads(self, topic: str) -> bool:
        return topic in self.subtopology_id_by_source_topic

    def describe(self) -> describe.Topology:
        """Return the topology as the members sent it: without the partition counts that the group decides."""
        return describe.Topology(
            epoch=self.epoch,
            subtopologies=[_described(self.subtopologies[name]) for name in sorted(self.subtopologies)],
        )


def in_hash_map_order(names: Iterable[str], all_names: Iterable[str] = ()) -> list[str]:
    """Return the distinct names as a Java ``HashMap`` iterates them, which once had ``all_names``."""
    distinct = list(dict.fromkeys(names))
    spread = SpreadHashes(java_string_hash)
    return hash_order(distinct, spread, filled_capacity(list(dict.fromkeys(all_names)) or distinct, spread))


def source_topics_of(subtopology: Subtopology) -> list[str]:
    """Return the topics whose partitions are the tasks of a subtopology."""
    return [*subtopology.source_topics, *(topic.name for topic in subtopology.repartition_source_topics)]


def topology_value(topology: heartbeat.Topology) -> StreamsGroupTopologyValue:
    """Return the record of a topology that a member sent."""
    return StreamsGroupTopologyValue(
        epoch=topology.epoch,
        subtopologies=[
            Subtopology(
                subtopology_id=subtopology.subtopology_id,
                source_topics=subtopology.source_topics,
                source_topic_regex=subtopology.source_topic_regex,
                state_changelog_topics=_topic_infos(subtopology.state_changelog_topics),
                repartition_sink_topics=subtopology.repartition_sink_topics,
                repartition_source_topics=_topic_infos(subtopology.repartition_source_topics),
                copartition_groups=[_copartition_group(group) for group in subtopology.copartition_groups],
            )
            for subtopology in topology.subtopologies
        ],
    )


def _topic_infos(topics: Sequence[heartbeat.TopicInfo]) -> list[TopicInfo]:
    return [
        TopicInfo(
            name=topic.name,
            partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            topic_configs=[TopicConfig(key=config.key, value=config.value) for config in topic.topic_configs],
        )
        for topic in topics
    ]


def _copartition_group(group: heartbeat.CopartitionGroup) -> CopartitionGroup:
    return CopartitionGroup(
        source_topics=group.source_topics,
        source_topic_regex=group.source_topic_regex,
        repartition_source_topics=group.repartition_source_topics,
    )


def _described(subtopology: Subtopology) -> describe.Subtopology:
    return describe.Subtopology(
        subtopology_id=subtopology.subtopology_id,
        source_topics=sorted(subtopology.source_topics),
        repartition_sink_topics=sorted(subtopology.repartition_sink_topics),
        state_changelog_topics=_described_topics(subtopology.state_changelog_topics),
        repartition_source_topics=_described_topics(subtopology.repartition_source_topics),
    )


def _described_topics(topics: Sequence[TopicInfo]) -> list[describe.TopicInfo]:
    return [
        describe.TopicInfo(
            name=topic.name,
            partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            topic_configs=[describe.KeyValue(key=config.key, value=config.value) for config in topic.topic_configs],
        )
        for topic in sorted(topics, key=lambda topic: topic.name)
    ]
