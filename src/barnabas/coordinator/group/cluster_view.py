"""What group coordinators see of the metadata: topics, racks, and the settings of a group.

The owner replaces ``image`` when the metadata log moves on. All shards of a broker share one view.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from barnabas.common.config_codes import ConfigResourceType
from barnabas.common.uuid import Uuid
from barnabas.coordinator.group.metadata_hash import group_hash, topic_hash
from barnabas.metadata.image.configs import ConfigResource
from barnabas.metadata.image.metadata_image import MetadataImage
from barnabas.metadata.image.topics import TopicImage

__all__ = ["ClusterView"]

_UNKNOWN = -1
_NO_RACKS: frozenset[str] = frozenset()


class ClusterView:
    def __init__(self, image: MetadataImage) -> None:
        self.image = image
        self.newest_topic_offset = image.offset
        """The offset of the last image that created a topic."""
        self.assignment_intervals_ms: dict[str, int] = {}
        """The shortest time between two assignments, by kind of group, where it was changed since the node started."""
        self._hashes: dict[str, int] = {}

    def update(self, image: MetadataImage, changed: Iterable[str], *, has_new_topics: bool) -> None:
        """Replace the image; ``changed`` are the names of topics that were changed or deleted."""
        self.image = image
        for topic in changed:
            self._hashes.pop(topic, None)
        if has_new_topics:
            self.newest_topic_offset = image.offset

    # -- topics

    def topic(self, name: str) -> TopicImage | None:
        return self.image.topics.by_name.get(name)

    def topic_of(self, topic_id: Uuid) -> TopicImage | None:
        return self.image.topics.by_id.get(topic_id)

    def id_of(self, topic: str) -> Uuid | None:
        found = self.image.topics.by_name.get(topic)
        return None if found is None else found.id

    def name_of(self, topic_id: Uuid) -> str | None:
        found = self.image.topics.by_id.get(topic_id)
        return None if found is None else found.name

    def ids_of(self, topics: Iterable[str]) -> frozenset[Uuid]:
        """Return the ids of those topics that exist."""
        by_name = self.image.topics.by_name
        return frozenset(found.id for name in topics if (found := by_name.get(name)) is not None)

    def by_name(self, partitions: Mapping[Uuid, Iterable[int]]) -> dict[str, list[int]]:
        """Return partitions by the names of their topics, of those that exist."""
        named = ((self.name_of(topic_id), of_topic) for topic_id, of_topic in partitions.items())
        return {name: sorted(of_topic) for name, of_topic in named if name is not None}

    def partition_count(self, topic_id: Uuid) -> int:
        """Return -1 for an unknown topic."""
        found = self.image.topics.by_id.get(topic_id)
        return _UNKNOWN if found is None else len(found.partitions)

    def partition_count_of(self, topic: str) -> int | None:
        """Return how many partitions a topic has; None for one that does not exist."""
        found = self.image.topics.by_name.get(topic)
        return None if found is None else len(found.partitions)

    def racks(self, topic_id: Uuid, partition: int) -> frozenset[str]:
        """Return the racks of a partition's replicas."""
        found = self.image.topics.by_id.get(topic_id)
        return _NO_RACKS if found is None else frozenset(self._racks(found, partition))

    def topic_names(self) -> Iterable[str]:
        return self.image.topics.by_name

    def metadata_hash(self, topics: Iterable[str]) -> int:
        """Return the hash of these topics' ids, partitions and racks (KIP-1101), as Kafka computes it."""
        hashes: dict[str, int] = {}
        for name in topics:
            found = self.image.topics.by_name.get(name)
            if found is not None:
                known = self._hashes.get(name)
                if known is None:
                    racks = [sorted(self._racks(found, index)) for index in range(len(found.partitions))]
                    known = self._hashes[name] = topic_hash(found.id, name, racks)
                hashes[name] = known
        return group_hash(hashes)

    def _racks(self, topic: TopicImage, partition: int) -> list[str]:
        registration = topic.partitions.get(partition)
        if registration is None:
            return []
        brokers = self.image.cluster.brokers
        found = (brokers.get(replica) for replica in registration.replicas)
        return [broker.rack for broker in found if broker is not None and broker.rack is not None]

    # -- settings

    def settings_of(self, group_id: str) -> Mapping[str, str]:
        """Return the settings that were set for a group."""
        return self.image.configs.of(ConfigResource(int(ConfigResourceType.GROUP), group_id))
