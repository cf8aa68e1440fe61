"""Writes the markers that end transactions: in partitions that this broker leads, and through their leaders elsewhere.

A transaction is complete when each of its partitions has the marker on all replicas in sync. What a leader refuses or
does not answer is sent again, to the leader of that time. A partition that was deleted needs no marker.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from barnabas.common.error_code import error_of
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.topic_name import GROUP_METADATA_TOPIC
from barnabas.coordinator.transaction.transaction_metadata import TRANSACTIONS_V2, TransactionState
from barnabas.coordinator.transaction_marker import TransactionMarker
from barnabas.protocol.end_transaction_batch import end_transaction_batch
from barnabas.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from barnabas.storage.produced_batch import AppendOrigin

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from barnabas.broker.group_service import GroupService
    from barnabas.broker.metadata_cache import MetadataCache
    from barnabas.broker.ports import OtherBrokers
    from barnabas.broker.replica_manager import ReplicaManager
    from barnabas.common.clock import Clock
    from barnabas.common.topic_partition import TopicPartition
    from barnabas.coordinator.transaction.transaction_coordinator import PreparedTransaction

__all__ = ["MarkerSender", "MarkerWriter"]

log = logging.getLogger(__name__)

_AFTER_ANSWER_S = 0.001
"""How long markers wait after the answer to EndTxn. Linux wakes the client on the processor of this thread, so it
receives the answer as soon as this thread waits: with the markers of four partitions before that, in twice the time."""
_RETRY_S = 0.1
_RETRY_S_MAX = 1.0
_RETRIES_COUNTED = 10
_TIMEOUT_S = 5.0
"""For a broker that hangs: by then another one may lead its partitions."""
_FENCED = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED})
"""A newer coordinator, or a newer producer, has written since: this coordinator has nothing to end there any more."""


class MarkerWriter:
    """Writes markers in the partitions that this broker leads."""

    def __init__(self, replicas: ReplicaManager, groups: GroupService, clock: Clock) -> None:
        self._replicas = replicas
        self._groups = groups
        self._clock = clock

    async def write(self, marker: TransactionMarker, partition: TopicPartition, transaction_version: int) -> ErrorCode:
        """Return when all replicas in sync have the marker, or with the reason why it is not written."""
        try:
            self._check_epoch(marker, partition, transaction_version)
            verified = self._replicas.leader_of(partition).verified_producers
            if verified is not None:
                verified.pop(marker.producer_id, None)
            if partition.topic == GROUP_METADATA_TOPIC:
                ended = self._groups.coordinator.end_transaction(partition.partition, marker, self._groups.now_ms())
                answer = self._groups.answer(ended)
                return answer if isinstance(answer, ErrorCode) else await answer
            return await self._append(marker, partition)
        except ApiException as error:
            return error.code

    def _check_epoch(self, marker: TransactionMarker, partition: TopicPartition, transaction_version: int) -> None:
        """A marker of version 2 has a later epoch than the records that it ends (KIP-890): one that arrives late does
        not end the producer's next transaction."""
        if transaction_version < TRANSACTIONS_V2:
            return
        entry = self._replicas.leader_of(partition).log.producers.producers.get(marker.producer_id)
        if entry is not None and entry.epoch == marker.producer_epoch and entry.current_txn_first_offset >= 0:
            raise ApiException(ErrorCode.INVALID_PRODUCER_EPOCH)

    async def _append(self, marker: TransactionMarker, partition: TopicPartition) -> ErrorCode:
        replica = self._replicas.leader_of(partition)
        batch = end_transaction_batch(
            marker.producer_id,
            marker.producer_epoch,
            is_commit=marker.is_commit,
            coordinator_epoch=marker.coordinator_epoch,
            timestamp_ms=self._clock.now_ms(),
        )
        info = self._replicas.append(replica, batch, requires_all_in_sync=True, origin=AppendOrigin.COORDINATOR)
        leader = replica.leader_replica
        if leader is None or leader.high_watermark > info.last_offset:
            return ErrorCode.NONE
        future: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
        leader.wait_for(info.last_offset + 1, lambda code: None if future.done() else future.set_result(code))
        return await future


class _Ending:
    """A prepared transaction, and the partitions that lack its marker."""

    __slots__ = ("prepared", "remaining", "retries")

    def __init__(self, prepared: PreparedTransaction) -> None:
        self.prepared = prepared
        self.remaining: set[TopicPartition] = set(prepared.metadata.partitions)
        self.retries = 0

    @property
    def marker(self) -> TransactionMarker:
        found = self.prepared.metadata
        return TransactionMarker(
            found.producer_id,
            found.producer_epoch,
            found.state is TransactionState.PREPARE_COMMIT,
            self.prepared.coordinator_epoch,
        )


class MarkerSender:
    """Ends the transactions that this broker coordinates."""

    def __init__(
        self,
        *,
        broker_id: int,
        writer: MarkerWriter,
        metadata: MetadataCache,
        others: OtherBrokers,
        complete: Callable[[PreparedTransaction], None],
        delay_s: float = _AFTER_ANSWER_S,
        retry_s: float = _RETRY_S,
    ) -> None:
        """``complete`` is called once all markers of a transaction are written. ``delay_s``: how long to wait before a
        marker is sent, ``retry_s``: before it is sent again."""
        self._delay_s = delay_s
        self._retry_s = retry_s
        self._broker_id = broker_id
        self._writer = writer
        self._metadata = metadata
        self._others = others
        self._complete = complete
        self._tasks: set[asyncio.Task[None]] = set()
        self._next: dict[str, _Ending] = {}
        """Transactions by their id whose markers are due at ``_timer``."""
        self._timer: asyncio.TimerHandle | None = None
        self._waiting: dict[int, list[tuple[_Ending, list[TopicPartition]]]] = {}
        """What is to be sent next to each other broker; it has an entry while a request is on its way."""
        self._is_stopped = False

    def stop(self) -> None:
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()
        for task in self._tasks:
            task.cancel()

    def send(self, prepared: PreparedTransaction) -> None:
        """Write and send the markers after the answer to EndTxn, which does not wait for them."""
        self._next[prepared.metadata.transactional_id] = _Ending(prepared)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._delay_s, self._send_next)

    def hasten(self, transactional_id: str) -> None:
        """Write and send the markers of an id now: its producer's next request waits for them."""
        ending = self._next.pop(transactional_id, None)
        if ending is not None:
            self._send(ending, ending.remaining)

    def _send_next(self) -> None:
        self._timer = None
        endings, self._next = self._next, {}
        for ending in endings.values():
            self._send(ending, ending.remaining)

    def _send(self, ending: _Ending, partitions: set[TopicPartition]) -> None:
        by_leader: dict[int, list[TopicPartition]] = {}
        for partition in sorted(partitions):
            registration = self._metadata.partition(partition.topic, partition.partition)
            if registration is None:
                ending.remaining.discard(partition)
            else:
                by_leader.setdefault(registration.leader, []).append(partition)
        if not ending.remaining:
            self._start(self._finish(ending))
            return
        for leader, led in by_leader.items():
            if leader == self._broker_id:
                self._start(self._write_here(ending, led))
            elif leader < 0:
                self._start(self._again(ending, set(led)))
            elif leader in self._waiting:
                self._waiting[leader].append((ending, led))
            else:
                self._waiting[leader] = [(ending, led)]
                self._start(self._send_to(leader))

    def _start(self, work: Coroutine[None, None, None]) -> None:
        if self._is_stopped:
            work.close()
            return
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (failure := task.exception()) is not None:
            log.error("markers of a transaction were not written", exc_info=failure)

    async def _finish(self, ending: _Ending) -> None:
        self._complete(ending.prepared)

    async def _again(self, ending: _Ending, partitions: set[TopicPartition]) -> None:
        await asyncio.sleep(min(self._retry_s * 2**ending.retries, _RETRY_S_MAX))
        ending.retries = min(ending.retries + 1, _RETRIES_COUNTED)
        if ending.prepared.is_present():
            self._send(ending, partitions)

    async def _write_here(self, ending: _Ending, partitions: list[TopicPartition]) -> None:
        marker, version = ending.marker, ending.prepared.metadata.client_version
        codes = await asyncio.gather(*(self._writer.write(marker, partition, version) for partition in partitions))
        await self._take(ending, dict(zip(partitions, codes, strict=True)))

    async def _send_to(self, leader: int) -> None:
        """Send everything that waits for a leader, in one request at a time."""
        while self._waiting[leader]:
            batch, self._waiting[leader] = self._waiting[leader], []
            batch = [(ending, led) for ending, led in batch if ending.prepared.is_present()]
            if not batch:
                continue
            answers = await self._ask(leader, batch)
            for number, (ending, led) in enumerate(batch):
                codes = {
                    partition: answers.get((number, *partition), ErrorCode.UNKNOWN_SERVER_ERROR) for partition in led
                }
                self._start(self._take(ending, codes))
        del self._waiting[leader]

    async def _ask(
        self, leader: int, batch: list[tuple[_Ending, list[TopicPartition]]]
    ) -> dict[tuple[int, str, int], ErrorCode]:
        """Return the answers by position in the batch, topic and partition; none if the leader did not answer."""
        request = WriteTxnMarkersRequest(markers=[_writable(ending, led) for ending, led in batch])
        try:
            response = await self._others.ask(leader, request, timeout_s=_TIMEOUT_S)
        except ApiException as error:
            log.info("cannot write %d markers of transactions at broker %d: %s", len(batch), leader, error)
            return {}
        except Exception:
            log.exception("markers of transactions were not written at broker %d; they are sent again", leader)
            return {}
        return {
            (number, topic.name, partition.partition_index): error_of(partition.error_code)
            for number, result in enumerate(response.markers)
            for topic in result.topics
            for partition in topic.partitions
        }

    async def _take(self, ending: _Ending, codes: dict[TopicPartition, ErrorCode]) -> None:
        refused: set[TopicPartition] = set()
        for partition, code in codes.items():
            if code is ErrorCode.NONE:
                ending.remaining.discard(partition)
            elif code in _FENCED:
                log.warning(
                    "transaction of %s: %s refuses the marker (%s): a newer coordinator or producer has ended it",
                    ending.prepared.metadata.transactional_id, partition, code.name,
                )  # fmt: skip
                return
            else:
                refused.add(partition)
        if not ending.remaining:
            self._complete(ending.prepared)
        elif refused:
            await self._again(ending, refused)


def _writable(ending: _Ending, partitions: list[TopicPartition]) -> WritableTxnMarker:
    marker = ending.marker
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    return WritableTxnMarker(
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        transaction_result=marker.is_commit,
        topics=[WritableTxnMarkerTopic(name=name, partition_indexes=indexes) for name, indexes in topics.items()],
        coordinator_epoch=marker.coordinator_epoch,
        transaction_version=ending.prepared.metadata.client_version,
    )
