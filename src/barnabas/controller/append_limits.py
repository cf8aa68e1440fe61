"""Limits on the records of one decision.

Atomic records must fit one batch of the metadata log. A decision that does not fit must be refused before it is
replayed: later decisions depend on it, so the log can't refuse it afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.controller import decision_steps
from barnabas.controller.decision_steps import Pace, Steps
from barnabas.metadata.image.record_writer import ApiMessageAndVersion
from barnabas.protocol.errors import EncodeError
from barnabas.protocol.record_serde import encode_metadata_record
from barnabas.protocol.records.partition_change_record import PartitionChangeRecord
from barnabas.protocol.records.partition_record import PartitionRecord
from barnabas.protocol.records.topic_record import TopicRecord

__all__ = ["BATCH_MAX_BYTES", "encoded", "room_in_batch"]

BATCH_MAX_BYTES: Final = 8 * 1024 * 1024
"""Kafka's limit for a batch of the metadata log."""

_BATCH_OVERHEAD = 128
_RECORD_OVERHEAD = 32
_TOPIC_BYTES_MAX = 300
_PARTITION_BYTES = 64
_REPLICA_BYTES_MAX = 64
_TOO_LARGE = "Unable to perform excessively large batch operation."


def room_in_batch(records: Sequence[ApiMessageAndVersion], *, is_atomic: bool, max_records: int) -> Steps[int]:
    """Return how many bytes of a batch are left for one more record.

    Raises POLICY_VIOLATION unless the log will accept the records; INVALID_REQUEST for a value that no record can hold.
    """
    if is_atomic and len(records) > max_records:
        raise ApiException(ErrorCode.POLICY_VIOLATION, _TOO_LARGE)
    total = _BATCH_OVERHEAD
    pace = Pace(decision_steps.VALUES_A_STEP)
    for record in records:
        try:
            size = _size_bound(record)
        except EncodeError as error:
            raise ApiException(ErrorCode.INVALID_REQUEST, f"This can't be stored: {error}") from error
        total = (total if is_atomic else _BATCH_OVERHEAD) + _RECORD_OVERHEAD + size
        if total > BATCH_MAX_BYTES:
            raise ApiException(ErrorCode.POLICY_VIOLATION, _TOO_LARGE)
        if pace.is_reached():
            yield
    return BATCH_MAX_BYTES - (total if is_atomic else _BATCH_OVERHEAD) - _RECORD_OVERHEAD


def encoded(records: Sequence[ApiMessageAndVersion]) -> Steps[list[bytes] | None]:
    """Encode many records in several steps and return their values; return None for few records."""
    if len(records) < decision_steps.VALUES_A_STEP:
        return None
    values: list[bytes] = []
    pace = Pace(decision_steps.VALUES_A_STEP)
    for record in records:
        values.append(encode_metadata_record(record.message, record.version))
        if pace.is_reached():
            yield
    return values


def _size_bound(record: ApiMessageAndVersion) -> int:
    """Return an upper bound of the encoded size: estimated for frequent records, measured for the others."""
    message = record.message
    kind = type(message)
    if kind is TopicRecord:
        return _TOPIC_BYTES_MAX
    if kind is PartitionRecord:
        return _PARTITION_BYTES + _REPLICA_BYTES_MAX * len(message.replicas)
    if kind is PartitionChangeRecord:
        lists = (message.isr, message.replicas, message.eligible_leader_replicas, message.directories)
        return _PARTITION_BYTES + _REPLICA_BYTES_MAX * sum(len(ids) for ids in lists if ids)
    return len(encode_metadata_record(message, record.version))
