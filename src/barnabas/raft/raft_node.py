"""One replica of the quorum as a state machine: messages, times and flushes in, a ``Ready`` out.

    ready = node.start(now_ms)
    ready = node.receive(message, now_ms)     a request or an answer has arrived
    ready = node.tick(now_ms)                 time has passed; the next is due at ``node.deadline_ms``
    ready = node.append(records, now_ms)      the leader's records; ``ready.last_offset`` is where they will end
    ready = node.log_flushed(end, now_ms)     everything below ``end`` is durable

Every call returns what is to be done because of it; ``ready`` says in which order and what must be durable before
what may be sent. Calls never overlap: one owner queues what arrives and feeds it in at its own pace.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from barnabas.common.errors import invariant
from barnabas.raft.control_record_state_machine import ControlRecordStateMachine
from barnabas.raft.election_state import ElectionState
from barnabas.raft.errors import NotLeaderException
from barnabas.raft.log_state import LogState
from barnabas.raft.ports import RandomBelow, RecordSerde
from barnabas.raft.raft_config import RaftConfig
from barnabas.raft.ready import Ready
from barnabas.raft.replica import Replica
from barnabas.raft.replica_key import OffsetAndEpoch
from barnabas.raft.states.candidate import CandidateState
from barnabas.raft.states.leader import LeaderState
from barnabas.raft.states.prospective import ProspectiveState
from barnabas.raft.states.resigned import ResignedState
from barnabas.raft.states.unattached import UnattachedState

__all__ = ["RaftNode"]


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

    # --- reading

    @property
    def epoch(self) -> int:
        return self._quorum.epoch

    @property
    def leader_id(self) -> int | None:
        return self._quorum.leader_id

    @property
    def state_name(self) -> str:
        return self._quorum.state.name

    @property
    def high_watermark(self) -> int | None:
        return self._log.high_watermark

    @property
    def log_end_offset(self) -> int:
        return self._log.end_offset

    @property
    def next_offset(self) -> int:
        """The offset that the next appended record will get."""
        leader = self._quorum.in_state(LeaderState)
        return leader.accumulator.next_offset if leader is not None else self._log.end_offset

    @property
    def deadline_ms(self) -> int:
        """When ``tick`` is due; may be long past or never."""
        deadline = min(self._quorum.state.deadline_ms, self._replica.requests.deadline_ms)
        leader = self._quorum.in_state(LeaderState)
        drain = self._replica.drain_deadline_ms(leader) if leader is not None else None
        return deadline if drain is None else min(deadline, drain)

    # --- input

    def start(self, stored: ElectionState | None, now_ms: int) -> Ready:
        """The state after a restart; the only voter stands for election at once."""
        self._quorum.initialize(stored, self._log.last_epoch, now_ms)
        self._replica.announce_leader()
        if self._quorum.is_only_voter and not isinstance(self._quorum.state, CandidateState):
            self._quorum.transition_to_prospective(now_ms)
        return self._advance(now_ms)

    def tick(self, now_ms: int) -> Ready:
        return self._advance(now_ms)

    def append(self, records: Sequence[Any], now_ms: int, *, is_atomic: bool = True) -> Ready:
        """Take records as the leader; raises NotLeaderException when it isn't, and takes nothing then.

        An atomic set goes into one batch or is refused as too large.
        """
        leader = self._quorum.in_state(LeaderState)
        if leader is None or leader.resign_requested:
            raise NotLeaderException(
                f"Append failed because this replica ({self._replica.config.node_id}) is not leader"
            )
        last_offset = leader.accumulator.append(records, now_ms, is_atomic=is_atomic)
        self._replica.outbox.ready.last_offset = last_offset
        return self._advance(now_ms)

    def log_flushed(self, end_offset: int, now_ms: int) -> Ready:
        self._log.flushed(end_offset)
        leader = self._quorum.in_state(LeaderState)
        if leader is not None and leader.update_local(self._log.durable_end_offset, now_ms):
            self._high_watermark_moved(leader)
        return self._advance(now_ms)

    def snapshot_created(self, snapshot_id: OffsetAndEpoch, size: int) -> None:
        """A complete snapshot of this replica's own making lies on disk."""
        invariant(
            snapshot_id.offset <= (self._log.high_watermark or 0),
            f"snapshot {snapshot_id} is ahead of the high watermark {self._log.high_watermark}",
        )
        self._log.add_snapshot(snapshot_id, size)

    def log_start_moved(self, snapshot_id: OffsetAndEpoch) -> None:
        """The owner has deleted the log before this snapshot's end, and older snapshots."""
        self._log.truncate_start(snapshot_id.offset, snapshot_id)
        self._replica.control_records.truncate_old_entries(snapshot_id.offset)

    def resign(self, epoch: int, now_ms: int) -> Ready:
        """Give up leading this epoch, because the layer above can't go on; too late for an older epoch."""
        leader = self._quorum.in_state(LeaderState)
        if leader is not None and leader.epoch == epoch:
            self._replica.resign(now_ms)
        return self._advance(now_ms)

    # --- what time and state ask for

    def _high_watermark_moved(self, leader: LeaderState) -> None:
        if leader.high_watermark is not None:
            self._replica.advance_high_watermark(leader.high_watermark)
            self._replica.announce_leader()

    def _advance(self, now_ms: int) -> Ready:
        """Make every move that is due, until none is."""
        while self._step(now_ms):
            pass
        return self._replica.outbox.take()

    def _step(self, now_ms: int) -> bool:
        """One move; False when the state wants to stay for now."""
        state = self._quorum.state
        if isinstance(state, LeaderState):
            self._replica.drain(state, now_ms)
            return False
        if isinstance(state, CandidateState):
            return self._step_candidate(state, now_ms)
        if isinstance(state, ProspectiveState):
            return self._step_prospective(state, now_ms)
        if isinstance(state, ResignedState):
            return self._step_resigned(state, now_ms)
        if isinstance(state, UnattachedState) and now_ms >= state.deadline_ms and self._quorum.is_voter:
            self._quorum.transition_to_prospective(now_ms)
            self._replica.state_changed()
            return True
        return False

    def _step_prospective(self, state: ProspectiveState, now_ms: int) -> bool:
        if state.votes.is_granted:
            self._quorum.transition_to_candidate(now_ms)
        elif state.votes.is_rejected or now_ms >= state.deadline_ms:
            self._quorum.transition_to_unattached(state.epoch, now_ms)
        else:
            return False
        self._replica.state_changed()
        return True

    def _step_candidate(self, state: CandidateState, now_ms: int) -> bool:
        if state.votes.is_granted:
            self._replica.become_leader(now_ms)
        elif now_ms >= state.deadline_ms:
            self._quorum.transition_to_prospective(now_ms)
        else:
            return False
        self._replica.state_changed()
        return True

    def _step_resigned(self, state: ResignedState, now_ms: int) -> bool:
        if now_ms < state.deadline_ms:
            return False
        self._quorum.transition_to_unattached(state.epoch + 1, now_ms)
        self._replica.state_changed()
        return True
