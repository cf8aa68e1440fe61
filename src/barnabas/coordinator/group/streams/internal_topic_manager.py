"""Configures a topology: compares it with the topics of the cluster, decides on the partition counts of the internal
topics, and names those that must be created.

The steps have Kafka's order, because the first problem that is found is the one that the members learn. An existing
internal topic counts as it is while counts are decided; in the end it must have the count that was decided.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.topic_name import topic_name_problem
from barnabas.coordinator.group.streams.changelog_topics import changelog_topic_counts
from barnabas.coordinator.group.streams.configured_topology import (
    ConfiguredInternalTopic,
    ConfiguredSubtopology,
    ConfiguredTopology,
)
from barnabas.coordinator.group.streams.copartitioned_topics import CopartitionedTopicsEnforcer
from barnabas.coordinator.group.streams.heartbeat_status import HeartbeatStatus, TopicConfigurationError
from barnabas.coordinator.group.streams.repartition_topics import repartition_topic_counts
from barnabas.coordinator.group.streams.topology import (
    PartitionCountOf,
    StreamsTopology,
    in_hash_map_order,
    source_topics_of,
)
from barnabas.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig
from barnabas.protocol.records.streams_group_topology_value import CopartitionGroup, Subtopology, TopicInfo

__all__ = ["configure_topics"]

_DEFAULT_REPLICATION_FACTOR = -1
_NAMES_SHOWN_MAX = 3


def configure_topics(
    topology: StreamsTopology, metadata_hash: int, partition_count_of: PartitionCountOf
) -> ConfiguredTopology:
    """Return the configured topology; if topics don't fit it, it carries the error.

    Raises ApiException if the topology itself is invalid, whatever topics exist.
    """
    copartition_groups = [
        _copartitioned_topics(subtopology, group)
        for subtopology in topology.subtopologies.values()
        for group in subtopology.copartition_groups
    ]
    try:
        _check_source_topics(topology, partition_count_of)
        counts = _PartitionCounts(topology, partition_count_of)
        counts.decide(copartition_groups)
        configured = {name: counts.configure(subtopology) for name, subtopology in topology.subtopologies.items()}
        subtopologies = {name: configured[name] for name in sorted(configured)}
        missing = _missing_topics(topology, subtopologies, partition_count_of)
    except TopicConfigurationError as error:
        return ConfiguredTopology(topology.epoch, metadata_hash, None, {}, error)
    problem = None
    if missing:
        text = f"Internal topics are missing: {_listed(missing)}"
        problem = TopicConfigurationError(HeartbeatStatus.MISSING_INTERNAL_TOPICS, text)
    topics_to_create = {name: _creatable(topic) for name, topic in missing.items()}
    return ConfiguredTopology(topology.epoch, metadata_hash, subtopologies, topics_to_create, problem)


class _PartitionCounts:
    """The partition counts of all topics of a topology: those that exist, and those that are decided."""

    def __init__(self, topology: StreamsTopology, partition_count_of: PartitionCountOf) -> None:
        self._subtopologies = list(topology.subtopologies.values())
        self._existing_count_of = partition_count_of
        self._decided: dict[str, int] = {}

    def decide(self, copartition_groups: Sequence[Sequence[str]]) -> None:
        self._decided.update(repartition_topic_counts(self._subtopologies, self._existing_count_of))
        topics = [topic for subtopology in self._subtopologies for topic in subtopology.repartition_source_topics]
        enforcer = CopartitionedTopicsEnforcer(
            self._count_of,
            fixed_topics={topic.name for topic in topics if topic.partitions != 0},
            flexible_topics={topic.name for topic in topics if topic.partitions == 0},
        )
        for group in copartition_groups:
            self._decided.update(enforcer.enforce(group))
        self._decided.update(changelog_topic_counts(self._subtopologies, self._count_of))

    def configure(self, subtopology: Subtopology) -> ConfiguredSubtopology:
        task_count = max(map(self._count_of, source_topics_of(subtopology)))
        repartition_source_topics = self._internal_topics(subtopology.repartition_source_topics)
        state_changelog_topics = self._internal_topics(subtopology.state_changelog_topics)
        if task_count <= 0:
            raise _impossible(f"subtopology {subtopology.subtopology_id} would have {task_count} tasks")
        return ConfiguredSubtopology(
            task_count,
            frozenset(subtopology.source_topics),
            repartition_source_topics,
            frozenset(subtopology.repartition_sink_topics),
            state_changelog_topics,
        )

    def _count_of(self, topic: str) -> int:
        existing = self._existing_count_of(topic)
        return self._decided[topic] if existing is None else existing

    def _internal_topics(self, topics: Sequence[TopicInfo]) -> dict[str, ConfiguredInternalTopic]:
        internal_topics = {topic.name: self._internal_topic(topic) for topic in topics}
        if len(internal_topics) < len(topics):
            raise _impossible("a subtopology names an internal topic twice")
        return internal_topics

    def _internal_topic(self, topic: TopicInfo) -> ConfiguredInternalTopic:
        configs = {config.key: config.value for config in topic.topic_configs}
        if len(configs) < len(topic.topic_configs):
            raise _impossible(f"internal topic {topic.name} has a config twice")
        name_problem = topic_name_problem(topic.name)
        if name_problem is not None:
            raise ApiException(ErrorCode.INVALID_TOPIC_EXCEPTION, name_problem)
        count = topic.partitions or self._decided[topic.name]
        if count < 1:
            raise _impossible(f"internal topic {topic.name} would have {count} partitions")
        return ConfiguredInternalTopic(topic.name, count, topic.replication_factor, configs)


def _copartitioned_topics(subtopology: Subtopology, group: CopartitionGroup) -> list[str]:
    repartition_topics = [topic.name for topic in subtopology.repartition_source_topics]
    return [
        *_at(group.source_topics, subtopology.source_topics),
        *_at(group.repartition_source_topics, repartition_topics),
    ]


def _at(indexes: Sequence[int], topics: Sequence[str]) -> list[str]:
    if any(not 0 <= index < len(topics) for index in indexes):
        raise _impossible("a group of co-partitioned topics has a topic that its subtopology does not read")
    return [topics[index] for index in indexes]


def _check_source_topics(topology: StreamsTopology, partition_count_of: PartitionCountOf) -> None:
    missing = {
        topic
        for subtopology in topology.subtopologies.values()
        for topic in subtopology.source_topics
        if partition_count_of(topic) is None
    }
    if missing:
        text = f"Source topics {_listed(sorted(missing))} are missing."
        raise TopicConfigurationError(HeartbeatStatus.MISSING_SOURCE_TOPICS, text)


def _missing_topics(
    topology: StreamsTopology,
    subtopologies: Mapping[str, ConfiguredSubtopology],
    partition_count_of: PartitionCountOf,
) -> dict[str, ConfiguredInternalTopic]:
    """Return the internal topics that do not exist. An existing one must have the right partition count."""
    expected = {topic.name: topic for subtopology in subtopologies.values() for topic in subtopology.internal_topics()}
    existing: set[str] = set()
    for name in topology.required_topics():
        count = partition_count_of(name)
        topic = expected.get(name)
        if count is None or topic is None:
            continue
        if count != topic.partition_count:
            text = (
                f"Existing topic {name} has different number of partitions: expected {topic.partition_count}, "
                f"found {count}"
            )
            raise TopicConfigurationError(HeartbeatStatus.INCORRECTLY_PARTITIONED_TOPICS, text)
        existing.add(name)
    missing = [name for name in expected if name not in existing]
    return {name: expected[name] for name in in_hash_map_order(missing, expected)}


def _creatable(topic: ConfiguredInternalTopic) -> CreatableTopic:
    return CreatableTopic(
        name=topic.name,
        num_partitions=topic.partition_count,
        replication_factor=topic.replication_factor or _DEFAULT_REPLICATION_FACTOR,
        configs=[CreatableTopicConfig(name=name, value=value) for name, value in topic.configs.items()],
    )


def _listed(names: Collection[str]) -> str:
    shown = list(names)[:_NAMES_SHOWN_MAX]
    left_out = len(names) - len(shown)
    return ", ".join(shown) + (f" and {left_out} additional topics" if left_out else "")


def _impossible(problem: str) -> ApiException:
    """Kafka fails on such a topology without a reason."""
    return ApiException(ErrorCode.UNKNOWN_SERVER_ERROR, f"The topology is impossible: {problem}.")
