"""The control batch that ends a producer's transaction in one partition: its commit or abort marker (KIP-98)."""

from __future__ import annotations

from barnabas.protocol.control_record import ControlRecordType, encode_control_record
from barnabas.protocol.record_batch import Record
from barnabas.protocol.record_batch_builder import build_batch
from barnabas.protocol.records.end_txn_marker import EndTxnMarker

__all__ = ["end_transaction_batch"]


def end_transaction_batch(
    producer_id: int, producer_epoch: int, *, is_commit: bool, coordinator_epoch: int, timestamp_ms: int
) -> bytes:
    kind = ControlRecordType.COMMIT if is_commit else ControlRecordType.ABORT
    key, value = encode_control_record(kind, EndTxnMarker(coordinator_epoch=coordinator_epoch))
    return build_batch(
        [Record(0, timestamp_ms, key, value)],
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=True,
        is_control=True,
    )
