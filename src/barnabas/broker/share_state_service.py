"""Runs the share coordinator in a broker, on the log ``__share_group_state``.

Writes are answered when they are committed, and so is the first read of each leader of a share-partition. Other reads
must be confirmed: this broker may not know yet that another one coordinates, and has stored acknowledgements meanwhile.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, TypeVar

from barnabas.broker.coordinator_host import CoordinatorHost
from barnabas.broker.forwarding_stats import Latencies
from barnabas.common.errors import ApiException
from barnabas.common.topic_name import SHARE_STATE_TOPIC
from barnabas.common.topic_partition import TopicPartition
from barnabas.coordinator.share.share_coordinator import ShareCoordinator

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable, Set

    from barnabas.broker.coordinator_reads import CoordinatorReads
    from barnabas.broker.metadata_cache import MetadataCache
    from barnabas.broker.replica_manager import ReplicaManager
    from barnabas.common.clock import Clock
    from barnabas.common.uuid import Uuid
    from barnabas.coordinator.deferred import Deferred
    from barnabas.coordinator.share.persister import (
        SharePartitionKey,
        SharePartitionState,
        SharePartitionSummary,
        StateInitialization,
        StateOutcome,
        StateWrite,
    )
    from barnabas.coordinator.share.share_coordinator_config import ShareCoordinatorConfig
    from barnabas.metadata.image.metadata_image import MetadataDelta, MetadataImage
    from barnabas.metadata.publisher import LoaderManifest

__all__ = ["ShareStateService"]

log = logging.getLogger(__name__)

T = TypeVar("T")


class ShareStateService:
    """Its requests are about share-partitions that this broker coordinates; others are refused."""

    def __init__(
        self,
        config: ShareCoordinatorConfig,
        *,
        broker_id: int,
        replicas: ReplicaManager,
        metadata: MetadataCache,
        clock: Clock,
        reads: CoordinatorReads,
    ) -> None:
        """``reads``: those of the broker's group coordinator."""
        self._replicas = replicas
        self._metadata = metadata
        self._clock = clock
        self._reads = reads
        self._host = CoordinatorHost(
            SHARE_STATE_TOPIC,
            broker_id=broker_id,
            replicas=replicas,
            clock=clock,
            new_coordinator=lambda writer: ShareCoordinator(
                config, writer=writer, partition_count=self._partition_count, delete_records=self._delete_records
            ),
            on_lost=reads.recheck,
        )
        self.coordinator = self._host.coordinator
        self.load_times = self._host.load_times
        self.write_times = Latencies()
        """Times of writes of states, from the request to their commit."""

    def start(self) -> None:
        """Coordinate, once the broker has caught up with the metadata log."""
        self.coordinator.start()
        self._host.start()

    def stop(self) -> None:
        self._host.stop()
        self.coordinator.stop(self._host.now_ms())

    def publish(self, delta: MetadataDelta, new_image: MetadataImage, manifest: LoaderManifest) -> None:
        """Follow the metadata log; installed after the replica manager."""
        if delta.topics is None:
            return
        self._reads.recheck()
        self._host.publish(delta, new_image)
        if delta.topics.deleted:
            self.coordinator.on_topics_deleted(delta.topics.deleted.keys(), self._host.now_ms())
            self._host.schedule()

    # --- requests

    def initialize(self, key: SharePartitionKey, wanted: StateInitialization) -> Deferred[StateOutcome]:
        return self.coordinator.initialize(key, wanted, self._host.now_ms())

    def read(self, key: SharePartitionKey, leader_epoch: int) -> Deferred[SharePartitionState]:
        """The caller has confirmed the key."""
        return self.coordinator.read(key, leader_epoch, self._host.now_ms())

    def write(self, key: SharePartitionKey, write: StateWrite) -> Deferred[StateOutcome]:
        began_ms = self._clock.monotonic_ms()

        def measured(outcome: StateOutcome) -> StateOutcome:
            self.write_times.record(self._clock.monotonic_ms() - began_ms)
            return outcome

        return self.coordinator.write(key, write, self._host.now_ms()).map(measured)

    def delete(self, key: SharePartitionKey) -> Deferred[StateOutcome]:
        return self.coordinator.delete(key, self._host.now_ms())

    def read_summary(self, key: SharePartitionKey) -> Deferred[SharePartitionSummary]:
        """The caller has confirmed the key."""
        return self.coordinator.read_summary(key, self._host.now_ms())

    def answer(self, deferred: Deferred[T]) -> T | Awaitable[T]:
        """Return a handler's result: the value if it is complete, else an awaitable of it."""
        return self._host.answer(deferred)

    @property
    def are_reads_safe(self) -> bool:
        """Whether no other broker can coordinate instead of this one. This is true nearly always."""
        return self._reads.are_safe

    async def unconfirmed(self, keys: Iterable[SharePartitionKey]) -> Set[SharePartitionKey]:
        """Return the keys that must not be read, because another broker may coordinate them.

        The answer holds until the caller waits for something else.
        """
        confirming = self._reads.confirm_keys(self._host, {key: self.coordinator.partition_for(key) for key in keys})
        return set() if confirming is None else await confirming

    # --- ports of the coordinator

    def _partition_count(self, topic_id: Uuid) -> int | None:
        topic = self._metadata.topic_by_id(topic_id)
        return None if topic is None else len(topic.partitions)

    def _delete_records(self, partition: int, offset: int) -> bool:
        topic_partition = TopicPartition(SHARE_STATE_TOPIC, partition)
        try:
            replica = self._replicas.leader_of(topic_partition)
            with self._replicas.answered_disk_errors(topic_partition):
                replica.log.delete_records_before(offset, now_ms=self._clock.now_ms())
        except ApiException as error:
            log.warning("obsolete records of %s are not deleted: %s", topic_partition, error)
            return False
        return True
