"""Provides request handlers with the newest metadata image, and caches encoded answers.

A topic's part of a Metadata answer is encoded once per version and cached with the topic's own value in the image
(``TopicImage.memo``). A changed topic is a new value without a cached part. The parts that depend on brokers (offline
leaders and replicas) are covered by ``liveness``, which grows when a broker joins or leaves.
"""

from __future__ import annotations

from copy import copy
from random import Random
from typing import TYPE_CHECKING, Any

from barnabas.common.stepped_sort import sorted_in_steps
from barnabas.metadata.image.metadata_image import MetadataImage

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from barnabas.common.uuid import Uuid
    from barnabas.metadata.image.cluster import BrokerRegistration, Endpoint
    from barnabas.metadata.image.metadata_image import MetadataDelta
    from barnabas.metadata.image.partition_registration import PartitionRegistration
    from barnabas.metadata.image.topics import TopicImage
    from barnabas.metadata.publisher import LoaderManifest

__all__ = ["MetadataCache"]


class MetadataCache:
    def __init__(self) -> None:
        self.image = MetadataImage.EMPTY
        self.liveness = 0
        self._random = Random(0)  # It need not be secret, and a simulation must be repeatable.
        self._sorted_names: Sequence[str] | None = None
        self._memo: dict[object, object] = {}

    # --- MetadataPublisher

    def publish(self, delta: MetadataDelta, new_image: MetadataImage, manifest: LoaderManifest) -> None:
        if new_image.cluster is not self.image.cluster:
            self.liveness += 1
        if new_image.topics is not self.image.topics:
            self._sorted_names = None
        if new_image.cluster is not self.image.cluster or new_image.topics is not self.image.topics:
            self._memo = {}
        self.image = new_image

    # --- topics

    def topic(self, name: str) -> TopicImage | None:
        return self.image.topics.by_name.get(name)

    def topic_by_id(self, topic_id: Uuid) -> TopicImage | None:
        return self.image.topics.by_id.get(topic_id)

    def partition(self, name: str, partition_id: int) -> PartitionRegistration | None:
        topic = self.image.topics.by_name.get(name)
        return None if topic is None else topic.partitions.get(partition_id)

    @property
    def sorted_topic_names(self) -> Sequence[str]:
        if self._sorted_names is None:
            self._sorted_names = sorted(self.image.topics.by_name)
        return self._sorted_names

    def sorted_names_in_steps(self) -> Generator[None, None, Sequence[str]]:
        """Sort the topic names in steps, for a caller that serves other requests in between."""
        names = self._sorted_names
        if names is None:
            topics = self.image.topics
            names = yield from sorted_in_steps(topics.by_name)
            if self.image.topics is topics:
                self._sorted_names = names
        return names

    def take_names(self, other: MetadataCache) -> None:
        """Take over the sorted names of a cache that has the same topics."""
        if self.image.topics is other.image.topics:
            self._sorted_names = other._sorted_names

    def at_this_moment(self) -> MetadataCache:
        """Return the same metadata as a cache that later publications do not change."""
        return copy(self)

    @property
    def memo(self) -> dict[Any, Any]:
        """A cache of values derived from topics and brokers. It is emptied when either changes."""
        return self._memo

    # --- brokers

    def is_alive(self, broker_id: int) -> bool:
        return self.image.cluster.is_alive(broker_id)

    def alive_brokers(self) -> list[BrokerRegistration]:
        return [broker for broker in self.image.cluster.brokers.values() if not broker.fenced]

    def controller_for_clients(self) -> int:
        """Return a random live broker, which forwards requests to the controller (KIP-590); -1 if none is alive."""
        alive = self.alive_brokers()
        return self._random.choice(alive).id if alive else -1

    def endpoint(self, broker_id: int, listener_name: str) -> Endpoint | None:
        """Return the endpoint of a live broker's listener of that name."""
        broker = self.image.cluster.brokers.get(broker_id)
        if broker is None or broker.fenced:
            return None
        return broker.listeners.get(listener_name)
