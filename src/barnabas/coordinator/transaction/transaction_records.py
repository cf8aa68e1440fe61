"""The records of ``__transaction_state``: converts between their bytes and the arguments of ``replay``."""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.common.topic_partition import TopicPartition
from barnabas.coordinator.coordinator_result import SingleRecord
from barnabas.coordinator.transaction.transaction_metadata import TransactionMetadata, TransactionState
from barnabas.protocol.errors import DecodeError, UnknownMessageType
from barnabas.protocol.record_serde import CoordinatorKind, decode_coordinator_record, encode_versioned
from barnabas.protocol.records.transaction_log_key import TransactionLogKey
from barnabas.protocol.records.transaction_log_value import PartitionsSchema, TransactionLogValue

__all__ = ["TransactionRecord", "decode_record"]

_KEY = (0).to_bytes(2, "big")
_FLEXIBLE = 1
_PLAIN = 0


@dataclass(frozen=True, slots=True)
class TransactionRecord(SingleRecord):
    """The state of a transactional id, or with ``metadata`` None its removal.

    ``is_flexible``: with the fields of transaction.version 1 and later.
    """

    transactional_id: str
    metadata: TransactionMetadata | None
    is_flexible: bool = True

    def encode_key(self) -> bytes:
        return _KEY + TransactionLogKey(transactional_id=self.transactional_id).encode(0)

    def encode_value(self) -> bytes | None:
        found = self.metadata
        if found is None:
            return None
        value = TransactionLogValue(
            producer_id=found.producer_id,
            producer_epoch=found.producer_epoch,
            transaction_timeout_ms=found.timeout_ms,
            transaction_status=found.state.value,
            # Kafka writes no list for an id without an open transaction, not an empty one.
            transaction_partitions=None if found.state is TransactionState.EMPTY else _by_topic(found.partitions),
            transaction_last_update_timestamp_ms=found.last_update_ms,
            transaction_start_timestamp_ms=found.start_ms,
        )
        if self.is_flexible:
            value.previous_producer_id = found.previous_producer_id
            value.next_producer_id = found.next_producer_id
            value.client_transaction_version = found.client_version
        return encode_versioned(value, _FLEXIBLE if self.is_flexible else _PLAIN)


def _by_topic(partitions: frozenset[TopicPartition]) -> list[PartitionsSchema]:
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        topics.setdefault(topic, []).append(partition)
    return [PartitionsSchema(topic=topic, partition_ids=ids) for topic, ids in topics.items()]


def decode_record(key: bytes, value: bytes | None) -> TransactionRecord | None:
    """Return the record; None for a type that this version does not know. Raise DecodeError."""
    try:
        found = decode_coordinator_record(CoordinatorKind.TRANSACTION, key, value)
    except UnknownMessageType:
        return None
    log_key, log_value = found.key, found.value
    if not isinstance(log_key, TransactionLogKey):
        raise DecodeError(f"a record of __transaction_state has a key of type {type(log_key).__name__}")
    if log_value is None:
        return TransactionRecord(log_key.transactional_id, None)
    if not isinstance(log_value, TransactionLogValue):
        raise DecodeError(f"transactional id {log_key.transactional_id} has a value of type {type(log_value).__name__}")
    metadata = TransactionMetadata(
        log_key.transactional_id,
        producer_id=log_value.producer_id,
        producer_epoch=log_value.producer_epoch,
        timeout_ms=log_value.transaction_timeout_ms,
        state=_state(log_key.transactional_id, log_value.transaction_status),
        partitions=frozenset(
            TopicPartition(topic.topic, partition)
            for topic in log_value.transaction_partitions or ()
            for partition in topic.partition_ids
        ),
        start_ms=log_value.transaction_start_timestamp_ms,
        last_update_ms=log_value.transaction_last_update_timestamp_ms,
        previous_producer_id=log_value.previous_producer_id,
        next_producer_id=log_value.next_producer_id,
        client_version=log_value.client_transaction_version,
    )
    return TransactionRecord(log_key.transactional_id, metadata, found.version >= _FLEXIBLE)


def _state(transactional_id: str, status: int) -> TransactionState:
    try:
        return TransactionState(status)
    except ValueError:
        raise DecodeError(f"transactional id {transactional_id} has the unknown state {status}") from None
