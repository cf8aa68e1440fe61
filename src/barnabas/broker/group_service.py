"""Runs the group coordinator in a broker, on the log ``__consumer_offsets``.

A broker that was frozen or isolated may not know yet that another one coordinates. Writes are safe: they are answered
when the high watermark has passed them, which followers of another leader prevent. Reads must be confirmed if an old
answer would do harm, as with committed offsets. Descriptions and lists of groups are not confirmed: clients then act on
groups by requests that write.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from barnabas.broker.coordinator_host import CoordinatorHost
from barnabas.broker.coordinator_reads import CoordinatorReads
from barnabas.common.topic_name import GROUP_METADATA_TOPIC
from barnabas.coordinator.group.cluster_view import ClusterView
from barnabas.coordinator.group.group_coordinator import GroupCoordinator
from barnabas.metadata.features import GROUP_VERSION, SHARE_VERSION, STREAMS_VERSION
from barnabas.metadata.image.metadata_image import MetadataImage

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterable, Set

    from barnabas.broker.forwarding_stats import Latencies
    from barnabas.broker.replica_manager import ReplicaManager
    from barnabas.broker.session_lease import SessionLease
    from barnabas.common.clock import Clock
    from barnabas.coordinator.deferred import Deferred
    from barnabas.coordinator.group.group_coordinator_config import GroupCoordinatorConfig
    from barnabas.metadata.image.metadata_image import MetadataDelta
    from barnabas.metadata.publisher import LoaderManifest
    from barnabas.network.promised_answer import PromisedAnswer

__all__ = ["GroupService"]

T = TypeVar("T")


class GroupService:
    """Runs the coordinator. Handlers use ``coordinator`` for requests and ``answer`` for deferred results."""

    def __init__(
        self,
        config: GroupCoordinatorConfig,
        *,
        broker_id: int,
        replicas: ReplicaManager,
        clock: Clock,
        new_uuid: Callable[[], str],
        lease: SessionLease,
        hurry_heartbeat: Callable[[], None],
    ) -> None:
        self.reads = CoordinatorReads(lease, replicas.read_rounds, hurry_heartbeat=hurry_heartbeat)
        self._host = CoordinatorHost(
            GROUP_METADATA_TOPIC,
            broker_id=broker_id,
            replicas=replicas,
            clock=clock,
            new_coordinator=lambda writer: GroupCoordinator(
                config, writer=writer, new_uuid=new_uuid, view=ClusterView(MetadataImage.EMPTY)
            ),
            on_lost=self.reads.recheck,
        )
        self.coordinator = self._host.coordinator
        self._tasks: set[asyncio.Task[None]] = set()

    def now_ms(self) -> int:
        """Return wall-clock milliseconds that advance as the monotonic clock does."""
        return self._host.now_ms()

    @property
    def load_times(self) -> Latencies:
        return self._host.load_times

    def start(self) -> None:
        """Coordinate, once the broker has caught up with the metadata log."""
        self.coordinator.start()
        self._host.start()

    def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        self._host.stop()
        self.reads.stop()
        self.coordinator.stop(self.now_ms())

    @property
    def serves_consumer_groups(self) -> bool:
        """Whether the consumer protocol is enabled: by ``group.version`` of the cluster, and on this broker."""
        level = self.coordinator.view.image.features.level(GROUP_VERSION)
        return level >= 1 and self.coordinator.config.serves_consumer_groups

    @property
    def serves_share_groups(self) -> bool:
        """Whether the share protocol is enabled by ``share.version`` of the cluster."""
        return self.coordinator.view.image.features.level(SHARE_VERSION) >= 1

    @property
    def serves_streams_groups(self) -> bool:
        """Whether streams groups are enabled: by ``streams.version`` of the cluster, and on this broker."""
        level = self.coordinator.view.image.features.level(STREAMS_VERSION)
        return level >= 1 and self.coordinator.config.serves_streams_groups

    def start_task(self, work: Coroutine[None, None, None]) -> None:
        """Run work between requests; ``stop`` cancels it."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def schedule(self) -> None:
        """Set the timer for the coordinator's next deadline."""
        self._host.schedule()

    def publish(self, delta: MetadataDelta, new_image: MetadataImage, manifest: LoaderManifest) -> None:
        """Follow the metadata log; installed after the replica manager."""
        self.coordinator.follow_metadata(delta, new_image)
        if delta.topics is None:
            return
        self.reads.recheck()
        self._host.publish(delta, new_image)
        removed = {
            (topic.name, partition)
            for topic in delta.topics.deleted.values()
            for partition in topic.partitions
            if topic.name != GROUP_METADATA_TOPIC
        }
        if removed:
            self.coordinator.on_partitions_deleted(removed, self.now_ms())
            self.coordinator.share.on_topics_deleted(delta.topics.deleted.keys(), self.now_ms())
            self._host.schedule()

    def answer(self, deferred: Deferred[T]) -> T | Awaitable[T]:
        """Return a handler's result: the value if it is complete, else an awaitable of it."""
        return self._host.answer(deferred)

    def promise(self, deferred: Deferred[T]) -> T | PromisedAnswer[T]:
        """Return the result of a handler whose request does not delay the next ones of its kind."""
        return self._host.promise(deferred)

    def confirm(self, group_ids: Iterable[str]) -> Awaitable[Set[str]] | None:
        """Return an awaitable to await before the state of these groups is sent; None if it may be sent immediately.

        If the state is sent without another wait in between, no other coordinator can have replaced this one before.
        """
        if not self.coordinator.is_active:
            return None
        return self.reads.confirm_keys(
            self._host, {group_id: self.coordinator.partition_for(group_id) for group_id in group_ids}
        )
