"""Which share-partitions of a group have a state at the persister, and which are about to receive or lose one.

Members receive only partitions whose state is initialized. ShareGroupStatePartitionMetadata is the record of all this,
written before each call of the persister and after its result, so that another coordinator can continue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from typing import NamedTuple

from barnabas.common.uuid import Uuid
from barnabas.coordinator.group.cluster_view import ClusterView
from barnabas.coordinator.group.modern_group import Partitions
from barnabas.protocol.records.share_group_state_partition_metadata_value import (
    ShareGroupStatePartitionMetadataValue,
    TopicInfo,
    TopicPartitionsInfo,
)

__all__ = ["SharedTopic", "StatePartitions"]

_UNKNOWN_NAME = "<UNKNOWN>"
_NONE: frozenset[int] = frozenset()


class SharedTopic(NamedTuple):
    name: str
    partitions: frozenset[int]


Topics = Mapping[Uuid, SharedTopic]
_NO_TOPICS: Topics = {}


class StatePartitions(NamedTuple):
    """Topics by id. A topic may have partitions of both kinds, and be deleted at the same time."""

    initializing: Topics = _NO_TOPICS
    initialized: Topics = _NO_TOPICS
    deleting: frozenset[Uuid] = frozenset()
    since_ms: int = 0
    """When the last record was written."""

    # -- initialization

    def missing(self, view: ClusterView, names: Iterable[str], now_ms: int, retry_ms: int) -> dict[Uuid, SharedTopic]:
        """Return the partitions of these topics whose state must be initialized.

        That of partitions which are being initialized is waited for ``retry_ms``, and tried again then.
        """
        waits = now_ms - self.since_ms < retry_ms
        missing: dict[Uuid, SharedTopic] = {}
        for name in names:
            topic = view.topic(name)
            if topic is None:
                continue
            count = len(topic.partitions)
            known = self.partitions_of(self.initialized, topic.id)
            if len(known) >= count > 0:
                continue
            if waits:
                known |= self.partitions_of(self.initializing, topic.id)
            if not known or len(known) < count:
                missing[topic.id] = SharedTopic(name, frozenset(range(count)) - known)
        return missing

    @staticmethod
    def partitions_of(topics: Topics, topic_id: Uuid) -> frozenset[int]:
        topic = topics.get(topic_id)
        return _NONE if topic is None else topic.partitions

    def with_initializing(self, topics: Topics) -> StatePartitions:
        initializing = _united(self.initializing, topics)
        return self._replace(initializing=initializing, deleting=self.deleting - initializing.keys())

    def with_initialized(self, partitions: Partitions, view: ClusterView) -> StatePartitions:
        """Return this after the persister has initialized the state of these partitions."""
        topics = {
            topic_id: SharedTopic(view.name_of(topic_id) or _UNKNOWN_NAME, of_topic)
            for topic_id, of_topic in partitions.items()
        }
        return self.without_initializing(partitions)._replace(initialized=_united(self.initialized, topics))

    def without_initializing(self, partitions: Partitions) -> StatePartitions:
        """Return this after the persister could not initialize the state of these partitions."""
        return self._replace(initializing=_without(self.initializing, partitions))

    # -- deletion

    def deleted_with_group(self, view: ClusterView) -> tuple[StatePartitions, Topics]:
        """Return this before the state of all partitions is deleted, and these partitions.

        Those of an earlier deletion that may have failed are deleted again, if the topic still exists.
        """
        topics = _united(self.initialized, self.initializing)
        for topic_id in self.deleting:
            topic = view.topic_of(topic_id)
            if topic is not None:
                topics = _united(topics, {topic_id: SharedTopic(topic.name, frozenset(range(len(topic.partitions))))})
        return StatePartitions(deleting=frozenset(topics)), topics

    def without_topics(self, topic_ids: Set[Uuid]) -> StatePartitions:
        """Return this without deleted topics."""
        return self._replace(
            initializing={
                topic_id: topic for topic_id, topic in self.initializing.items() if topic_id not in topic_ids
            },
            initialized={topic_id: topic for topic_id, topic in self.initialized.items() if topic_id not in topic_ids},
            deleting=self.deleting - topic_ids,
        )

    def mentions_any(self, topic_ids: Set[Uuid]) -> bool:
        known = (self.initializing.keys(), self.initialized.keys(), self.deleting)
        return any(not topic_ids.isdisjoint(topics) for topics in known)

    # -- records

    def to_record(self, name_of: Callable[[Uuid], str | None]) -> ShareGroupStatePartitionMetadataValue:
        """``name_of``: the name of a topic that is being deleted, if it is known."""
        return ShareGroupStatePartitionMetadataValue(
            initializing_topics=_to_record(self.initializing),
            initialized_topics=_to_record(self.initialized),
            deleting_topics=[
                TopicInfo(topic_id=topic_id, topic_name=name_of(topic_id) or _UNKNOWN_NAME)
                for topic_id in sorted(self.deleting)
            ],
        )

    @classmethod
    def of_record(cls, value: ShareGroupStatePartitionMetadataValue, now_ms: int) -> StatePartitions:
        return cls(
            initializing=_of_record(value.initializing_topics),
            initialized=_of_record(value.initialized_topics),
            deleting=frozenset(topic.topic_id for topic in value.deleting_topics),
            since_ms=now_ms,
        )


def _united(first: Topics, second: Topics) -> Topics:
    united = dict(first)
    for topic_id, topic in second.items():
        known = united.get(topic_id)
        united[topic_id] = topic if known is None else SharedTopic(topic.name, known.partitions | topic.partitions)
    return united


def _without(topics: Topics, partitions: Partitions) -> Topics:
    rest: dict[Uuid, SharedTopic] = {}
    for topic_id, topic in topics.items():
        removed = partitions.get(topic_id)
        if removed is None:
            rest[topic_id] = topic
        elif not topic.partitions <= removed:
            rest[topic_id] = topic._replace(partitions=topic.partitions - removed)
    return rest


def _to_record(topics: Topics) -> list[TopicPartitionsInfo]:
    return [
        TopicPartitionsInfo(topic_id=topic_id, topic_name=topic.name, partitions=sorted(topic.partitions))
        for topic_id, topic in topics.items()
    ]


def _of_record(topics: Iterable[TopicPartitionsInfo]) -> Topics:
    return {topic.topic_id: SharedTopic(topic.topic_name, frozenset(topic.partitions)) for topic in topics}
