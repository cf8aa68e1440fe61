"""Finds record batches after a position that cannot be read.

A reader that meets a damaged batch does not know where the next one starts: the length in the damaged header may be
wrong. This search tries every later position whose bytes can be a batch header, and accepts it if the checksum
matches. A match by accident is practically impossible, because the header must be valid, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from barnabas.storage.batch_header import BATCH_OVERHEAD, CONTROL_FLAG, HEADER, HEADER_SIZE, batch_is_valid

__all__ = ["FoundBatch", "find_batches"]

# Base offset below 2^56, length not negative, magic 2. A lookahead, so that overlapping candidates are found.
_CANDIDATE = re.compile(rb"(?=\x00.{7}[\x00-\x7f].{7}\x02)", re.DOTALL)


class FoundBatch(NamedTuple):
    """A valid batch: where it lies and which offsets it holds."""

    position: int
    size: int
    base_offset: int
    last_offset: int
    epoch: int
    is_control: bool


def find_batches(data: memoryview, position: int, *, first_offset: int) -> Iterator[FoundBatch]:
    """Yield the valid batches at or after ``position`` whose base offset is ``first_offset`` or greater.

    Offsets ascend: a batch with a lower offset than the one before it is skipped.
    """
    while position + HEADER_SIZE <= len(data):
        found = _valid_batch(data, position)
        if found is not None and found.base_offset >= first_offset:
            yield found
            first_offset, position = found.last_offset + 1, position + found.size
            continue
        candidate = _CANDIDATE.search(data, position + 1)
        if candidate is None:
            return
        position = candidate.start()


def _valid_batch(data: memoryview, position: int) -> FoundBatch | None:
    base_offset, length, epoch, _, _, attributes, last_offset_delta = HEADER.unpack_from(data, position)[:7]
    size = length + BATCH_OVERHEAD
    if base_offset < 0 or epoch < -1 or not HEADER_SIZE <= size <= len(data) - position:
        return None
    if not batch_is_valid(data[position : position + size]):
        return None
    return FoundBatch(
        position, size, base_offset, base_offset + last_offset_delta, epoch, bool(attributes & CONTROL_FLAG)
    )
