"""TxnOffsetCommit: commits offsets of a group in a transaction (KIP-447). Versions 0 to 5.

Before they are written, the coordinator of the transaction confirms that the group's partition is part of it. A client
of version 5 leaves it to this broker to add the partition (KIP-890).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from barnabas.broker.produce_verification import guard_producer, renew_guards
from barnabas.common.acl import AclOperation
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.resource import ResourceType
from barnabas.common.topic_name import GROUP_METADATA_TOPIC
from barnabas.common.topic_partition import TopicPartition
from barnabas.coordinator.group.group_coordinator import transactional_commit_error
from barnabas.coordinator.producer_id_and_epoch import ProducerIdAndEpoch
from barnabas.network.api_handler import Access, AclRule, handles
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker

_LOADING_SINCE = 2
"""Earlier producers stop at COORDINATOR_LOAD_IN_PROGRESS (KAFKA-7296)."""
_ABORTABLE_SINCE = 4
_ADDS_SINCE = 5
_RETRIABLE = frozenset({ErrorCode.NETWORK_EXCEPTION})


def _error_response(request: TxnOffsetCommitRequest, error: ApiException) -> TxnOffsetCommitResponse:
    return transactional_commit_error(request, error.code)


@handles(
    ApiKey.TXN_OFFSET_COMMIT,
    acl=(
        AclRule(ResourceType.TRANSACTIONAL_ID, AclOperation.WRITE),
        AclRule(ResourceType.GROUP, AclOperation.READ),
        AclRule(ResourceType.TOPIC, AclOperation.READ),
    ),
    on_error=_error_response,
)
async def handle_txn_offset_commit(
    broker: Broker, request: TxnOffsetCommitRequest, access: Access
) -> TxnOffsetCommitResponse:
    if not access.allows(ResourceType.TRANSACTIONAL_ID, AclOperation.WRITE, request.transactional_id):
        raise access.denied(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id)
    if not access.allows(ResourceType.GROUP, AclOperation.READ, request.group_id):
        raise access.denied(AclOperation.READ, ResourceType.GROUP, request.group_id)
    codes = {
        (topic.name, partition.partition_index): code
        for topic in request.topics
        for partition, code in zip(topic.partitions, _codes(broker, topic, access), strict=True)
    }
    asked = request.topics
    request.topics = [
        TxnOffsetCommitRequestTopic(name=topic.name, partitions=accepted)
        for topic in asked
        if (accepted := [item for item in topic.partitions if not codes[topic.name, item.partition_index]])
    ]
    if request.topics:
        committed = await _commit(broker, request, access.context.api_version)
        codes |= {
            (topic.name, partition.partition_index): ErrorCode(partition.error_code)
            for topic in committed.topics
            for partition in topic.partitions
        }
    if access.context.api_version < _LOADING_SINCE:
        codes = {
            key: ErrorCode.COORDINATOR_NOT_AVAILABLE if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS else code
            for key, code in codes.items()
        }
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(
                        partition_index=item.partition_index, error_code=codes[topic.name, item.partition_index]
                    )
                    for item in topic.partitions
                ],
            )
            for topic in asked
        ]
    )


async def _commit(broker: Broker, request: TxnOffsetCommitRequest, version: int) -> TxnOffsetCommitResponse:
    groups = broker.groups
    if broker.settings.transaction_partition_verification_enable:
        number = groups.coordinator.partition_for(request.group_id)
        topic_partition = TopicPartition(GROUP_METADATA_TOPIC, number)
        producer = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
        try:
            partition = broker.replicas.leader_of(topic_partition)
            guards = {topic_partition: guard_producer(partition, producer, is_v2=version >= _ADDS_SINCE)}
        except ApiException as error:
            is_old = error.code is ErrorCode.INVALID_PRODUCER_EPOCH
            return transactional_commit_error(request, error.code if is_old else ErrorCode.NOT_COORDINATOR)
        codes = await broker.transactions.verifier.verify(
            request.transactional_id,
            producer,
            [topic_partition],
            renew=partial(renew_guards, guards, [topic_partition]) if version >= _ADDS_SINCE else None,
            has_abortable_error=version >= _ABORTABLE_SINCE,
        )
        code = codes[topic_partition]
        if code is not ErrorCode.NONE:
            return transactional_commit_error(
                request, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if code in _RETRIABLE else code
            )
        guards[topic_partition].check()
        guards[topic_partition].done()
    return await broker.transactions.settled(groups.coordinator.commit_transactional_offsets(request, groups.now_ms()))


def _codes(broker: Broker, topic: TxnOffsetCommitRequestTopic, access: Access) -> list[ErrorCode]:
    """Return for each partition of the request whether it may be committed."""
    references = len(topic.partitions)
    if not access.allows(ResourceType.TOPIC, AclOperation.READ, topic.name, references=references):
        return [ErrorCode.TOPIC_AUTHORIZATION_FAILED] * references
    return [
        ErrorCode.NONE
        if broker.metadata.partition(topic.name, partition.partition_index) is not None
        else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        for partition in topic.partitions
    ]
