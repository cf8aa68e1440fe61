"""One partition of this broker: its log, its leader, and the requests that wait for its data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from barnabas.common.errors import ApiException, ErrorCode

if TYPE_CHECKING:
    from asyncio import Lock
    from collections.abc import Callable

    from barnabas.broker.produce_verification import Verification
    from barnabas.broker.replication.leader_replica import LeaderReplica
    from barnabas.common.topic_partition import TopicPartition
    from barnabas.common.uuid import Uuid
    from barnabas.metadata.image.partition_registration import PartitionRegistration
    from barnabas.storage.partition_log import PartitionLog

__all__ = ["Partition", "PartitionWatcher"]


class PartitionWatcher(Protocol):
    def partition_changed(self, appended_bytes: int | None) -> None:
        """Called with the number of committed bytes.

        0: the partition was removed or has a new leader epoch. None: its log start moved.
        """
        ...


class Partition:
    """``log`` is opened on first use: an unused partition has no files.

    ``leader_replica`` is set while this broker leads and others have replicas. A write to a partition with one replica
    is committed immediately.
    """

    __slots__ = (
        "_open_log",
        "appends_turn",
        "appends_waiting",
        "isr_count",
        "leader_epoch",
        "leader_id",
        "leader_replica",
        "listeners",
        "log_failure",
        "log_or_none",
        "replica_count",
        "topic_id",
        "topic_partition",
        "verified_producers",
        "watchers",
    )

    def __init__(
        self, topic_partition: TopicPartition, topic_id: Uuid, open_log: Callable[[Partition], PartitionLog]
    ) -> None:
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.leader_id = -1
        self.leader_epoch = -1
        self.isr_count = 0
        self.replica_count = 0
        self.leader_replica: LeaderReplica | None = None
        self.log_or_none: PartitionLog | None = None
        self.log_failure = ""
        """The last logged reason why the log could not be opened."""
        self.verified_producers: dict[int, Verification] | None = None
        """Producers whose transaction is verified, or is being verified, before its first batch is appended. A marker
        removes its producer, so that a batch that was verified before it is not appended after it."""
        self.listeners: dict[Callable[[int], None], None] | None = None
        self.watchers: dict[PartitionWatcher, None] | None = None
        """They are called for every change that a reader could see. Unlike listeners they are permanent."""
        self.appends_waiting = 0
        """Appends that run on a thread or wait for an earlier one. Further ones queue in ``appends_turn``."""
        self.appends_turn: Lock | None = None
        self._open_log = open_log

    @property
    def log(self) -> PartitionLog:
        opened = self.log_or_none
        if opened is None:
            opened = self._open_log(self)
            self.use_log(opened)
        return opened

    def use_log(self, log: PartitionLog) -> None:
        self.log_or_none = log
        log.on_log_start_moved = self._notify_watchers
        if self.leader_replica is not None:
            self.leader_replica.assign_epoch_start()

    def update(self, registration: PartitionRegistration) -> None:
        """Apply a change of the metadata log: a new leader epoch, or another ISR."""
        has_new_leadership = (self.leader_id, self.leader_epoch) != (registration.leader, registration.leader_epoch)
        self.leader_id = registration.leader
        self.leader_epoch = registration.leader_epoch
        self.isr_count = len(registration.isr)
        self.replica_count = len(registration.replicas)
        if has_new_leadership:
            self.notify(0)

    def check_leader(self, broker_id: int, current_leader_epoch: int = -1) -> None:
        """Raise an error if this broker does not lead or the client knows another leader epoch; -1: it knows none."""
        self.check_epoch(current_leader_epoch)
        if self.leader_id != broker_id:
            raise ApiException(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def check_epoch(self, current_leader_epoch: int) -> None:
        """Raise an error if the client knows another leader epoch; -1: it knows none."""
        if current_leader_epoch >= 0:
            if current_leader_epoch < self.leader_epoch:
                raise ApiException(ErrorCode.FENCED_LEADER_EPOCH)
            if current_leader_epoch > self.leader_epoch:
                raise ApiException(ErrorCode.UNKNOWN_LEADER_EPOCH)

    # --- waiting for data

    def add_listener(self, listener: Callable[[int], None]) -> None:
        """Call ``listener(bytes)`` for each append, and with 0 when the partition is removed or its leader changes."""
        if self.listeners is None:
            self.listeners = {}
        self.listeners[listener] = None

    def remove_listener(self, listener: Callable[[int], None]) -> None:
        if self.listeners is not None:
            self.listeners.pop(listener, None)
            if not self.listeners:
                self.listeners = None

    def add_watcher(self, watcher: PartitionWatcher) -> None:
        if self.watchers is None:
            self.watchers = {}
        self.watchers[watcher] = None

    def remove_watcher(self, watcher: PartitionWatcher) -> None:
        if self.watchers is not None:
            self.watchers.pop(watcher, None)
            if not self.watchers:
                self.watchers = None

    def _notify_watchers(self) -> None:
        if self.watchers is not None:
            for watcher in self.watchers:
                watcher.partition_changed(None)
        if self.leader_replica is not None:
            self.leader_replica.log_start_moved()

    def notify(self, appended_bytes: int) -> None:
        """Call the watchers and listeners.

        Called after each move of the high watermark, and with 0 when the partition is removed or its leader changes.
        """
        if self.watchers is not None:
            # Without a leader, or with another one, some of them end.
            for watcher in self.watchers if appended_bytes else tuple(self.watchers):
                watcher.partition_changed(appended_bytes)
        if self.listeners is not None:
            for listener in tuple(self.listeners):
                listener(appended_bytes)
