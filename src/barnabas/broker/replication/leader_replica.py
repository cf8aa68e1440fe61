"""The leader's replica of a replicated partition: applies appends, followers' fetches and the controller's answers.

It moves the high watermark and runs the waits for it. Proposals of another ISR are passed to ``submit``; their results
arrive through ``isr_changed`` or ``isr_refused``. One object exists while this broker leads without interruption, over
several leader epochs. ``end`` is the last call.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Protocol

from barnabas.broker.replication.commit_waits import CommitWaits, settled
from barnabas.broker.replication.partition_leadership import PartitionLeadership, ProposalKind
from barnabas.common.errors import ApiException, ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.broker.replication.commit_waits import CommitWait
    from barnabas.broker.replication.partition_leadership import CommittedState, IsrProposal, LeadershipContext
    from barnabas.broker.replication.replica_state import FollowerContact, ReplicaState
    from barnabas.common.topic_partition import TopicPartition
    from barnabas.common.uuid import Uuid
    from barnabas.metadata.image.partition_registration import PartitionRegistration

__all__ = ["IsrStats", "LeaderReplica", "LedPartition", "ReplicatedLog"]


class _LogSettings(Protocol):
    @property
    def min_insync_replicas(self) -> int: ...


class ReplicatedLog(Protocol):
    log_start_offset: int
    log_end_offset: int
    high_watermark: int

    @property
    def config(self) -> _LogSettings: ...

    def maybe_advance_high_watermark(self, offset: int) -> bool: ...

    def assign_epoch_start(self, leader_epoch: int) -> None: ...


class LedPartition(Protocol):
    """The port to a partition. A partition without a log is empty."""

    topic_partition: TopicPartition
    topic_id: Uuid
    isr_count: int

    @property
    def log_or_none(self) -> ReplicatedLog | None: ...

    def notify(self, appended_bytes: int) -> None:
        """Called with the number of committed bytes. 0: the state changed."""
        ...


class FollowerWatcher(Protocol):
    def partition_changed(self, appended_bytes: int | None) -> None:
        """Called with the number of appended bytes. 0: stop waiting, the leadership ended. None: answer now."""
        ...


class IsrStats:
    """ISR counters of a broker."""

    __slots__ = ("bytes_out", "expands", "failed_updates", "shrinks")

    def __init__(self) -> None:
        self.bytes_out = 0
        """Limits the records sent to followers."""
        self.expands = 0
        self.shrinks = 0
        self.failed_updates = 0


class LeaderReplica:
    __slots__ = (
        "_appended",
        "_delete_waits",
        "_ended_by",
        "_listeners",
        "_stats",
        "_submit",
        "_waits",
        "_watchers",
        "is_over",
        "leadership",
        "on_high_watermark",
        "partition",
        "topic_partition",
    )

    def __init__(
        self,
        partition: LedPartition,
        registration: PartitionRegistration,
        context: LeadershipContext,
        *,
        submit: Callable[[LeaderReplica, IsrProposal], None],
        stats: IsrStats,
        now_ms: int,
    ) -> None:
        self.partition = partition
        self.topic_partition = partition.topic_partition
        self.leadership = PartitionLeadership(context, registration, log_end_offset=self.log_end_offset, now_ms=now_ms)
        self.is_over = False
        self._ended_by = ErrorCode.NONE
        self.on_high_watermark: Callable[[int], None] | None = None
        """Called with each new high watermark, for components with their own state in the partition."""
        self._submit = submit
        self._stats = stats
        self._appended: deque[tuple[int, int]] | None = None
        """The log end and the size in bytes of each uncommitted append."""
        self._waits: CommitWaits | None = None
        self._delete_waits: CommitWaits | None = None
        self._watchers: dict[FollowerWatcher, None] = {}
        self._listeners: dict[Callable[[int], None], None] | None = None
        self._begin_epoch()

    @property
    def log_end_offset(self) -> int:
        log = self.partition.log_or_none
        return 0 if log is None else log.log_end_offset

    @property
    def high_watermark(self) -> int:
        log = self.partition.log_or_none
        return 0 if log is None else log.high_watermark

    @property
    def is_catching_up(self) -> bool:
        """Whether records of earlier leaders may be committed beyond the high watermark."""
        return self.leadership.epoch_start_offset > self.high_watermark

    # Following the metadata log

    def update(self, registration: PartitionRegistration, now_ms: int) -> None:
        leadership = self.leadership
        epoch = leadership.leader_epoch
        if leadership.update(registration, log_end_offset=self.log_end_offset, now_ms=now_ms):
            if leadership.leader_epoch != epoch:
                self._begin_epoch()
                self._notify_followers(0)
            self._isr_is_known(now_ms)
        else:
            self.partition.isr_count = len(leadership.isr)

    def _begin_epoch(self) -> None:
        self.partition.isr_count = len(self.leadership.isr)
        self.assign_epoch_start()

    def assign_epoch_start(self) -> None:
        """Begin the epoch in the log, when one exists.

        An epoch of an earlier process is not begun: this log may have lost the records before its start.
        """
        log = self.partition.log_or_none
        if log is not None and self.leadership.context.is_known:
            log.assign_epoch_start(self.leadership.leader_epoch)

    def process_is_known(self, now_ms: int) -> None:
        """Called when the metadata has this process's registration: the leadership is its own."""
        self.assign_epoch_start()
        self.maybe_advance(now_ms)

    def end(self, error: ErrorCode = ErrorCode.NOT_LEADER_OR_FOLLOWER) -> None:
        """End all waits, because another broker leads or the partition was deleted."""
        self.is_over = True
        self._ended_by = error
        self.on_high_watermark = None
        self._notify_followers(0)
        self._watchers.clear()
        for waits in (self._waits, self._delete_waits):
            if waits is not None:
                waits.fail(error)

    # Appends

    def check_is_known(self) -> None:
        """Raise NOT_LEADER_OR_FOLLOWER until the metadata has this process's registration.

        Until then, the leadership is that of an earlier process. In a power failure that process may have lost records
        that followers have, and another broker may lead.
        """
        if not self.leadership.context.is_known:
            raise ApiException(ErrorCode.NOT_LEADER_OR_FOLLOWER, "This broker has not received its registration yet.")

    def about_to_append(self, leader_end_offset: int) -> None:
        self.leadership.leader_appends(leader_end_offset)

    def appended(self, size: int, now_ms: int) -> None:
        """Handle an append: the log has grown by one batch of ``size`` bytes."""
        if self._appended is None:
            self._appended = deque()
        self._appended.append((self.log_end_offset, size))
        self._notify_followers(size)
        if len(self.leadership.maximal_isr) == 1:
            self.maybe_advance(now_ms)

    def wait_for(self, offset: int, on_done: Callable[[ErrorCode], None]) -> CommitWait:
        """Call ``on_done`` once the high watermark has passed the offset, or with an error.

        The result is NONE or NOT_ENOUGH_REPLICAS_AFTER_APPEND after the high watermark has passed. The call may happen
        before this method returns.
        """
        if self.is_over:
            return settled(on_done, self._ended_by)
        if self.high_watermark >= offset:
            return settled(on_done, self.error_of_commit())
        if self._waits is None:
            self._waits = CommitWaits()
        return self._waits.add(offset, on_done)

    def error_of_commit(self) -> ErrorCode:
        """Return NOT_ENOUGH_REPLICAS_AFTER_APPEND if too few replicas may have the committed records."""
        if len(self.leadership.maximal_isr) < self.required_in_sync():
            return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return ErrorCode.NONE

    def required_in_sync(self) -> int:
        """Return ``min.insync.replicas``, but at most the number of replicas. It is 0 for a partition without a log."""
        log = self.partition.log_or_none
        return 0 if log is None else self.leadership.required_in_sync(log.config.min_insync_replicas)

    def maybe_advance(self, now_ms: int) -> bool:
        log = self.partition.log_or_none
        if log is None:
            return False
        offset = self.leadership.high_watermark(log.log_end_offset, log.config.min_insync_replicas, now_ms)
        if not log.maybe_advance_high_watermark(offset):
            return False
        self._committed(log.high_watermark)
        return True

    def _committed(self, offset: int) -> None:
        size, appended = 0, self._appended
        while appended and appended[0][0] <= offset:
            size += appended.popleft()[1]
        for watcher in self._watchers:
            watcher.partition_changed(None)
        if self.on_high_watermark is not None:
            self.on_high_watermark(offset)
        self.partition.notify(size or 1)
        if self._waits is not None:
            self._waits.reached(offset, self.error_of_commit())

    # Followers

    def follower(self, replica_id: int, current_leader_epoch: int) -> ReplicaState:
        """Return the state of a follower. Raise ApiException if the broker does not have a replica."""
        return self.leadership.follower(replica_id, current_leader_epoch)

    def follower_fetched(
        self,
        replica: ReplicaState,
        *,
        log_end_offset: int,
        log_start_offset: int,
        broker_epoch: int,
        now_ms: int,
        contact: FollowerContact | None = None,
    ) -> None:
        """Handle a fetch: the follower has all records below ``log_end_offset``.

        Raise ApiException for a broker process that was replaced.
        """
        moved = self.leadership.fetched(
            replica,
            log_end_offset=log_end_offset,
            log_start_offset=log_start_offset,
            leader_end_offset=self.log_end_offset,
            broker_epoch=broker_epoch,
            now_ms=now_ms,
            contact=contact,
        )
        if contact is None:
            # The partition may have left the follower's session: then the follower's next request includes it again.
            for watcher in self._watchers:
                watcher.partition_changed(None)
        if replica.broker_id not in self.leadership.isr:
            self.maybe_expand(replica)
        if moved:
            self.maybe_advance(now_ms)
        if self._delete_waits is not None:
            self._delete_waits.reached(self.low_watermark)

    @property
    def low_watermark(self) -> int:
        log = self.partition.log_or_none
        return self.leadership.low_watermark(0 if log is None else log.log_start_offset)

    def wait_for_low_watermark(self, offset: int, on_done: Callable[[ErrorCode], None]) -> CommitWait:
        """Wait until every live replica's log starts at ``offset`` or later."""
        if self.is_over:
            return settled(on_done, self._ended_by)
        if self.low_watermark >= offset:
            return settled(on_done, ErrorCode.NONE)
        if self._delete_waits is None:
            self._delete_waits = CommitWaits()
        return self._delete_waits.add(offset, on_done)

    # The ISR

    def maybe_expand(self, replica: ReplicaState) -> None:
        proposal = self.leadership.propose_to_expand(replica, self.high_watermark)
        if proposal is not None:
            self._submit(self, proposal)

    def check_isr(self, now_ms: int) -> None:
        """Propose to remove followers that lag too long, or to add those that only wait for the controller."""
        proposal = self.leadership.propose_to_shrink(self.log_end_offset, now_ms)
        if proposal is not None:
            self._submit(self, proposal)
            return
        self.retry_expansion()

    def recheck(self, now_ms: int) -> None:
        """Recompute the high watermark: after time or changes of brokers, fewer joining followers may count."""
        if self.log_end_offset > self.high_watermark:
            self.maybe_advance(now_ms)
        self.retry_expansion()

    def retry_expansion(self) -> None:
        """Propose followers that could not join at their last fetch of this partition, but have confirmed it since.

        A fetch before the last change of the ISR does not count: the controller may have newer facts about the replica.
        """
        leadership = self.leadership
        if leadership.proposal is None and leadership.is_incomplete:
            for replica in leadership.replicas.values():
                if replica.broker_id not in leadership.isr and replica.is_confirmed_since(leadership.committed_ms):
                    self.maybe_expand(replica)

    def isr_changed(self, proposal: IsrProposal, state: CommittedState, now_ms: int) -> None:
        """Apply the controller's answer to a proposal."""
        if self.is_over or not self.leadership.accepted(proposal, state, now_ms):
            return
        if proposal.kind is ProposalKind.EXPAND:
            self._stats.expands += 1
        else:
            self._stats.shrinks += 1
        self._isr_is_known(now_ms)

    def isr_refused(self, proposal: IsrProposal, error: ErrorCode, now_ms: int) -> None:
        if self.is_over:
            return
        self._stats.failed_updates += 1
        if self.leadership.refused(proposal, error, now_ms):
            self._submit(self, proposal)

    def is_waiting_for(self, proposal: IsrProposal) -> bool:
        return not self.is_over and self.leadership.proposal is proposal

    def _isr_is_known(self, now_ms: int) -> None:
        """Move the high watermark if the new ISR allows it."""
        self.partition.isr_count = len(self.leadership.isr)
        self.maybe_advance(now_ms)
        self.retry_expansion()

    # Followers that wait for data

    def add_watcher(self, watcher: FollowerWatcher) -> None:
        self._watchers[watcher] = None

    def remove_watcher(self, watcher: FollowerWatcher) -> None:
        self._watchers.pop(watcher, None)

    def add_listener(self, listener: Callable[[int], None]) -> None:
        if self._listeners is None:
            self._listeners = {}
        self._listeners[listener] = None

    def remove_listener(self, listener: Callable[[int], None]) -> None:
        if self._listeners is not None:
            self._listeners.pop(listener, None)

    def call_followers(self) -> None:
        """Answer fetches that wait for data, so that their followers fetch again immediately."""
        self._notify_followers(0)

    def log_start_moved(self) -> None:
        for watcher in self._watchers:
            watcher.partition_changed(None)

    def _notify_followers(self, appended_bytes: int) -> None:
        for watcher in tuple(self._watchers):
            watcher.partition_changed(appended_bytes)
        for listener in tuple(self._listeners or ()):
            listener(appended_bytes)
