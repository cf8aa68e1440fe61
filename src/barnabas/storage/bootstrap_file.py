"""``bootstrap.checkpoint``: the records that the first active controller puts into an empty metadata log.

Every formatted directory has one, a broker's too. It has the form of a snapshot of epoch 0; the voters are not in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from barnabas.protocol.errors import DecodeError
from barnabas.protocol.record_batch import iter_batches
from barnabas.protocol.records.snapshot_footer_record import SnapshotFooterRecord
from barnabas.protocol.records.snapshot_header_record import SnapshotHeaderRecord
from barnabas.raft.batch_accumulator import BatchAccumulator
from barnabas.raft.ports import RecordSerde
from barnabas.storage.checkpoint_file import write_atomically
from barnabas.storage.errors import CorruptFileError, StorageError
from barnabas.storage.file_io import naming

__all__ = ["BOOTSTRAP_CHECKPOINT", "read_bootstrap_file", "write_bootstrap_file"]

BOOTSTRAP_CHECKPOINT = "bootstrap.checkpoint"
_BATCH_MAX_BYTES = 8 * 1024 * 1024


def bootstrap_path(directory: str) -> str:
    return f"{directory}/{BOOTSTRAP_CHECKPOINT}"


def write_bootstrap_file(directory: str, records: Sequence[object], *, serde: RecordSerde, now_ms: int) -> None:
    accumulator = BatchAccumulator(
        epoch=0, base_offset=0, serde=serde, batch_max_bytes=_BATCH_MAX_BYTES, batch_max_records=1 << 31
    )
    accumulator.append_control([SnapshotHeaderRecord(version=0, last_contained_log_timestamp=0)], now_ms)
    accumulator.append(records, now_ms, is_atomic=False)
    accumulator.append_control([SnapshotFooterRecord(version=0)], now_ms)
    write_atomically(bootstrap_path(directory), b"".join(bytes(batch.data) for batch in accumulator.drain()))


def read_bootstrap_file(directory: str, serde: RecordSerde) -> list[Any] | None:
    """Return the records; None if the directory does not have the file, and the node's defaults apply."""
    path = bootstrap_path(directory)
    try:
        with naming(path), open(path, "rb") as file:
            data = file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StorageError(f"{path}: {error.strerror}") from error
    records: list[object] = []
    try:
        for batch in iter_batches(data):
            batch.ensure_valid()
            if not batch.is_control:
                records.extend(_decoded((record.value for record in batch.records()), serde))
    except DecodeError as error:
        raise CorruptFileError(path, str(error)) from error
    if not records:
        raise CorruptFileError(path, "it holds no records")
    return records


def _decoded(values: Iterable[bytes | None], serde: RecordSerde) -> list[object]:
    return [serde.decode(value) for value in values if value is not None]
