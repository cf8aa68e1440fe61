"""Records as lines of text, as Kafka's console tools write and read them.

A line has the fields that were chosen, separated by ``separator``, in Kafka's order: time, topic, partition, offset,
headers, key, value. Headers are ``name:value`` with commas. The same options write and read a line with headers, key
and value.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from barnabas.cli.arguments.cluster_options import UsageError
from barnabas.cli.records.json_lines import InputError
from barnabas.cli.records.times import time_of
from barnabas.clients.producer.stream_batches import StreamRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from barnabas.clients.producer.stream_batches import Pair
    from barnabas.common.topic_partition import TopicPartition
    from barnabas.protocol.record_batch import Header, Record

__all__ = ["Columns", "LineParser", "unescaped"]

_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "0": "\0", "\\": "\\"}


def unescaped(text: str, option: str) -> bytes:
    r"""Return a separator in which ``\t``, ``\n``, ``\r``, ``\0`` and ``\\`` are escapes. Raise UsageError."""
    out: list[str] = []
    rest = iter(text)
    for character in rest:
        if character != "\\":
            out.append(character)
            continue
        escaped = next(rest, "")
        if escaped not in _ESCAPES:
            raise UsageError(f"{option} {text}: the escapes are \\t, \\n, \\r, \\0 and \\\\")
        out.append(_ESCAPES[escaped])
    return "".join(out).encode()


@dataclass(frozen=True, slots=True)
class Columns:
    """The fields of an output line."""

    timestamp: bool = False
    topic: bool = False
    partition: bool = False
    offset: bool = False
    headers: bool = False
    key: bool = False
    separator: bytes = b"\t"
    line_end: bytes = b"\n"
    null: bytes = b"null"

    @property
    def has_only_value(self) -> bool:
        return not (self.timestamp or self.topic or self.partition or self.offset or self.headers or self.key)

    def lines(self, partition: TopicPartition, records: Iterable[Record]) -> bytes:
        """Return the lines of records whose keys and values are printed as they are."""
        if self.timestamp or self.headers:
            return b"".join([self.line(partition, record, record.key, record.value) for record in records])
        null, end = self.null, self.line_end
        place, between = self._place(partition), self.separator
        out: list[bytes] = []
        for offset, _, key, value, _ in records:
            if place:
                out.append(place)
            if self.offset:
                out += (b"%d" % offset, between)
            if self.key:
                out += (null if key is None else key, between)
            out += (null if value is None else value, end)
        return b"".join(out)

    def line(self, partition: TopicPartition, record: Record, key: bytes | None, value: bytes | None) -> bytes:
        """Return the line of a record, whose key and value a schema may have decoded."""
        parts: list[bytes] = []
        if self.timestamp:
            parts.append(time_of(record.timestamp).encode())
        if self.topic:
            parts.append(partition.topic.encode())
        if self.partition:
            parts.append(b"%d" % partition.partition)
        if self.offset:
            parts.append(b"%d" % record.offset)
        if self.headers:
            parts.append(b",".join(name.encode() + b":" + self._text(content) for name, content in record.headers))
        if self.key:
            parts.append(self._text(key))
        parts.append(self._text(value))
        return self.separator.join(parts) + self.line_end

    def _place(self, partition: TopicPartition) -> bytes:
        """Return the fields that all records of a partition have in common, with a separator after each."""
        topic = partition.topic.encode() + self.separator if self.topic else b""
        return topic + b"%d" % partition.partition + self.separator if self.partition else topic

    def _text(self, content: bytes | None) -> bytes:
        return self.null if content is None else content


@dataclass(frozen=True, slots=True)
class LineParser:
    """How a line of the input is read. ``null`` is the text of a missing key or value, if any."""

    has_headers: bool = False
    has_key: bool = False
    separator: bytes = b"\t"
    null: bytes | None = None
    key: bytes | None = None
    """The key of all records, if lines have none."""
    headers: tuple[Header, ...] = ()
    """Headers of all records."""
    write_key: Callable[[bytes], bytes] | None = None
    write_value: Callable[[bytes], bytes] | None = None

    @property
    def has_only_value(self) -> bool:
        """Whether the lines are the values, unchanged."""
        return not (self.has_headers or self.has_key or self.headers) and all(
            part is None for part in (self.null, self.key, self.write_key, self.write_value)
        )

    def pairs(self, lines: Sequence[bytes]) -> list[Pair] | None:
        """Return the keys and values of lines that have only these; None if ``record`` must parse or refuse them."""
        if self.has_headers or self.headers or not (self.write_key is None and self.write_value is None):
            return None
        if self.null is not None:
            return None
        if not self.has_key:
            return [(self.key, line) for line in lines]
        separator = self.separator
        try:
            return [(key, value) for key, value in [line.split(separator, 1) for line in lines]]
        except ValueError:
            return None  # A line has no separator.

    def record(self, line: bytes, timestamp_ms: int) -> StreamRecord:
        """Return the record of a line. Raise InputError."""
        headers = self.headers
        rest = line
        if self.has_headers:
            text, rest = self._field(rest, "headers")
            headers = (*_parse_headers(text, self.null), *headers)
        key = self.key
        if self.has_key:
            text, rest = self._field(rest, "a key")
            key = self._content(text, self.write_key)
        return StreamRecord(timestamp_ms, key, self._content(rest, self.write_value), headers)

    def _field(self, text: bytes, what: str) -> tuple[bytes, bytes]:
        field, found, rest = text.partition(self.separator)
        if not found:
            raise InputError(f"it has no {self.separator.decode()!r} after {what}: --key-separator sets it")
        return field, rest

    def _content(self, text: bytes, write: Callable[[bytes], bytes] | None) -> bytes | None:
        if text == self.null:
            return None
        return text if write is None else write(text)


def _parse_headers(text: bytes, null: bytes | None) -> list[Header]:
    headers: list[Header] = []
    for part in text.split(b",") if text else ():
        name, found, content = part.partition(b":")
        if not found:
            raise InputError(f"the header {part.decode(errors='replace')!r} is not name:value")
        try:
            headers.append((name.decode(), None if content == null else content))
        except UnicodeDecodeError:
            raise InputError(f"the name of the header {part!r} is not UTF-8") from None
    return headers
