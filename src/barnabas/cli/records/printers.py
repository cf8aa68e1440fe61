"""Write the records of a fetch as text, JSON lines, YAML documents, or rows of a table.

A printer stops at an end offset, and after a number of records. Values alone are joined by the batch, without creating
records, so that a million of them take half a second.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

import msgspec

from barnabas.cli.records.json_lines import JsonRecord, encode_lines, json_record, plain_json
from barnabas.cli.records.text_lines import Columns
from barnabas.cli.records.times import time_of
from barnabas.clients.consumer.completed_fetch import batch_values, given_batches
from barnabas.clients.schema_registry.errors import SchemaError
from barnabas.common.printable import printable
from barnabas.common.topic_partition import TopicPartition

if TYPE_CHECKING:
    from barnabas.clients.consumer.completed_fetch import Fetched
    from barnabas.protocol.record_batch import BatchView, Record

__all__ = [
    "AS_STORED",
    "DocumentPrinter",
    "Printed",
    "Printer",
    "Reader",
    "Readers",
    "RowPrinter",
    "TextPrinter",
    "UnreadableRecord",
    "cell",
    "text_of",
]

Reader: TypeAlias = Callable[[bytes], object]
"""It decodes a key or a value with a schema, to what JSON can express. It raises SchemaError."""

_ROW = "{:<24}  {:>9}  {:>10}  {:<16}  {}\n"
"""A wider cell moves the rest of its row: a stream of records has no last row that could set the widths."""
_COLUMNS = ("time", "partition", "offset", "key", "value")
_TOPIC = "{:<20}  "
"""Before a row, if several topics are read."""


class UnreadableRecord(Exception):
    """A record that its schema does not fit. ``advice`` says what to do next."""

    def __init__(self, topic: str, where: str, error: SchemaError) -> None:
        super().__init__(f"{where}: {error}")
        self.topic = topic
        self.advice = error.advice


class Printed(NamedTuple):
    """``next_offset`` is that after the last record that was printed, or passed over."""

    data: bytes
    records: int
    payload_bytes: int
    next_offset: int


class Printer(Protocol):
    def print(self, fetched: Fetched, until: int | None, limit: int | None) -> Printed:
        """Return the records before ``until``, at most ``limit`` of them. Raise DecodeError, UnreadableRecord."""

    def lines(self, partition: TopicPartition, records: Sequence[Record]) -> bytes:
        """Return the output for records of one partition. Raise UnreadableRecord."""


class Readers(NamedTuple):
    """How keys and values are decoded; None for bytes as they are."""

    key: Reader | None = None
    value: Reader | None = None

    def of_record(self, partition: TopicPartition, record: Record) -> tuple[object, object]:
        """Return the decoded key and value. Raise UnreadableRecord."""
        return (
            _decoded(self.key, record.key, "key", partition, record),
            _decoded(self.value, record.value, "value", partition, record),
        )


AS_STORED = Readers()


def _decoded(
    read: Reader | None, content: bytes | None, what: str, partition: TopicPartition, record: Record
) -> object:
    if read is None or content is None:
        return content
    try:
        return read(content)
    except SchemaError as error:
        where = f"the {what} at offset {record.offset} of partition {partition.partition}"
        raise UnreadableRecord(partition.topic, where, error) from error


def _wanted_records(fetched: Fetched, until: int | None, limit: int | None) -> list[Record]:
    if limit is None and (until is None or fetched.batches[-1].next_offset <= until):
        return list(fetched.records())
    records: list[Record] = []
    for record in fetched.records():
        if (until is not None and record.offset >= until) or (limit is not None and len(records) >= limit):
            break
        records.append(record)
    return records


class _RecordPrinter:
    def __init__(self, readers: Readers = AS_STORED) -> None:
        self._readers = readers

    def print(self, fetched: Fetched, until: int | None, limit: int | None) -> Printed:
        records = _wanted_records(fetched, until, limit)
        size = sum(len(record.key or b"") + len(record.value or b"") for record in records)
        is_cut = bool(records) and limit is not None and len(records) >= limit
        end = records[-1].offset + 1 if is_cut else _end_of(fetched, until)
        return Printed(self.lines(TopicPartition(fetched.topic, fetched.partition), records), len(records), size, end)

    def lines(self, partition: TopicPartition, records: Sequence[Record]) -> bytes:
        """Return the output for records of one partition. Raise UnreadableRecord."""
        raise NotImplementedError


class TextPrinter(_RecordPrinter):
    """Lines of text. A key or value that a schema decodes is JSON."""

    def __init__(self, columns: Columns, readers: Readers = AS_STORED) -> None:
        super().__init__(readers)
        self._columns = columns
        self._is_plain = columns.has_only_value and readers == AS_STORED

    def print(self, fetched: Fetched, until: int | None, limit: int | None) -> Printed:
        return self._values(fetched, until, limit) if self._is_plain else super().print(fetched, until, limit)

    def lines(self, partition: TopicPartition, records: Sequence[Record]) -> bytes:
        if self._readers == AS_STORED:
            return self._columns.lines(partition, records)
        return b"".join([self._line(partition, record) for record in records])

    def _line(self, partition: TopicPartition, record: Record) -> bytes:
        key, value = self._readers.of_record(partition, record)
        return self._columns.line(partition, record, text_of(key), text_of(value))

    def _values(self, fetched: Fetched, until: int | None, limit: int | None) -> Printed:
        line_end = self._columns.line_end
        pieces: list[bytes] = []
        count = size = 0
        next_offset = _end_of(fetched, until)
        for batch in given_batches(fetched):
            room = None if limit is None else limit - count
            values, payload_bytes, after = _values_of(batch, fetched.from_offset, until, room, self._columns.null)
            count += len(values)
            size += payload_bytes
            pieces += (line_end.join(values), line_end) if values else ()
            if limit is not None and count >= limit:
                next_offset = after
                break
        return Printed(b"".join(pieces), count, size, next_offset)


def _values_of(
    batch: BatchView, start: int, until: int | None, limit: int | None, null: bytes
) -> tuple[list[bytes], int, int]:
    """Return the values from ``start`` to ``until``, the bytes of keys and values, and the offset after the last."""
    is_whole = batch.base_offset >= start and (until is None or batch.last_offset < until)
    if is_whole and (limit is None or batch.count <= limit):
        found = batch_values(batch, null)
        if found is not None:
            return (*found, batch.next_offset)
    values: list[bytes] = []
    size, next_offset = 0, start
    for record in batch.records():
        if record.offset < start:
            continue
        if (until is not None and record.offset >= until) or (limit is not None and len(values) >= limit):
            break
        values.append(null if record.value is None else record.value)
        size += len(record.key or b"") + len(record.value or b"")
        next_offset = record.offset + 1
    return values, size, next_offset


class DocumentPrinter(_RecordPrinter):
    """JSON lines, or YAML documents that are separated by ``---``."""

    def __init__(self, readers: Readers = AS_STORED, *, is_yaml: bool = False) -> None:
        super().__init__(readers)
        self._encode = _encode_yaml if is_yaml else encode_lines

    def lines(self, partition: TopicPartition, records: Sequence[Record]) -> bytes:
        if self._readers == AS_STORED:
            return self._encode([json_record(partition, record, record.key, record.value) for record in records])
        of_record = self._readers.of_record
        return self._encode([json_record(partition, record, *of_record(partition, record)) for record in records])


def _encode_yaml(lines: Sequence[JsonRecord]) -> bytes:
    return b"".join(b"---\n" + msgspec.yaml.encode(line) for line in lines)


class RowPrinter(_RecordPrinter):
    """Rows for people: time, partition, offset, key and value, one line each, with control characters escaped."""

    def __init__(self, readers: Readers = AS_STORED, *, with_topic: bool = False) -> None:
        super().__init__(readers)
        self._has_begun = False
        self._with_topic = with_topic

    def lines(self, partition: TopicPartition, records: Sequence[Record]) -> bytes:
        rows = [] if self._has_begun or not records else [self._topic("topic") + _ROW.format(*_COLUMNS)]
        self._has_begun = self._has_begun or bool(records)
        topic, number = self._topic(partition.topic), partition.partition
        for record in records:
            key, value = (cell(content) for content in self._readers.of_record(partition, record))
            rows.append(topic + _ROW.format(time_of(record.timestamp), number, record.offset, key, value))
        return "".join(rows).encode(errors="replace")

    def _topic(self, name: str) -> str:
        return _TOPIC.format(name) if self._with_topic else ""


def cell(content: object) -> str:
    """Return a key or a value for a table, without control characters."""
    text = text_of(content)
    if text is None:
        return "null"
    try:
        return printable(text.decode())
    except UnicodeDecodeError:
        return f"0x{text.hex()}"


def text_of(content: object) -> bytes | None:
    """Return a key or a value as it is, or as JSON if a schema has decoded it."""
    if content is None or isinstance(content, bytes):
        return content
    return plain_json(content)


def _end_of(fetched: Fetched, until: int | None) -> int:
    end = fetched.batches[-1].next_offset
    return end if until is None else min(end, max(until, fetched.from_offset))
