"""A worker's membership in its group: a state machine without sockets and clocks.

Input: bytes from the coordinator, calls of the worker and the time. Output, by ``take``: requests to send and notices
for the worker. The driver calls ``tick`` at ``next_due_ms`` and passes the response of every request with its id. All
times are of one monotonic clock.

::

    OUT --start--> UNJOINED --JoinGroup--> JOINING --SyncGroup--> SYNCING --> STABLE
                     ^  ^                                                        |
                     |  '------ rebalance, error, request_rejoin -----------------'
    LEAVING <-- leave, a stuck worker, unreadable configs;  FAILED: an error that a retry can't resolve

**One owner at any time.** Work is taken from a member in one of three ways, and each is followed by a ``StopWork``:
it is revoked (the member joins again, so that another may own it, only after ``work_stopped``), the protocol is eager
(the same before every join), or the member is out of the group (``Lost``: the coordinator does not know it, or is
unreachable; see ``heartbeat``). No other member can get the work before. Kafka's worker differs: when the coordinator
no longer knows it, it keeps running until it receives a request to stop.

**Assignments have a config offset.** A member that has read less continues reading (``ReadConfigs``) before it takes
the work; one that has read more joins again. A member that can't read waits longer and longer
(``scheduled.rebalance.max.delay.ms``/10/5, /4, ... /1) and then gives up its work. With the eager protocol, and as
leader, for which all members wait, it leaves the group in the meantime: for ``worker.unsync.backoff.ms``, or for that
same wait.

**Switching protocols.** When a worker of the eager protocol joins, all others keep running until the first eager
assignment, and then stop the work that it does not name. For that moment, as with Kafka's workers, work may have two
owners.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from barnabas.clients.client_config import Address
from barnabas.connect.decide.group import group_requests
from barnabas.connect.decide.group.assignor import ConfigSnapshot
from barnabas.connect.decide.group.config_catch_up import CatchUp, Verdict
from barnabas.connect.decide.group.connect_protocol import (
    Assignment,
    ProtocolVersion,
    decode_assignment,
    join_protocols,
)
from barnabas.connect.decide.group.group_errors import Meaning, meaning_of, terminal_message
from barnabas.connect.decide.group.group_requests import GroupRequest, coordinator_in
from barnabas.connect.decide.group.group_settings import GroupSettings
from barnabas.connect.decide.group.heartbeat import Heartbeat
from barnabas.connect.decide.group.leader_assignment import Leadership
from barnabas.connect.decide.group.local_assignment import LocalAssignment
from barnabas.connect.decide.group.membership_events import (
    Assigned,
    Joining,
    Lost,
    MembershipEvent,
    MembershipFailed,
    MembershipProblem,
    ProtocolChanged,
)
from barnabas.connect.identifiers import ConnectorTaskId
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import DecodeError

if TYPE_CHECKING:
    from barnabas.protocol.messages.find_coordinator import FindCoordinatorResponse
    from barnabas.protocol.messages.join_group import JoinGroupResponse
    from barnabas.protocol.messages.sync_group import SyncGroupResponse

__all__ = ["DropConnections", "Membership", "Output", "Phase"]

_NEVER_MS = float("inf")
_ENDS_A_GENERATION = (Meaning.REJOIN, Meaning.NEW_GENERATION, Meaning.NOT_A_MEMBER)


class Phase(Enum):
    OUT = "out"
    UNJOINED = "unjoined"
    JOINING = "joining"
    SYNCING = "syncing"
    STABLE = "stable"
    LEAVING = "leaving"
    FAILED = "failed"


class _SentHeartbeat(NamedTuple):
    request_id: int
    sent_ms: float
    member_id: str
    generation: int


class DropConnections:
    """Close the connections to the coordinator: it has moved, or does not answer. Pending requests are dropped."""


Output: TypeAlias = GroupRequest | DropConnections | MembershipEvent


class Membership:
    """``snapshot`` returns the part of the config topic that the worker has read at the time of the call."""

    def __init__(self, settings: GroupSettings, *, snapshot: Callable[[], ConfigSnapshot]) -> None:
        self.settings = settings
        self.phase = Phase.OUT
        self.member_id = ""
        self.generation = -1
        self.protocol = settings.protocol
        """The protocol that was agreed last; the worker's own highest one before that."""
        self._snapshot = snapshot
        self._outputs: list[Output] = []
        self._local_assignment = LocalAssignment(self._notify, self._new_id)
        self._catch_up = CatchUp(settings, self._notify)
        self._leadership = Leadership(settings, snapshot, self._report_problem, self._notify)
        self._heartbeat = Heartbeat(settings)
        self._coordinator: Address | None = None
        self._last_id = 0
        self._main: tuple[int, ApiKey, float] | None = None
        self._sent_heartbeat: _SentHeartbeat | None = None
        self._stale_heartbeats = 0
        """The number of successive heartbeats whose answer said that their generation is over."""
        self._retry_at_ms = 0.0
        self._retries = 0
        self._last_problem = ""
        self._rejoin_reason: str | None = None
        self._rejoin_at_ms = _NEVER_MS
        self._joined_with: Assignment | None = None
        self._last_completed_generation = -1
        self._leave_reason = ""
        self._leave_by_ms = _NEVER_MS
        self._return_at_ms = _NEVER_MS
        self._returns_when_polled = False
        self._doing = ""

    # -- calls of the worker

    @property
    def allocation(self) -> Assignment | None:
        """All work of this worker, including assigned work that was not yet announced to it."""
        return self._local_assignment.allocation

    @property
    def is_leader(self) -> bool:
        return self.allocation is not None and self.allocation.leader == self.member_id != ""

    @property
    def owners(self) -> Mapping[str | ConnectorTaskId, str]:
        """The URLs of the workers by work, as far as this worker has assigned it as leader; otherwise empty."""
        return self._leadership.owners if self.is_leader else {}

    @property
    def member_urls(self) -> frozenset[str]:
        """The URLs of all members on the leader; otherwise empty."""
        return self._leadership.member_urls if self.is_leader else frozenset()

    @property
    def are_all_members_ours(self) -> bool:
        """Whether every member is a worker of this project, judged by their ids. Only the leader knows."""
        return self.is_leader and self._leadership.are_all_members_ours

    @property
    def is_settled(self) -> bool:
        """Whether no rebalance is in progress or requested, as far as this worker knows."""
        return self.phase is Phase.STABLE and self._rejoin_reason is None and self._catch_up.pending is None

    def start(self, now_ms: float) -> None:
        """Become a member."""
        if self.phase is Phase.OUT:
            self._heartbeat.polled(now_ms)
            self._return(now_ms, "the worker starts")

    def poll(self, now_ms: float, doing: str = "") -> None:
        """Report that the worker is alive, and its activity. Without a poll for the rebalance timeout it counts as
        stuck and leaves the group until it polls again."""
        self._heartbeat.polled(now_ms)
        self._doing = doing
        if self._returns_when_polled:
            self._returns_when_polled = False
            self._return_at_ms = now_ms
            self.tick(now_ms)

    def request_rejoin(self, reason: str, now_ms: float) -> None:
        """Join again with the config offset read by then: connectors or tasks were added or removed."""
        if self.phase not in (Phase.OUT, Phase.LEAVING, Phase.FAILED) and self._rejoin_reason is None:
            self._rejoin_reason = reason
        self.tick(now_ms)

    def leave(self, reason: str, now_ms: float) -> None:
        """Leave for good. The worker has already stopped all its work, so that others may have it immediately."""
        self._local_assignment.clear()
        self._catch_up.forget()
        if self.phase is not Phase.LEAVING and not self._is_out:
            self._begin_leaving(reason, now_ms)
        self._return_at_ms = _NEVER_MS
        self._returns_when_polled = False
        self.tick(now_ms)

    def work_stopped(self, stop_id: int, now_ms: float) -> None:
        self._local_assignment.stopped(stop_id)
        self.tick(now_ms)

    def configs_read(self, now_ms: float) -> None:
        """Note that the config topic was read to the end that it had at the time of the request."""
        self._catch_up.done_reading()
        self.tick(now_ms)

    def configs_unreadable(self, now_ms: float) -> None:
        self._handle_unreadable(now_ms)
        self.tick(now_ms)

    # -- calls of the driver

    def take(self) -> list[Output]:
        outputs, self._outputs = self._outputs, []
        return outputs

    def tick(self, now_ms: float) -> None:
        """Perform the actions that are due."""
        if self.phase is Phase.OUT and now_ms >= self._return_at_ms:
            self._return(now_ms, "the worker is back after a pause")
        if self._is_out:
            return
        self._check_life(now_ms)
        if self.phase is Phase.LEAVING:
            self._continue_leaving(now_ms)
        if self._is_out:
            return
        if now_ms >= self._catch_up.read_at_ms:
            self._catch_up.read()
        if now_ms >= self._rejoin_at_ms:
            self._rejoin_at_ms = _NEVER_MS
            self._rejoin_reason = self._rejoin_reason or "the delay of the last rebalance is over"
        self._resolve(now_ms)
        self._advance(now_ms)
        self._maybe_beat(now_ms)

    @property
    def next_due_ms(self) -> float:
        """Return when to call ``tick`` at the latest."""
        if self._is_out:
            return self._return_at_ms
        due_ms = min(self._rejoin_at_ms, self._catch_up.read_at_ms, self._leave_by_ms)
        if self.phase is not Phase.LEAVING:
            due_ms = min(due_ms, self._heartbeat.worker_hangs_at_ms)
        if self.allocation is not None:
            due_ms = min(due_ms, self._heartbeat.lost_at_ms)
        if self._sends_heartbeats and self._sent_heartbeat is None:
            due_ms = min(due_ms, self._heartbeat.next_heartbeat_ms)
        if self._main is None and (self._coordinator is None or self._may_join):
            due_ms = min(due_ms, self._retry_at_ms)
        return due_ms

    def answered(self, request_id: int, response: Any, now_ms: float) -> None:
        if self._sent_heartbeat is not None and self._sent_heartbeat.request_id == request_id:
            heartbeat, self._sent_heartbeat = self._sent_heartbeat, None
            self._handle_heartbeat(heartbeat, response.error_code, now_ms)
        elif self._main is not None and self._main[0] == request_id:
            (_, api_key, sent_ms), self._main = self._main, None
            if api_key is ApiKey.FIND_COORDINATOR:
                self._handle_coordinator(response, now_ms)
            elif api_key is ApiKey.JOIN_GROUP:
                self._handle_join(response, sent_ms, now_ms)
            elif api_key is ApiKey.SYNC_GROUP:
                self._handle_sync(response, sent_ms, now_ms)
            else:
                self._left(now_ms)
        self.tick(now_ms)

    def failed(self, request_id: int, why: str, now_ms: float, *, is_terminal: bool = False) -> None:
        """Note that the request failed without a response. ``is_terminal``: a retry would fail as well."""
        is_heartbeat = self._sent_heartbeat is not None and self._sent_heartbeat.request_id == request_id
        if not is_heartbeat and (self._main is None or self._main[0] != request_id):
            return
        api_key = ApiKey.HEARTBEAT if is_heartbeat or self._main is None else self._main[1]
        if api_key is ApiKey.LEAVE_GROUP:
            self._main = None
            self._left(now_ms)
        elif is_terminal and self._last_completed_generation < 0:
            self._fail(why, now_ms)
        else:
            self._report_problem(f"{why}; trying again")
            self._forget_coordinator(now_ms)
        self.tick(now_ms)

    # -- joining

    @property
    def _is_out(self) -> bool:
        return self.phase in (Phase.OUT, Phase.FAILED)

    @property
    def _may_join(self) -> bool:
        return self.phase is Phase.UNJOINED and not self._is_busy

    @property
    def _is_busy(self) -> bool:
        """Return whether the worker must finish something before it may join again."""
        return self._local_assignment.is_stopping or self._catch_up.is_reading

    def _return(self, now_ms: float, reason: str) -> None:
        self.phase = Phase.UNJOINED
        self._rejoin_reason = reason
        self._return_at_ms = _NEVER_MS
        self._retry_at_ms = now_ms
        self.tick(now_ms)

    def _advance(self, now_ms: float) -> None:
        """Send the next request on the way to a stable generation."""
        if self.phase is Phase.STABLE and self._rejoin_reason is not None and not self._is_busy:
            self.phase = Phase.UNJOINED
            self._outputs.append(Joining(self._rejoin_reason))
            if not self.protocol.is_cooperative:
                self._give_up("the group rebalances eagerly")
        if self._main is not None or now_ms < self._retry_at_ms:
            return
        if self._coordinator is None:
            self._send(group_requests.find_coordinator(self._new_id(), self.settings), now_ms)
        elif self._may_join:
            self._join(self._coordinator, now_ms)

    def _join(self, coordinator: Address, now_ms: float) -> None:
        settings = self.settings
        self._joined_with = self.allocation
        protocols = join_protocols(settings.protocol, settings.url, self._snapshot().offset, self.allocation)
        reason, self._rejoin_reason = self._rejoin_reason or "joining", None
        self.phase = Phase.JOINING
        self._stale_heartbeats = 0
        self._catch_up.forget()
        self._rejoin_at_ms = _NEVER_MS
        self._send(
            group_requests.join_group(
                self._new_id(), settings, coordinator, member_id=self.member_id, protocols=protocols, reason=reason
            ),
            now_ms,
        )

    def _handle_coordinator(self, response: FindCoordinatorResponse, now_ms: float) -> None:
        code, message, address = coordinator_in(response)
        meaning = meaning_of(code)
        if meaning is Meaning.FINE:
            self._coordinator = address
            self._retries = 0
        elif meaning is Meaning.NEVER:
            self._fail(terminal_message(code, self.settings), now_ms)
        else:
            self._report_problem(f"the coordinator of group {self.settings.group_id} is not known: {message or code}")
            self._retry_later(now_ms)

    def _handle_join(self, response: JoinGroupResponse, sent_ms: float, now_ms: float) -> None:
        meaning = meaning_of(response.error_code)
        if meaning is Meaning.ID_GIVEN:
            self.member_id = response.member_id
            self._join_again("the coordinator assigned an id")
            return
        if meaning is not Meaning.FINE:
            self._handle_error("JoinGroup", response.error_code, now_ms)
            return
        try:
            agreed = ProtocolVersion.of_wire_name(response.protocol_name or "")
        except ValueError as error:
            self._fail(str(error), now_ms)
            return
        self.member_id = response.member_id
        self.generation = response.generation_id
        self._heartbeat.heard(sent_ms)
        self._heartbeat.took_part(sent_ms)
        self._agree(agreed)
        assignments: list[tuple[str, bytes]] = []
        if response.leader == response.member_id and not response.skip_assignment:
            assignments = self._leadership.assign(response, agreed, self._last_completed_generation, now_ms)
        self.phase = Phase.SYNCING
        if self._coordinator is not None:
            request = group_requests.sync_group(
                self._new_id(),
                self.settings,
                self._coordinator,
                member_id=self.member_id,
                generation=self.generation,
                protocol_name=agreed.wire_name,
                assignments=assignments,
            )
            self._send(request, now_ms)

    def _agree(self, agreed: ProtocolVersion) -> None:
        before, self.protocol = self.protocol, agreed
        if before is not agreed:
            self._outputs.append(
                ProtocolChanged(before, agreed, _verification_message(before, agreed, self.settings.group_id))
            )

    def _handle_sync(self, response: SyncGroupResponse, sent_ms: float, now_ms: float) -> None:
        if response.error_code:
            self._handle_error("SyncGroup", response.error_code, now_ms)
            return
        try:
            assignment = decode_assignment(bytes(response.assignment), self.protocol)
        except DecodeError as error:
            self._report_problem(
                f"the assignment of generation {self.generation} can't be read: {error}; joining again"
            )
            self._join_again("the assignment can't be read")
            self._retry_later(now_ms)
            return
        self.phase = Phase.STABLE
        self._last_completed_generation = self.generation
        self._heartbeat.heard(sent_ms)
        self._heartbeat.took_part(sent_ms)
        self._heartbeat.joined(now_ms)
        self._retries = 0
        self._last_problem = ""
        self._rejoin_reason = None
        if self._joined_with is not self.allocation:
            self._rejoin_reason = "work was given up during the rebalance"
        if assignment.delay_ms > 0:
            self._rejoin_at_ms = now_ms + assignment.delay_ms
        is_cooperative = self.protocol.is_cooperative
        if self._local_assignment.take(assignment, is_cooperative=is_cooperative) and is_cooperative:
            self._rejoin_reason = "work was given up that another worker may have now"
        self._catch_up.begin(assignment)
        self._resolve(now_ms)

    # -- taking an assignment

    def _resolve(self, now_ms: float) -> None:
        """Check whether the assignment of this generation can be applied, and do so."""
        if self.phase is not Phase.STABLE or self._local_assignment.is_stopping:
            return
        offset = self._snapshot().offset
        verdict = self._catch_up.verdict(offset, is_leader=self.is_leader)
        if verdict is Verdict.REJOIN:
            self._rejoin_reason = f"the assignment was made for other configs than those up to offset {offset}"
        elif verdict is Verdict.UNREADABLE:
            self._handle_unreadable(now_ms)
        elif verdict is Verdict.GOOD:
            self._outputs.append(
                Assigned(
                    *self._local_assignment.announce(),
                    generation=self.generation,
                    member_id=self.member_id,
                    is_leader=self.is_leader,
                    protocol=self.protocol,
                )
            )

    def _handle_unreadable(self, now_ms: float) -> None:
        settings = self.settings
        pause_ms = self._catch_up.failed()
        if self._catch_up.pending is None:
            return
        why = (
            f"the config topic could not be read up to offset {self._catch_up.pending.config_offset} within "
            f"{settings.worker_sync_timeout_ms} ms (worker.sync.timeout.ms)"
        )
        if self.is_leader or not self.protocol.is_cooperative:
            if not self.protocol.is_cooperative:
                pause_ms = settings.worker_unsync_backoff_ms
            elif pause_ms is None:
                pause_ms = settings.scheduled_rebalance_max_delay_ms / 10
            self._drop_out(f"{why}; this worker leaves the group for {pause_ms / 1000:g} s", now_ms)
            self._return_at_ms = now_ms + pause_ms
        elif pause_ms is None:
            self._report_problem(f"{why}, repeatedly; this worker gives up its work")
            self._give_up(why)
            self._join_again(why)
            self._retry_later(now_ms)
        else:
            self._report_problem(f"{why}; trying again in {pause_ms / 1000:g} s")
            self._catch_up.read_at_ms = now_ms + pause_ms

    # -- session and errors

    @property
    def _sends_heartbeats(self) -> bool:
        return self.generation >= 0 and self._coordinator is not None and self.phase is not Phase.LEAVING

    def _maybe_beat(self, now_ms: float) -> None:
        if self._sent_heartbeat is not None or not self._sends_heartbeats or now_ms < self._heartbeat.next_heartbeat_ms:
            return
        if self._coordinator is not None:
            self._sent_heartbeat = _SentHeartbeat(self._new_id(), now_ms, self.member_id, self.generation)
            self._heartbeat.sent(now_ms)
            self._outputs.append(
                group_requests.heartbeat(
                    self._sent_heartbeat.request_id,
                    self.settings,
                    self._coordinator,
                    member_id=self.member_id,
                    generation=self.generation,
                )
            )

    def _handle_heartbeat(self, heartbeat: _SentHeartbeat, code: int, now_ms: float) -> None:
        if (heartbeat.member_id, heartbeat.generation) != (self.member_id, self.generation):
            return  # It belonged to an earlier membership.
        meaning = meaning_of(code)
        is_joining = self.phase in (Phase.JOINING, Phase.SYNCING)
        if meaning in (Meaning.FINE, Meaning.REJOIN):  # A heartbeat of an old generation does not prolong the session.
            self._heartbeat.heard(heartbeat.sent_ms)
        if meaning is Meaning.FINE and self.phase is Phase.STABLE:
            self._heartbeat.took_part(heartbeat.sent_ms)
        self._stale_heartbeats = self._stale_heartbeats + 1 if meaning is Meaning.NEW_GENERATION else 0
        if self.phase is Phase.SYNCING and meaning in _ENDS_A_GENERATION:
            self._give_request_up(code, now_ms)
        elif self.phase is Phase.JOINING and self._stale_heartbeats > 1:
            self._give_request_up(code, now_ms)  # The group already has the generation of our JoinGroup.
        elif is_joining and meaning is Meaning.NOT_A_MEMBER:
            self._lose("the coordinator no longer knows this member")
        elif meaning is Meaning.REJOIN and self.phase is Phase.STABLE:
            self._rejoin_reason = self._rejoin_reason or "the group rebalances"
        elif meaning is Meaning.LATER:
            self._report_problem(f"a heartbeat was answered with the error {code}; trying again")
        elif meaning in (Meaning.MOVED, Meaning.NEVER) or (meaning is not Meaning.FINE and not is_joining):
            self._handle_error("Heartbeat", code, now_ms)

    def _give_request_up(self, code: int, now_ms: float) -> None:
        """JoinGroup or SyncGroup is obsolete: its response has no new information and may never arrive."""
        self._main = None
        self._stale_heartbeats = 0
        self._outputs.append(DropConnections())  # The next request must not queue behind it.
        self._handle_error("Heartbeat", code, now_ms)

    def _handle_error(self, what: str, code: int, now_ms: float) -> None:
        meaning = meaning_of(code)
        if meaning is Meaning.NEVER:
            self._fail(terminal_message(code, self.settings), now_ms)
        elif meaning is Meaning.MOVED:
            self._forget_coordinator(now_ms)
        elif meaning is Meaning.NOT_A_MEMBER:
            self.member_id = ""
            self.generation = -1
            self._lose("the coordinator no longer knows this member")
            self._join_again("the coordinator did not know this member")
        elif meaning in (Meaning.NEW_GENERATION, Meaning.REJOIN):
            self._join_again("the group rebalances")
        else:
            self._report_problem(f"{what} was answered with the error {code}; trying again")
            self._join_again("an error")
            self._retry_later(now_ms)

    def _join_again(self, reason: str) -> None:
        self._rejoin_reason = self._rejoin_reason or reason
        self.phase = Phase.UNJOINED if self.phase is not Phase.STABLE else self.phase

    def _forget_coordinator(self, now_ms: float) -> None:
        self._coordinator = None
        self._main = self._sent_heartbeat = None
        self._heartbeat.unreachable(now_ms)
        self._outputs.append(DropConnections())
        if self.phase in (Phase.JOINING, Phase.SYNCING):
            self._join_again("the coordinator was looked up")
        self._retry_later(now_ms)

    def _check_life(self, now_ms: float) -> None:
        if self.allocation is not None and now_ms >= self._heartbeat.lost_at_ms:
            self._lose(self._heartbeat.why_lost(now_ms))
            if self._coordinator is not None:
                self._forget_coordinator(now_ms)
            self._join_again("the coordinator could not be reached")
        if now_ms >= self._heartbeat.worker_hangs_at_ms and self.phase is not Phase.LEAVING:
            doing = f", and was {self._doing}" if self._doing else ""
            self._drop_out(
                f"the worker has not polled its group for {self.settings.rebalance_timeout_ms} ms "
                f"(rebalance.timeout.ms){doing}; it leaves the group until it continues",
                now_ms,
            )
            self._returns_when_polled = True

    def _lose(self, reason: str) -> None:
        if self.allocation is None:
            return
        self._outputs.append(Lost(reason))
        self._give_up(reason)

    def _give_up(self, reason: str) -> None:
        self._local_assignment.give_up(reason)
        self._catch_up.forget()
        self._rejoin_at_ms = _NEVER_MS

    # -- leaving

    def _drop_out(self, why: str, now_ms: float) -> None:
        """Leave once everything has stopped, and return later."""
        self._report_problem(why)
        self._lose(why)
        self._begin_leaving(why, now_ms)

    def _begin_leaving(self, reason: str, now_ms: float) -> None:
        self.phase = Phase.LEAVING
        self._leave_reason = reason
        self._leave_by_ms = now_ms + self.settings.task_shutdown_graceful_timeout_ms
        self._main = self._sent_heartbeat = None
        self._catch_up.is_reading = False

    def _continue_leaving(self, now_ms: float) -> None:
        if self._main is not None or (self._local_assignment.is_stopping and now_ms < self._leave_by_ms):
            return
        if self._coordinator is None or not self.member_id:
            self._left(now_ms)
        else:
            request = group_requests.leave_group(
                self._new_id(), self.settings, self._coordinator, member_id=self.member_id, reason=self._leave_reason
            )
            self._leave_by_ms = _NEVER_MS
            self._send(request, now_ms)

    def _left(self, now_ms: float) -> None:
        self.phase = Phase.OUT
        self.member_id = ""
        self.generation = -1
        self._coordinator = None
        self._main = self._sent_heartbeat = None
        self._leave_by_ms = _NEVER_MS
        self._outputs.append(DropConnections())

    def _fail(self, message: str, now_ms: float) -> None:
        self._lose(message)
        self.phase = Phase.FAILED
        self._main = self._sent_heartbeat = None
        self._return_at_ms = _NEVER_MS
        self._outputs.append(DropConnections())
        self._outputs.append(MembershipFailed(message))

    # -- helpers

    def _notify(self, notice: MembershipEvent) -> None:
        self._outputs.append(notice)

    def _new_id(self) -> int:
        self._last_id += 1
        return self._last_id

    def _send(self, request: GroupRequest, now_ms: float) -> None:
        self._main = (request.request_id, request.api_key, now_ms)
        self._outputs.append(request)

    def _retry_later(self, now_ms: float) -> None:
        pause_ms = min(self.settings.retry_backoff_max_ms, self.settings.retry_backoff_ms * 2 ** min(self._retries, 16))
        self._retries += 1
        self._retry_at_ms = now_ms + pause_ms

    def _report_problem(self, message: str) -> None:
        """Report a problem. A repetition is reported once."""
        if message != self._last_problem:
            self._last_problem = message
            self._outputs.append(MembershipProblem(message))


def _verification_message(before: ProtocolVersion, now: ProtocolVersion, group_id: str) -> str:
    """Return the log message about verification of requests between workers (KIP-507)."""
    if now < ProtocolVersion.SESSIONED <= before:
        return (
            f"the group {group_id} has agreed on the protocol {now.config_value} instead of {before.config_value}: "
            "requests between workers are no longer verified. Set connect.protocol=sessioned on every worker"
        )
    if before < ProtocolVersion.SESSIONED <= now:
        return (
            f"the group {group_id} has agreed on the protocol {now.config_value} instead of {before.config_value}: "
            "requests between workers are verified again"
        )
    return ""
