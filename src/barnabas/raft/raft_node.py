"""One replica of the quorum as a state machine: messages, times and flushes in, a ``Ready`` out.

    ready = node.start(now_ms)
    ready = node.receive(message, now_ms)     a request or an answer has arrived
    ready = node.tick(now_ms)                 time has passed; the next is due at ``node.deadline_ms``
    ready = node.append(records, now_ms)      the leader's records; ``ready.last_offset`` is where they will end
    ready = node.log_flushed(end, now_ms)     everything below ``end`` is durable

Every call returns the resulting work; ``ready`` describes its order, and what must be durable before what may be sent.
Calls never overlap: one owner queues the inputs and passes them in at its own pace.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from barnabas.common.errors import invariant
from barnabas.raft.control_record_state_machine import ControlRecordStateMachine
from barnabas.raft.election_state import ElectionState
from barnabas.raft.errors import NotLeaderException
from barnabas.raft.inbound import FetchedSnapshot, Inbound
from barnabas.raft.log_state import LogState
from barnabas.raft.ports import RandomBelow, RecordSerde
from barnabas.raft.raft_config import RaftConfig
from barnabas.raft.ready import Ready
from barnabas.raft.replica import Replica
from barnabas.raft.replica_key import OffsetAndEpoch
from barnabas.raft.state_steps import step
from barnabas.raft.states.candidate import CandidateState
from barnabas.raft.states.epoch_state import FOREVER_MS
from barnabas.raft.states.follower import FollowerState
from barnabas.raft.states.leader import LeaderState
from barnabas.raft.states.resigned import ResignedState
from barnabas.raft.voter_recovery import LostPromises, VoterRecovery
from barnabas.raft.voter_set import Endpoint

if TYPE_CHECKING:
    from barnabas.protocol.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
    from barnabas.raft.messages import Messages

__all__ = ["RaftNode"]

_STANDSTILL_MS = 500
"""A leader's timers are due every second; if one is later than this, the process did not run."""


class RaftNode:
    def __init__(
        self,
        *,
        config: RaftConfig,
        log: LogState,
        control_records: ControlRecordStateMachine,
        serde: RecordSerde,
        random_below: RandomBelow,
    ) -> None:
        self._replica = Replica(
            config=config, log=log, control_records=control_records, serde=serde, random_below=random_below
        )
        self._quorum = self._replica.quorum
        self._log = log
        self._messages: Messages | None = None
        self._now_ms = 0

    # --- reading

    @property
    def epoch(self) -> int:
        return self._quorum.epoch

    @property
    def leader_id(self) -> int | None:
        return self._quorum.leader_id

    @property
    def is_only_voter(self) -> bool:
        """Whether the quorum is only this replica, according to its log."""
        return self._quorum.is_only_voter

    @property
    def leads_others(self) -> bool:
        """Whether this replica leads a quorum of several voters."""
        return self._quorum.in_state(LeaderState) is not None and not self._quorum.is_only_voter

    @property
    def is_resigning(self) -> bool:
        """Whether a voter has not acknowledged yet that this replica has resigned."""
        resigned = self._quorum.in_state(ResignedState)
        return resigned is not None and bool(resigned.unacked_voters)

    @property
    def leader_endpoint(self) -> Endpoint | None:
        """The endpoint of this epoch's leader, as far as this replica knows."""
        return self._replica.leader_endpoint()

    @property
    def is_recovering(self) -> bool:
        """Whether this voter lost acknowledged records and must not vote yet."""
        return self._quorum.recovery is not None

    @property
    def state_name(self) -> str:
        return self._quorum.state.name

    def describe_quorum(self, request: DescribeQuorumRequest, version: int, now_ms: int) -> DescribeQuorumResponse:
        from barnabas.raft.describe_quorum import describe_quorum  # Its messages are loaded only on request.

        return describe_quorum(self._replica, request, version, now_ms)

    @property
    def high_watermark(self) -> int | None:
        return self._log.high_watermark

    @property
    def known_high_watermark(self) -> int | None:
        """The high watermark that a leader reported last; the records below it may not have been fetched yet.

        None until a leader has reported one to this process. A snapshot fetched from a leader that does not know its
        own high watermark yet proves only that the records up to its end are committed.
        """
        return self._log.told_high_watermark

    @property
    def log_end_offset(self) -> int:
        return self._log.end_offset

    @property
    def next_offset(self) -> int:
        """The offset of the next appended record."""
        leader = self._quorum.in_state(LeaderState)
        return leader.accumulator.next_offset if leader is not None else self._log.end_offset

    @property
    def deadline_ms(self) -> int:
        """When ``tick`` is due. Work that was due at the last call has been done, so this lies in the future."""
        deadlines = [self._quorum.state.deadline_ms, self._replica.requests.deadline_ms]
        leader = self._quorum.in_state(LeaderState)
        drain = self._replica.drain_deadline_ms(leader) if leader is not None else None
        if drain is not None:
            deadlines.append(drain)
        if self._messages is not None:
            deadlines.append(self._messages.deadline_ms)
        if self._quorum.recovery is not None and self._quorum.recovery.unanswered(self._replica.other_voters):
            deadlines.append(self._quorum.recovery.next_question_ms)
        return min((deadline for deadline in deadlines if deadline > self._now_ms), default=FOREVER_MS)

    # --- input

    def start(self, stored: ElectionState | None, now_ms: int, lost: LostPromises | None = None) -> Ready:
        """Enter the state after a restart; the only voter stands for election immediately.

        ``lost``: a voter that lost acknowledged records does not vote before it has them again.
        """
        self._quorum.recovery = None if lost is None else VoterRecovery(lost)
        self._quorum.initialize(stored, self._log.last_epoch, now_ms)
        self._replica.announce_leader()
        if self._quorum.is_only_voter and not isinstance(self._quorum.state, CandidateState):
            self._quorum.transition_to_prospective(now_ms)
        return self._advance(now_ms)

    def tick(self, now_ms: int) -> Ready:
        self._notice_standstill(now_ms)
        return self._advance(now_ms)

    def append(
        self, records: Sequence[object], now_ms: int, *, is_atomic: bool = True, values: Sequence[bytes] | None = None
    ) -> Ready:
        """Append records as the leader; raises NotLeaderException, and appends nothing, if it isn't.

        An atomic set is put into one batch or refused as too large. ``values`` are the encoded records, if the caller
        has encoded them.
        """
        leader = self._quorum.in_state(LeaderState)
        if leader is None:
            raise NotLeaderException(
                f"Append failed because this replica ({self._replica.config.node_id}) is not leader"
            )
        last_offset = leader.accumulator.append(records, now_ms, is_atomic=is_atomic, values=values)
        self._replica.outbox.ready.last_offset = last_offset
        return self._advance(now_ms)

    def log_flushed(self, end_offset: int, now_ms: int) -> Ready:
        self._log.flushed(end_offset)
        leader = self._quorum.in_state(LeaderState)
        if leader is not None and leader.update_local(self._log.durable_end_offset, now_ms):
            self._replica.leader_high_watermark_moved(leader)
        self._replica.maybe_end_recovery()
        return self._advance(now_ms)

    def snapshot_created(self, snapshot_id: OffsetAndEpoch, size: int) -> None:
        """Note that a complete snapshot created by this replica is on disk."""
        invariant(
            snapshot_id.offset <= (self._log.high_watermark or 0),
            f"snapshot {snapshot_id} is ahead of the high watermark {self._log.high_watermark}",
        )
        self._log.add_snapshot(snapshot_id, size)

    def log_start_moved(self, snapshot_id: OffsetAndEpoch) -> None:
        """Note that the owner has deleted the log before this snapshot's end, and older snapshots."""
        self._log.truncate_start(snapshot_id.offset, snapshot_id)
        self._replica.control_records.truncate_old_entries(snapshot_id.offset)

    def resign(self, epoch: int, now_ms: int) -> Ready:
        """Resign in this epoch, because the layer above can't continue; without effect for an older epoch."""
        leader = self._quorum.in_state(LeaderState)
        if leader is not None and leader.epoch == epoch:
            self._replica.resign(now_ms)
        return self._advance(now_ms)

    def upgrade_kraft_version(self, level: int, now_ms: int, *, validate_only: bool) -> Ready:
        """Move the voters from the settings to the log. Raises NotLeaderException or QuorumNotUpgradable."""
        from barnabas.raft.voter_changes import upgrade_kraft_version  # Happens at most once in the life of a quorum.

        upgrade_kraft_version(self._replica, level, now_ms, validate_only=validate_only)
        return self._advance(now_ms)

    # --- messages of other replicas

    def receive(self, message: Inbound, now_ms: int) -> Ready:
        """Handle a request, or the outcome of an own one. A response without a waiting request is dropped."""
        from barnabas.raft.messages import Messages

        if self._messages is None:
            self._messages = Messages(self._replica)
        self._notice_standstill(now_ms)
        self._messages.receive(message, now_ms)
        return self._advance(now_ms)

    def snapshot_fetched(self, fetched: FetchedSnapshot, now_ms: int) -> Ready:
        """Restart the log after a fetched snapshot, which is now complete on disk.

        It is not used when another leader has sent records beyond its end meanwhile. Those may be acknowledged, and a
        restart of the log would drop them.
        """
        follower = self._quorum.in_state(FollowerState)
        snapshot_id = fetched.snapshot_id
        is_wanted = follower is not None and follower.fetching_snapshot == snapshot_id
        if is_wanted or snapshot_id.offset > self._log.end_offset:
            self._replica.install_snapshot(fetched)
            if follower is not None:
                follower.start_fetching_snapshot(None)
        return self._advance(now_ms)

    def snapshot_unusable(self, now_ms: int) -> Ready:
        """Discard a fetched snapshot that is damaged: the next Fetch starts again."""
        follower = self._quorum.in_state(FollowerState)
        if follower is not None:
            follower.start_fetching_snapshot(None)
        return self._advance(now_ms)

    # --- moves due to time and state

    def _notice_standstill(self, now_ms: int) -> None:
        """After a standstill, a process finds old messages in its sockets.

        They don't prove that the voters still follow: they may have elected another leader meanwhile. So a leader whose
        check-quorum deadline has passed by its clock resigns before it reads them; otherwise it waits for newer ones.
        """
        leader = self._quorum.in_state(LeaderState)
        if leader is None or leader.voters.is_only_voter(self._replica.config.key):
            return
        if now_ms >= leader.check_quorum_deadline_ms:
            step(self._replica, now_ms)
        elif now_ms - self._now_ms >= self._replica.config.begin_quorum_epoch_timeout_ms + _STANDSTILL_MS:
            leader.distrust_next_fetches()

    def _advance(self, now_ms: int) -> Ready:
        """Make all moves that are due."""
        self._now_ms = now_ms
        while step(self._replica, now_ms):
            pass
        if self._messages is not None:
            self._messages.answer_waiting(now_ms)
        return self._replica.outbox.take()
