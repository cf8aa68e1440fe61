"""DescribeTopicPartitions: partitions of topics by name, in pages that a cursor continues.

The answer always has the caller's operations for every topic. As in Metadata, entries of whole topics are encoded once
and joined; the operations follow them.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Final

from barnabas.broker.auto_topic_creation import INTERNAL_TOPICS
from barnabas.broker.encoded_topic_metadata import (
    NO_OPERATIONS,
    PARTITIONS_A_STEP,
    metadata_partitions,
    topic_tail,
    with_partitions,
)
from barnabas.common.acl import AclOperation
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.long_response import LongAnswer
from barnabas.common.resource import ResourceType
from barnabas.common.topic_name import topic_name_problem
from barnabas.network.api_handler import Access, AclRule, handles
from barnabas.network.stepped_responses import worked_out
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.compiler import encode_struct
from barnabas.protocol.compiler_runtime import compact_length
from barnabas.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Generator, Iterator, Sequence

    from barnabas.broker.broker import Broker
    from barnabas.broker.encoded_topic_metadata import IndexedPartition
    from barnabas.broker.metadata_cache import MetadataCache
    from barnabas.metadata.image.topics import TopicImage

TOPICS_A_STEP: Final = 100
"""About 5 ms when the entries are encoded for the first time."""
_DONE: Final = object()
_NEWEST_METADATA_VERSION = 13
_TAIL_SIZE = len(topic_tail(NO_OPERATIONS, _NEWEST_METADATA_VERSION))


def _error_response(request: DescribeTopicPartitionsRequest, error: ApiException) -> DescribeTopicPartitionsResponse:
    return DescribeTopicPartitionsResponse(
        topics=[
            DescribeTopicPartitionsResponseTopic(error_code=error.code, name=topic.name) for topic in request.topics
        ]
    )


@handles(
    ApiKey.DESCRIBE_TOPIC_PARTITIONS,
    acl=(AclRule(ResourceType.TOPIC, AclOperation.DESCRIBE),),
    on_error=_error_response,
)
def handle_describe_topic_partitions(
    broker: Broker, request: DescribeTopicPartitionsRequest, access: Access
) -> _Description | Awaitable[_Description]:
    cursor = request.cursor
    if cursor is not None and cursor.partition_index < 0:
        raise ApiException(
            ErrorCode.INVALID_REQUEST, f"DescribeTopicPartitionsRequest cursor partition must be valid: {cursor}"
        )
    description = _Description(broker, request, access)
    return worked_out(description, is_begun=True) if description.advance() else description


class _Description(LongAnswer):
    """The answer, built in steps from one metadata image."""

    __slots__ = ("_access", "_broker", "_cursor", "_metadata", "_names", "_page", "_response", "_steps")

    def __init__(self, broker: Broker, request: DescribeTopicPartitionsRequest, access: Access) -> None:
        super().__init__()
        self._broker = broker
        self._metadata = broker.metadata.at_this_moment()
        self._access = access
        self._cursor = request.cursor
        self._names = sorted({topic.name for topic in request.topics})
        left = max(1, min(request.response_partition_limit, broker.settings.max_request_partition_size_limit))
        self._page = _Page(self._metadata, access.context.listener_name, left)
        self._steps = self._describe_named() if request.topics else self._describe_all()

    def advance(self) -> bool:
        return next(self._steps, _DONE) is not _DONE

    def write(self, version: int, chunks: list[bytes]) -> None:
        self._response.write(version, chunks)

    def _describe_all(self) -> Iterator[None]:
        names = yield from self._metadata.sorted_names_in_steps()
        self._broker.metadata.take_names(self._metadata)
        listed = 0
        for number, some in enumerate(self._from_cursor(names)):
            if number:
                yield
            allowed = self._access.allowed_in_order(ResourceType.TOPIC, AclOperation.DESCRIBE, some)
            listed += len(allowed)
            yield from self._page.fill(allowed, self._cursor)
            if self._page.next_cursor is not None:
                break
        self._access.listed(ResourceType.TOPIC, AclOperation.DESCRIBE, listed)
        self._finish([])

    def _describe_named(self) -> Iterator[None]:
        denied: list[str] = []
        for number, some in enumerate(self._from_cursor(self._names)):
            if number:
                yield
            granted = self._access.allowed(ResourceType.TOPIC, AclOperation.DESCRIBE, some)
            denied += [name for name in some if name not in granted]
            if self._page.next_cursor is None:
                yield from self._page.fill([name for name in some if name in granted], self._cursor)
        self._finish(denied)

    def _from_cursor(self, names: Sequence[str]) -> Iterator[Sequence[str]]:
        first = 0 if self._cursor is None else bisect_left(names, self._cursor.topic_name)
        return (names[start : start + TOPICS_A_STEP] for start in range(first, len(names), TOPICS_A_STEP))

    def _finish(self, denied: Sequence[str]) -> None:
        page = self._page
        masks = self._access.operations_on_all(ResourceType.TOPIC, page.names)
        entries = [part for segment, mask in zip(page.segments, masks, strict=True) for part in (segment, _tail(mask))]
        entries += map(_denied, denied)
        self._response = _JoinedResponse(b"".join(entries), len(page.names) + len(denied), page.next_cursor)


class _JoinedResponse:
    """A DescribeTopicPartitionsResponse whose topics are encoded already."""

    __slots__ = ("_count", "_entries", "_next_cursor")

    def __init__(self, entries: bytes, count: int, next_cursor: Cursor | None) -> None:
        self._entries = entries
        self._count = count
        self._next_cursor = next_cursor

    def write(self, version: int, chunks: list[bytes]) -> None:
        """Encode the response without topics, and split it at its (empty) topic list, after the throttle time."""
        encoded = DescribeTopicPartitionsResponse(next_cursor=self._next_cursor).encode(version)
        chunks += [encoded[:4] + compact_length(self._count + 1), self._entries, encoded[5:]]


class _Page:
    """Collects as many partitions as the answer may have. Every entry is encoded up to the operations."""

    def __init__(self, metadata: MetadataCache, listener_name: str, left: int) -> None:
        self.names: list[str] = []
        self.segments: list[bytes] = []
        self.next_cursor: Cursor | None = None
        self._metadata = metadata
        self._listener_name = listener_name
        self._left = left
        self._encoded = 0
        """Partitions encoded since the last step ended."""
        self._kept: dict[str, bytes] = metadata.memo.setdefault(("described", listener_name), {})

    def fill(self, names: Sequence[str], cursor: Cursor | None) -> Iterator[None]:
        topics = self._metadata.image.topics.by_name
        for name in names:
            topic = topics.get(name)
            if topic is None:
                self._add(name, _missing(name))
                continue
            start = cursor.partition_index if cursor is not None and cursor.topic_name == name else 0
            count = max(0, len(topic.partitions) - start)
            if self._left <= 0:
                self.next_cursor = Cursor(topic_name=name, partition_index=start)
                return
            if start or count > self._left:
                self._add(name, (yield from self._segment(topic, start, start + self._left)))
            else:
                self._add(name, self._kept.get(name) or (yield from self._whole(topic)))
            if count > self._left:
                self.next_cursor = Cursor(topic_name=name, partition_index=start + self._left)
                return
            self._left -= count

    def _add(self, name: str, segment: bytes) -> None:
        self.names.append(name)
        self.segments.append(segment)

    def _whole(self, topic: TopicImage) -> Generator[None, None, bytes]:
        segment = self._kept[topic.name] = yield from self._segment(topic, 0, len(topic.partitions))
        return segment

    def _segment(self, topic: TopicImage, start: int, end: int) -> Generator[None, None, bytes]:
        """Return the topic's entry with these of its partitions."""
        entry = DescribeTopicPartitionsResponseTopic(
            name=topic.name, topic_id=topic.id, is_internal=topic.name in INTERNAL_TOPICS, partitions=[]
        )
        partitions = sorted(topic.partitions.items())[start:end]
        if self._encoded >= PARTITIONS_A_STEP:
            self._encoded = 0
            yield
        self._encoded += len(partitions)
        return (yield from with_partitions(entry, 0, partitions, self._described, True, _TAIL_SIZE))

    def _described(self, partitions: Sequence[IndexedPartition]) -> list[DescribeTopicPartitionsResponsePartition]:
        entries = metadata_partitions(self._metadata, partitions, self._listener_name, _NEWEST_METADATA_VERSION)
        return [
            DescribeTopicPartitionsResponsePartition(
                error_code=entry.error_code,
                partition_index=entry.partition_index,
                leader_id=entry.leader_id,
                leader_epoch=entry.leader_epoch,
                replica_nodes=entry.replica_nodes,
                isr_nodes=entry.isr_nodes,
                eligible_leader_replicas=list(registration.elr),
                last_known_elr=list(registration.last_known_elr),
                offline_replicas=entry.offline_replicas,
            )
            for entry, (_, registration) in zip(entries, partitions, strict=True)
        ]


def _missing(name: str) -> bytes:
    problem = topic_name_problem(name)
    return _without_tail(
        DescribeTopicPartitionsResponseTopic(
            error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if problem is None else ErrorCode.INVALID_TOPIC_EXCEPTION,
            name=name,
            is_internal=name in INTERNAL_TOPICS,
        )
    )


def _denied(name: str) -> bytes:
    entry = DescribeTopicPartitionsResponseTopic(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name)
    return _without_tail(entry) + _tail(NO_OPERATIONS)


def _without_tail(entry: DescribeTopicPartitionsResponseTopic) -> bytes:
    encoded = encode_struct(entry, 0, flexible=True)
    return encoded[: len(encoded) - _TAIL_SIZE]


def _tail(mask: int) -> bytes:
    return topic_tail(mask, _NEWEST_METADATA_VERSION)
