"""Manages the partitions of this broker: follows the metadata log, appends, reads, and finds partitions.

A record of a partition with one replica is committed when it is appended: the high watermark follows the log end. With
more replicas ``Partition.leader_replica`` moves it, and ``fetchers`` copy the partitions that other brokers lead.

A batch that takes long to check is checked on a thread, so that it delays only its own partition: later
appends to that partition wait for their turn.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from barnabas.broker.impaired_replicas import ImpairedReplicas
from barnabas.broker.partition import Partition
from barnabas.broker.replica_changes import follow_configs, follow_replicas
from barnabas.broker.replica_directories import ReplicaDirectories
from barnabas.broker.replication.read_rounds import ReadRounds
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.exception_frames import forget_frames
from barnabas.common.topic_partition import TopicPartition
from barnabas.network.fair_scheduling import FairThreads
from barnabas.network.stepped_responses import serve_others
from barnabas.protocol.produce_validation import BatchLimits, WorkBudget, WorkBudgetExceeded
from barnabas.storage.errors import StorageError
from barnabas.storage.log_directories import DIRECTORIES_UNCHOSEN
from barnabas.storage.produced_batch import AppendOrigin, ProducedBatch, read_produced_batch

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

    from barnabas.broker.isr_maintenance import LeaderReplicas
    from barnabas.broker.ports import ReplicaFetchers
    from barnabas.broker.produce_verification import TransactionGuard
    from barnabas.broker.replication.replication_quota import ReplicationQuota
    from barnabas.common.clock import Clock
    from barnabas.common.topic_config import TopicConfig
    from barnabas.common.uuid import Uuid
    from barnabas.metadata.image.cluster import ClusterImage
    from barnabas.metadata.image.metadata_image import MetadataDelta, MetadataImage
    from barnabas.metadata.image.partition_registration import PartitionRegistration
    from barnabas.metadata.publisher import LoaderManifest
    from barnabas.storage.batch_header import Buffer
    from barnabas.storage.log_manager import LogManager
    from barnabas.storage.partition_log import AppendInfo, PartitionLog

__all__ = ["ReplicaManager"]

log = logging.getLogger(__name__)

_VALIDATION_THREADS = 2
_NOT_IN_THE_METADATA = "no topic has the id {}, and no record in the metadata log says that it was deleted"
_PAUSE_S = 0.0005
"""A thread that checks a batch sleeps for this time after each part, so that the event loop can run."""
_DISK_ERROR = "Disk error when trying to access log file on the disk."


class ReplicaManager:
    def __init__(
        self,
        *,
        broker_id: int,
        logs: LogManager,
        clock: Clock,
        defaults: TopicConfig,
        fetchers: ReplicaFetchers | None = None,
        leader_quota: ReplicationQuota | None = None,
        new_directories: Callable[[ReplicaManager], ReplicaDirectories] | None = None,
        new_leader_replicas: Callable[[ClusterImage], LeaderReplicas] | None = None,
        threads: FairThreads | None = None,
        batch_limits: BatchLimits | None = None,
    ) -> None:
        """Create the manager.

        ``fetchers`` copies the partitions that other brokers lead. ``leader_quota`` limits the bytes of throttled
        replicas for followers. ``new_directories`` is called once, at the end of the construction; without it moves
        between directories are not limited. ``new_leader_replicas`` is called once, for the first partition with
        several replicas that this broker leads.
        """
        self.broker_id = broker_id
        self.leader_replicas: LeaderReplicas | None = None
        self.fetchers = fetchers
        self.leader_quota = leader_quota
        self._lost_logs_listeners: list[Callable[[Sequence[TopicPartition]], None]] = []
        self.read_rounds = ReadRounds()
        self.impaired = ImpairedReplicas(self, clock)
        self._new_leader_replicas = new_leader_replicas
        self.logs = logs
        self.partitions: dict[TopicPartition, Partition] = {}
        self.bytes_in = 0
        self.bytes_out = 0
        self.batches_in = 0
        self._threads = threads or FairThreads(_VALIDATION_THREADS, "produce-validation")
        self._batch_limits = limits = batch_limits or BatchLimits()
        self._paused_batch_limits = BatchLimits(
            headers=limits.headers,
            record_headers=limits.record_headers,
            decompressed_bytes=limits.decompressed_bytes,
            pause=lambda: time.sleep(_PAUSE_S),
        )
        self._clock = clock
        self._defaults = defaults
        self._image: MetadataImage | None = None
        self._configs: dict[str, TopicConfig] = {}
        self._removed_topics: set[Uuid] = set()
        """The topics deleted by records: before ``settle_strays`` all of them, afterwards those of one publication."""
        self._has_settled = False
        self.without_log: list[Partition] = []
        """Partitions created since the last ``open_some``, whose directories are created in idle time."""
        self._opening: asyncio.Lock | None = None
        self.directories = ReplicaDirectories(self, clock) if new_directories is None else new_directories(self)

    def add_lost_logs_listener(self, listener: Callable[[Sequence[TopicPartition]], None]) -> None:
        """Call ``listener`` with the affected partitions each time a log directory fails."""
        self._lost_logs_listeners.append(listener)

    def close(self) -> None:
        """End the threads and timers. Afterwards no request is answered."""
        if self.leader_replicas is not None:
            self.leader_replicas.stop()
        self._threads.close()

    # --- following the metadata log

    def publish(self, delta: MetadataDelta, new_image: MetadataImage, manifest: LoaderManifest) -> None:
        for _ in self.publish_in_steps(delta, new_image, manifest):
            pass

    def publish_in_steps(
        self, delta: MetadataDelta, new_image: MetadataImage, manifest: LoaderManifest
    ) -> Iterator[None]:
        """Apply an image partition by partition. Between the steps some are ahead of others, as on two brokers.

        The brokers are applied last: they may contain the registration of this process
        (``LeaderReplica.check_is_known``), and by then no leadership of an earlier process may be left.
        """
        self._image = new_image
        if delta.topics is not None:
            self._removed_topics |= delta.topics.removed
            changes = yield from delta.topics.local_changes_in_steps(self.broker_id)
            yield from follow_replicas(self, changes)
            if self._has_settled:
                self._removed_topics.clear()
        if delta.cluster is not None and self.leader_replicas is not None:
            self.leader_replicas.follow_cluster(new_image.cluster)
        if delta.configs is not None:
            yield from follow_configs(delta.configs, self._update_configs)

    def become_leader(
        self, topic_partition: TopicPartition, topic_id: Uuid, registration: PartitionRegistration
    ) -> None:
        partition = self._get_or_create(topic_partition, topic_id)
        partition.update(registration)
        self._lead(partition, registration)
        if self.impaired.is_impaired(topic_partition):
            self.impaired.handle(topic_partition)

    def become_follower(
        self, topic_partition: TopicPartition, topic_id: Uuid, registration: PartitionRegistration
    ) -> Partition | None:
        """Return the partition if its records can be copied; None while its directory is offline."""
        partition = self._get_or_create(topic_partition, topic_id)
        partition.update(registration)
        self._end_leadership(partition)
        is_offline = self.is_offline(partition)
        if self.impaired.is_impaired(topic_partition):
            self.impaired.handle(topic_partition)
        return None if is_offline else partition

    def _lead(self, partition: Partition, registration: PartitionRegistration) -> None:
        if partition.leader_replica is None and len(registration.replicas) == 1:
            if partition.log_or_none is not None:
                partition.log.maybe_advance_high_watermark(partition.log.log_end_offset)
            return
        if self.leader_replicas is None:
            if self._new_leader_replicas is None or self._image is None:
                raise RuntimeError("this broker was built without replication")
            self.leader_replicas = self._new_leader_replicas(self._image.cluster)
        self.leader_replicas.lead(partition, registration)

    def _end_leadership(self, partition: Partition, error: ErrorCode = ErrorCode.NOT_LEADER_OR_FOLLOWER) -> None:
        if partition.leader_replica is not None and self.leader_replicas is not None:
            self.leader_replicas.end(partition, error)

    def set_defaults(self, defaults: TopicConfig) -> None:
        """Apply changed settings of the broker, which are the defaults of every topic."""
        self._defaults = defaults
        for name in {tp.topic for tp in self.partitions}:
            self._update_configs(name)

    def topic_config(self, name: str) -> TopicConfig:
        config = self._configs.get(name)
        if config is None:
            overrides = {} if self._image is None else self._image.configs.of_topic(name)
            config = self._defaults.with_overrides(overrides)
            self._configs[name] = config
        return config

    def _update_configs(self, name: str) -> None:
        self._configs.pop(name, None)
        self.logs.update_config(name, self.topic_config(name))

    def _get_or_create(self, topic_partition: TopicPartition, topic_id: Uuid) -> Partition:
        partition = self.partitions.get(topic_partition)
        if partition is not None and partition.topic_id != topic_id:
            self.remove(topic_partition)
            partition = None
        if partition is None:
            partition = self.partitions[topic_partition] = Partition(topic_partition, topic_id, self._open_log)
            existing = self.logs.get(topic_partition)
            if existing is not None and existing.topic_id == topic_id:
                partition.use_log(existing)
            else:
                if not self._has_settled:
                    self._note_unread_log(partition)
                self.without_log.append(partition)
        return partition

    def _note_unread_log(self, partition: Partition) -> None:
        """Refuse a second log for a replica whose first one may be in a directory that could not be read at the start.

        The metadata does not always name the directory: a broker may stop before the controller learns it. A new log in
        another directory would be empty, and both logs would exist when the directory can be read again.
        """
        directories = self.logs.directories
        if directories.has_unread and self.directory_id_of(partition) in DIRECTORIES_UNCHOSEN:
            directories.note_lost(partition.topic_partition, partition.topic_id)
            self.directories.report_lost(partition.topic_partition, partition.topic_id)

    def _open_log(self, partition: Partition) -> PartitionLog:
        topic_partition = partition.topic_partition
        existing = self.logs.get(topic_partition)
        if existing is not None and existing.topic_id in self._removed_topics:
            self.logs.delete(topic_partition, now_ms=self._clock.now_ms())
        directory_id = self.directory_id_of(partition)
        try:
            opened = self.logs.get_or_create(
                topic_partition,
                partition.topic_id,
                now_ms=self._clock.now_ms(),
                config=self.topic_config(topic_partition.topic),
                directory_id=directory_id,
                leader_epoch=partition.leader_epoch,
                is_followed=partition.leader_id not in (-1, self.broker_id),
            )
        except StorageError as error:
            # Each request for the partition retries this.
            if partition.log_failure != str(error):
                partition.log_failure = str(error)
                log.warning("%s", error)
            raise ApiException(ErrorCode.KAFKA_STORAGE_ERROR, _DISK_ERROR) from error
        partition.log_failure = ""
        self.directories.opened(opened, directory_id)
        if partition.leader_id == self.broker_id and partition.replica_count == 1:
            opened.maybe_advance_high_watermark(opened.log_end_offset)
        return opened

    def open_some(self, count: int) -> bool:
        """Create directories for up to ``count`` new partitions. Return True while more are left."""
        for partition in self.without_log[:count]:
            if partition.log_or_none is None and self.partitions.get(partition.topic_partition) is partition:
                with suppress(ApiException):  # Logged, and retried on the next use of the log.
                    _ = partition.log
        del self.without_log[:count]
        return bool(self.without_log)

    def remove(self, topic_partition: TopicPartition) -> None:
        """Remove a replica from this broker. Delete its log if a record requires that, and keep it otherwise."""
        partition = self.partitions.pop(topic_partition, None)
        self._configs.pop(topic_partition.topic, None)
        if partition is not None:
            self._end_leadership(partition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            partition.notify(0)
            self.directories.forget(topic_partition, partition.topic_id)
        self._delete_or_set_aside(topic_partition, self.logs.get(topic_partition))

    def _delete_or_set_aside(self, topic_partition: TopicPartition, existing: PartitionLog | None) -> None:
        """Keep a log whose topic a snapshot lacks: the topic may have been deleted, or the metadata lost."""
        topics = None if self._image is None else self._image.topics
        topic_id = None if existing is None else existing.topic_id
        is_known = topic_id is not None and topics is not None and topic_id in topics.by_id
        if existing is None or topic_id in self._removed_topics or is_known:
            self.logs.delete(topic_partition, now_ms=self._clock.now_ms())
        else:
            self.logs.set_aside(existing, _NOT_IN_THE_METADATA.format(topic_id), now_ms=self._clock.now_ms())

    def read_failed(self, topic_partition: TopicPartition, error: Exception) -> ErrorCode:
        """Handle a read error in the partition's log. Return the error for the reader."""
        log.error("the log of %s cannot be read: %s", topic_partition, error)
        read = self.logs.get(topic_partition)
        if read is not None:
            self.logs.report_failure(read, error)
        return ErrorCode.KAFKA_STORAGE_ERROR

    @contextmanager
    def answered_disk_errors(self, topic_partition: TopicPartition) -> Iterator[None]:
        """Convert a disk error to an error for the caller, and take the directory offline."""
        try:
            yield
        except (OSError, StorageError) as error:
            raise ApiException(self.read_failed(topic_partition, error), _DISK_ERROR) from error

    def lose_logs(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Take partitions offline whose directory failed: this broker can neither read nor write them."""
        lost = list(topic_partitions)
        if self.fetchers is not None:
            self.fetchers.stop(lost)
        for topic_partition in lost:
            partition = self.partitions.get(topic_partition)
            if partition is not None:
                partition.log_or_none = None
                self._end_leadership(partition, ErrorCode.KAFKA_STORAGE_ERROR)
                partition.notify(0)
        for listener in self._lost_logs_listeners:
            listener(lost)

    def directory_id_of(self, partition: Partition) -> Uuid | None:
        """Return the directory that the controller has assigned to this broker's replica."""
        registration = self.registration_of(partition)
        if registration is None or self.broker_id not in registration.replicas:
            return None
        return registration.directory_of(self.broker_id)

    def registration_of(self, partition: Partition) -> PartitionRegistration | None:
        """Return the current metadata of the partition."""
        if self._image is None:
            return None
        return self._image.topics.partition(partition.topic_id, partition.topic_partition.partition)

    def settle_strays(self) -> None:
        """Delete logs whose topic was deleted, and set aside logs without a replica here, after the first image.

        As in Kafka, a replica that was moved to other brokers while this one was down is a stray, too.
        """
        now_ms = self._clock.now_ms()
        for existing in self.logs.logs():
            topic_partition = existing.topic_partition
            partition = self.partitions.get(topic_partition)
            if existing.topic_id is not None and existing.topic_id in self._removed_topics:
                log.warning("the topic of %s was deleted while this broker was down", topic_partition)
                self.logs.delete(topic_partition, now_ms=now_ms)
            elif partition is None:
                self.logs.set_aside(existing, self._why_stray(existing), now_ms=now_ms)
            elif existing.topic_id != partition.topic_id:
                with suppress(ApiException):
                    _ = partition.log
        self._removed_topics.clear()
        self._has_settled = True

    def _why_stray(self, existing: PartitionLog) -> str:
        topics = None if self._image is None else self._image.topics
        if existing.topic_id is not None and topics is not None and existing.topic_id in topics.by_id:
            return f"the metadata log assigns no replica of it to broker {self.broker_id}"
        return _NOT_IN_THE_METADATA.format(existing.topic_id)

    # --- lookup

    def leader_of(self, topic_partition: TopicPartition, current_leader_epoch: int = -1) -> Partition:
        """Return the partition if this broker leads it. Otherwise raise the error for the client."""
        partition = self.partitions.get(topic_partition)
        if partition is None:
            if self.is_known(topic_partition):
                raise ApiException(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            raise ApiException(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if (
            partition.log_or_none is None
            and self.is_offline(partition)
            and (partition.leader_id != self.broker_id or topic_partition in self.logs.strays.withheld)
        ):
            raise ApiException(ErrorCode.KAFKA_STORAGE_ERROR, _DISK_ERROR)
        partition.check_leader(self.broker_id, current_leader_epoch)
        return partition

    def replica_of(self, topic_partition: TopicPartition, current_leader_epoch: int = -1) -> Partition:
        """Return the partition if this broker has a replica of it. Otherwise raise the error for the client."""
        partition = self.partitions.get(topic_partition)
        if partition is None:
            return self.leader_of(topic_partition, current_leader_epoch)
        partition.check_epoch(current_leader_epoch)
        return partition

    def is_known(self, topic_partition: TopicPartition) -> bool:
        """Return whether the partition exists, on this broker or another."""
        topic = None if self._image is None else self._image.topics.by_name.get(topic_partition.topic)
        return topic is not None and topic_partition.partition in topic.partitions

    def is_offline(self, partition: Partition) -> bool:
        """Return whether the log is, or may be, in an offline directory, or its records were set aside."""
        if partition.log_or_none is None and partition.topic_partition in self.logs.strays.withheld:
            return partition.leader_id in (-1, self.broker_id)
        return partition.log_or_none is None and self.logs.directories.is_offline(
            partition.topic_partition, partition.topic_id, self.directory_id_of(partition)
        )

    def topic_name(self, topic_id: Uuid) -> str | None:
        topic = None if self._image is None else self._image.topics.by_id.get(topic_id)
        return None if topic is None else topic.name

    # --- appending

    def append(
        self,
        partition: Partition,
        records: Buffer,
        *,
        requires_all_in_sync: bool,
        origin: AppendOrigin = AppendOrigin.CLIENT,
    ) -> AppendInfo:
        """Append as leader. Raise ApiException with the partition's error if that is impossible."""
        self._check_in_sync(partition, requires_all_in_sync)
        now_ms = self._clock.now_ms()
        batch = read_produced_batch(
            records, partition.log.rules, now_ms=now_ms, origin=origin, partition=partition.topic_partition
        )
        return self._write(partition, batch, now_ms)

    def append_produced(
        self,
        topic_partition: TopicPartition,
        records: Buffer,
        *,
        requires_all_in_sync: bool,
        budget: WorkBudget,
        owner: Hashable = None,
        guard: TransactionGuard | None = None,
    ) -> AppendInfo | asyncio.Task[AppendInfo]:
        """Append a client's batch. Raise ApiException with the partition's error if that is impossible.

        ``guard``: the verification of its transaction, which must still hold when it is written.

        Return a task if the append takes longer than the ``budget`` of the request allows, or if other appends to the
        partition wait. The task may raise ApiException, too. Threads are shared fairly between owners.
        """
        partition = self.leader_of(topic_partition)
        if not partition.appends_waiting and (partition.log_or_none is not None or budget.take_new_log()):
            self._check_in_sync(partition, requires_all_in_sync)
            now_ms = self._clock.now_ms()
            try:
                batch = read_produced_batch(
                    records,
                    partition.log.rules,
                    now_ms=now_ms,
                    origin=AppendOrigin.CLIENT,
                    partition=topic_partition,
                    budget=budget,
                    limits=self._batch_limits,
                )
            except WorkBudgetExceeded:
                pass
            else:
                return self._write_guarded(partition, batch, now_ms, guard)

        def finished(task: asyncio.Task[AppendInfo]) -> None:
            partition.appends_waiting -= 1
            # If the client has disconnected meanwhile, no caller reads the exception.
            if not task.cancelled() and isinstance(failure := task.exception(), ApiException):
                forget_frames(failure)

        partition.appends_waiting += 1
        waiting = asyncio.get_running_loop().create_task(
            self._append_in_turn(partition, records, requires_all_in_sync, owner, guard)
        )
        waiting.add_done_callback(finished)
        return waiting

    async def _append_in_turn(
        self,
        partition: Partition,
        records: Buffer,
        requires_all_in_sync: bool,
        owner: Hashable,
        guard: TransactionGuard | None,
    ) -> AppendInfo:
        if partition.appends_turn is None:
            partition.appends_turn = asyncio.Lock()
        async with partition.appends_turn:
            self._check_still_led(partition)
            if partition.log_or_none is None:
                await self._open_in_turn(partition)
            self._check_in_sync(partition, requires_all_in_sync)
            topic_partition, rules, now_ms = partition.topic_partition, partition.log.rules, self._clock.now_ms()
            batch = await self._threads.run(
                owner,
                lambda: read_produced_batch(
                    records,
                    rules,
                    now_ms=now_ms,
                    origin=AppendOrigin.CLIENT,
                    partition=topic_partition,
                    limits=self._paused_batch_limits,
                ),
            )
            self._check_still_led(partition)
            return self._write_guarded(partition, batch, now_ms, guard)

    def _write_guarded(
        self, partition: Partition, batch: ProducedBatch, now_ms: int, guard: TransactionGuard | None
    ) -> AppendInfo:
        """Write unless a marker has ended the transaction of the batch since it was verified."""
        if guard is None:
            return self._write(partition, batch, now_ms)
        guard.check()
        info = self._write(partition, batch, now_ms)
        guard.done()
        return info

    async def _open_in_turn(self, partition: Partition) -> None:
        """Create one log per turn of the loop, so that first writes to many partitions do not delay other requests."""
        if self._opening is None:
            self._opening = asyncio.Lock()
        async with self._opening:
            await serve_others()
            self._check_still_led(partition)
            _ = partition.log

    def _check_still_led(self, partition: Partition) -> None:
        """Check the leadership again: the metadata may have changed while an append waited."""
        if self.leader_of(partition.topic_partition) is not partition:
            raise ApiException(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def _check_in_sync(self, partition: Partition, requires_all_in_sync: bool) -> None:
        """Raise NOT_ENOUGH_REPLICAS if fewer than min.insync.replicas, or than all replicas, are in sync."""
        if not requires_all_in_sync:
            return
        required = min(partition.log.config.min_insync_replicas, partition.replica_count)
        if partition.isr_count < required:
            raise ApiException(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"The size of the current ISR for partition {partition.topic_partition} is insufficient to satisfy "
                f"the min.isr requirement of {required}",
            )

    def _write(self, partition: Partition, batch: ProducedBatch, now_ms: int) -> AppendInfo:
        written = partition.log
        leader = partition.leader_replica
        if leader is not None:
            leader.check_is_known()
            leader.about_to_append(written.log_end_offset)
        try:
            info = written.append_batch(batch, leader_epoch=partition.leader_epoch, now_ms=now_ms)
        except (OSError, StorageError) as error:
            log.error("the log of %s cannot be written: %s", partition.topic_partition, error)
            self.logs.report_failure(written, error)
            raise ApiException(ErrorCode.KAFKA_STORAGE_ERROR, _DISK_ERROR) from error
        self.bytes_in += batch.size
        self.batches_in += 1
        if leader is not None:
            if not info.duplicate:
                leader.appended(batch.size, self._clock.monotonic_ms())
            return info
        written.maybe_advance_high_watermark(written.log_end_offset)
        if partition.listeners is not None or partition.watchers is not None:
            partition.notify(batch.size)
        return info
