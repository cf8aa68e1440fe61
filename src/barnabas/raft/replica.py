"""State shared by all parts of the raft node: log positions, voters, the quorum state, and outgoing messages.

The protocols (votes, epochs, fetch, snapshots) decide through these few operations and access the log and the outbox
only through them, so the order that ``Ready`` promises is ensured in one place.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from barnabas.common.errors import invariant
from barnabas.protocol.record_batch import BatchView
from barnabas.protocol.records.kraft_version_record import KRaftVersionRecord
from barnabas.protocol.schema import Message, Request
from barnabas.raft.batch_accumulator import BatchAccumulator
from barnabas.raft.control_record_state_machine import BOOTSTRAP_OFFSET, ControlRecordStateMachine
from barnabas.raft.control_records import (
    QuorumRecord,
    leader_change,
    voters_record,
)
from barnabas.raft.inbound import FetchedSnapshot
from barnabas.raft.log_state import LogState
from barnabas.raft.outbox import Outbox
from barnabas.raft.ports import RandomBelow, RecordSerde
from barnabas.raft.quorum_state import QuorumState
from barnabas.raft.raft_config import RaftConfig
from barnabas.raft.ready import AppendedBatch, LeaderAndEpoch, OutboundRequest
from barnabas.raft.replica_key import OffsetAndEpoch
from barnabas.raft.request_manager import RequestManager
from barnabas.raft.states.epoch_state import EpochState
from barnabas.raft.states.follower import FollowerState
from barnabas.raft.states.leader import LeaderState
from barnabas.raft.states.resigned import ResignedState
from barnabas.raft.voter_set import Endpoint

__all__ = ["Replica"]


class Replica:
    def __init__(
        self,
        *,
        config: RaftConfig,
        log: LogState,
        control_records: ControlRecordStateMachine,
        serde: RecordSerde,
        random_below: RandomBelow,
    ) -> None:
        self.config = config
        self.log = log
        self.control_records = control_records
        self.outbox = Outbox()
        self.quorum = QuorumState(
            config=config,
            log=log,
            control_records=control_records,
            random_below=random_below,
            persist=self.outbox.persist,
        )
        self.requests = RequestManager(
            bootstrap_servers=tuple(
                server for server in config.bootstrap_servers if server not in config.listeners.values()
            ),
            request_timeout_ms=config.request_timeout_ms,
            retry_backoff_ms=config.retry_backoff_ms,
            random_below=random_below,
        )
        self._serde = serde
        self._uncommitted: deque[AppendedBatch] = deque()
        self._announced = LeaderAndEpoch(None, 0)

    # --- the log

    def write(self, batch: AppendedBatch) -> None:
        """Append a batch; voters and kraft.version in it are in force from here on."""
        self.log.append(batch)
        self._uncommitted.append(batch)
        self.outbox.ready.appends.append(batch)
        if batch.is_control:
            self.replay_control_batch(BatchView(batch.data, 0))

    def replay_control_batch(self, batch: BatchView) -> None:
        self.control_records.replay_batch(batch)
        leader = self.quorum.in_state(LeaderState)
        if leader is not None:
            leader.update_voters(self.quorum.voters)

    def truncate_to(self, end_offset: int) -> None:
        self.log.truncate_to(end_offset)
        self.control_records.truncate_new_entries(end_offset)
        while self._uncommitted and self._uncommitted[-1].last_offset >= end_offset:
            self._uncommitted.pop()
        invariant(not self.outbox.ready.appends, "one response either truncates or appends")
        self.outbox.ready.truncate_to = end_offset

    def restart_at(self, snapshot_id: OffsetAndEpoch) -> None:
        self.log.restart_at(snapshot_id)
        self._uncommitted.clear()
        self.outbox.ready.restart_at = snapshot_id

    def install_snapshot(self, fetched: FetchedSnapshot) -> None:
        """Restart log and control records after a snapshot, which holds everything up to its end, all committed."""
        snapshot_id = fetched.snapshot_id
        self.log.add_snapshot(snapshot_id, fetched.size)
        self.restart_at(snapshot_id)
        self.control_records.clear()
        if fetched.kraft_version is not None:
            self.control_records.replay_kraft_version(snapshot_id.offset - 1, fetched.kraft_version)
        if fetched.voters is not None:
            self.control_records.replay_voters(snapshot_id.offset - 1, fetched.voters)
        self.advance_high_watermark(snapshot_id.offset)

    def advance_high_watermark(self, high_watermark: int) -> None:
        if high_watermark <= (self.log.high_watermark or -1):
            return
        self.log.high_watermark = high_watermark
        ready = self.outbox.ready
        ready.high_watermark = high_watermark
        while self._uncommitted and self._uncommitted[0].last_offset < high_watermark:
            ready.committed.append(self._uncommitted.popleft())

    def leader_high_watermark_moved(self, leader: LeaderState) -> None:
        if leader.high_watermark is not None:
            self.log.leader_reports(leader.high_watermark)
            self.advance_high_watermark(leader.high_watermark)
            self.announce_leader()

    # --- a voter that lost acknowledged records

    @property
    def other_voters(self) -> list[int]:
        return [voter_id for voter_id in self.quorum.voters.ids if voter_id != self.config.node_id]

    def maybe_end_recovery(self) -> None:
        """Vote again once every acknowledged record is restored and durable."""
        recovery, follower = self.quorum.recovery, self.quorum.in_state(FollowerState)
        if recovery is None or follower is None:
            return
        if recovery.is_over(
            epoch=follower.epoch, durable_end_offset=self.log.durable_end_offset, other_voters=self.other_voters
        ):
            self.quorum.recovery = None
            self.outbox.ready.has_recovered = True

    # --- leading

    def become_leader(self, now_ms: int) -> None:
        """Enter the Leader state and open the epoch with its control batch.

        In a quorum formatted with voters the first leader also copies kraft.version and voters from the 0-0
        checkpoint into the log: that checkpoint is never sent to another replica.
        """
        epoch_start = self.log.end_offset
        accumulator = BatchAccumulator(
            epoch=self.quorum.epoch,
            base_offset=epoch_start,
            serde=self._serde,
            batch_max_bytes=self.config.batch_max_bytes,
            batch_max_records=self.config.batch_max_records,
        )
        leader = self.quorum.transition_to_leader(epoch_start, accumulator, now_ms)
        voters = self.quorum.voters
        opening: list[QuorumRecord] = [leader_change(self.config.node_id, voters.keys, leader.granting)]
        kraft_version = self.control_records.last_kraft_version
        if kraft_version >= 1 and self.control_records.last_voter_set_offset == BOOTSTRAP_OFFSET:
            opening += [KRaftVersionRecord(version=0, kraft_version=kraft_version), voters_record(voters)]
        accumulator.append_control(opening, now_ms)
        self.drain(leader, now_ms)

    def drain(self, leader: LeaderState, now_ms: int) -> None:
        """Write the collected records, if the log is idle or the linger is over.

        While a flush is under way new records wait for it: they share the next one, and no caller waits longer.
        """
        accumulator = leader.accumulator
        if accumulator.is_empty:
            return
        is_idle = self.log.durable_end_offset == self.log.end_offset
        is_over = accumulator.first_append_ms is None or (
            now_ms >= accumulator.first_append_ms + self.config.append_linger_ms
        )
        if is_idle or is_over or accumulator.has_complete_batch:
            for batch in accumulator.drain():
                self.write(batch)

    def drain_deadline_ms(self, leader: LeaderState) -> int | None:
        first = leader.accumulator.first_append_ms
        return None if first is None else first + self.config.append_linger_ms

    def resign(self, now_ms: int) -> None:
        leader = self.quorum.in_state(LeaderState)
        if leader is not None:
            self.quorum.transition_to_resigned(leader.preferred_successors(), now_ms)
            self.state_changed()

    def was_removed(self, leader: LeaderState) -> bool:
        """Whether the voters continue without this leader, and all of them know: then it need not lead any longer."""
        set_at = self.control_records.last_voter_set_offset
        if set_at is None or leader.is_voter(self.config.key):
            return False
        return leader.high_watermark is not None and leader.high_watermark > set_at

    # --- epochs

    def state_changed(self) -> None:
        self.requests.reset()
        self.announce_leader()

    def announce_leader(self) -> None:
        """Report the leader to the layer above.

        Its own leadership is reported once the epoch's first batch is committed, so that it has seen everything
        that was decided before it decides anything.
        """
        state: EpochState = self.quorum.state
        leader_id = state.leader_id
        if (isinstance(state, LeaderState) and state.high_watermark is None) or isinstance(state, ResignedState):
            leader_id = None
        now = LeaderAndEpoch(leader_id, state.epoch)
        if now != self._announced:
            self._announced = now
            self.outbox.ready.leader_and_epoch = now

    def leader_endpoint(self) -> Endpoint | None:
        """Where the leader of this epoch listens, as far as this replica knows."""
        leader_id = self.quorum.leader_id
        if leader_id is None:
            return None
        if leader_id == self.config.node_id:
            return self.config.listeners.get(self.config.listener_name)
        listeners = getattr(self.quorum.state, "leader_endpoints", None)
        if listeners:
            found: Mapping[str, Endpoint] = listeners
            return found.get(self.config.listener_name)
        return self.quorum.voters.endpoint(leader_id, self.config.listener_name)

    # --- sending

    def send(self, destination_id: int, endpoint: Endpoint, body: Request[Message], now_ms: int) -> None:
        correlation_id = self.requests.new_correlation_id()
        self.requests.sent(destination_id, correlation_id, now_ms, endpoint)
        self.outbox.ready.requests.append(
            OutboundRequest(
                correlation_id=correlation_id,
                destination_id=destination_id,
                endpoint=endpoint,
                body=body,
                timeout_ms=self.config.request_timeout_ms,
            )
        )
