"""A topology with the partition counts that the group has decided on: how many tasks each subtopology has."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from barnabas.coordinator.group.streams.heartbeat_status import TopicConfigurationError
from barnabas.protocol.messages import streams_group_describe as describe
from barnabas.protocol.messages.create_topics import CreatableTopic

__all__ = ["ConfiguredInternalTopic", "ConfiguredSubtopology", "ConfiguredTopology"]


class ConfiguredInternalTopic(NamedTuple):
    """A repartition or changelog topic. A replication factor of 0 means the cluster's default."""

    name: str
    partition_count: int
    replication_factor: int
    configs: dict[str, str]

    def describe(self) -> describe.TopicInfo:
        return describe.TopicInfo(
            name=self.name,
            partitions=self.partition_count,
            replication_factor=self.replication_factor,
            topic_configs=[describe.KeyValue(key=key, value=value) for key, value in self.configs.items()],
        )


class ConfiguredSubtopology(NamedTuple):
    task_count: int
    source_topics: frozenset[str]
    repartition_source_topics: dict[str, ConfiguredInternalTopic]
    repartition_sink_topics: frozenset[str]
    state_changelog_topics: dict[str, ConfiguredInternalTopic]

    @property
    def is_stateful(self) -> bool:
        return bool(self.state_changelog_topics)

    def internal_topics(self) -> Iterable[ConfiguredInternalTopic]:
        return [*self.repartition_source_topics.values(), *self.state_changelog_topics.values()]

    def describe(self, subtopology_id: str) -> describe.Subtopology:
        return describe.Subtopology(
            subtopology_id=subtopology_id,
            source_topics=sorted(self.source_topics),
            repartition_sink_topics=sorted(self.repartition_sink_topics),
            state_changelog_topics=_described(self.state_changelog_topics),
            repartition_source_topics=_described(self.repartition_source_topics),
        )


class ConfiguredTopology(NamedTuple):
    """``subtopologies`` by id, in the order of ids, is None if ``error`` left their tasks open. With an error no task
    is assigned; if it is that internal topics are missing, ``topics_to_create`` has them by name."""

    epoch: int
    metadata_hash: int
    subtopologies: dict[str, ConfiguredSubtopology] | None
    topics_to_create: dict[str, CreatableTopic]
    error: TopicConfigurationError | None

    @property
    def is_ready(self) -> bool:
        return self.error is None

    def describe(self) -> describe.Topology:
        subtopologies = self.subtopologies or {}
        return describe.Topology(
            epoch=self.epoch,
            subtopologies=[subtopology.describe(name) for name, subtopology in subtopologies.items()],
        )


def _described(topics: dict[str, ConfiguredInternalTopic]) -> list[describe.TopicInfo]:
    return [topics[name].describe() for name in sorted(topics)]
