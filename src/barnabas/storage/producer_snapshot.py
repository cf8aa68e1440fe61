"""``<offset>.snapshot``: the state of a log's producers at that offset, so that start-up need not read the whole log.

Version i16 = 1, CRC-32C of everything after it, count i32, then 46 bytes per producer. Only the last batch of each
producer is stored: after a restart an older duplicate is recognised by its sequence number alone, as in Kafka.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from struct import Struct
from typing import NamedTuple

from barnabas.common.crc32c import crc32c
from barnabas.storage.checkpoint_file import write_atomically
from barnabas.storage.errors import CorruptFileError
from barnabas.storage.file_io import naming

__all__ = [
    "SNAPSHOT_EXTENSION",
    "ProducerSnapshotEntry",
    "delete_snapshot",
    "encode_snapshot",
    "list_snapshots",
    "read_snapshot",
    "snapshot_path",
    "write_snapshot",
]

SNAPSHOT_EXTENSION = ".snapshot"
VERSION = 1

_HEAD = Struct(">hI")
_COUNT = Struct(">i")
_ENTRY = Struct(">qhiqiqiq")


class ProducerSnapshotEntry(NamedTuple):
    producer_id: int
    epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    coordinator_epoch: int
    current_txn_first_offset: int


def snapshot_path(directory: str, offset: int) -> str:
    return f"{directory}/{offset:020d}{SNAPSHOT_EXTENSION}"


def encode_snapshot(entries: Iterable[ProducerSnapshotEntry]) -> bytes:
    packed = [_ENTRY.pack(*entry) for entry in entries]
    body = _COUNT.pack(len(packed)) + b"".join(packed)
    return _HEAD.pack(VERSION, crc32c(body)) + body


def write_snapshot(directory: str, offset: int, entries: Iterable[ProducerSnapshotEntry], *, sync: bool) -> None:
    write_atomically(snapshot_path(directory, offset), encode_snapshot(entries), sync=sync)


def read_snapshot(path: str) -> list[ProducerSnapshotEntry]:
    with naming(path), open(path, "rb") as file:
        data = file.read()
    if len(data) < _HEAD.size + _COUNT.size:
        raise CorruptFileError(path, f"{len(data)} bytes are not a producer snapshot")
    version, crc = _HEAD.unpack_from(data)
    if version != VERSION:
        raise CorruptFileError(path, f"version {version} is not {VERSION}")
    body = memoryview(data)[_HEAD.size :]
    if crc32c(body) != crc:
        raise CorruptFileError(path, "the checksum is wrong")
    (count,) = _COUNT.unpack_from(body)
    if count < 0 or len(body) != _COUNT.size + count * _ENTRY.size:
        raise CorruptFileError(path, f"{count} entries do not fill {len(body)} bytes")
    return [ProducerSnapshotEntry(*fields) for fields in _ENTRY.iter_unpack(body[_COUNT.size :])]


def list_snapshots(directory: str) -> list[int]:
    """Return the offsets of the snapshots in this directory, ascending."""
    with os.scandir(directory) as files:
        names = [file.name for file in files if file.name.endswith(SNAPSHOT_EXTENSION)]
    return sorted(int(stem) for name in names if (stem := name[: -len(SNAPSHOT_EXTENSION)]).isdigit())


def delete_snapshot(directory: str, offset: int) -> None:
    with suppress(FileNotFoundError):
        os.unlink(snapshot_path(directory, offset))
