"""The records of one request: how they are grouped, its idempotency key and its body. Pure.

Records of one topic-partition form its requests, in the order of offsets. Which records a request has depends only on
the records of the micro-batch, which is repeated unchanged after a crash. So a repeated request has the same key.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from urllib.parse import quote

from barnabas.common.topic_partition import TopicPartition

__all__ = ["BodyFormat", "HttpRecord", "RequestBatch", "grouped", "url_for"]


class BodyFormat:
    """How a request contains records; the values are those of the setting."""

    ARRAY = "json-array"
    LINES = "json-lines"
    RECORD = "record"


CONTENT_TYPES = {
    BodyFormat.ARRAY: "application/json",
    BodyFormat.LINES: "application/x-ndjson",
    BodyFormat.RECORD: "application/json",
}


@dataclass(frozen=True, slots=True)
class HttpRecord:
    offset: int
    target: str
    """The topic after transforms, for the URL."""
    body: bytes


@dataclass(frozen=True, slots=True)
class RequestBatch:
    """The records of a request, at least one. ``partition`` is where Kafka has them."""

    partition: TopicPartition
    records: tuple[HttpRecord, ...]

    def key(self, prefix: str) -> str:
        """Return the idempotency key: topic, partition, first and last offset."""
        topic, partition = self.partition
        first, last = self.records[0].offset, self.records[-1].offset
        return f"{quote(prefix, safe='')}{':' if prefix else ''}{topic}-{partition}-{first}-{last}"

    def body(self, body_format: str) -> bytes:
        bodies = [record.body for record in self.records]
        if body_format == BodyFormat.ARRAY:
            return b"[" + b",".join(bodies) + b"]"
        return b"".join(body + b"\n" for body in bodies) if body_format == BodyFormat.LINES else bodies[0]

    def halves(self) -> tuple[RequestBatch, RequestBatch]:
        """Divide a batch of several records."""
        middle = len(self.records) // 2
        return RequestBatch(self.partition, self.records[:middle]), RequestBatch(self.partition, self.records[middle:])

    def __str__(self) -> str:
        first, last = self.records[0].offset, self.records[-1].offset
        offsets = f"offset {first}" if first == last else f"offsets {first} to {last}"
        return f"{self.partition}, {offsets}"


def grouped(
    partition: TopicPartition, records: Iterable[HttpRecord], *, records_max: int, bytes_max: int
) -> Iterator[RequestBatch]:
    """Yield the requests of a topic-partition. A record that is larger than ``bytes_max`` has a request of its own."""
    chosen: list[HttpRecord] = []
    size = 0
    for record in records:
        is_full = len(chosen) == records_max or size + len(record.body) > bytes_max
        if chosen and (is_full or record.target != chosen[0].target):
            yield RequestBatch(partition, tuple(chosen))
            chosen, size = [], 0
        chosen.append(record)
        size += len(record.body) + 1
    if chosen:
        yield RequestBatch(partition, tuple(chosen))


def url_for(url: str, target: str) -> str:
    """Return the URL, in which ``${topic}`` is the topic's name."""
    return url.replace("${topic}", quote(target, safe=""))
