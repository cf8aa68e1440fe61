"""Asks the coordinator of a transaction whether a partition belongs to it, before a producer's records are appended.

Without this a late request of a producer could open a transaction that its coordinator does not know and never ends
(KIP-890). For a client of version 2 the partition is added at the same time, so that it need not ask itself.

The markers of its previous transaction may not be written yet. The broker then repeats the question for a moment,
because some clients wait for seconds before they repeat a refused batch.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from barnabas.common.error_code import error_of
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.topic_name import TRANSACTION_STATE_TOPIC
from barnabas.coordinator.producer_id_and_epoch import ProducerIdAndEpoch
from barnabas.coordinator.transaction.transaction_metadata import TRANSACTIONS_V2
from barnabas.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Sequence

    from barnabas.broker.metadata_cache import MetadataCache
    from barnabas.broker.ports import OtherBrokers
    from barnabas.common.topic_partition import TopicPartition
    from barnabas.coordinator.transaction.transaction_coordinator import TransactionCoordinator
    from barnabas.coordinator.transaction.transaction_coordinator_config import TransactionCoordinatorConfig
    from barnabas.coordinator.transaction.transaction_coordinator_shard import ProducerResult

__all__ = ["TransactionVerifier"]

_TIMEOUT_S = 5.0
_Codes = dict["TopicPartition", ErrorCode]


class AddPartitions(Protocol):
    """The port to the transactions that this broker coordinates."""

    async def __call__(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        partitions: Collection[TopicPartition],
        *,
        client_version: int,
    ) -> ProducerResult: ...


class TransactionVerifier:
    def __init__(
        self,
        config: TransactionCoordinatorConfig,
        *,
        broker_id: int,
        coordinator: TransactionCoordinator,
        add_partitions: AddPartitions,
        now_ms: Callable[[], int],
        metadata: MetadataCache,
        others: OtherBrokers,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """``add_partitions`` is for a transaction that this broker coordinates; ``pause`` waits for seconds."""
        self._now_ms = now_ms
        self._retry_s = config.add_partitions_to_txn_retry_backoff_ms / 1000
        self._retry_max_ms = config.add_partitions_to_txn_retry_backoff_max_ms
        self._pause = pause
        self._broker_id = broker_id
        self._coordinator = coordinator
        self._add_partitions = add_partitions
        self._metadata = metadata
        self._others = others

    async def verify(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        partitions: Sequence[TopicPartition],
        *,
        renew: Callable[[], bool] | None,
        has_abortable_error: bool,
    ) -> _Codes:
        """Return for each partition NONE or the error for the producer.

        With ``renew``, missing partitions are added. It is called after each answer, and returns whether a marker
        arrived meanwhile: then the answer may be about the transaction that the marker ended, and is not used.
        ``has_abortable_error``: whether the client knows TRANSACTION_ABORTABLE.
        """
        began_ms = self._now_ms()
        while True:
            codes = await self._codes(transactional_id, producer, partitions, adds=renew is not None)
            if renew is None:
                break
            is_early = ErrorCode.CONCURRENT_TRANSACTIONS in codes.values()
            may_wait = is_early and self._now_ms() - began_ms < self._retry_max_ms
            if may_wait:
                await self._pause(self._retry_s)
            if not renew() and not may_wait:
                break
        return {
            partition: _for_client(code, has_abortable_error=has_abortable_error) for partition, code in codes.items()
        }

    async def _codes(
        self, transactional_id: str, producer: ProducerIdAndEpoch, partitions: Sequence[TopicPartition], *, adds: bool
    ) -> _Codes:
        coordinator = self._coordinator
        registration = self._metadata.partition(TRANSACTION_STATE_TOPIC, coordinator.partition_for(transactional_id))
        if registration is None or registration.leader < 0:
            return dict.fromkeys(partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if registration.leader != self._broker_id:
            return await self._ask(registration.leader, transactional_id, producer, partitions, adds=adds)
        if not adds:
            return coordinator.verify(transactional_id, producer, partitions)
        result = await self._add_partitions(transactional_id, producer, partitions, client_version=TRANSACTIONS_V2)
        return dict.fromkeys(partitions, result.error_code)

    async def _ask(
        self,
        leader: int,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        partitions: Sequence[TopicPartition],
        *,
        adds: bool,
    ) -> _Codes:
        topics: dict[str, list[int]] = {}
        for topic, partition in partitions:
            topics.setdefault(topic, []).append(partition)
        request = AddPartitionsToTxnRequest(
            transactions=[
                AddPartitionsToTxnTransaction(
                    transactional_id=transactional_id,
                    producer_id=producer.producer_id,
                    producer_epoch=producer.epoch,
                    verify_only=not adds,
                    topics=[AddPartitionsToTxnTopic(name=name, partitions=ids) for name, ids in topics.items()],
                )
            ]
        )
        try:
            response = await self._others.ask(leader, request, timeout_s=_TIMEOUT_S)
        except ApiException:
            return dict.fromkeys(partitions, ErrorCode.NETWORK_EXCEPTION)
        if response.error_code:
            return dict.fromkeys(partitions, ErrorCode.INVALID_TXN_STATE)
        found = {
            (topic.name, partition.partition_index): error_of(partition.partition_error_code)
            for result in response.results_by_transaction
            for topic in result.topic_results
            for partition in topic.results_by_partition
        }
        return {partition: found.get(partition, ErrorCode.UNKNOWN_SERVER_ERROR) for partition in partitions}


def _for_client(code: ErrorCode, *, has_abortable_error: bool) -> ErrorCode:
    """Return the error as the client knows it."""
    if code is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code is ErrorCode.TRANSACTION_ABORTABLE and not has_abortable_error:
        return ErrorCode.INVALID_TXN_STATE
    return code
