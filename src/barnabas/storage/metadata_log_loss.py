"""Lists record by record what is lost when a damaged metadata log is truncated to its readable prefix.

Records after the damage are listed if they can still be read; a range that cannot be read is listed as such.
Values that may be secret (credentials, values of configs) are left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from barnabas.common.errors import InvariantViolated
from barnabas.protocol.control_record import decode_control_record
from barnabas.protocol.errors import DecodeError
from barnabas.protocol.record_batch import BatchView, Record
from barnabas.protocol.record_serde import decode_metadata_record
from barnabas.storage.damaged_files import LogDamage
from barnabas.storage.file_pool import FilePool
from barnabas.storage.metadata_log import METADATA_LOG_DIRECTORY
from barnabas.storage.metadata_log_check import BadPlace, BatchBehind, batches_behind
from barnabas.storage.metadata_log_opening import segment_sizes
from barnabas.storage.segment import Segment

__all__ = ["describe_loss"]

_CONTENT_MAX = 200
_SECRET_FIELDS = frozenset({"salt", "storedKey", "serverKey", "value"})


def describe_loss(log_dir: str, damage: LogDamage) -> Iterator[str]:
    """Yield one line for each lost record that can still be read, and for each range of offsets that cannot."""
    next_offset, place = damage.offset, f"{damage.path}, position {damage.position}"
    for segment, found, _ in _batches_behind(log_dir, damage):
        if found.base_offset > next_offset:
            yield _unreadable(next_offset, found.base_offset, place)
        batch = BatchView(segment.read(found.position, found.size), 0)
        for record in batch.records():
            offset = found.base_offset + record.offset - batch.base_offset
            if offset >= damage.offset:
                yield f"  {offset}  {_content(record, is_control=found.is_control)}"
        next_offset, place = found.last_offset + 1, f"{segment.path}, position {found.position + found.size}"
    if next_offset < damage.known_end:
        yield _unreadable(next_offset, damage.known_end, place)


def _batches_behind(log_dir: str, damage: LogDamage) -> Iterator[BatchBehind]:
    directory, pool = f"{log_dir}/{METADATA_LOG_DIRECTORY}", FilePool(1)
    segments = [Segment(directory, base, pool, size=size) for base, size in sorted(segment_sizes(directory).items())]
    index = next((index for index, segment in enumerate(segments) if segment.path == damage.path), None)
    if index is None:  # The damaged file is a snapshot.
        bad = BadPlace(0, damage.path, 0, damage.offset, damage.reason)
    else:
        bad = BadPlace(index, damage.path, damage.position, damage.offset, damage.reason)
    return batches_behind(segments, bad)


def _unreadable(first: int, end: int, place: str) -> str:
    offsets = f"{first}" if end == first + 1 else f"{first} to {end - 1}"
    return f"  {offsets}  cannot be read ({place})"


def _content(record: Record, *, is_control: bool) -> str:
    try:
        if is_control:
            control = decode_control_record(record.key, record.value)
            name, fields = type(control.message).__name__, control.message.to_json(control.version)
        else:
            message, version = decode_metadata_record(record.value or b"")
            name, fields = type(message).__name__, message.to_json(version)
    except (DecodeError, InvariantViolated) as error:
        return f"a record of an unknown type ({error})"
    shown = {key: "..." if key in _SECRET_FIELDS else value for key, value in dict(fields).items()}
    text = json.dumps(shown, separators=(",", ":"), ensure_ascii=False)
    return f"{name} {text if len(text) <= _CONTENT_MAX else text[:_CONTENT_MAX] + '...'}"
