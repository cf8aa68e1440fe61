"""Producers and transactions: who writes to a partition, and what hangs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from barnabas.clients.admin.errors import AdminError, admin_error
from barnabas.clients.admin.operations import Request, refuse_unless
from barnabas.clients.admin.partitions import PartitionOperations, by_topic
from barnabas.clients.admin.results import Results
from barnabas.clients.admin.retry import COORDINATOR_MOVED, RETRIED
from barnabas.clients.admin.routing import Target
from barnabas.common.topic_partition import TopicPartition
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from barnabas.protocol.messages.describe_transactions import DescribeTransactionsRequest
from barnabas.protocol.messages.list_transactions import ListTransactionsRequest
from barnabas.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

__all__ = [
    "ProducerState",
    "TransactionDescription",
    "TransactionListing",
    "TransactionListings",
    "TransactionOperations",
]

_TRANSACTION = 1


@dataclass(frozen=True, slots=True)
class ProducerState:
    """``transaction_start_offset`` is None outside a transaction, times are None where there is none."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int | None
    coordinator_epoch: int | None
    transaction_start_offset: int | None


@dataclass(frozen=True, slots=True)
class TransactionListing:
    transactional_id: str
    producer_id: int
    state: str


@dataclass(frozen=True, slots=True)
class TransactionListings:
    """The transactions by id, and the brokers that could not be asked for theirs."""

    transactions: tuple[TransactionListing, ...]
    errors: Mapping[int, AdminError]

    def raise_for_errors(self) -> tuple[TransactionListing, ...]:
        Results({}, self.errors).raise_for_errors()
        return self.transactions


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    transactional_id: str
    state: str
    timeout_ms: int
    start_time_ms: int | None
    producer_id: int
    producer_epoch: int
    partitions: tuple[TopicPartition, ...]


class TransactionOperations(PartitionOperations):
    async def describe_producers(
        self, partitions: Iterable[TopicPartition], *, timeout_s: float | None = None
    ) -> Results[TopicPartition, tuple[ProducerState, ...]]:
        """The producers that the leader of each partition knows."""

        def build(left: Sequence[TopicPartition]) -> Request:
            return DescribeProducersRequest(
                topics=[
                    TopicRequest(name=topic, partition_indexes=[each.partition for each in part])
                    for topic, part in by_topic(left)
                ]
            )

        return await self._at_leaders(
            partitions,
            build,
            lambda response: (
                (TopicPartition(topic.name, each.partition_index), _producers(topic.name, each))
                for topic in response.topics
                for each in topic.partitions
            ),
            self._deadline(timeout_s),
            api=ApiKey.DESCRIBE_PRODUCERS,
        )

    async def list_transactions(
        self,
        *,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        longer_than_ms: int | None = None,
        timeout_s: float | None = None,
    ) -> TransactionListings:
        """The transactions of every broker, or those in these states, of these producers or older than so long."""
        deadline = self._deadline(timeout_s)
        request = ListTransactionsRequest(
            state_filters=list(states),
            producer_id_filters=list(producer_ids),
            duration_filter=-1 if longer_than_ms is None else longer_than_ms,
        )

        async def ask(part: Sequence[int], target: Target) -> Results[int, list[TransactionListing]]:
            response = await self._call(request, deadline, api=ApiKey.LIST_TRANSACTIONS, target=target)
            refuse_unless(not response.unknown_state_filters, f"no such state: {response.unknown_state_filters}")
            listed = [
                TransactionListing(each.transactional_id, each.producer_id, each.transaction_state)
                for each in response.transaction_states
            ]
            return Results({part[0]: listed}, {})

        found = await self._from_each(await self._live_brokers(deadline), ask)
        listed = sorted(
            (each for some in found.values.values() for each in some), key=lambda each: each.transactional_id
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
                lambda response: ((each.transactional_id, _transaction(each)) for each in response.transaction_states),
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

    async def abort_transaction(
        self,
        partition: TopicPartition,
        *,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int = -1,
        timeout_s: float | None = None,
    ) -> None:
        """End a transaction that hangs in a partition; ``describe_producers`` tells the three numbers."""
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
                (partition, admin_error(each.error_code, None, partition) if each.error_code else None)
                for done in response.markers
                for topic in done.topics
                for each in topic.partitions
            ),
            self._deadline(timeout_s),
            api=ApiKey.WRITE_TXN_MARKERS,
        )
        results.raise_for_errors()


def _producers(topic: str, each: Any) -> tuple[ProducerState, ...] | AdminError:
    if each.error_code:
        return admin_error(each.error_code, each.error_message, TopicPartition(topic, each.partition_index))
    return tuple(
        ProducerState(
            state.producer_id,
            state.producer_epoch,
            state.last_sequence,
            _known(state.last_timestamp),
            _known(state.coordinator_epoch),
            _known(state.current_txn_start_offset),
        )
        for state in each.active_producers
    )


def _transaction(each: Any) -> TransactionDescription | AdminError:
    if each.error_code:
        return admin_error(each.error_code, None, each.transactional_id)
    return TransactionDescription(
        each.transactional_id,
        each.transaction_state,
        each.transaction_timeout_ms,
        _known(each.transaction_start_time_ms),
        each.producer_id,
        each.producer_epoch,
        tuple(sorted(TopicPartition(topic.topic, number) for topic in each.topics for number in topic.partitions)),
    )


def _known(number: int) -> int | None:
    return number if number >= 0 else None
