"""Pieces of hostile frames: raw headers, varints, tagged fields, batches that declare more than they contain."""

from __future__ import annotations

from struct import pack

from barnabas.protocol.api_keys import API_TABLE, ApiKey
from barnabas.protocol.compression import Compression, compress
from barnabas.protocol.headers import RequestHeader, request_header_version
from barnabas.protocol.record_batch_builder import with_header
from barnabas.protocol.schema import Message

__all__ = ["batch_of", "framed", "request", "sized", "tags", "varint", "zigzag"]

MIB = 1024 * 1024


def framed(body: bytes) -> bytes:
    return pack(">i", len(body)) + body


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def zigzag(value: int) -> bytes:
    return varint(value << 1 if value >= 0 else (-value << 1) - 1)


def request(message: Message, version: int | None = None) -> bytes:
    key = ApiKey(message.API_KEY)
    version = API_TABLE[key].highest if version is None else version
    return sized(key, version, message.encode(version))


def sized(key: ApiKey, version: int, body: bytes, *, header_tags: bytes | None = None) -> bytes:
    """Return a frame with a valid header and any body; ``header_tags`` replaces the header's tagged fields."""
    header = RequestHeader(request_api_key=key, request_api_version=version, correlation_id=7, client_id="siege")
    encoded = header.encode(request_header_version(key, version))
    if header_tags is not None:
        encoded = encoded[:-1] + header_tags
    return framed(encoded + body)


def tags(total: int, size: int = 0) -> bytes:
    """Return a section of unknown tagged fields, of about ``total`` bytes; ``size`` is that of each value."""
    field_size = len(varint(1000)) + len(varint(size)) + size
    count = max(total // field_size, 1)
    return varint(count) + (varint(1000) + varint(size) + bytes(size)) * count


def batch_of(section: bytes, count: int, *, compression: Compression = Compression.NONE, now_ms: int = 0) -> bytes:
    """Return a record batch with any section of records under a valid header."""
    return with_header(
        compress(compression, section),
        base_offset=0,
        leader_epoch=-1,
        attributes=int(compression),
        last_offset_delta=count - 1,
        base_timestamp=now_ms,
        max_timestamp=now_ms,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        count=count,
    )


def record(headers: bytes = b"\0", value: bytes = b"", offset_delta: int = 0) -> bytes:
    """Return one record; ``headers`` begins with their count."""
    body = b"\0" + zigzag(0) + zigzag(offset_delta) + zigzag(-1) + zigzag(len(value)) + value + headers
    return zigzag(len(body)) + body
