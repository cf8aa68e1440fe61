"""Limits how fast throttled replicas are copied (KIP-73): the bytes that this broker sends and receives.

Rates are settings of brokers. The throttled replicas are settings of topics: ``0:101,0:102`` names partitions with
their brokers, ``*`` means all. Only lagging replicas are throttled: a replica in sync stays in sync.

The rate is measured since the oldest window. After an idle time it can be exceeded only briefly, and a burst is
compensated afterwards.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.metadata.image.configs import DEFAULT_BROKER, ConfigResource, ConfigResourceType
from barnabas.metadata.quota_rates import SimpleRate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from barnabas.common.topic_config import TopicConfig
    from barnabas.common.topic_partition import TopicPartition
    from barnabas.metadata.image.metadata_image import MetadataDelta, MetadataImage
    from barnabas.metadata.publisher import LoaderManifest

__all__ = ["ReplicationQuota", "ReplicationQuotas"]

_UNLIMITED = float("inf")
_ALL = "*"
_LEADER_RATE = "leader.replication.throttled.rate"
_FOLLOWER_RATE = "follower.replication.throttled.rate"
_LEADERS = "leader.replication.throttled.replicas"
_FOLLOWERS = "follower.replication.throttled.replicas"


class ReplicationQuota:
    """One direction. ``limit`` is in bytes a second; ``throttled_bytes`` are the bytes counted so far."""

    __slots__ = ("_rate", "_topics", "limit", "throttled_bytes")

    def __init__(self, *, window_count: int, window_ms: int) -> None:
        self._rate = SimpleRate(count=window_count, window_ms=window_ms)
        self._topics: dict[str, frozenset[int] | None] = {}
        """The throttled partitions on this broker; None means all of the topic."""
        self.limit = _UNLIMITED
        self.throttled_bytes = 0

    def throttle(self, topic: str, replicas: Sequence[str], broker_id: int) -> None:
        """Apply ``replicas``, the value of the topic's setting."""
        if _ALL in replicas:
            self._topics[topic] = None
            return
        pairs = (replica.split(":") for replica in replicas)
        own = frozenset(int(partition) for partition, broker in pairs if int(broker) == broker_id)
        if own:
            self._topics[topic] = own
        else:
            self._topics.pop(topic, None)

    def is_throttled(self, partition: TopicPartition) -> bool:
        if not self._topics or partition.topic not in self._topics:
            return False
        partitions = self._topics[partition.topic]
        return partitions is None or partition.partition in partitions

    def record(self, size: int, now_ms: int) -> None:
        """Count bytes copied of throttled replicas."""
        self.throttled_bytes += size
        self._rate.record(size, now_ms)

    def wait_ms(self, now_ms: int) -> int:
        """Return how long lagging replicas must not be copied; 0 if the rate is not exceeded."""
        if not self._topics or self.limit == _UNLIMITED:
            return 0
        return self._rate.throttle_ms(max(self.limit, 1), now_ms)


class ReplicationQuotas:
    """A MetadataPublisher that applies the metadata's settings to ``leader`` and ``follower``.

    ``topic_config`` returns a topic's settings as of this publication.
    """

    def __init__(
        self,
        *,
        broker_id: int,
        leader: ReplicationQuota,
        follower: ReplicationQuota,
        topic_config: Callable[[str], TopicConfig],
    ) -> None:
        self.leader = leader
        self.follower = follower
        self._broker_id = broker_id
        self._own = ConfigResource.broker(broker_id)
        self._topic_config = topic_config

    def publish(self, delta: MetadataDelta, new_image: MetadataImage, manifest: LoaderManifest) -> None:
        if delta.configs is None:
            return
        for resource, changed in delta.configs.changes.items():
            if resource.type == ConfigResourceType.TOPIC:
                if _LEADERS in changed or _FOLLOWERS in changed:
                    config = self._topic_config(resource.name)
                    leaders = config.leader_replication_throttled_replicas
                    self.leader.throttle(resource.name, leaders, self._broker_id)
                    followers = config.follower_replication_throttled_replicas
                    self.follower.throttle(resource.name, followers, self._broker_id)
            elif resource in (self._own, DEFAULT_BROKER):
                rates = {**new_image.configs.of(DEFAULT_BROKER), **new_image.configs.of(self._own)}
                self.leader.limit = float(rates.get(_LEADER_RATE, _UNLIMITED))
                self.follower.limit = float(rates.get(_FOLLOWER_RATE, _UNLIMITED))
