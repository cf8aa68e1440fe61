"""Check the sequences of idempotent producers in a partition's log: without gaps or repeats, whatever the clients did.

A client may still write a record twice, in a new epoch: librdkafka begins one for all partitions when one of them says
OUT_OF_ORDER_SEQUENCE_NUMBER, which is normal for the batches behind one that failed (its issue 4953, open). No broker
can recognize such a record. With one request in flight it never does this.
"""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.protocol.record_batch import BatchView
from tests.history.violations import Broken, Violation

__all__ = ["check_sequences", "is_another_epoch"]

_SEQUENCES = 1 << 31


def check_sequences(partition: str, batches: Mapping[int, bytes]) -> list[Violation]:
    """``batches`` are by base offset, from a log that begins with offset 0. A transaction's marker has no sequence; its
    epoch may be a new one, which begins with 0 again."""
    found: list[Violation] = []
    last: dict[int, tuple[int, int]] = {}
    for offset in sorted(batches):
        batch = BatchView(batches[offset])
        if batch.producer_id < 0:
            continue
        epoch, expected = last.get(batch.producer_id, (-1, 0))
        if batch.producer_epoch > epoch:
            expected = 0
        if batch.is_control:
            last[batch.producer_id] = max(epoch, batch.producer_epoch), expected
            continue
        if batch.producer_epoch < epoch or batch.base_sequence != expected:
            found_sequence = (
                f"producer {batch.producer_id} in epoch {batch.producer_epoch}, sequence {batch.base_sequence}"
            )
            was = f"{expected} of epoch {epoch} was next"
            found.append(Violation(Broken.REPEATED, f"{partition} at offset {offset}: {found_sequence}, where {was}"))
        count = batch.last_offset - batch.base_offset + 1
        last[batch.producer_id] = batch.producer_epoch, (batch.base_sequence + count) % _SEQUENCES
    return found


def is_another_epoch(batches: Mapping[int, bytes], first: int, second: int) -> bool:
    """Return whether the client wrote the batches at the two offsets under different epochs or ids."""
    [former, latter] = [_producer(batches, offset) for offset in (first, second)]
    return former is not None and latter is not None and former != latter


def _producer(batches: Mapping[int, bytes], offset: int) -> tuple[int, int] | None:
    base = max((start for start in batches if start <= offset), default=None)
    if base is None or (batch := BatchView(batches[base])).last_offset < offset:
        return None
    return batch.producer_id, batch.producer_epoch
