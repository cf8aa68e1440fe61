"""Records as JSON lines, the same for ``consume --output json`` and ``produce --input json``.

::

    {"topic": "orders", "partition": 0, "offset": 17, "timestamp": 1764133200000,
     "key": "k", "value": "v", "headers": [{"key": "trace", "value": "7"}]}

A key or value that is not UTF-8 is base64 in ``key_base64`` or ``value_base64`` instead, also in a header. ``null`` is
a missing key, or a tombstone. A value that a schema decodes, or that is not a text in the input, is JSON itself. The
input needs only ``value``; it ignores ``topic`` and ``offset``, and takes ``partition`` only where the caller says so.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from barnabas.clients.producer.stream_batches import StreamRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from barnabas.common.topic_partition import TopicPartition
    from barnabas.protocol.record_batch import Header, Record

__all__ = ["InputError", "JsonRecord", "encode_lines", "json_record", "parse_line", "plain_json"]


class InputError(Exception):
    """A line of the input is not a record. The message says why."""


class JsonHeader(Struct, gc=False):
    key: str
    value: str | UnsetType | None = UNSET
    value_base64: str | UnsetType = UNSET


class JsonRecord(Struct, gc=False):
    """The fields of an output line, in its order."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: Any = UNSET
    key_base64: str | UnsetType = UNSET
    value: Any = UNSET
    value_base64: str | UnsetType = UNSET
    headers: list[JsonHeader] = []


class _Input(Struct, forbid_unknown_fields=True, gc=False):
    topic: str | UnsetType = UNSET
    partition: int | UnsetType = UNSET
    offset: int | UnsetType = UNSET
    timestamp: int | str | UnsetType | None = UNSET
    key: Any = UNSET
    key_base64: str | UnsetType = UNSET
    value: Any = UNSET
    value_base64: str | UnsetType = UNSET
    headers: list[JsonHeader] | dict[str, str | None] = []


_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(_Input)


def encode_lines(records: Sequence[JsonRecord]) -> bytes:
    return _ENCODER.encode_lines(records)


def plain_json(value: object) -> bytes:
    """Return compact JSON. Raise InputError for a value that JSON can't express."""
    try:
        return _ENCODER.encode(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"a value can't be written as JSON: {error}") from error


def json_record(partition: TopicPartition, record: Record, key: object, value: object) -> JsonRecord:
    """Return the output line of a record. A schema may have decoded ``key`` and ``value``; else they are bytes."""
    line = JsonRecord(partition.topic, partition.partition, record.offset, record.timestamp)
    if isinstance(key, bytes):
        try:
            line.key = key.decode()
        except UnicodeDecodeError:
            line.key_base64 = b64encode(key).decode()
    else:
        line.key = key
    if isinstance(value, bytes):
        try:
            line.value = value.decode()
        except UnicodeDecodeError:
            line.value_base64 = b64encode(value).decode()
    else:
        line.value = value
    if record.headers:
        line.headers = [_json_header(name, content) for name, content in record.headers]
    return line


def _json_header(name: str, content: bytes | None) -> JsonHeader:
    try:
        return JsonHeader(name, None if content is None else content.decode())
    except UnicodeDecodeError:
        return JsonHeader(name, value_base64=b64encode(content or b"").decode())


def parse_line(
    line: bytes,
    timestamp_of: Callable[[int | str | None], int],
    write_key: Callable[[object], bytes] | None = None,
    write_value: Callable[[object], bytes] | None = None,
) -> tuple[int | None, StreamRecord]:
    """Return the record of a line and its partition, if the line names one. Raise InputError.

    ``timestamp_of`` returns the milliseconds of a time, and those of now for None.
    """
    try:
        found = _DECODER.decode(line)
    except msgspec.DecodeError as error:
        raise InputError(_explained(str(error))) from error
    value, key = found.value, found.key
    if value is UNSET and found.value_base64 is UNSET:
        raise InputError("it has neither value nor value_base64; write null for a tombstone")
    # The usual texts are encoded here, without a call.
    value_bytes = (
        value.encode()
        if type(value) is str and write_value is None and found.value_base64 is UNSET
        else _content("value", value, found.value_base64, write_value)
    )
    key_bytes = (
        key.encode()
        if type(key) is str and write_key is None and found.key_base64 is UNSET
        else _content("key", key, found.key_base64, write_key)
    )
    timestamp = None if isinstance(found.timestamp, UnsetType) else found.timestamp
    partition = None if isinstance(found.partition, UnsetType) else found.partition
    headers = _headers(found.headers) if found.headers else ()
    return partition, StreamRecord(timestamp_of(timestamp), key_bytes, value_bytes, headers)


def _explained(message: str) -> str:
    if "unknown field" in message:
        return f"{message}; a record has topic, partition, offset, timestamp, key, value, headers"
    return message


def _content(
    name: str, found: object, found_base64: str | UnsetType, write: Callable[[object], bytes] | None
) -> bytes | None:
    if not isinstance(found_base64, UnsetType):
        if found is not UNSET:
            raise InputError(f"it has both {name} and {name}_base64: omit one of them")
        return _from_base64(f"{name}_base64", found_base64)
    if found is None or found is UNSET:
        return None
    if write is not None:
        return write(found)
    return found.encode() if isinstance(found, str) else plain_json(found)


def _headers(found: Iterable[JsonHeader] | dict[str, str | None]) -> tuple[Header, ...]:
    if isinstance(found, dict):
        return tuple((name, None if content is None else content.encode()) for name, content in found.items())
    headers: list[Header] = []
    for header in found:
        if not isinstance(header.value_base64, UnsetType):
            headers.append((header.key, _from_base64("value_base64 of a header", header.value_base64)))
        else:
            content = None if isinstance(header.value, UnsetType) else header.value
            headers.append((header.key, None if content is None else content.encode()))
    return tuple(headers)


def _from_base64(name: str, text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except ValueError as error:
        raise InputError(f"{name} is not base64: {error}") from error
