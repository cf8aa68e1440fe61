"""Records of a dead-letter topic (KIP-298) as a person reads them: bounded, as text, with their error in fields.

A topic may have the dead letters of several connectors, and those of Kafka's workers. Only the headers of an error
(``errors.deadletterqueue.context.headers.enable``) say whose a record is: records without them are shown to each.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from barnabas.connect.entities import DeadLetter
from barnabas.protocol.record_batch import Record

__all__ = ["LETTERS_MAX", "LatestLetters", "dead_letter"]

LETTERS_MAX = 100
_PREFIX = "__connect.errors."
_CONNECTOR = "connector.name"
_TRACE = "exception.stacktrace"
_SHOWN_BYTES = 1000
"""Of a key, a value or a header: a page with a hundred letters stays small."""
_HEADERS_MAX = 50


def dead_letter(partition: int, record: Record) -> DeadLetter:
    """Return the record for a person. Its trace, which repeats the message, is omitted."""
    error: dict[str, str] = {}
    headers: dict[str, str | None] = {}
    for name, value in record.headers[:_HEADERS_MAX]:
        if name.startswith(_PREFIX):
            error[name.removeprefix(_PREFIX)] = _text(value) or ""
        else:
            headers[name] = _text(value)
    error.pop(_TRACE, None)
    return DeadLetter(
        partition=partition,
        offset=record.offset,
        time=record.timestamp,
        key=_text(record.key),
        value=_text(record.value),
        key_bytes=len(record.key or b""),
        value_bytes=len(record.value or b""),
        error=error,
        headers=headers,
    )


def _text(data: bytes | bytearray | memoryview | None) -> str | None:
    if data is None:
        return None
    text = bytes(data[:_SHOWN_BYTES]).decode(errors="backslashreplace")
    return text if len(data) <= _SHOWN_BYTES else text + "…"


class LatestLetters:
    """The latest letters of one connector, of all that are added."""

    def __init__(self, connector: str, count: int) -> None:
        self._connector = connector
        self._count = count
        self._found: list[tuple[int, int, int, DeadLetter]] = []

    def add(self, partition: int, record: Record) -> None:
        if self._is_of_another(record):
            return
        entry = (record.timestamp, record.offset, partition, dead_letter(partition, record))
        if len(self._found) < self._count:
            heapq.heappush(self._found, entry)
        elif entry[:3] > self._found[0][:3]:
            heapq.heapreplace(self._found, entry)

    def latest_first(self) -> Sequence[DeadLetter]:
        return [entry[3] for entry in sorted(self._found, key=lambda entry: entry[:3], reverse=True)]

    def _is_of_another(self, record: Record) -> bool:
        owner = next((value for name, value in record.headers if name == _PREFIX + _CONNECTOR), None)
        return owner is not None and bytes(owner) != self._connector.encode()
