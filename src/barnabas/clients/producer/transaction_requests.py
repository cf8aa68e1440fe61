"""Requests of a transaction to its coordinator, and to those of the groups whose offsets it commits.

Each call repeats its request until it has an answer that is final, or until its deadline: then TransactionTimedOut.
Calls raise TransactionAbortable or FatalTransactionError (``transaction_verdicts.py``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from barnabas.clients.admin.errors import AdminError, admin_error
from barnabas.clients.admin.retry import Backoff, Deadline
from barnabas.clients.coordinator_connection import CoordinatorConnection, CoordinatorKind
from barnabas.clients.errors import ClientError, UnsupportedVersion
from barnabas.clients.producer.batch import ProducerId
from barnabas.clients.producer.transaction_errors import FatalTransactionError, TransactionTimedOut
from barnabas.clients.producer.transaction_verdicts import Operation, Verdict, error_of, verdict_of
from barnabas.common.error_code import ErrorCode
from barnabas.common.errors import Transient
from barnabas.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from barnabas.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from barnabas.protocol.messages.end_txn import EndTxnRequest
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest
from barnabas.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from barnabas.clients.admin.group_offsets import OffsetAndMetadata
    from barnabas.clients.network_client import NetworkClient
    from barnabas.common.topic_partition import TopicPartition

__all__ = ["GroupMetadata", "TransactionRequests"]

_FEATURE = "transaction.version"
_VERSION_2 = 2
_STABLE_INIT_VERSION = 5
_ADD_PARTITIONS_VERSION_MAX = 3
"""Later versions are for brokers that verify transactions."""
_END_VERSION_1_MAX = 4
_COMMIT_OFFSETS_VERSION_1_MAX = 4
_MEMBER_VERSION = 3
"""The first version of TxnOffsetCommit with the member and its generation (KIP-447)."""
_MARKERS_PAUSE_MS = 2.0
"""The first pause while markers of the previous transaction are written. They take a millisecond or less."""


@dataclass(slots=True, frozen=True)
class GroupMetadata:
    """The consumer whose offsets are committed. The coordinator refuses them after a rebalance (KIP-447).

    Only ``group_id`` is needed for offsets without a member, as of a consumer that assigns its partitions itself.
    """

    group_id: str
    generation: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


class TransactionRequests:
    """``request_timeout_s`` limits each request, ``deadline`` of a call all its repetitions."""

    def __init__(self, network: NetworkClient, transactional_id: str) -> None:
        values = network.config.values
        self._transactional_id = transactional_id
        self._network = network
        self._request_timeout_s = float(values["request.timeout.ms"]) / 1000
        self._backoff_ms = float(values["retry.backoff.ms"]), float(values["retry.backoff.max.ms"])
        self._coordinator = CoordinatorConnection(network, transactional_id, CoordinatorKind.TRANSACTION)
        self._groups: dict[str, CoordinatorConnection] = {}
        self._level = 0

    @property
    def is_version_2(self) -> bool:
        """Whether the cluster ends each transaction with a new epoch (KIP-890), as its coordinator has said."""
        found = self._coordinator.feature_level(_FEATURE)
        if found is not None:
            self._level = found
        return self._level >= _VERSION_2

    async def connect(self, deadline: Deadline) -> None:
        """Find the coordinator."""

        async def ask() -> int:
            await self._coordinator.connected()
            return ErrorCode.NONE

        await self._until(Operation.END, self._coordinator, ask, deadline)

    async def init_producer(self, timeout_ms: int, expected: ProducerId, deadline: Deadline) -> ProducerId:
        """Return the producer id with a new epoch. With an ``expected`` one, other producers are not fenced."""
        request = InitProducerIdRequest(
            transactional_id=self._transactional_id,
            transaction_timeout_ms=timeout_ms,
            producer_id=expected.id,
            producer_epoch=expected.epoch,
        )
        found = expected

        async def ask() -> int:
            nonlocal found
            response = await self._coordinator.request(
                request, version_max=_STABLE_INIT_VERSION, timeout_s=self._limit(deadline)
            )
            found = ProducerId(response.producer_id, response.producer_epoch)
            return response.error_code

        await self._until(Operation.INIT_PRODUCER, self._coordinator, ask, deadline)
        return found

    async def add_partitions(
        self, producer: ProducerId, partitions: Iterable[TopicPartition], deadline: Deadline
    ) -> None:
        """Add all partitions, or none."""
        by_topic: dict[str, list[int]] = {}
        for topic, partition in sorted(partitions):
            by_topic.setdefault(topic, []).append(partition)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._transactional_id,
            v3_and_below_producer_id=producer.id,
            v3_and_below_producer_epoch=producer.epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=topic, partitions=numbers) for topic, numbers in by_topic.items()
            ],
        )

        async def ask() -> int:
            response = await self._coordinator.request(
                request, version_max=_ADD_PARTITIONS_VERSION_MAX, timeout_s=self._limit(deadline)
            )
            return _first_error(
                result.partition_error_code
                for topic in response.results_by_topic_v3_and_below
                for result in topic.results_by_partition
            )

        await self._until(Operation.ADD_PARTITIONS, self._coordinator, ask, deadline)

    async def add_group(self, producer: ProducerId, group_id: str, deadline: Deadline) -> None:
        """Add the partition with the group's offsets: only before version 2."""
        request = AddOffsetsToTxnRequest(
            transactional_id=self._transactional_id,
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            group_id=group_id,
        )

        async def ask() -> int:
            return (await self._coordinator.request(request, timeout_s=self._limit(deadline))).error_code

        await self._until(Operation.ADD_OFFSETS, self._coordinator, ask, deadline)

    async def commit_offsets(
        self,
        producer: ProducerId,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        group: GroupMetadata,
        deadline: Deadline,
        *,
        is_version_2: bool,
    ) -> None:
        """Write offsets that become visible when the transaction commits."""
        request = TxnOffsetCommitRequest(
            transactional_id=self._transactional_id,
            group_id=group.group_id,
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            generation_id=group.generation,
            member_id=group.member_id,
            group_instance_id=group.group_instance_id,
            topics=_offset_topics(offsets),
        )
        coordinator = self._groups.setdefault(
            group.group_id, CoordinatorConnection(self._network, group.group_id, CoordinatorKind.GROUP)
        )
        version_max = None if is_version_2 else _COMMIT_OFFSETS_VERSION_1_MAX

        async def ask() -> int:
            connection = await coordinator.connected()
            if connection.version_of(request.API_KEY) < _MEMBER_VERSION:
                raise UnsupportedVersion(f"the node at {connection.address} is older than Kafka 2.5")
            response = await coordinator.request(request, version_max=version_max, timeout_s=self._limit(deadline))
            return _first_error(result.error_code for topic in response.topics for result in topic.partitions)

        await self._until(Operation.COMMIT_OFFSETS, coordinator, ask, deadline)

    async def end(self, producer: ProducerId, deadline: Deadline, *, is_commit: bool, is_version_2: bool) -> ProducerId:
        """End the transaction. Return the producer of the next one: in version 2 with a new epoch, or a new id."""
        request = EndTxnRequest(
            transactional_id=self._transactional_id,
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            committed=is_commit,
        )
        found = producer

        async def ask() -> int:
            nonlocal found
            version_max = None if is_version_2 else _END_VERSION_1_MAX
            response = await self._coordinator.request(
                request, version_max=version_max, timeout_s=self._limit(deadline)
            )
            if response.producer_id >= 0:
                found = ProducerId(response.producer_id, response.producer_epoch)
            return response.error_code

        await self._until(Operation.END, self._coordinator, ask, deadline)
        return found

    async def close(self) -> None:
        for coordinator in (self._coordinator, *self._groups.values()):
            await coordinator.drop()

    # --- repetitions

    async def _until(
        self,
        operation: Operation,
        coordinator: CoordinatorConnection,
        ask: Callable[[], Awaitable[int]],
        deadline: Deadline,
    ) -> None:
        """Repeat a request while its coordinator moves, loads or is busy. ``ask`` returns the error code."""
        backoff = Backoff(*self._backoff_ms)
        short = Backoff(_MARKERS_PAUSE_MS, self._backoff_ms[1])
        while True:
            refusal: AdminError | ClientError
            try:
                code = await ask()
                if not code:
                    return
                refusal = admin_error(code, None, coordinator.key)
            except (AdminError, ClientError) as error:
                refusal = error
            verdict = _verdict(operation, refusal)
            if verdict is Verdict.LOOK_UP:
                await coordinator.drop()
            elif verdict is not Verdict.RETRY:
                raise _final(operation, refusal) from refusal
            is_short = getattr(refusal, "code", None) is ErrorCode.CONCURRENT_TRANSACTIONS
            if not await (short if is_short else backoff).pause(deadline):
                raise TransactionTimedOut(
                    f"{operation.value} in {deadline.limit_s:g} s: {refusal}", getattr(refusal, "code", None)
                ) from refusal

    def _limit(self, deadline: Deadline) -> float:
        return min(self._request_timeout_s, max(deadline.remaining_s, 0.001))


def _verdict(operation: Operation, refusal: AdminError | ClientError) -> Verdict:
    if isinstance(refusal, AdminError):
        return verdict_of(operation, refusal.code)
    return Verdict.LOOK_UP if isinstance(refusal, Transient) else Verdict.FATAL


def _final(operation: Operation, refusal: AdminError | ClientError) -> Exception:
    if isinstance(refusal, AdminError):
        return error_of(operation, refusal.code, str(refusal))
    return FatalTransactionError(f"{operation.value}: {refusal}")


def _first_error(codes: Iterable[int]) -> int:
    """Return the most important of several codes: one that says more than that another one prevented the operation."""
    errors = [code for code in codes if code]
    return next((code for code in errors if code != ErrorCode.OPERATION_NOT_ATTEMPTED), errors[0] if errors else 0)


def _offset_topics(offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> list[TxnOffsetCommitRequestTopic]:
    topics: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
    for (topic, partition), committed in sorted(offsets.items(), key=lambda item: item[0]):
        topics.setdefault(topic, []).append(
            TxnOffsetCommitRequestPartition(
                partition_index=partition,
                committed_offset=committed.offset,
                committed_leader_epoch=-1 if committed.leader_epoch is None else committed.leader_epoch,
                committed_metadata=committed.metadata,
            )
        )
    return [TxnOffsetCommitRequestTopic(name=topic, partitions=parts) for topic, parts in topics.items()]
