"""The controller of one node: decides while it is active, otherwise follows the log. No I/O, no thread.

How the driver (``server``) uses it:

* The driver passes all committed records, and every snapshot that it loads, to ``handle_commit`` and
  ``load_snapshot``, in order, whether this node is active or not.
* When this node leads the quorum and has handled everything committed before its own epoch, ``activate`` is
  called with the epoch and the log's end offset; when it no longer leads, ``deactivate``.
* ``submit`` decides immediately, unless a long decision is under way, and returns a ``Deferred`` answer. The records
  accumulate; whenever it is not busy writing, the driver takes all of them with ``take_appends`` and appends each
  ``Append`` (atomic ones in one batch). So a burst of requests shares one write and one flush, and no request waits
  for a timer.
* ``submit_in_steps`` is for decisions that take effect as a whole and take long: each ``tick`` runs a step. Until the
  last step only reads are answered; other decisions wait (``decision_queue``).
* ``tick`` is called at ``next_tick_ms`` or later: it expires broker sessions and writes NoOps.

``controller_state`` explains why an answer can rest on uncommitted state without leaking it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from barnabas.common.clock import Clock
from barnabas.common.errors import ApiException, ErrorCode, invariant
from barnabas.common.steps import whole
from barnabas.common.uuid import Uuid
from barnabas.controller.acl_control_manager import AclControlManager
from barnabas.controller.activation_records import activation_records
from barnabas.controller.append_limits import encoded, room_in_batch
from barnabas.controller.applied_calls import AppliedCalls
from barnabas.controller.client_quota_control_manager import ClientQuotaControlManager
from barnabas.controller.cluster_control_manager import ClusterControlManager
from barnabas.controller.configuration_control_manager import ConfigurationControlManager
from barnabas.controller.controller_config import ControllerConfig
from barnabas.controller.controller_result import ControllerResult
from barnabas.controller.controller_state import ControllerState
from barnabas.controller.decision_queue import Decision, DecisionQueue
from barnabas.controller.decision_steps import Steps, at_once
from barnabas.controller.decision_turns import Turns
from barnabas.controller.delegation_token_control_manager import DelegationTokenControlManager
from barnabas.controller.election_counts import ElectionCounts
from barnabas.controller.feature_control_manager import FeatureControlManager, quorum_cannot_be_upgraded
from barnabas.controller.mutation_quotas import MutationQuotas
from barnabas.controller.producer_ids_control_manager import ProducerIdsControlManager
from barnabas.controller.replication_control_manager import ReplicationControlManager
from barnabas.controller.scram_control_manager import ScramControlManager
from barnabas.coordinator.deferred import Deferred
from barnabas.metadata.image.metadata_image import MetadataImage
from barnabas.metadata.image.record_writer import ApiMessageAndVersion
from barnabas.metadata.loader import CommittedBatch
from barnabas.protocol.records.no_op_record import NoOpRecord

if TYPE_CHECKING:
    from barnabas.protocol.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse

__all__ = ["Append", "QuorumController"]

T = TypeVar("T")

RECORDS_A_TICK: Final = 100
"""Turns after which other callers of the event loop run first."""


def _not_in_a_quorum(request: DescribeQuorumRequest, version: int) -> DescribeQuorumResponse:
    raise ApiException(
        ErrorCode.UNKNOWN_SERVER_ERROR, "This controller was built without a replica of the metadata log."
    )


class Append(NamedTuple):
    """Records to append at the active controller's epoch, in order; atomic ones must share a batch.

    ``values`` are the encoded records where they have been encoded already.
    """

    records: Sequence[ApiMessageAndVersion]
    is_atomic: bool
    values: Sequence[bytes] | None = None


class QuorumController:
    def __init__(
        self,
        config: ControllerConfig,
        *,
        clock: Clock,
        new_uuid: Callable[[], Uuid],
        random_int: Callable[[int], int],
        bootstrap: Sequence[ApiMessageAndVersion] = (),
        on_appends: Callable[[], None] = lambda: None,
        on_fault: Callable[[BaseException], None] = lambda fault: None,
        describe_quorum: Callable[[DescribeQuorumRequest, int], DescribeQuorumResponse] = _not_in_a_quorum,
        upgrade_quorum: Callable[[int, bool], None] = quorum_cannot_be_upgraded,
    ) -> None:
        """``random_int(n)`` draws from 0..n-1. ``on_appends`` is called when ``take_appends`` has records;
        ``on_fault`` receives internal errors that a caller only sees as UNKNOWN_SERVER_ERROR. ``describe_quorum``
        queries this node's replica of the metadata log, in a version of the API. ``upgrade_quorum`` raises its
        kraft.version to a level, or only checks whether it could."""
        self.config = config
        self.state = ControllerState()
        self.leader_id = -1
        self._epoch: int | None = None
        self._clock = clock
        self._bootstrap = bootstrap
        self._on_appends = on_appends
        self._on_fault = on_fault
        self.describe_quorum = describe_quorum
        self._next_write_offset = 0
        self._last_write_ms = 0
        self._appends: list[Append] = []
        self._untaken = 0
        self._waiting: dict[int, Callable[[ApiException], None]] = {}
        self._decisions = DecisionQueue()
        self._has_own_waiting = False
        self.calls = AppliedCalls(clock)
        self.elections = ElectionCounts()
        self.features = FeatureControlManager(self.state, config, upgrade_quorum)
        self.configs = ConfigurationControlManager(self.state, config)
        self.cluster = ClusterControlManager(self.state, config, self.features)
        self.replication = ReplicationControlManager(
            self.state, config, self.cluster, self.configs, new_uuid=new_uuid, random_int=random_int
        )
        self.producer_ids = ProducerIdsControlManager(self.state, self.cluster)
        self.scram = ScramControlManager(self.state)
        self.mutation_quotas = MutationQuotas(
            self.state,
            clock,
            window_count=config.mutation_quota_window_count,
            window_s=config.mutation_quota_window_s,
        )
        self.client_quotas = ClientQuotaControlManager(self.state)
        self.delegation_tokens = DelegationTokenControlManager(self.state, config, new_uuid=new_uuid)
        self.acls = AclControlManager(self.state, new_uuid=new_uuid)

    @property
    def is_active(self) -> bool:
        return self._epoch is not None

    @property
    def epoch(self) -> int | None:
        """The epoch in which this controller is active."""
        return self._epoch

    @property
    def committed_image(self) -> MetadataImage:
        return self.state.committed

    # Following the log

    def handle_commit(self, batches: Iterable[CommittedBatch]) -> None:
        """Raises InvariantViolated if the log cannot be followed: the node must not continue as a controller."""
        followed = list(batches)
        self.calls.replay(followed)
        if self.is_active:
            self.state.handle_commit_of_own(followed, self._next_write_offset - self._untaken)
        else:
            self.state.handle_commit(followed)

    def follow(self, batches: Sequence[CommittedBatch], image: MetadataImage) -> bool:
        """As ``handle_commit`` for a standby, with the image after these batches; return False if it can't adopt it."""
        if self.is_active or self.state.transaction.is_open:
            return False
        self.calls.replay(batches)
        self.state.follow(batches, image)
        return True

    def load_snapshot(self, image: MetadataImage) -> None:
        """Restart from a snapshot's image, which may be shared because images never change."""
        invariant(not self.is_active, "an active controller does not load a snapshot")
        self.state.load_snapshot(image)

    def handle_leader_change(self, leader_id: int) -> None:
        """Return the current leader (-1: unknown), for the message of a NOT_CONTROLLER answer."""
        self.leader_id = leader_id

    def activate(self, epoch: int, next_write_offset: int) -> None:
        """Become the active controller; writes the bootstrap records if the log holds no metadata yet."""
        invariant(not self.is_active, f"already active in epoch {self._epoch}")
        now_ms = self._clock.monotonic_ms()
        self._epoch = epoch
        self.leader_id = self.config.node_id
        self._next_write_offset = next_write_offset
        self._last_write_ms = now_ms
        self.cluster.activate(now_ms)
        self.acls.activate()
        self.delegation_tokens.activate(now_ms)
        self.replication.activate(now_ms)
        for records in activation_records(self.state, self.config, self._bootstrap):
            whole(self._append(ControllerResult(records, None), lambda: None))

    def deactivate(self) -> None:
        """Drop uncommitted state; waiting callers are referred to the new controller."""
        if not self.is_active:
            return
        self._epoch = None
        self._appends.clear()
        self._untaken = 0
        self.state.revert()
        self.cluster.deactivate()
        self.delegation_tokens.deactivate()
        self.replication.deactivate()
        self._has_own_waiting = False
        self._decisions.clear()
        waiting, self._waiting = self._waiting, {}
        for fail in waiting.values():
            fail(self._not_controller())

    # Deciding

    def submit(
        self,
        decide: Callable[[], ControllerResult[T]],
        answer_error: Callable[[ApiException], T],
        *,
        only_reads: Callable[[], bool] = lambda: False,
    ) -> Deferred[T]:
        """Decide now, or after the decisions under way; answer when the decision is committed.

        ``answer_error`` converts an error to the API's own answer. An exception that is not intended for the
        caller becomes UNKNOWN_SERVER_ERROR; nothing has changed then, so this controller stays active.
        ``only_reads`` returns whether ``decide`` would probably write nothing now: then it waits for no other decision,
        and is repeated in its turn if it would write after all.
        """
        return self._submit(lambda: at_once(decide), answer_error, only_reads)

    def submit_in_steps(
        self, steps: Steps[ControllerResult[T]], answer_error: Callable[[ApiException], T]
    ) -> Deferred[T]:
        """As ``submit`` for a decision that takes long. It takes effect as a whole, with its last step."""
        return self._submit(lambda: steps, answer_error, lambda: False)

    def _submit(
        self,
        steps: Callable[[], Steps[ControllerResult[T]]],
        answer_error: Callable[[ApiException], T],
        only_reads: Callable[[], bool],
    ) -> Deferred[T]:
        deferred: Deferred[T] = Deferred()
        if not self.is_active:
            deferred.complete(answer_error(self._not_controller()))
            return deferred

        def decision(taken: Steps[ControllerResult[T]]) -> Decision:
            return Decision(
                self._taking_effect(taken, deferred, answer_error),
                self._callers_context(),
                lambda: deferred.complete(answer_error(self._not_controller())),
            )

        if not self._decisions.is_busy or not only_reads() or self._must_wait(decision(_writing_nothing(steps()))):
            self._decisions.submit(decision(steps()))
        if self._decisions.is_busy:
            self._on_appends()  # The next tick has work.
        return deferred

    def _must_wait(self, reading: Decision) -> bool:
        """Let it overtake the decisions under way. Return True if it would write now, which was not known before."""
        try:
            reading.step()
        except _WouldWrite:
            return True
        return False

    def _taking_effect(
        self, steps: Steps[ControllerResult[T]], deferred: Deferred[T], answer_error: Callable[[ApiException], T]
    ) -> Steps[None]:
        try:
            result = yield from steps
            yield from self._answer_when_committed(result, deferred, answer_error)
        except ApiException as error:
            # "No such token exists" may rest on a removal that is still in flight.
            whole(self._answer_when_committed(ControllerResult((), answer_error(error)), deferred, answer_error))
        except _WouldWrite:
            raise
        except Exception as fault:
            self._on_fault(fault)
            deferred.complete(answer_error(ApiException(ErrorCode.UNKNOWN_SERVER_ERROR)))

    def _callers_context(self) -> Callable[[], AbstractContextManager[object]]:
        """The caller's context, restored for each step of its decision."""
        call = self.calls.deciding
        gates = {gate for gate in (self.config.create_topic_policy, self.config.alter_config_policy) if gate}
        sessions = [(gate, gate.session) for gate in gates if gate.session is not None]

        @contextmanager
        def restored() -> Iterator[None]:
            with ExitStack() as entered:
                entered.enter_context(self.calls.deciding_for(call))
                for gate, session in sessions:
                    entered.enter_context(gate.opened(session))
                yield

        return restored

    def submit_in_turns(self, turns: Turns[T], answer_error: Callable[[ApiException], T]) -> Deferred[T]:
        """Decide in turns, the first of them now, and answer when the last is committed.

        A failure in a later turn keeps the decisions of earlier turns.
        """
        deferred: Deferred[T] = Deferred()
        if not self.is_active:
            deferred.complete(answer_error(self._not_controller()))
            return deferred
        key = id(deferred)
        call = self.calls.deciding

        def last(result: ControllerResult[T]) -> ControllerResult[None]:
            self._waiting.pop(key, None)
            with self.calls.deciding_for(call):
                whole(self._answer_when_committed(result, deferred, answer_error))
            return ControllerResult((), None)

        def taken() -> Turns[None]:
            try:
                return last((yield from turns))
            except ApiException as error:
                return last(ControllerResult((), answer_error(error)))
            except Exception as fault:
                self._on_fault(fault)
                self._waiting.pop(key, None)
                deferred.complete(answer_error(ApiException(ErrorCode.UNKNOWN_SERVER_ERROR)))
                return ControllerResult((), None)

        self._waiting[key] = lambda error: deferred.complete(answer_error(error))
        with self.calls.deciding_for(None):
            self.submit(partial(self.replication.turns.begin, key, taken()), _ignore)
        return deferred

    def _answer_when_committed(
        self, result: ControllerResult[T], deferred: Deferred[T], answer_error: Callable[[ApiException], T]
    ) -> Steps[None]:
        key = id(deferred)
        response = result.response

        def committed() -> None:
            self._waiting.pop(key, None)
            deferred.complete(response)

        if result.records:
            limit = self.config.max_records_per_batch
            room_bytes = yield from room_in_batch(result.records, is_atomic=result.is_atomic, max_records=limit)
            result = yield from self.calls.marked(result, room_bytes=room_bytes)
            yield from self._append(result, committed)
        elif self.state.has_uncommitted:
            self.state.wait_for_uncommitted(committed)
        else:
            deferred.complete(response)
            return
        self._waiting[key] = lambda error: deferred.complete(answer_error(error))

    # Writing

    def take_appends(self) -> list[Append]:
        """Return everything decided since the last call. Follow it with ``handle_appended``."""
        appends, self._appends = self._appends, []
        return appends

    def handle_appended(self, appends: Sequence[Append], base_offset: int) -> None:
        """Note that the log put the first record of ``appends`` at ``base_offset``, the others after it without gaps.

        Control records may have been appended before our decisions (a voter was added): then later decisions move by
        as much. A controller that this append has deposed has dropped all of them already.
        """
        if not self.is_active:
            return
        expected = self._next_write_offset - self._untaken
        count = sum(len(append.records) for append in appends)
        self._untaken -= count
        if base_offset != expected:
            self.state.shift_ahead_from(expected, base_offset - expected)
            self._next_write_offset += base_offset - expected

    def _append(self, result: ControllerResult[Any], committed: Callable[[], None]) -> Steps[None]:
        """Raises InvariantViolated, with nothing changed, if the records cannot follow the current state."""
        records = result.records
        values = yield from encoded(records)
        image = yield from self.state.replayed_in_steps(records)
        self.elections.count(records, self.state.image.topics)
        self.replication.departures.replayed(records)
        self.state.move_ahead(image, self._next_write_offset + len(records) - 1, committed)
        self._next_write_offset += len(records)
        self._untaken += len(records)
        self._last_write_ms = self._clock.monotonic_ms()
        self._appends.append(Append(records, result.is_atomic, values))
        self._on_appends()

    # Time

    def stood_still(self, for_ms: int, now_ms: int) -> None:
        """Note that the process did not run for so long: brokers may have sent heartbeats that it has not read yet."""
        if self.is_active:
            self.cluster.heartbeats.stood_still(for_ms, now_ms)

    def take_turns(self) -> None:
        """Run turns of long decisions, until enough records were decided to let other work run."""
        if self._decisions.is_under_way:
            return
        decided_before = self._next_write_offset
        for turn in self.replication.turns.due():
            self.submit(turn, _ignore)
            if self._next_write_offset - decided_before >= RECORDS_A_TICK:
                break

    def tick(self, now_ms: int) -> None:
        """Fence brokers whose session has expired, remove expired tokens, elect leaders, and write NoOps.

        While decisions are under way or wait, a tick runs a step of them, and this work waits in the same queue.
        """
        if not self.is_active:
            return
        if not self.has_steps:
            self._decide_own(now_ms)
            return
        if not self._has_own_waiting:
            self._has_own_waiting = True
            self._decisions.submit(Decision(at_once(self._decide_own_now), self._callers_context()))
        self.take_step()

    @property
    def has_steps(self) -> bool:
        """Whether a decision is under way, or waits for another to end."""
        return self._decisions.is_busy

    def take_step(self) -> None:
        """Run turns of the current decision, or begin waiting ones, until it is time to let other work run."""
        decided_before = self._next_write_offset
        self._decisions.advance(lambda: self._next_write_offset - decided_before >= RECORDS_A_TICK)

    def _decide_own_now(self) -> None:
        self._has_own_waiting = False
        self._decide_own(self.now_ms())

    def _decide_own(self, now_ms: int) -> None:
        self.take_turns()
        for broker_id in self.cluster.heartbeats.stale_brokers(now_ms):
            self.submit(partial(self.replication.fence_stale_broker, broker_id), _ignore)
        if self.delegation_tokens.is_sweep_due(now_ms):
            self.submit(partial(self.delegation_tokens.remove_expired_tokens, self.wall_clock_ms()), _ignore)
        for elect in self.replication.periodic_elections.due(now_ms):
            self.submit(elect, _ignore)
        idle = self.config.metadata_max_idle_interval_ms
        if idle > 0 and now_ms - self._last_write_ms >= idle:
            self.submit(lambda: ControllerResult((ApiMessageAndVersion(NoOpRecord(), 0),), None), _ignore)

    def next_tick_ms(self) -> int | None:
        """When ``tick`` has work; None while nothing is scheduled."""
        if not self.is_active:
            return None
        if self.replication.turns or self._decisions.is_busy:
            return self.now_ms()
        idle = self.config.metadata_max_idle_interval_ms
        due = [self._last_write_ms + idle] if idle > 0 else []
        timers = (
            self.cluster.heartbeats.next_expiry_ms(),
            self.delegation_tokens.next_sweep_ms(),
            self.replication.periodic_elections.next_ms(),
        )
        due += [timer for timer in timers if timer is not None]
        return min(due) if due else None

    def now_ms(self) -> int:
        return self._clock.monotonic_ms()

    def wall_clock_ms(self) -> int:
        """Return the wall-clock time for records and answers."""
        return self._clock.now_ms()

    @property
    def next_write_offset(self) -> int:
        """The offset of the next decided record: the epoch of a broker that registers now."""
        return self._next_write_offset

    def _not_controller(self) -> ApiException:
        if self.leader_id < 0:
            message = "No controller appears to be active."
        else:
            message = f"The active controller appears to be node {self.leader_id}."
        return ApiException(ErrorCode.NOT_CONTROLLER, message)


class _WouldWrite(Exception):
    """A decision that should overtake others has records to write."""


def _writing_nothing(steps: Steps[ControllerResult[T]]) -> Steps[ControllerResult[T]]:
    result = yield from steps
    if result.records:
        raise _WouldWrite
    return result


def _ignore(error: ApiException) -> None:
    """A decision of this controller that is too late: the next active controller will make it."""
