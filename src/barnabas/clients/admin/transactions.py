"""Operations on producers and transactions: list the producers of a partition, find and end hanging transactions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from barnabas.clients.admin.errors import AdminError, admin_error
from barnabas.clients.admin.operations import refuse_unless
from barnabas.clients.admin.partitions import PartitionOperations, by_topic
from barnabas.clients.admin.results import Listings, Results
from barnabas.clients.admin.retry import COORDINATOR_MOVED, LEADER_MOVED, RETRIED
from barnabas.clients.admin.routing import Target, broker
from barnabas.common.error_code import ErrorCode
from barnabas.common.topic_partition import TopicPartition
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    TopicRequest,
)
from barnabas.protocol.messages.describe_transactions import DescribeTransactionsRequest, TransactionState
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest
from barnabas.protocol.messages.list_transactions import ListTransactionsRequest
from barnabas.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

__all__ = [
    "FencedProducer",
    "ProducerState",
    "TransactionDescription",
    "TransactionListing",
    "TransactionListings",
    "TransactionOperations",
]

_TRANSACTION = 1


@dataclass(frozen=True, slots=True)
class ProducerState:
    """``transaction_start_offset`` is None outside a transaction, times are None where unset."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int | None
    coordinator_epoch: int | None
    transaction_start_offset: int | None


@dataclass(frozen=True, slots=True)
class TransactionListing:
    """``coordinator_id`` is the broker that returned it."""

    transactional_id: str
    producer_id: int
    state: str
    coordinator_id: int = -1


class TransactionListings(Listings[TransactionListing]):
    """The transactions by id."""

    __slots__ = ()

    @property
    def transactions(self) -> tuple[TransactionListing, ...]:
        return self.items


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    transactional_id: str
    state: str
    timeout_ms: int
    start_time_ms: int | None
    producer_id: int
    producer_epoch: int
    partitions: tuple[TopicPartition, ...]
    coordinator_id: int = -1


@dataclass(frozen=True, slots=True)
class FencedProducer:
    """The id and epoch that fence older producers from now on."""

    producer_id: int
    producer_epoch: int


class TransactionOperations(PartitionOperations):
    async def describe_producers(
        self, partitions: Iterable[TopicPartition], *, broker_id: int | None = None, timeout_s: float | None = None
    ) -> Results[TopicPartition, tuple[ProducerState, ...]]:
        """Return the producers that the leader of each partition knows, or the replica of a broker."""
        deadline = self._deadline(timeout_s)

        def build(left: Sequence[TopicPartition]) -> DescribeProducersRequest:
            return DescribeProducersRequest(
                topics=[
                    TopicRequest(name=topic, partition_indexes=[partition.partition for partition in part])
                    for topic, part in by_topic(left)
                ]
            )

        def read(
            response: DescribeProducersResponse,
        ) -> Iterable[tuple[TopicPartition, tuple[ProducerState, ...] | AdminError]]:
            return (
                (TopicPartition(topic.name, partition.partition_index), _producers(topic.name, partition))
                for topic in response.topics
                for partition in topic.partitions
            )

        api = ApiKey.DESCRIBE_PRODUCERS
        if broker_id is None:
            return await self._at_leaders(partitions, build, read, deadline, api=api)
        replica = broker(broker_id)
        return await self._items(
            partitions, build, read, deadline, api=api, target=replica, retried=RETRIED - LEADER_MOVED
        )

    async def list_transactions(
        self,
        *,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        longer_than_ms: int | None = None,
        transactional_id_pattern: str | None = None,
        timeout_s: float | None = None,
    ) -> TransactionListings:
        """List the transactions of every broker, or those in these states, of these producers or older than a duration.

        The pattern is a regular expression of RE2 for whole ids, from Kafka 4.1 on.
        """
        deadline = self._deadline(timeout_s)
        request = ListTransactionsRequest(
            state_filters=list(states),
            producer_id_filters=list(producer_ids),
            duration_filter=-1 if longer_than_ms is None else longer_than_ms,
            transactional_id_pattern=transactional_id_pattern,
        )
        at_least = 2 if transactional_id_pattern is not None else 1 if longer_than_ms is not None else 0

        async def ask(part: Sequence[int], target: Target) -> Results[int, list[TransactionListing]]:
            response = await self._call(
                request, deadline, api=ApiKey.LIST_TRANSACTIONS, target=target, at_least=at_least
            )
            refuse_unless(not response.unknown_state_filters, f"unknown states: {response.unknown_state_filters}")
            listed = [
                TransactionListing(state.transactional_id, state.producer_id, state.transaction_state, part[0])
                for state in response.transaction_states
            ]
            return Results({part[0]: listed}, {})

        found = await self._from_each(await self._live_brokers(deadline), ask)
        listed = sorted(
            (listing for some in found.values.values() for listing in some),
            key=lambda listing: listing.transactional_id,
        )
        return TransactionListings(tuple(listed), found.errors)

    async def describe_transactions(
        self, transactional_ids: Iterable[str], *, timeout_s: float | None = None
    ) -> Results[str, TransactionDescription]:
        deadline = self._deadline(timeout_s)

        async def ask(part: Sequence[str], target: Target) -> Results[str, TransactionDescription]:
            return await self._items(
                part,
                lambda left: DescribeTransactionsRequest(transactional_ids=list(left)),
                lambda response: (
                    (state.transactional_id, _transaction(state, -1 if target.node is None else target.node))
                    for state in response.transaction_states
                ),
                deadline,
                api=ApiKey.DESCRIBE_TRANSACTIONS,
                target=target,
                retried=RETRIED - COORDINATOR_MOVED,
            )

        return await self._placed(
            transactional_ids,
            lambda left: self._router.coordinators(_TRANSACTION, left),
            ask,
            deadline,
            moved=COORDINATOR_MOVED,
            forget=lambda left: self._router.forget_coordinators(_TRANSACTION, left),
        )

    async def fence_producers(
        self, transactional_ids: Iterable[str], *, timeout_s: float | None = None
    ) -> Results[str, FencedProducer]:
        """Fence all producers that use these ids, and abort their transactions."""
        deadline = self._deadline(timeout_s)

        async def ask(part: Sequence[str], target: Target) -> Results[str, FencedProducer]:
            values: dict[str, FencedProducer] = {}
            errors: dict[str, AdminError] = {}
            for transactional_id in part:
                # The time-out applies to transactions that a producer of this id and epoch begins, and it begins none.
                request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=1)
                try:
                    response = await self._call(
                        request, deadline, api=ApiKey.INIT_PRODUCER_ID, target=target,
                        retried=(RETRIED | {ErrorCode.CONCURRENT_TRANSACTIONS}) - COORDINATOR_MOVED,
                    )  # fmt: skip
                except AdminError as error:
                    errors[transactional_id] = admin_error(error.code, error.message, transactional_id)
                else:
                    values[transactional_id] = FencedProducer(response.producer_id, response.producer_epoch)
            return Results(values, errors)

        return await self._placed(
            transactional_ids,
            lambda left: self._router.coordinators(_TRANSACTION, left),
            ask,
            deadline,
            moved=COORDINATOR_MOVED,
            forget=lambda left: self._router.forget_coordinators(_TRANSACTION, left),
        )

    async def abort_transaction(
        self,
        partition: TopicPartition,
        *,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int = -1,
        timeout_s: float | None = None,
    ) -> None:
        """End a transaction that hangs in a partition; ``describe_producers`` returns the three numbers."""
        refuse_unless(producer_id >= 0 and producer_epoch >= 0, f"{partition}: no producer {producer_id}")
        marker = WritableTxnMarker(
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            transaction_result=False,
            topics=[WritableTxnMarkerTopic(name=partition.topic, partition_indexes=[partition.partition])],
            coordinator_epoch=max(coordinator_epoch, 0),
        )
        results: Results[TopicPartition, None] = await self._at_leaders(
            [partition],
            lambda left: WriteTxnMarkersRequest(markers=[marker]),
            lambda response: (
                (partition, admin_error(result.error_code, None, partition) if result.error_code else None)
                for done in response.markers
                for topic in done.topics
                for result in topic.partitions
            ),
            self._deadline(timeout_s),
            api=ApiKey.WRITE_TXN_MARKERS,
        )
        results.raise_for_errors()


def _producers(topic: str, result: PartitionResponse) -> tuple[ProducerState, ...] | AdminError:
    if result.error_code:
        return admin_error(result.error_code, result.error_message, TopicPartition(topic, result.partition_index))
    return tuple(
        ProducerState(
            state.producer_id,
            state.producer_epoch,
            state.last_sequence,
            _known(state.last_timestamp),
            _known(state.coordinator_epoch),
            _known(state.current_txn_start_offset),
        )
        for state in result.active_producers
    )


def _transaction(state: TransactionState, coordinator_id: int) -> TransactionDescription | AdminError:
    if state.error_code:
        return admin_error(state.error_code, None, state.transactional_id)
    return TransactionDescription(
        state.transactional_id,
        state.transaction_state,
        state.transaction_timeout_ms,
        _known(state.transaction_start_time_ms),
        state.producer_id,
        state.producer_epoch,
        tuple(sorted(TopicPartition(topic.topic, number) for topic in state.topics for number in topic.partitions)),
        coordinator_id,
    )


def _known(number: int) -> int | None:
    return number if number >= 0 else None
