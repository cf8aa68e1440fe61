"""The share-partitions and share sessions of a broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.share.led_share_partition import Environment, LedSharePartition, SharePartitionKey
from barnabas.broker.share.share_fetch import FetchResult, ShareFetch
from barnabas.broker.share.share_group_config import ShareGroupConfigs
from barnabas.broker.share.share_session import SessionKey, ShareSession, ShareSessionCache, TopicIdPartition
from barnabas.broker.share.share_stats import ShareStats
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.topic_partition import TopicPartition
from barnabas.metadata.features import SHARE_VERSION

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable, Iterable, Iterator, Mapping, Sequence

    from barnabas.broker.metadata_cache import MetadataCache
    from barnabas.broker.replica_manager import ReplicaManager
    from barnabas.broker.share.share_fetch import FetchParams
    from barnabas.broker.share.share_partition_config import SharePartitionConfig
    from barnabas.common.clock import Clock
    from barnabas.coordinator.share.persister import LeaderPersister
    from barnabas.coordinator.share_partition.state_batch import AcknowledgementBatch
    from barnabas.metadata.image.metadata_image import MetadataDelta, MetadataImage
    from barnabas.metadata.publisher import LoaderManifest

__all__ = ["SharePartitionManager"]

Outcomes = dict[TopicIdPartition, "ApiException | None"]


class SharePartitionManager:
    def __init__(
        self,
        config: SharePartitionConfig,
        *,
        replicas: ReplicaManager,
        metadata: MetadataCache,
        persister: LeaderPersister,
        clock: Clock,
    ) -> None:
        self.stats = ShareStats()
        self.configs = ShareGroupConfigs(config, lambda: metadata.image.configs)
        self.sessions = ShareSessionCache(
            config.max_share_sessions, on_ended=self._session_ended, on_group_left=self.unload_group
        )
        self._metadata = metadata
        self._replicas = replicas
        self._clock = clock
        self._environment = Environment(replicas, persister, self.configs, clock, self.stats, self._forget)
        self._led: dict[SharePartitionKey, LedSharePartition] = {}
        self._by_group: dict[str, dict[SharePartitionKey, LedSharePartition]] = {}
        self._writing: dict[SharePartitionKey, asyncio.Task[None]] = {}
        """The last writes of share-partitions that were unloaded. They are loaded again only after these."""

    @property
    def is_enabled(self) -> bool:
        """Whether share.version allows share groups."""
        return self._metadata.image.features.level(SHARE_VERSION) > 0

    def share_partitions(self) -> Iterator[LedSharePartition]:
        return iter(list(self._led.values()))

    def stop(self) -> None:
        for led in list(self._led.values()):
            led.stop()

    def publish(self, delta: MetadataDelta, new_image: MetadataImage, manifest: LoaderManifest) -> None:
        """Part of MetadataPublisher. Leaderships are followed through the partitions."""
        if delta.features is not None and new_image.features.level(SHARE_VERSION) <= 0:
            self.sessions.clear()
            self._unload(list(self._led.values()))

    # --- fetching

    def fetch(
        self, group_id: str, partitions: Sequence[TopicIdPartition], params: FetchParams
    ) -> FetchResult | Awaitable[FetchResult]:
        """Acquire records for a member. ``partitions`` are in the order in which they are served."""
        if not partitions or params.max_records <= 0 or params.max_bytes <= 0:
            return {}
        leds, errors = [], {}
        for partition in partitions:
            try:
                leds.append(self._get_or_load(SharePartitionKey(group_id, partition)))
            except ApiException as error:
                errors[partition] = error
        self.stats.fetch_requests += len({partition.topic_id for partition in partitions})
        fetch = ShareFetch(params, leds, errors, self._clock.monotonic_ms, self.stats)
        result = fetch.result()
        return fetch.wait() if result is None else result

    def _get_or_load(self, key: SharePartitionKey) -> LedSharePartition:
        led = self._led.get(key)
        if led is None:
            topic_id, index = key.partition
            topic = self._replicas.topic_name(topic_id)
            if topic is None:
                raise ApiException(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            partition = self._replicas.leader_of(TopicPartition(topic, index))
            led = LedSharePartition(key, partition, self._environment, after=self._writing.get(key))
            self._led[key] = led
            self._by_group.setdefault(key.group_id, {})[key] = led
        return led

    # --- acknowledging

    def acknowledge(
        self, group_id: str, member_id: str, acknowledged: Mapping[TopicIdPartition, Sequence[AcknowledgementBatch]]
    ) -> Outcomes | Awaitable[Outcomes]:
        """Begin to acknowledge records of a member. Return the error of each partition, None for success."""
        outcomes: Outcomes = {}
        writes: dict[TopicIdPartition, Awaitable[ApiException | None]] = {}
        for partition, batches in acknowledged.items():
            outcomes[partition] = None
            try:
                write = self._loaded(group_id, partition).acknowledge(member_id, batches)
            except ApiException as error:
                outcomes[partition] = error
                continue
            if write is not None:
                writes[partition] = write
        if writes:
            return self._stored(acknowledged, outcomes, writes)
        self._count(acknowledged, outcomes)
        return outcomes

    async def _stored(
        self,
        acknowledged: Mapping[TopicIdPartition, Sequence[AcknowledgementBatch]],
        outcomes: Outcomes,
        writes: Mapping[TopicIdPartition, Awaitable[ApiException | None]],
    ) -> Outcomes:
        for partition, write in writes.items():
            outcomes[partition] = await write
        self._count(acknowledged, outcomes)
        return outcomes

    def _count(
        self, acknowledged: Mapping[TopicIdPartition, Sequence[AcknowledgementBatch]], outcomes: Outcomes
    ) -> None:
        self.stats.acknowledge_requests += len({partition.topic_id for partition in acknowledged})
        failed = {partition.topic_id for partition, error in outcomes.items() if error is not None}
        self.stats.failed_acknowledge_requests += len(failed)
        for partition, batches in acknowledged.items():
            if outcomes[partition] is None:
                self.stats.acknowledged(batches)

    def _loaded(self, group_id: str, partition: TopicIdPartition) -> LedSharePartition:
        led = self._led.get(SharePartitionKey(group_id, partition))
        if led is None:
            raise ApiException(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Group {group_id} has fetched nothing of it from this broker"
            )
        return led

    # --- the end of sessions and groups

    def release_session(self, key: SessionKey) -> None:
        """End a session, and release what its member had acquired. It need not wait for that."""
        session = self.sessions.remove(key)
        if session is not None:
            self._session_ended(session)

    def _session_ended(self, session: ShareSession) -> None:
        for partition in session.partitions:
            led = self._led.get(SharePartitionKey(session.key.group_id, partition))
            if led is not None:
                led.release(session.key.member_id)

    def unload_group(self, group_id: str) -> None:
        """Unload the share-partitions of a group that was deleted, or that has no sessions on this broker any more."""
        self._unload(list(self._by_group.get(group_id, {}).values()))

    def _unload(self, every: Iterable[LedSharePartition]) -> None:
        for led in every:
            led.unload(ApiException(ErrorCode.NOT_LEADER_OR_FOLLOWER))

    def _forget(self, led: LedSharePartition) -> None:
        self._led.pop(led.key, None)
        group = self._by_group.get(led.key.group_id, {})
        group.pop(led.key, None)
        if not group:
            self._by_group.pop(led.key.group_id, None)
            self.stats.forget_group(led.key.group_id)
        if led.writing is not None:
            self._writing[led.key] = led.writing
            led.writing.add_done_callback(lambda _: self._writing.pop(led.key, None))
