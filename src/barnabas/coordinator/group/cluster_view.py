"""What group coordinators see of the metadata: topics, racks, and the settings of a group.

The owner replaces ``image`` when the metadata log moves on. All shards of a broker share one view.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Set
from typing import TypeAlias, TypeVar

from barnabas.common.config_codes import ConfigResourceType
from barnabas.common.steps import whole
from barnabas.common.uuid import Uuid
from barnabas.coordinator.group.metadata_hash import group_hash, rack_bytes, topic_hash_in_steps
from barnabas.metadata.image.configs import ConfigResource
from barnabas.metadata.image.metadata_image import MetadataImage
from barnabas.metadata.image.topics import TopicImage

__all__ = ["ClusterView"]

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")
Steps: TypeAlias = Generator[None, None, T]

_UNKNOWN = -1
_KEPT_RESULTS = 1_000
_PARTITIONS_AT_ONCE = 10_000
"""The partitions of topics that are hashed within one decision: some milliseconds."""
_NO_RACKS: frozenset[str] = frozenset()


class ClusterView:
    def __init__(self, image: MetadataImage) -> None:
        self.image = image
        self.newest_topic_offset = image.offset
        """The offset of the last image that created a topic."""
        self.assignment_intervals_ms: dict[str, int] = {}
        """The shortest time between two assignments, by kind of group, where it was changed since the node started."""
        self._hashes: dict[str, int] = {}
        self._group_hashes: dict[frozenset[str], int] = {}
        self._ids: dict[frozenset[str], frozenset[Uuid]] = {}

    def update(self, image: MetadataImage, changed: Iterable[str], *, has_new_topics: bool) -> None:
        """Replace the image; ``changed`` are the names of topics that were changed or deleted."""
        self.image = image
        for topic in changed:
            self._hashes.pop(topic, None)
            self._group_hashes.clear()
            self._ids.clear()
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

    def ids_of(self, topics: Set[str]) -> frozenset[Uuid]:
        """Return the ids of those topics that exist. Most members of a group subscribe to the same ones."""
        key = frozenset(topics)
        known = self._ids.get(key)
        if known is None:
            by_name = self.image.topics.by_name
            known = frozenset(found.id for name in key if (found := by_name.get(name)) is not None)
            _remember(self._ids, key, known)
        return known

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

    def partition_counts(self, topics: Iterable[str]) -> Iterable[int]:
        """Return the partition counts of those topics that exist."""
        found = (self.image.topics.by_name.get(name) for name in topics)
        return (len(topic.partitions) for topic in found if topic is not None)

    def racks(self, topic_id: Uuid, partition: int) -> frozenset[str]:
        """Return the racks of a partition's replicas."""
        found = self.image.topics.partition(topic_id, partition)
        return _NO_RACKS if found is None else frozenset(self._racks_of(found.replicas))

    def topic_names(self) -> Iterable[str]:
        return self.image.topics.by_name

    # -- hashes

    def metadata_hash(self, topics: Iterable[str]) -> int:
        """Return the hash of these topics' ids, partitions and racks (KIP-1101), as Kafka computes it."""
        key = frozenset(topics)
        known = self._group_hashes.get(key)
        if known is None:
            known = whole(self._hash_in_steps(key))
            _remember(self._group_hashes, key, known)
        return known

    def is_long_to_hash(self, topics: Iterable[str]) -> bool:
        """Whether so many of these topics are new or changed that they must be hashed in steps first."""
        by_name, left = self.image.topics.by_name, _PARTITIONS_AT_ONCE
        for name in topics:
            if name not in self._hashes and (found := by_name.get(name)) is not None:
                left -= len(found.partitions)
                if left < 0:
                    return True
        return False

    def prepare_hash_in_steps(self, topics: Iterable[str]) -> Steps[None]:
        """Hash topics in steps of some milliseconds, so that ``metadata_hash`` is fast."""
        yield from self._hash_in_steps(frozenset(topics))

    def _hash_in_steps(self, topics: frozenset[str]) -> Steps[int]:
        hashes: dict[str, int] = {}
        for name in topics:
            found = self.image.topics.by_name.get(name)
            if found is None:
                continue
            known = self._hashes.get(name)
            if known is None:
                known = yield from topic_hash_in_steps(found.id, name, self._rack_bytes(found))
                if self.image.topics.by_name.get(name) is found:
                    self._hashes[name] = known
                yield
            hashes[name] = known
        return group_hash(hashes)

    def _rack_bytes(self, topic: TopicImage) -> list[bytes]:
        """Return the racks of each partition's replicas. Many partitions have the same replicas."""
        known: dict[tuple[int, ...], bytes] = {}
        result = []
        for index in range(len(topic.partitions)):
            registration = topic.partitions.get(index)
            replicas = () if registration is None else registration.replicas
            racks = known.get(replicas)
            if racks is None:
                racks = known[replicas] = rack_bytes(self._racks_of(replicas))
            result.append(racks)
        return result

    def _racks_of(self, replicas: Iterable[int]) -> list[str]:
        brokers = self.image.cluster.brokers
        found = (brokers.get(replica) for replica in replicas)
        return [broker.rack for broker in found if broker is not None and broker.rack is not None]

    # -- settings

    def settings_of(self, group_id: str) -> Mapping[str, str]:
        """Return the settings that were set for a group."""
        return self.image.configs.of(ConfigResource(int(ConfigResourceType.GROUP), group_id))


def _remember(known: dict[K, V], key: K, value: V) -> None:
    """Keep a result, but not those of subscriptions without end."""
    if len(known) >= _KEPT_RESULTS:
        known.clear()
    known[key] = value
