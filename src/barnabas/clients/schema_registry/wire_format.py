"""Confluent's wire format: the byte 0, the schema's id in four bytes, for Protobuf the message's indexes, the data.

The indexes name a message by its place in the file: ``[1, 0]`` is the first message inside the second one. They are
zigzag varints, their number first; the usual ``[0]`` is the single byte 0.
"""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.clients.schema_registry.errors import SchemaError
from barnabas.protocol.errors import DecodeError
from barnabas.protocol.varint import read_varint, write_varint

__all__ = ["framed", "read_indexes", "schema_id_of", "write_indexes"]

HEADER_SIZE = 5
_MAGIC = 0
_INDEXES_MAX = 64
_AS_IT_IS = "omit --schema-registry to print it as it is"


def schema_id_of(data: bytes) -> tuple[int, bytes]:
    """Return the schema's id and the bytes after it. Raise SchemaError."""
    if len(data) < HEADER_SIZE or data[0] != _MAGIC:
        start = data[:HEADER_SIZE].hex(" ") or "nothing"
        raise SchemaError(f"it begins with {start}, not with the byte 0 and the id of a schema", _AS_IT_IS)
    return int.from_bytes(data[1:HEADER_SIZE], "big"), data[HEADER_SIZE:]


def framed(schema_id: int, payload: bytes) -> bytes:
    return bytes((_MAGIC,)) + schema_id.to_bytes(4, "big") + payload


def read_indexes(payload: bytes) -> tuple[list[int], bytes]:
    """Return the indexes of the message, and the message. Raise SchemaError."""
    try:
        count, position = read_varint(payload, 0)
        if not 0 <= count <= _INDEXES_MAX:
            raise SchemaError(f"it names a message by {count} indexes")
        indexes = []
        for _ in range(count):
            index, position = read_varint(payload, position)
            indexes.append(index)
    except DecodeError as error:
        raise SchemaError(f"the indexes of its message can't be read: {error}", _AS_IT_IS) from error
    return indexes or [0], payload[position:]


def write_indexes(indexes: Sequence[int]) -> bytes:
    if list(indexes) == [0]:
        return b"\0"
    return write_varint(len(indexes)) + b"".join(map(write_varint, indexes))
