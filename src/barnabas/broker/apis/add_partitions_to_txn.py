"""AddPartitionsToTxn: adds partitions to the transaction of a producer. Versions 0 to 5.

Clients send versions up to 3. From 4 on the senders are brokers, for several transactions at once: they verify that a
partition is part of a transaction before they write in it, or add it for a client of transaction.version 2 (KIP-890).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from barnabas.broker.auto_topic_creation import INTERNAL_TOPICS
from barnabas.common.acl import AclOperation
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.resource import ResourceType
from barnabas.common.topic_partition import TopicPartition
from barnabas.coordinator.producer_id_and_epoch import ProducerIdAndEpoch
from barnabas.coordinator.transaction.transaction_metadata import TRANSACTIONS_V2
from barnabas.network.api_handler import Access, AclRule, handles
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from barnabas.broker.broker import Broker

_OF_BROKERS_SINCE = 4
_FENCED_SINCE = 2

_Codes = dict[TopicPartition, ErrorCode]


def _error_response(request: AddPartitionsToTxnRequest, error: ApiException) -> AddPartitionsToTxnResponse:
    topics = request.v3_and_below_topics
    if not topics:
        return AddPartitionsToTxnResponse(error_code=error.code)
    return AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=_results(dict.fromkeys(_partitions(topics), error.code))
    )


@handles(
    ApiKey.ADD_PARTITIONS_TO_TXN,
    acl=(
        AclRule(ResourceType.TRANSACTIONAL_ID, AclOperation.WRITE),
        AclRule(ResourceType.TOPIC, AclOperation.WRITE),
        AclRule(ResourceType.CLUSTER, AclOperation.CLUSTER_ACTION),
    ),
    on_error=_error_response,
)
async def handle_add_partitions_to_txn(
    broker: Broker, request: AddPartitionsToTxnRequest, access: Access
) -> AddPartitionsToTxnResponse:
    if access.context.api_version < _OF_BROKERS_SINCE:
        transaction = AddPartitionsToTxnTransaction(
            transactional_id=request.v3_and_below_transactional_id,
            producer_id=request.v3_and_below_producer_id,
            producer_epoch=request.v3_and_below_producer_epoch,
            topics=request.v3_and_below_topics,
        )
        codes = await _add_for_client(broker, transaction, access)
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_results(codes))
    if not access.allows_on_cluster(AclOperation.CLUSTER_ACTION):
        raise access.denied(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER)
    # Together: one of them may have to wait.
    codes_by_transaction = await asyncio.gather(
        *(_add_for_broker(broker, transaction) for transaction in request.transactions)
    )
    return AddPartitionsToTxnResponse(
        results_by_transaction=[
            AddPartitionsToTxnResult(transactional_id=transaction.transactional_id, topic_results=_results(codes))
            for transaction, codes in zip(request.transactions, codes_by_transaction, strict=True)
        ]
    )


async def _add_for_client(broker: Broker, transaction: AddPartitionsToTxnTransaction, access: Access) -> _Codes:
    partitions = _partitions(transaction.topics)
    transactional_id = transaction.transactional_id
    if not access.allows(ResourceType.TRANSACTIONAL_ID, AclOperation.WRITE, transactional_id):
        return dict.fromkeys(partitions, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    topics = [partition.topic for partition in partitions if partition.topic not in INTERNAL_TOPICS]
    allowed = access.allowed(ResourceType.TOPIC, AclOperation.WRITE, topics)
    refused = {
        partition: ErrorCode.TOPIC_AUTHORIZATION_FAILED for partition in partitions if partition.topic not in allowed
    }
    codes = await _add(broker, transaction, partitions, refused, client_version=0)
    if access.context.api_version < _FENCED_SINCE:
        return {
            partition: ErrorCode.INVALID_PRODUCER_EPOCH if code is ErrorCode.PRODUCER_FENCED else code
            for partition, code in codes.items()
        }
    return codes


async def _add_for_broker(broker: Broker, transaction: AddPartitionsToTxnTransaction) -> _Codes:
    partitions = _partitions(transaction.topics)
    if not transaction.verify_only:
        return await _add(broker, transaction, partitions, {}, client_version=TRANSACTIONS_V2)
    unknown = _unknown(broker, partitions)
    if unknown:
        return {partition: unknown.get(partition, ErrorCode.OPERATION_NOT_ATTEMPTED) for partition in partitions}
    producer = ProducerIdAndEpoch(transaction.producer_id, transaction.producer_epoch)
    return broker.transactions.coordinator.verify(transaction.transactional_id, producer, partitions)


async def _add(
    broker: Broker,
    transaction: AddPartitionsToTxnTransaction,
    partitions: Sequence[TopicPartition],
    refused: _Codes,
    *,
    client_version: int,
) -> _Codes:
    """Add all partitions, or none of them if one is refused or does not exist."""
    failed = {**_unknown(broker, partitions), **refused}
    if failed:
        return {partition: failed.get(partition, ErrorCode.OPERATION_NOT_ATTEMPTED) for partition in partitions}
    result = await broker.transactions.add_partitions(
        transaction.transactional_id,
        ProducerIdAndEpoch(transaction.producer_id, transaction.producer_epoch),
        partitions,
        client_version=client_version,
    )
    return dict.fromkeys(partitions, result.error_code)


def _unknown(broker: Broker, partitions: Sequence[TopicPartition]) -> _Codes:
    return {
        partition: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        for partition in partitions
        if broker.metadata.partition(*partition) is None
    }


def _partitions(topics: Sequence[AddPartitionsToTxnTopic]) -> list[TopicPartition]:
    return [TopicPartition(topic.name, partition) for topic in topics for partition in topic.partitions]


def _results(codes: Mapping[TopicPartition, ErrorCode]) -> list[AddPartitionsToTxnTopicResult]:
    topics: dict[str, list[AddPartitionsToTxnPartitionResult]] = {}
    for (topic, partition), code in codes.items():
        result = AddPartitionsToTxnPartitionResult(partition_index=partition, partition_error_code=code)
        topics.setdefault(topic, []).append(result)
    return [AddPartitionsToTxnTopicResult(name=name, results_by_partition=found) for name, found in topics.items()]
