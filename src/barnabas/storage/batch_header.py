"""Reads the 61-byte header of record batches (format 2) for the log: one unpack, no objects.

A log reads headers only: where the next batch starts, which offsets it covers, which producer wrote it.
``barnabas.protocol.record_batch`` reads the records. The checksum covers everything from the attributes
on, so a leader can write its base offset and epoch in front without recomputing it.
"""

from __future__ import annotations

from struct import Struct
from typing import TypeAlias

from barnabas.common.crc32c import crc32c

__all__ = [
    "ATTRIBUTES_OFFSET",
    "BATCH_OVERHEAD",
    "CONTROL_FLAG",
    "HEADER",
    "HEADER_SIZE",
    "LOG_APPEND_TIME_FLAG",
    "MAX_TIMESTAMP_OFFSET",
    "PREFIX",
    "TRANSACTIONAL_FLAG",
    "Buffer",
    "batch_is_valid",
    "batch_size",
    "crc_matches",
    "header_problem",
]

Buffer: TypeAlias = bytes | bytearray | memoryview

# base_offset, batch_length, leader_epoch, magic, crc, attributes, last_offset_delta, base_timestamp, max_timestamp,
# producer_id, producer_epoch, base_sequence, count
HEADER = Struct(">qiibIhiqqqhii")
HEADER_SIZE = HEADER.size
# base_offset, batch_length, leader_epoch: the fields that a leader writes.
PREFIX = Struct(">qii")
ATTRIBUTES_OFFSET = 21
MAX_TIMESTAMP_OFFSET = 35
# base_offset and batch_length themselves are not counted by batch_length.
BATCH_OVERHEAD = 12

COMPRESSION_MASK = 0x07
LOG_APPEND_TIME_FLAG = 0x08
TRANSACTIONAL_FLAG = 0x10
CONTROL_FLAG = 0x20


def crc_matches(batch: Buffer, crc: int) -> bool:
    """Whether the checksum in the header matches the batch's bytes."""
    return crc32c(memoryview(batch)[ATTRIBUTES_OFFSET:]) == crc


def batch_size(data: Buffer, position: int) -> int | None:
    """Return the batch size in the header at ``position``; None if a header does not fit there."""
    if position + HEADER_SIZE > len(data):
        return None
    length: int = PREFIX.unpack_from(data, position)[1]
    return length + BATCH_OVERHEAD if length >= HEADER_SIZE - BATCH_OVERHEAD else None


def batch_is_valid(batch: Buffer) -> bool:
    """Whether the header is possible and its checksum matches the batch's bytes."""
    header = HEADER.unpack_from(batch)
    return header_problem(header[1], header[3], header[6], header[12]) is None and crc_matches(batch, header[4])


def header_problem(batch_length: int, magic: int, last_offset_delta: int, count: int) -> str | None:
    """Return why these header fields are impossible, or None. Cheap enough for every batch of a scan."""
    if magic != 2:
        return f"magic {magic} is not 2"
    if batch_length < HEADER_SIZE - BATCH_OVERHEAD:
        return f"batch length {batch_length} is smaller than a batch header"
    if last_offset_delta < 0:
        return f"last offset delta {last_offset_delta} is negative"
    if count < 0 or count > last_offset_delta + 1:
        return f"{count} records do not fit into {last_offset_delta + 1} offsets"
    return None
