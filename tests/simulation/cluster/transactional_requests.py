"""The requests of a transactional producer, of both kinds of clients (KIP-890), and the meaning of their errors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from barnabas.common.errors import ErrorCode
from barnabas.protocol.messages import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    end_txn,
    init_producer_id,
    offset_fetch,
    produce,
    txn_offset_commit,
)

__all__ = [
    "ABORTABLE",
    "FENCED",
    "REFUSED",
    "RETRIED",
    "Identity",
    "Versions",
    "add_group",
    "add_partitions",
    "code_of_added",
    "commit_offset",
    "end",
    "fetch_offset",
    "init",
    "write",
]

DATA_TOPIC = "data"
INPUT = 0
"""The partition that copying clients pretend to read."""

RETRIED = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.OPERATION_NOT_ATTEMPTED,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
    }
)
FENCED = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.PRODUCER_FENCED,
    }
)
"""Another producer has the id, or the transaction was ended by its time-out: the client begins again."""
ABORTABLE = frozenset(
    {
        ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.TRANSACTION_ABORTABLE,
        ErrorCode.UNKNOWN_PRODUCER_ID,
    }
)
REFUSED = FENCED | {ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.TRANSACTION_ABORTABLE}
"""Errors of EndTxn that certainly had no effect."""


class Identity(NamedTuple):
    producer_id: int
    epoch: int


class Versions(NamedTuple):
    """The versions of requests that differ between the two kinds of clients."""

    produce: int
    end: int
    offsets: int

    @classmethod
    def of(cls, *, is_v2: bool) -> Versions:
        return cls(13, 5, 5) if is_v2 else cls(11, 4, 4)


ADD_PARTITIONS_VERSION = 3
ADD_GROUP_VERSION = 4


def init(transactional_id: str, timeout_ms: int, identity: Identity | None) -> Any:
    """``identity``: what a client has that recovers from an error (KIP-360)."""
    producer_id, epoch = identity or (-1, -1)
    return init_producer_id.InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=timeout_ms,
        producer_id=producer_id,
        producer_epoch=epoch,
    )


def add_partitions(transactional_id: str, identity: Identity, partitions: Iterable[int]) -> Any:
    topic = add_partitions_to_txn.AddPartitionsToTxnTopic(name=DATA_TOPIC, partitions=list(partitions))
    return add_partitions_to_txn.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=identity.producer_id,
        v3_and_below_producer_epoch=identity.epoch,
        v3_and_below_topics=[topic],
    )


def code_of_added(response: Any) -> ErrorCode:
    """Return the first error of an answer to ``add_partitions``."""
    codes = [
        ErrorCode(partition.partition_error_code)
        for topic in response.results_by_topic_v3_and_below
        for partition in topic.results_by_partition
    ]
    return next((code for code in codes if code is not ErrorCode.NONE), ErrorCode.NONE)


def add_group(transactional_id: str, identity: Identity, group: str) -> Any:
    return add_offsets_to_txn.AddOffsetsToTxnRequest(
        transactional_id=transactional_id,
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
        group_id=group,
    )


def write(transactional_id: str, topic_id: Any, index: int, batch: bytes, timeout_ms: int) -> Any:
    data = produce.PartitionProduceData(index=index, records=batch)
    topic = produce.TopicProduceData(name=DATA_TOPIC, topic_id=topic_id, partition_data=[data])
    return produce.ProduceRequest(transactional_id=transactional_id, acks=-1, timeout_ms=timeout_ms, topic_data=[topic])


def commit_offset(transactional_id: str, identity: Identity, group: str, offset: int) -> Any:
    partition = txn_offset_commit.TxnOffsetCommitRequestPartition(partition_index=INPUT, committed_offset=offset)
    topic = txn_offset_commit.TxnOffsetCommitRequestTopic(name=DATA_TOPIC, partitions=[partition])
    return txn_offset_commit.TxnOffsetCommitRequest(
        transactional_id=transactional_id,
        group_id=group,
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
        topics=[topic],
    )


def fetch_offset(group: str, topic_id: Any) -> Any:
    topic = offset_fetch.OffsetFetchRequestTopics(name=DATA_TOPIC, topic_id=topic_id, partition_indexes=[INPUT])
    wanted = offset_fetch.OffsetFetchRequestGroup(group_id=group, topics=[topic])
    return offset_fetch.OffsetFetchRequest(groups=[wanted], require_stable=True)


def end(transactional_id: str, identity: Identity, *, is_commit: bool) -> Any:
    return end_txn.EndTxnRequest(
        transactional_id=transactional_id,
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
        committed=is_commit,
    )
