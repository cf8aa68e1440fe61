"""Records of a queue as lines: each with its handle, unless it is accepted already."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET, UnsetType

from barnabas.cli.records.json_lines import JsonRecord, json_record
from barnabas.cli.records.printers import cell, text_of
from barnabas.cli.records.times import time_of
from barnabas.clients.share.acquired_records import AcquiredRecord
from barnabas.common.topic_partition import TopicPartition
from barnabas.protocol.record_batch import Record

if TYPE_CHECKING:
    from barnabas.cli.records.printers import Readers

__all__ = ["QueuePrinter", "read_record"]

_ROW = "{:<36}  {:<24}  {:>9}  {:>10}  {:>10}  {:<16}  {}\n"
_COLUMNS = ("handle", "time", "partition", "offset", "deliveries", "key", "value")


class QueueRecord(JsonRecord, gc=False):
    """The fields of an output line: those of 'barnabas consume', and two more."""

    delivery_count: int = 1
    handle: str | UnsetType = UNSET


class QueuePrinter:
    """``output``: text (handle, tab, value), table, json or yaml."""

    def __init__(self, output: str, readers: Readers) -> None:
        self._output = output
        self._readers = readers
        self._has_begun = False

    def lines(self, records: Sequence[tuple[str, AcquiredRecord]]) -> bytes:
        """Return the output for records with their handles. Raise UnreadableRecord."""
        if self._output == "text":
            return b"".join(self._line(handle, record) for handle, record in records)
        if self._output == "table":
            return "".join(self._row(handle, record) for handle, record in records).encode(errors="replace")
        documents = [self._document(handle, record) for handle, record in records]
        if self._output == "yaml":
            return b"".join(b"---\n" + msgspec.yaml.encode(document) for document in documents)
        return b"".join(msgspec.json.encode(document) + b"\n" for document in documents)

    def _line(self, handle: str, record: AcquiredRecord) -> bytes:
        _, value = self._readers.of_record(record.partition, record.record)
        text = text_of(value)
        return (handle.encode() + b"\t" if handle else b"") + (b"null" if text is None else text) + b"\n"

    def _row(self, handle: str, record: AcquiredRecord) -> str:
        stored = record.record
        key, value = (cell(content) for content in self._readers.of_record(record.partition, stored))
        place = (record.partition.partition, stored.offset, record.delivery_count)
        row = _ROW.format(handle or "-", time_of(stored.timestamp), *place, key, value)
        if self._has_begun:
            return row
        self._has_begun = True
        return _ROW.format(*_COLUMNS) + row

    def _document(self, handle: str, record: AcquiredRecord) -> QueueRecord:
        content = self._readers.of_record(record.partition, record.record)
        line = json_record(record.partition, record.record, *content)
        fields = {name: getattr(line, name) for name in JsonRecord.__struct_fields__}
        return QueueRecord(**fields, delivery_count=record.delivery_count, handle=handle or UNSET)


def read_record(topic: str, document: Mapping[str, Any]) -> AcquiredRecord:
    """Return the record that an agent has described."""
    headers = tuple((str(name), _decoded(content)) for name, content in document["headers"])
    record = Record(
        document["offset"], document["timestamp"], _decoded(document["key"]), _decoded(document["value"]), headers
    )
    return AcquiredRecord(TopicPartition(topic, document["partition"]), record, document["delivery_count"])


def _decoded(content: str | None) -> bytes | None:
    return None if content is None else b64decode(content)
