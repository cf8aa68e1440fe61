"""Keeps the state of share-partitions at their coordinators: this broker, or others.

The calls about one share-partition are made one after the other, because a late write would move its start offset back.
Writes that wait for their turn become one write. Calls to one coordinator about share-partitions of a group share a
request, if they are made in the same turn of the loop, or while another request is on its way.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from random import uniform
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from barnabas.broker.share_state_messages import (
    deletions,
    initializations,
    outcomes,
    reads,
    states,
    summaries,
    summary_reads,
    writes,
)
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.topic_name import SHARE_STATE_TOPIC
from barnabas.coordinator.partitioner import coordinator_partition
from barnabas.coordinator.share.persister import (
    UNINITIALIZED_OFFSET,
    SharePartitionKey,
    SharePartitionState,
    SharePartitionSummary,
    StateInitialization,
    StateOutcome,
    StateWrite,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from barnabas.broker.metadata_cache import MetadataCache
    from barnabas.broker.ports import OtherBrokers
    from barnabas.broker.share_state_service import ShareStateService
    from barnabas.common.uuid import Uuid
    from barnabas.coordinator.deferred import Deferred
    from barnabas.coordinator.share.persister import StateBatch
    from barnabas.protocol.schema import Request

__all__ = ["SharePersister"]

log = logging.getLogger(__name__)

A = TypeVar("A")


class _Result(Protocol):
    @property
    def error_code(self) -> int: ...

    @property
    def error_message(self) -> str | None: ...


R = TypeVar("R", bound=_Result)

_RETRIES_S = (0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0, 2.0, 2.0, 2.0)
"""The pauses before further attempts: by their end another broker usually coordinates."""
_JITTER = 0.2
_TIMEOUT_S = 10.0
"""Longer than share.coordinator.write.timeout.ms: a coordinator that does not hang has answered by then."""
_PARTITIONS_PER_REQUEST = 500
_STATE_BATCHES_PER_REQUEST = 10_000
_RETRIABLE = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)
_NO_COORDINATOR = StateOutcome(ErrorCode.COORDINATOR_NOT_AVAILABLE, "The share-partition has no coordinator now.")
_NOT_ANSWERED = StateOutcome(ErrorCode.UNKNOWN_SERVER_ERROR, "The coordinator's answer lacks the share-partition.")
_CANCELLED = StateOutcome(ErrorCode.UNKNOWN_SERVER_ERROR, "The write was cancelled.")


class _Operation(Generic[A, R]):
    """A kind of call: how this broker performs it, and how it requests it from another one."""

    def __init__(
        self,
        perform: Callable[[SharePartitionKey, A], Deferred[R]],
        request: Callable[[str, Sequence[tuple[SharePartitionKey, A]]], Request[Any]],
        results: Callable[[Any], Iterator[tuple[Uuid, int, R]]],
        failed: Callable[[StateOutcome], R],
        *,
        is_read: bool = False,
    ) -> None:
        self.perform = perform
        self.request = request
        self.results = results
        self.failed = failed
        self.is_read = is_read


class _Call(Generic[A, R]):
    """A call that waits for the answer of another broker."""

    __slots__ = ("argument", "key", "result")

    def __init__(self, key: SharePartitionKey, argument: A, result: asyncio.Future[R]) -> None:
        self.key = key
        self.argument = argument
        self.result = result

    @property
    def batch_count(self) -> int:
        return len(self.argument.batches) if isinstance(self.argument, StateWrite) else 0


_Lane = tuple[int, "_Operation[Any, Any]", str]
"""The calls that may share a request: the broker that coordinates, the kind of call, the group."""


class _Turns:
    """The lock of a share-partition, and the number of calls that have or want it."""

    __slots__ = ("count", "lock")

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.count = 0


class _WaitingWrite:
    """A write that waits for its turn. Others may join it: they have the same outcome."""

    __slots__ = ("outcome", "write")

    def __init__(self, write: StateWrite) -> None:
        self.write = write
        self.outcome: asyncio.Future[StateOutcome] = asyncio.get_running_loop().create_future()

    def join(self, write: StateWrite) -> bool:
        """Return False if the write belongs to another leader or state."""
        first = self.write
        if (write.state_epoch, write.leader_epoch) != (first.state_epoch, first.leader_epoch):
            return False
        is_unknown = write.start_offset == UNINITIALIZED_OFFSET
        self.write = write._replace(
            start_offset=first.start_offset if is_unknown else write.start_offset,
            batches=(*first.batches, *write.batches),
        )
        return True


class SharePersister:
    """Implements ``Persister``."""

    def __init__(
        self,
        *,
        broker_id: int,
        service: ShareStateService,
        metadata: MetadataCache,
        others: OtherBrokers,
        create_topic: Callable[[], Awaitable[None]],
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """``create_topic`` creates ``__share_group_state``; ``pause`` waits for seconds."""
        self._broker_id = broker_id
        self._service = service
        self._metadata = metadata
        self._others = others
        self._create_topic = create_topic
        self._pause = pause
        self._turns: dict[SharePartitionKey, _Turns] = {}
        self._waiting_writes: dict[SharePartitionKey, _WaitingWrite] = {}
        self._lanes: dict[_Lane, list[_Call[Any, Any]]] = {}
        """The calls that wait; a lane has an entry while a request is on its way."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._initialize = _Operation(service.initialize, initializations, outcomes, _same)
        self._read = _Operation(service.read, reads, states, SharePartitionState.failed, is_read=True)
        self._write = _Operation(service.write, writes, outcomes, _same)
        self._delete = _Operation(lambda key, _: service.delete(key), deletions, outcomes, _same)
        self._read_summary = _Operation(
            lambda key, _: service.read_summary(key),
            summary_reads,
            summaries,
            SharePartitionSummary.failed,
            is_read=True,
        )

    # --- Persister

    async def initialize_state(
        self, group_id: str, topic_id: Uuid, partition: int, state_epoch: int, start_offset: int
    ) -> StateOutcome:
        key = SharePartitionKey(group_id, topic_id, partition)
        return await self._in_turn(self._initialize, key, StateInitialization(state_epoch, start_offset))

    async def read_state(self, group_id: str, topic_id: Uuid, partition: int, leader_epoch: int) -> SharePartitionState:
        return await self._in_turn(self._read, SharePartitionKey(group_id, topic_id, partition), leader_epoch)

    async def write_state(
        self,
        group_id: str,
        topic_id: Uuid,
        partition: int,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        batches: Sequence[StateBatch],
    ) -> StateOutcome:
        key = SharePartitionKey(group_id, topic_id, partition)
        write = StateWrite(state_epoch, leader_epoch, start_offset, delivery_complete_count, tuple(batches))
        joined = self._waiting_writes.get(key)
        if joined is not None and joined.join(write):
            return await asyncio.shield(joined.outcome)
        waiting = self._waiting_writes[key] = _WaitingWrite(write)
        outcome = _CANCELLED
        try:
            async with self._turn(key):
                self._no_longer_waits(key, waiting)
                outcome = await self._repeated(self._write, key, waiting.write)
        finally:
            self._no_longer_waits(key, waiting)
            waiting.outcome.set_result(outcome)
        return outcome

    async def delete_state(self, group_id: str, topic_id: Uuid, partition: int) -> StateOutcome:
        return await self._in_turn(self._delete, SharePartitionKey(group_id, topic_id, partition), None)

    async def read_summary(
        self, group_id: str, topic_id: Uuid, partition: int, leader_epoch: int
    ) -> SharePartitionSummary:
        return await self._in_turn(self._read_summary, SharePartitionKey(group_id, topic_id, partition), leader_epoch)

    # --- turns and attempts

    def _no_longer_waits(self, key: SharePartitionKey, waiting: _WaitingWrite) -> None:
        if self._waiting_writes.get(key) is waiting:
            del self._waiting_writes[key]

    @asynccontextmanager
    async def _turn(self, key: SharePartitionKey) -> AsyncIterator[None]:
        turns = self._turns.get(key)
        if turns is None:
            turns = self._turns[key] = _Turns()
        turns.count += 1
        try:
            async with turns.lock:
                yield
        finally:
            turns.count -= 1
            if not turns.count:
                del self._turns[key]

    async def _in_turn(self, operation: _Operation[A, R], key: SharePartitionKey, argument: A) -> R:
        async with self._turn(key):
            return await self._repeated(operation, key, argument)

    async def _repeated(self, operation: _Operation[A, R], key: SharePartitionKey, argument: A) -> R:
        """Repeat a call while its error may pass. Return the last result."""
        result = await self._attempt(operation, key, argument)
        for retry_s in _RETRIES_S:
            if result.error_code not in _RETRIABLE:
                return result
            await self._pause(retry_s * uniform(1 - _JITTER, 1 + _JITTER))
            result = await self._attempt(operation, key, argument)
        if result.error_code in _RETRIABLE:
            log.warning("the state of %s is not reached: %s", key.coordinator_key, result.error_message)
        return result

    async def _attempt(self, operation: _Operation[A, R], key: SharePartitionKey, argument: A) -> R:
        if self._metadata.topic(SHARE_STATE_TOPIC) is None:
            await self._create_topic()
        coordinator = self._coordinator_of(key)
        if coordinator is None:
            return operation.failed(_NO_COORDINATOR)
        if coordinator == self._broker_id:
            return await self._perform(operation, key, argument)
        return await self._requested(operation, coordinator, key, argument)

    def _coordinator_of(self, key: SharePartitionKey) -> int | None:
        topic = self._metadata.topic(SHARE_STATE_TOPIC)
        if topic is None:
            return None
        registration = topic.partitions.get(coordinator_partition(key.coordinator_key, len(topic.partitions)))
        return None if registration is None or registration.leader < 0 else registration.leader

    async def _perform(self, operation: _Operation[A, R], key: SharePartitionKey, argument: A) -> R:
        service = self._service
        if operation.is_read and not service.are_reads_safe and key in await service.unconfirmed((key,)):
            return operation.failed(_NO_COORDINATOR)
        answer = service.answer(operation.perform(key, argument))
        return await answer if isinstance(answer, Awaitable) else answer

    # --- other brokers

    async def _requested(self, operation: _Operation[A, R], coordinator: int, key: SharePartitionKey, argument: A) -> R:
        loop = asyncio.get_running_loop()
        call: _Call[A, R] = _Call(key, argument, loop.create_future())
        lane = (coordinator, operation, key.group_id)
        waiting = self._lanes.get(lane)
        if waiting is not None:
            waiting.append(call)
        else:
            self._lanes[lane] = [call]
            task = loop.create_task(self._send(lane))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return await call.result

    async def _send(self, lane: _Lane) -> None:
        """Send all calls of a lane, in one request at a time."""
        waiting = self._lanes[lane]
        try:
            while waiting:
                calls = _first(waiting)
                del waiting[: len(calls)]
                results = await self._ask(lane, calls)
                for call in calls:
                    if not call.result.done():
                        call.result.set_result(results.get(call.key) or lane[1].failed(_NOT_ANSWERED))
        finally:
            del self._lanes[lane]

    async def _ask(self, lane: _Lane, calls: Sequence[_Call[Any, Any]]) -> dict[SharePartitionKey, Any]:
        coordinator, operation, group_id = lane
        request = operation.request(group_id, [(call.key, call.argument) for call in calls])
        try:
            response = await self._others.ask(coordinator, request, timeout_s=_TIMEOUT_S)
            return {
                SharePartitionKey(group_id, topic_id, partition): result
                for topic_id, partition, result in operation.results(response)
            }
        except ApiException as error:
            failed = operation.failed(StateOutcome(ErrorCode.NETWORK_EXCEPTION, error.message))
            return {call.key: failed for call in calls}
        except Exception:
            log.exception("the state of %d share-partitions is not reached at broker %d", len(calls), coordinator)
            return {}


def _first(waiting: Sequence[_Call[Any, Any]]) -> list[_Call[Any, Any]]:
    """Return the calls for the next request: at least one, and not more than a request should have."""
    taken: list[_Call[Any, Any]] = []
    batch_count = 0
    for call in waiting[:_PARTITIONS_PER_REQUEST]:
        batch_count += call.batch_count
        if taken and batch_count > _STATE_BATCHES_PER_REQUEST:
            break
        taken.append(call)
    return taken


def _same(outcome: StateOutcome) -> StateOutcome:
    return outcome
