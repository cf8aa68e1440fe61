"""The leader's replica of a partition that has others: what follows from an append, a fetch of a follower, an answer.

It moves the high watermark and tells those who wait for it; proposals of another ISR go to ``submit``, and come back
through ``isr_changed`` or ``isr_refused``. One object lives as long as this broker leads without a break, over leader
epochs; ``end`` is its last call.
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
    """What is needed of the partition. Without a log there is nothing in it yet."""

    topic_partition: TopicPartition
    topic_id: Uuid
    isr_count: int

    @property
    def log_or_none(self) -> ReplicatedLog | None: ...

    def notify(self, appended_bytes: int) -> None:
        """That many bytes are committed now; 0: the state is another."""
        ...


class FollowerWatcher(Protocol):
    def partition_changed(self, appended_bytes: int | None) -> None:
        """Bytes were appended; 0: wait no longer, as when the leadership is over; None: there is something to tell."""
        ...


class IsrStats:
    """Counters of a broker."""

    __slots__ = ("bytes_out", "expands", "failed_updates", "shrinks")

    def __init__(self) -> None:
        self.bytes_out = 0
        """Of records, to followers."""
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
        """For one who has state of its own in the partition."""
        self._submit = submit
        self._stats = stats
        self._appended: deque[tuple[int, int]] | None = None
        """(log end, bytes) of each append that is not committed yet."""
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
        """Whether records of leaders before this one may be committed that are not known to be."""
        return self.leadership.epoch_start_offset > self.high_watermark

    # Following the metadata log

    def update(self, registration: PartitionRegistration, now_ms: int) -> None:
        leadership = self.leadership
        epoch = leadership.leader_epoch
        if leadership.update(registration, log_end_offset=self.log_end_offset, now_ms=now_ms):
            if leadership.leader_epoch != epoch:
                self._begin_epoch()
                self._tell_followers(0)
            self._isr_is_known(now_ms)
        else:
            self.partition.isr_count = len(leadership.isr)

    def _begin_epoch(self) -> None:
        self.partition.isr_count = len(self.leadership.isr)
        log = self.partition.log_or_none
        if log is not None:
            log.assign_epoch_start(self.leadership.leader_epoch)

    def opened(self, log: ReplicatedLog) -> None:
        """The partition has a log from now on."""
        log.assign_epoch_start(self.leadership.leader_epoch)

    def end(self, error: ErrorCode = ErrorCode.NOT_LEADER_OR_FOLLOWER) -> None:
        """Another broker leads, or the partition is gone: nobody waits any more."""
        self.is_over = True
        self._ended_by = error
        self.on_high_watermark = None
        self._tell_followers(0)
        self._watchers.clear()
        for waits in (self._waits, self._delete_waits):
            if waits is not None:
                waits.fail(error)

    # Appends

    def check_is_known(self) -> None:
        """Raise NOT_LEADER_OR_FOLLOWER until the metadata has this process, as it registered.

        Before, this is the leadership of the process before. It may have lost records with the power that followers
        have, and another broker may lead.
        """
        if not self.leadership.context.is_known:
            raise ApiException(ErrorCode.NOT_LEADER_OR_FOLLOWER, "This broker's registration is not known here yet.")

    def about_to_append(self, leader_end_offset: int) -> None:
        self.leadership.leader_appends(leader_end_offset)

    def appended(self, size: int, now_ms: int) -> None:
        """The log has grown by one batch of so many bytes."""
        if self._appended is None:
            self._appended = deque()
        self._appended.append((self.log_end_offset, size))
        self._tell_followers(size)
        if len(self.leadership.maximal_isr) == 1:
            self.maybe_advance(now_ms)

    def wait_for(self, offset: int, on_done: Callable[[ErrorCode], None]) -> CommitWait:
        """``on_done`` with NONE or NOT_ENOUGH_REPLICAS_AFTER_APPEND once the high watermark is there, or with the
        reason why it will not be. May be called from inside.
        """
        if self.is_over:
            return settled(on_done, self._ended_by)
        if self.high_watermark >= offset:
            return settled(on_done, self.error_of_commit())
        if self._waits is None:
            self._waits = CommitWaits()
        return self._waits.add(offset, on_done)

    def error_of_commit(self) -> ErrorCode:
        """For records that the high watermark has passed: too few replicas may have them."""
        if len(self.leadership.maximal_isr) < self.required_in_sync():
            return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return ErrorCode.NONE

    def required_in_sync(self) -> int:
        """``min.insync.replicas``, as far as there are replicas; of a partition without a log nothing is asked."""
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
        """Raises ApiException for a broker that is no replica."""
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
        """The follower has everything below ``log_end_offset``. Raises ApiException for a process of the past."""
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
            # A session of the follower may have named the partition before: its next request speaks for it again.
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
        """Until every live replica's log starts there."""
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
        """Let go who is behind for too long, and take in who has waited for no more than the controller's leave."""
        proposal = self.leadership.propose_to_shrink(self.log_end_offset, now_ms)
        if proposal is not None:
            self._submit(self, proposal)
            return
        self.retry_expansion()

    def look_again(self, now_ms: int) -> None:
        """Time has passed, or brokers have changed. Who was about to join may not be waited for any more."""
        if self.log_end_offset > self.high_watermark:
            self.maybe_advance(now_ms)
        self.retry_expansion()

    def retry_expansion(self) -> None:
        """Take in who could not join when it fetched this partition last, and has spoken of it since.

        What was said before the ISR became what it is does not count: the controller may know more of the replica.
        """
        leadership = self.leadership
        if leadership.proposal is None and leadership.is_incomplete:
            for replica in leadership.replicas.values():
                if replica.broker_id not in leadership.isr and replica.spoke_since(leadership.committed_ms):
                    self.maybe_expand(replica)

    def isr_changed(self, proposal: IsrProposal, state: CommittedState, now_ms: int) -> None:
        """The controller's answer to a proposal."""
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
        """Another ISR may let the high watermark go on."""
        self.partition.isr_count = len(self.leadership.isr)
        self.maybe_advance(now_ms)
        self.retry_expansion()

    # Who waits for data as a follower

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
        """Answer fetches that wait for data, so that their followers come back at once."""
        self._tell_followers(0)

    def log_start_moved(self) -> None:
        for watcher in self._watchers:
            watcher.partition_changed(None)

    def _tell_followers(self, appended_bytes: int) -> None:
        for watcher in tuple(self._watchers):
            watcher.partition_changed(appended_bytes)
        for listener in tuple(self._listeners or ()):
            listener(appended_bytes)
