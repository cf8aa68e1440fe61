"""Runs the raft node: owns its files, passes it time, appends and messages, and carries out each ``Ready``.

Everything runs on the event loop except fsync, which runs on a thread. While an fsync runs, further appends wait for
the next one, so that many callers share a flush. If a ``Ready`` contains an election, the thread writes it to disk
before anything later is handled: nothing may leave this process before its vote or its epoch is durable.

A listener receives all events in one order:

* committed batches, each once, in the order of the log;
* a snapshot in place of batches that are no longer in the log;
* that this node leads, only after the last batch that was committed before;
* that it no longer leads, immediately.

If the disk fails, the node must not continue: ``fault_handler`` is called once, and every append that waits fails.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING

from barnabas.common.clock import Clock
from barnabas.common.errors import ApiException, ErrorCode, InvariantViolated
from barnabas.protocol.errors import DecodeError
from barnabas.protocol.schema import Message
from barnabas.raft.control_record_state_machine import ControlRecordStateMachine
from barnabas.raft.election_state import ElectionState
from barnabas.raft.errors import NotLeaderException, QuorumNotUpgradable
from barnabas.raft.inbound import FetchedSnapshot, RaftResponse, RequestFailed
from barnabas.raft.ports import RecordSerde
from barnabas.raft.raft_config import RaftConfig
from barnabas.raft.ready import LeaderAndEpoch, OutboundRequest, Ready
from barnabas.raft.voter_set import Endpoint
from barnabas.server.process.event_loop_turns import TurnTimes
from barnabas.server.quorum.commit_delivery import CommitDelivery, RaftListener
from barnabas.server.quorum.pending_appends import PendingAppend, PendingAppends
from barnabas.server.quorum.raft_clock import RaftClock
from barnabas.server.quorum.raft_recovery import (
    MetadataLogConfig,
    open_metadata_log,
    read_election,
    recovered_node,
    replay_control_records,
)
from barnabas.server.quorum.read_indexes import ReadIndexes
from barnabas.server.quorum.voter_identity import check_directory_id
from barnabas.storage.damaged_files import DamagedLogError
from barnabas.storage.errors import CorruptFileError, StorageError
from barnabas.storage.lost_promises_file import LostPromisesFile
from barnabas.storage.metadata_log import MetadataLog
from barnabas.storage.quorum_state_file import QuorumStateFile
from barnabas.storage.snapshot_file import SnapshotReader, delete_snapshot

if TYPE_CHECKING:
    from barnabas.protocol.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
    from barnabas.server.quorum.raft_exchange import RaftExchange

__all__ = ["RaftDriver"]

log = logging.getLogger(__name__)


class RaftDriver:
    def __init__(
        self,
        *,
        config: RaftConfig,
        log_config: MetadataLogConfig,
        clock: Clock,
        serde: RecordSerde,
        fault_handler: Callable[[BaseException], None],
        send: Callable[[OutboundRequest], None] | None = None,
        random_below: Callable[[int], int] = secrets.randbelow,
        turn_times: TurnTimes | None = None,
    ) -> None:
        """Open and recover the log. Nothing runs before ``start``.

        Raise StorageError if the log can't be used, or if it belongs to a quorum that needs ``send`` and ``send`` is
        missing.
        """
        self.config = config
        self.log_config = log_config
        self.serde = serde
        self.clock = RaftClock(clock)
        self._fault_handler = fault_handler
        self._send = send
        self.log = open_metadata_log(log_config, config, self.clock.now_ms())
        self._quorum_state_file = QuorumStateFile(self.log.directory)
        self.control_records = ControlRecordStateMachine(config.static_voters)
        replay_control_records(self.log, self.control_records)
        check_directory_id(log_config.directory, config, self.control_records.last_voter_set)
        self.node = recovered_node(self.log, config, self.control_records, serde=serde, random_below=random_below)
        if send is None and not self.node.is_only_voter:
            raise StorageError(self._why_not_alone())
        self._exchange: RaftExchange | None = None
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="raft-io")
        self._delivery = CommitDelivery(self.log, serde, config.node_id)
        self._turn_times = turn_times or TurnTimes()
        self._is_delivering = False
        self._read_indexes = ReadIndexes()
        self._inbox: deque[Ready] = deque()
        self._pending = PendingAppends()
        self._timer: asyncio.TimerHandle | None = None
        self._leader = LeaderAndEpoch(None, 0)
        self._is_flushing = False
        self._flush_end = 0
        """The offset up to which the current flush makes the log durable, without records truncated meanwhile."""
        self._is_persisting = False
        self._is_processing = False
        self._fault: BaseException | None = None
        self._is_closed = False
        self._logged_warning = ""
        self._idle = asyncio.Event()
        self._has_left = asyncio.Event()

    # --- reading

    @property
    def leader(self) -> LeaderAndEpoch:
        return self._leader

    @property
    def leader_endpoint(self) -> Endpoint | None:
        """The address of the leader's controller listener; None if this replica leads or the address is unknown."""
        return None if self._leader.is_leader(self.config.node_id) else self.node.leader_endpoint

    @property
    def high_watermark(self) -> int | None:
        return self.node.high_watermark

    @property
    def next_offset(self) -> int:
        """The offset that the next append will start at."""
        return self.node.next_offset

    def describe_quorum(self, request: DescribeQuorumRequest, version: int) -> DescribeQuorumResponse:
        """Describe the quorum as this replica knows it. If it does not lead, the answer has that error."""
        return self.node.describe_quorum(request, version, self.clock.now_ms())

    async def read_index(self) -> int:
        """Return an offset after all records committed at the time of the call. Wait until it is known."""
        if self.node.is_only_voter:
            return self.high_watermark or 0
        return await self._read_indexes.ask(led_epoch=self._led_epoch, end_offset=self.next_offset)

    @property
    def _led_epoch(self) -> int | None:
        return self._leader.epoch if self._leader.is_leader(self.config.node_id) else None

    # --- life

    def register(self, listener: RaftListener) -> None:
        """Add a listener. It receives all committed records, and later ones as they are committed."""
        self._delivery.register(listener, self.high_watermark, self._leader)

    def start(self) -> None:
        """Enter the quorum; must be called on the event loop."""
        stored, lost = read_election(self.log, self.config, self.control_records)
        self._enqueue(self.node.start(stored, self.clock.now_ms(), lost))

    async def close(self) -> None:
        """Resign, make all appended records durable, and leave the files as after a clean shutdown."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        while (self._is_flushing or self._is_persisting) and self._fault is None:
            self._idle.clear()
            await self._idle.wait()
        self._pending.fail(NotLeaderException("The node is shutting down"))
        if self._exchange is not None:
            self._exchange.close()
        if self._fault is None:
            await asyncio.get_running_loop().run_in_executor(self._executor, self.log.close)
        self._executor.shutdown(wait=False)

    # --- input

    def append(
        self, records: Sequence[object], *, is_atomic: bool = True, values: Sequence[bytes] | None = None
    ) -> PendingAppend:
        """Append as the leader. On NotLeaderException or RecordBatchTooLargeException nothing was appended."""
        if self._fault is not None or self._is_closed:
            raise NotLeaderException("The metadata log is closed")
        base_offset = self.node.next_offset
        ready = self.node.append(records, self.clock.now_ms(), is_atomic=is_atomic, values=values)
        last_offset = base_offset - 1 if ready.last_offset is None else ready.last_offset
        pending = self._pending.add(base_offset, last_offset)
        self._enqueue(ready)
        return pending

    def resign(self, epoch: int) -> None:
        self._enqueue(self.node.resign(epoch, self.clock.now_ms()))

    async def leave(self, timeout_s: float) -> None:
        """Resign the leadership and notify the other voters, so that none of them waits for its fetch time-out."""
        if self._fault is not None or self._is_closed or not self.node.leads_others:
            return
        self._has_left.clear()
        self.resign(self.node.epoch)
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._has_left.wait()

    def upgrade_kraft_version(self, level: int, validate_only: bool) -> None:
        """Upgrade. Raise ApiException with the reason if that is impossible or this node does not lead."""
        try:
            ready = self.node.upgrade_kraft_version(level, self.clock.now_ms(), validate_only=validate_only)
        except NotLeaderException as error:
            raise ApiException(ErrorCode.NOT_CONTROLLER, str(error)) from error
        except QuorumNotUpgradable as error:
            text = f"Invalid update version {level} for feature kraft.version. {error}"
            raise ApiException(ErrorCode.INVALID_UPDATE_VERSION, text) from error
        self._enqueue(ready)

    # --- messages of other replicas, for a driver with ``send``

    def handle_request(self, body: Message, version: int) -> asyncio.Future[Message]:
        """Return a future of the answer, for which a fetch may wait.

        If the request violates the protocol, the future raises DecodeError or InvariantViolated, and the caller closes
        the connection.
        """
        exchange = self._exchange_or_raise()
        request, answer = exchange.expect(body, version)
        try:
            self._enqueue(self.node.receive(request, self.clock.now_ms()))
        except (DecodeError, InvariantViolated) as error:
            exchange.refuse(request, error)
        return answer

    def handle_outcome(self, outcome: RaftResponse | RequestFailed) -> None:
        """Handle the outcome of a request that was passed to ``send``. Outcomes after ``close`` are ignored."""
        if self._is_closed or self._fault is not None:
            return
        now_ms = self.clock.now_ms()
        try:
            ready = self.node.receive(outcome, now_ms)
        except (DecodeError, InvariantViolated) as error:
            self._warn_once("the answer of replica %d violates the protocol: %s", outcome.source_id, error)
            ready = self.node.receive(RequestFailed(outcome.correlation_id, outcome.source_id), now_ms)
        self._enqueue(ready)
        self._read_indexes.fetch_ended(
            outcome.correlation_id, outcome.body if isinstance(outcome, RaftResponse) else None
        )

    def _warn_once(self, text: str, *arguments: object) -> None:
        """Log a warning unless it repeats the last one: a failure may repeat many times a second."""
        message = text % arguments
        if message != self._logged_warning:
            self._logged_warning = message
            log.warning("%s", message)

    def _exchange_or_raise(self) -> RaftExchange:
        if self._send is None or self._is_closed or self._fault is not None:
            raise NotLeaderException("This replica exchanges no messages")
        if self._exchange is None:
            self._exchange = _exchange_of(self.log, self._log_has_rotted)
        return self._exchange

    # --- carrying out Ready

    def _enqueue(self, ready: Ready) -> None:
        self._flush_end = min(self._flush_end, _kept_by(ready, self._flush_end))
        self._inbox.append(ready)
        self._process()

    def _process(self) -> None:
        """Process the inbox. Stop while an election is being written, and continue when it is durable."""
        if self._is_processing:
            return
        self._is_processing = True
        try:
            while self._inbox and not self._is_persisting and self._fault is None:
                ready = self._inbox[0]
                election, ready.election_state = ready.election_state, None
                if election is not None:
                    self._persist(election)
                    break
                self._inbox.popleft()
                self._carry_out(ready)
        except Exception as fault:
            self.fail(fault)
        finally:
            self._is_processing = False
        if not self.node.is_resigning:
            self._has_left.set()
        self._start_flush()
        self._schedule_tick()

    def _carry_out(self, ready: Ready) -> None:
        if ready.has_recovered:
            self._forget_lost_promises()
        if ready.truncate_to is not None:
            self._truncate(ready.truncate_to)
        if ready.restart_at is not None:
            log.info(
                "%s: the log continues after the fetched snapshot %s; it ended at offset %d",
                *(self.log.directory, ready.restart_at, self.log.end_offset),
            )
            self.log.restart_at(ready.restart_at)
        for batch in ready.appends:
            self.log.append(batch)
        if not self._is_closed and (ready.requests or self._exchange is not None):
            self._exchange_messages(self._exchange_or_raise(), ready)
        leader = ready.leader_and_epoch
        if leader is not None and not leader.is_leader(self.config.node_id):
            self._set_leader(leader)
        if ready.high_watermark is not None:
            with self._turn_times.of("commit"):
                self._delivery.deliver(ready.committed, ready.high_watermark)
            self._delivered()
            self._read_indexes.committed(ready.high_watermark, self._led_epoch)
        if leader is not None and leader.is_leader(self.config.node_id):
            self._set_leader(leader)

    def _truncate(self, end_offset: int) -> None:
        log.warning(
            "%s: truncated from offset %d to %d, where it diverges from the log of leader %s (epoch %d)",
            *(self.log.directory, self.log.end_offset, end_offset, self.node.leader_id, self.node.epoch),
        )
        self.log.truncate_to(end_offset)

    def _log_has_rotted(self, error: DamagedLogError) -> None:
        """Continue if the newest snapshot has the records. Otherwise the node stops, and its next start repairs it."""
        latest = self.log.latest_snapshot_id
        if latest is None or error.damage.offset >= latest.offset:
            raise error
        SnapshotReader(self.log.directory, latest).verify()
        log.error("%s. The snapshot %s has these records: the log now begins after it", error, latest)
        self.log.delete_before(latest.offset)
        self.node.log_start_moved(latest)

    def _forget_lost_promises(self) -> None:
        log.warning(
            "%s: this voter has all records again that it had acknowledged, up to offset %d, and votes from now on",
            self.log.directory,
            self.node.log_end_offset - 1,
        )
        self._run_in_thread(LostPromisesFile(self.log.directory).clear, lambda: None)

    def _delivered(self) -> None:
        """Complete the appends that were delivered, and schedule the delivery of the rest."""
        self._pending.complete(self._delivery.delivered_offset)
        if self._delivery.is_behind and not self._is_delivering:
            self._is_delivering = True
            asyncio.get_running_loop().call_soon(self._deliver_more)

    def _deliver_more(self) -> None:
        self._is_delivering = False
        if self._fault is not None or self._is_closed:
            return
        try:
            with self._turn_times.of("commit"):
                self._delivery.advance()
        except Exception as fault:
            self.fail(fault)
        else:
            self._delivered()

    def _exchange_messages(self, exchange: RaftExchange, ready: Ready) -> None:
        for response in ready.responses:
            exchange.respond(response)
        for request in ready.requests:
            if self._send is not None:
                self._read_indexes.fetch_begins(request.correlation_id)
                self._send(request)
        for snapshot_id, position, data in ready.fetch_snapshot:
            exchange.write_chunk(snapshot_id, position, data)
        if ready.snapshot_to_freeze is not None:
            freezing = asyncio.get_running_loop().run_in_executor(self._executor, exchange.take_fetched())
            freezing.add_done_callback(self._snapshot_frozen)

    def _snapshot_frozen(self, freezing: asyncio.Future[FetchedSnapshot]) -> None:
        error = None if freezing.cancelled() else freezing.exception()
        if freezing.cancelled() or self._is_closed:
            return
        if isinstance(error, CorruptFileError):
            log.error("a fetched snapshot is damaged and is fetched again: %s", error)
            self._enqueue(self.node.snapshot_unusable(self.clock.now_ms()))
        elif error is not None:
            self.fail(error)
        else:
            fetched = freezing.result()
            ready = self.node.snapshot_fetched(fetched, self.clock.now_ms())
            if ready.restart_at == fetched.snapshot_id:
                self.log.snapshots[fetched.snapshot_id] = fetched.size
            elif fetched.snapshot_id not in self.log.snapshots:
                os.unlink(delete_snapshot(self.log.directory, fetched.snapshot_id))
            self._enqueue(ready)

    def _persist(self, election: ElectionState) -> None:
        self._is_persisting = True
        kraft_version = self.control_records.last_kraft_version
        voter_ids = self.control_records.last_voter_set.ids
        self._run_in_thread(lambda: self._quorum_state_file.write(election, kraft_version, voter_ids), self._persisted)

    def _persisted(self) -> None:
        self._is_persisting = False
        self._idle.set()
        self._process()

    def _start_flush(self) -> None:
        if self._is_flushing or self._fault is not None or not self.log.has_unflushed:
            return
        self._is_flushing = True
        flush = self.log.start_flush()
        self._flush_end = min((_kept_by(ready, flush.end_offset) for ready in self._inbox), default=flush.end_offset)
        self._run_in_thread(flush.run, lambda: self._flushed(self._flush_end))

    def _flushed(self, end_offset: int) -> None:
        self._is_flushing = False
        self._idle.set()
        self._enqueue(self.node.log_flushed(end_offset, self.clock.now_ms()))

    def _run_in_thread(self, work: Callable[[], None], then: Callable[[], None]) -> None:
        done: Awaitable[None] = asyncio.get_running_loop().run_in_executor(self._executor, work)
        asyncio.ensure_future(done).add_done_callback(lambda future: self._thread_done(future, then))

    def _thread_done(self, future: asyncio.Future[None], then: Callable[[], None]) -> None:
        error = None if future.cancelled() else future.exception()
        if error is not None:
            self._is_flushing = self._is_persisting = False
            self._idle.set()
            self.fail(error)
        elif not future.cancelled():
            then()

    def fail(self, fault: BaseException) -> None:
        if self._fault is None:
            self._fault = fault
            self._pending.fail(NotLeaderException("The metadata log has failed"))
            self._fault_handler(fault)

    # --- time

    def _schedule_tick(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._is_closed or self._fault is not None:
            return
        wait_ms = self.node.deadline_ms - self.clock.now_ms()
        if wait_ms < 24 * 60 * 60 * 1000:
            self._timer = asyncio.get_running_loop().call_later(max(wait_ms, 0) / 1000, self._tick)

    def notice_time(self) -> None:
        """Update the time before answering as leader: a process that was stopped reads sockets before timers run.

        Another replica may lead by then, and this one must resign before it answers.
        """
        if self.clock.now_ms() >= self.node.deadline_ms and not self._is_closed and self._fault is None:
            self._tick()

    def _tick(self) -> None:
        self._timer = None
        self._enqueue(self.node.tick(self.clock.now_ms()))

    # --- leadership

    def _set_leader(self, leader: LeaderAndEpoch) -> None:
        self._leader = leader
        if not leader.is_leader(self.config.node_id):
            self._pending.fail(NotLeaderException(f"Leadership was lost in epoch {leader.epoch}"))
        self._delivery.announce(leader)

    def _why_not_alone(self) -> str:
        voters = ", ".join(map(str, self.control_records.last_voter_set.keys)) or "unknown"
        return (
            f"{self.log.directory}: the voters of the metadata quorum are {voters} and this node is {self.config.key}: "
            "a node that can't contact the others must be the only voter"
        )


def _kept_by(ready: Ready, end_offset: int) -> int:
    """Return the offset up to which ``ready`` does not change a log that ends at ``end_offset``."""
    if ready.truncate_to is not None:
        end_offset = min(end_offset, ready.truncate_to)
    if ready.restart_at is not None:
        end_offset = min(end_offset, ready.restart_at.offset)
    return end_offset


def _exchange_of(metadata_log: MetadataLog, on_damage: Callable[[DamagedLogError], None]) -> RaftExchange:
    """Create the exchange. Its module is imported only if the quorum has other voters."""
    from barnabas.server.quorum.raft_exchange import RaftExchange

    return RaftExchange(metadata_log, on_damage)
