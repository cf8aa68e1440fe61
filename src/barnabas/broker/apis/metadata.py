"""Metadata: brokers, topics, partitions; creates missing topics if the client and the settings allow it.

A topic that the caller may not describe looks like a missing one if the request names it, and is omitted from "all
topics". The answer is joined from encoded pieces: see ``broker.encoded_topic_metadata``.
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Final

from barnabas.broker.auto_topic_creation import INTERNAL_TOPICS
from barnabas.broker.encoded_topic_metadata import (
    NO_OPERATIONS,
    PARTITIONS_A_STEP,
    kept_segment,
    segment_in_steps,
    topic_tail,
)
from barnabas.common.acl import AclOperation
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.long_response import LongAnswer
from barnabas.common.resource import CLUSTER_NAME, ResourceType
from barnabas.common.topic_name import ACCESS_AUDIT_TOPIC, topic_name_problem
from barnabas.common.uuid import Uuid
from barnabas.network.api_handler import Access, AclRule, handles
from barnabas.network.request_splitting import PartialAnswer
from barnabas.network.stepped_responses import worked_out
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.compiler import encode_struct
from barnabas.protocol.compiler_runtime import compact_length
from barnabas.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponseTopic,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Generator, Iterable, Iterator, Sequence

    from barnabas.broker.broker import Broker
    from barnabas.broker.metadata_cache import MetadataCache
    from barnabas.metadata.image.topics import TopicImage, TopicsImage

_DONE: Final = object()
_PIECES_MAX = 2_000
"""An answer with more pieces than this is joined before it is sent."""
_FLEXIBLE_SINCE = 9
_TOPIC_IDS_USED_SINCE = 12
_CREATION_ERRORS_SINCE = 10


class _JoinedResponse:
    """A MetadataResponse whose topics are encoded already."""

    __slots__ = ("_count", "_envelope", "_topics", "error_code")

    def __init__(self, envelope: MetadataResponse, topics: list[bytes], count: int) -> None:
        self.error_code = 0
        self._envelope = envelope
        self._topics = topics
        self._count = count

    def write(self, version: int, chunks: list[bytes]) -> None:
        """Encode the envelope without topics, and split it at its (empty) topic list."""
        encoded = self._envelope.encode(version)
        if version >= _FLEXIBLE_SINCE:
            behind = {9: 5, 10: 5, 13: 3}.get(version, 1)
            cut = len(encoded) - behind
            chunks.append(encoded[: cut - 1] + compact_length(self._count + 1))
        else:
            behind = 4 if version == 8 else 0
            cut = len(encoded) - behind
            chunks.append(encoded[: cut - 4] + self._count.to_bytes(4, "big"))
        chunks += self._topics if len(self._topics) <= _PIECES_MAX else [b"".join(self._topics)]
        chunks.append(encoded[cut:])

    @property
    def count(self) -> int:
        return self._count

    def add(self, topics: bytes, count: int) -> None:
        """Add encoded topics."""
        self._topics.append(topics)
        self._count += count

    def add_all_of(self, part: _JoinedResponse) -> None:
        self._topics.extend(part._topics)
        self._count += part._count

    def to_message(self, version: int) -> MetadataResponse:
        return MetadataResponse.decode(self.encode(version), version)

    def encode(self, version: int) -> bytes:
        chunks: list[bytes] = []
        self.write(version, chunks)
        return b"".join(chunks)


def _error_response(request: MetadataRequest, error: ApiException) -> MetadataResponse:
    """Return an answer without brokers, after which clients retry."""
    return MetadataResponse(
        error_code=error.code,
        topics=[
            MetadataResponseTopic(error_code=error.code, name=topic.name or "", topic_id=topic.topic_id)
            for topic in request.topics or ()
        ],
    )


@handles(
    ApiKey.METADATA,
    acl=(
        AclRule(ResourceType.TOPIC, AclOperation.DESCRIBE),
        AclRule(ResourceType.TOPIC, AclOperation.CREATE),
        AclRule(ResourceType.CLUSTER, AclOperation.CREATE),
        AclRule(ResourceType.CLUSTER, AclOperation.DESCRIBE),
    ),
    on_error=_error_response,
)
def handle_metadata(
    broker: Broker, request: MetadataRequest, access: Access
) -> _Listing | _Named | Awaitable[_Listing] | Awaitable[_Named]:
    version = access.context.api_version
    wants_all = request.topics is None or (version == 0 and not request.topics)
    if wants_all:
        listing = _Listing(broker, request, access)
        if _is_long(broker.metadata.image.topics):
            return worked_out(listing)
        while listing.advance():
            pass
        return listing
    description = _Named(broker, request, access)
    return worked_out(description, is_begun=True) if description.advance() else description


def _is_long(topics: TopicsImage) -> bool:
    """Return whether the request has more partitions than one step takes, without counting all of them."""
    counts = accumulate(len(topic.partitions) for topic in topics.by_id.values())
    return any(count > PARTITIONS_A_STEP for count in counts)


class _InSteps(LongAnswer):
    """An answer that is built in steps; the last step completes it."""

    __slots__ = ("_answer", "_steps", "error_code")

    _answer: _JoinedResponse

    def __init__(self, steps: Iterator[None]) -> None:
        super().__init__()
        self.error_code = 0
        self._steps = steps

    def advance(self) -> bool:
        return next(self._steps, _DONE) is not _DONE

    def write(self, version: int, chunks: list[bytes]) -> None:
        self._answer.write(version, chunks)

    def encode(self, version: int) -> bytes:
        return self._answer.encode(version)

    def to_message(self, version: int) -> MetadataResponse:
        return self._answer.to_message(version)


class _Listing(_InSteps):
    """All topics, from one metadata image."""

    __slots__ = ("_access", "_broker", "_metadata", "_request")

    def __init__(self, broker: Broker, request: MetadataRequest, access: Access) -> None:
        super().__init__(self._list())
        self._answer = _JoinedResponse(_envelope(broker, request, access), [], 0)
        self._broker = broker
        self._metadata = broker.metadata.at_this_moment()
        self._request = request
        self._access = access

    def _list(self) -> Iterator[None]:
        names = yield from self._metadata.sorted_names_in_steps()
        self._broker.metadata.take_names(self._metadata)
        entries = _Entries(self._metadata, self._request, self._access)
        for start, end in self._runs(names):
            if start:
                yield
            self._answer.add(*(yield from entries.of(names[start:end])))
        self._access.listed(ResourceType.TOPIC, AclOperation.DESCRIBE, self._answer.count)

    def _runs(self, names: Sequence[str]) -> Iterator[tuple[int, int]]:
        """Yield the range of topic names of each step, so that all steps have about as many partitions."""
        topics = self._metadata.image.topics.by_name
        start = partitions = 0
        for end, name in enumerate(names, start=1):
            partitions += len(topics[name].partitions)
            if partitions >= PARTITIONS_A_STEP:
                yield start, end
                start, partitions = end, 0
        if start < len(names):
            yield start, len(names)


class _Entries:
    """Encodes the entries of topics that the caller may describe."""

    def __init__(self, metadata: MetadataCache, request: MetadataRequest, access: Access) -> None:
        self._metadata = metadata
        self._access = access
        self._version = version = access.context.api_version
        self._wants_operations = request.include_topic_authorized_operations and version >= 8
        self._no_operations = topic_tail(NO_OPERATIONS, version)

    def of(self, names: Sequence[str]) -> Generator[None, None, tuple[bytes, int]]:
        """Return the joined entries and their number.

        Parts that are equal for all callers are cached until a topic changes.
        """
        allowed = self._access.allowed_in_order(ResourceType.TOPIC, AclOperation.DESCRIBE, names)
        if not allowed:
            return b"", 0
        listener, kept = self._access.context.listener_name, self._metadata.memo
        key = ("entries", listener, self._version, names[0], len(names))
        is_common = allowed is names and not self._wants_operations
        if is_common and (joined := kept.get(key)) is not None:
            return joined, len(names)
        topics = self._metadata.image.topics.by_name
        segments = []
        for name in allowed:
            segment = kept_segment(self._metadata, topics[name], listener, self._version)
            if segment is None:
                segment = yield from segment_in_steps(self._metadata, topics[name], listener, self._version)
            segments.append(segment)
        if not self._wants_operations:
            joined = self._no_operations.join(segments) + self._no_operations
            if is_common:
                kept[key] = joined
            return joined, len(segments)
        masks = self._access.operations_on_all(ResourceType.TOPIC, allowed)
        parts = [b""] * (2 * len(segments))
        parts[::2] = segments
        parts[1::2] = [topic_tail(mask, self._version) for mask in masks]
        return b"".join(parts), len(segments)


def _envelope(broker: Broker, request: MetadataRequest, access: Access) -> MetadataResponse:
    listener = access.context.listener_name
    brokers = []
    for registration in broker.metadata.alive_brokers():
        endpoint = registration.listeners.get(listener)
        if endpoint is not None:
            brokers.append(
                MetadataResponseBroker(
                    node_id=registration.id, host=endpoint.host, port=endpoint.port, rack=registration.rack
                )
            )
    operations = NO_OPERATIONS
    if request.include_cluster_authorized_operations and 8 <= access.context.api_version <= 10:
        may_describe = access.allows_on_cluster(AclOperation.DESCRIBE)
        operations = access.operations_on(ResourceType.CLUSTER, CLUSTER_NAME) if may_describe else 0
    return MetadataResponse(
        brokers=brokers,
        cluster_id=broker.cluster_id,
        controller_id=broker.metadata.controller_for_clients(),
        cluster_authorized_operations=operations,
    )


class _Named(_InSteps, PartialAnswer):
    """Topics by name or id. Each topic is described from one metadata image."""

    __slots__ = ()

    def __init__(self, broker: Broker, request: MetadataRequest, access: Access) -> None:
        super().__init__(self._describe(broker, request, access))

    def join(self, part: _Named) -> None:
        self._answer.add_all_of(part._answer)

    def _describe(self, broker: Broker, request: MetadataRequest, access: Access) -> Iterator[None]:
        topics = _Topics(broker, request, access)
        yield from topics.add_named(request.topics or ())
        self._answer = _JoinedResponse(_envelope(broker, request, access), topics.pieces, topics.count)


class _Topics:
    """Collects the encoded entries of one answer."""

    def __init__(self, broker: Broker, request: MetadataRequest, access: Access) -> None:
        self.pieces: list[bytes] = []
        self.count = 0
        self._encoded = 0
        """Partitions encoded since the last step ended."""
        self._broker = broker
        self._access = access
        self._version = access.context.api_version
        self._listener = access.context.listener_name
        self._wants_operations = request.include_topic_authorized_operations and self._version >= 8
        self._may_create = broker.settings.auto_create_topics_enable and (
            request.allow_auto_topic_creation or self._version < 4
        )
        self._no_operations = topic_tail(NO_OPERATIONS, self._version)

    def add_named(self, wanted: Iterable[MetadataRequestTopic]) -> Iterator[None]:
        missing: list[str] = []
        seen: set[str] = set()
        for asked in wanted:
            if asked.topic_id != Uuid.ZERO or asked.name is None:
                if self._version < _TOPIC_IDS_USED_SINCE:
                    self._add_error(ErrorCode.INVALID_REQUEST, asked.name or "", asked.topic_id)
                else:
                    yield from self._add_by_id(asked.topic_id)
                continue
            name = asked.name
            if name in seen:
                continue
            seen.add(name)
            if not self._access.allows(ResourceType.TOPIC, AclOperation.DESCRIBE, name):
                self._add_error(ErrorCode.TOPIC_AUTHORIZATION_FAILED, name, Uuid.ZERO)
                continue
            topic = self._broker.metadata.topic(name)
            if topic is not None:
                yield from self._add(topic)
            elif self._may_create and topic_name_problem(name) is None and name != ACCESS_AUDIT_TOPIC:
                missing.append(name)
            else:
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                if topic_name_problem(name) is not None:
                    code = ErrorCode.INVALID_TOPIC_EXCEPTION
                self._add_error(code, name, Uuid.ZERO, with_operations=True)
        if missing:
            self._create(missing)

    def _create(self, names: list[str]) -> None:
        access = self._access
        if not access.allows_on_cluster(AclOperation.CREATE, log_if_denied=False):
            allowed = access.allowed(ResourceType.TOPIC, AclOperation.CREATE, names)
            for name in names:
                if name not in allowed:
                    self._add_error(ErrorCode.TOPIC_AUTHORIZATION_FAILED, name, Uuid.ZERO)
            names = [name for name in names if name in allowed]
        creation = self._broker.topic_creation
        refused = {name: code for name in names if (code := creation.refusal_of(name)) is not None}
        for name, code in refused.items():
            # Clients of older versions stop retrying only on an authorization error (KIP-590).
            is_old = self._version < _CREATION_ERRORS_SINCE
            self._add_error(ErrorCode.TOPIC_AUTHORIZATION_FAILED if is_old else code, name, Uuid.ZERO)
        names = [name for name in names if name not in refused]
        for name in names:
            # The client retries, as it does with Kafka; by then the topic exists.
            self._add_error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name, Uuid.ZERO, with_operations=True)
        if names:
            creation.create(names, access.context)

    def _add_by_id(self, topic_id: Uuid) -> Iterator[None]:
        topic = self._broker.metadata.topic_by_id(topic_id)
        if topic is None:
            self._add_error(ErrorCode.UNKNOWN_TOPIC_ID, None, topic_id)
        elif not self._access.allows(ResourceType.TOPIC, AclOperation.DESCRIBE, topic.name):
            self._add_error(ErrorCode.TOPIC_AUTHORIZATION_FAILED, None, topic_id)
        else:
            yield from self._add(topic)

    def _add(self, topic: TopicImage) -> Iterator[None]:
        metadata = self._broker.metadata
        segment = kept_segment(metadata, topic, self._listener, self._version)
        if segment is None:
            if self._encoded >= PARTITIONS_A_STEP:
                self._encoded = 0
                yield
            self._encoded += len(topic.partitions)
            segment = yield from segment_in_steps(metadata, topic, self._listener, self._version)
        self.count += 1
        self.pieces.append(segment)
        if self._wants_operations:
            mask = self._access.operations_on(ResourceType.TOPIC, topic.name)
            self.pieces.append(topic_tail(mask, self._version))
        else:
            self.pieces.append(self._no_operations)

    def _add_error(self, code: ErrorCode, name: str | None, topic_id: Uuid, *, with_operations: bool = False) -> None:
        entry = MetadataResponseTopic(
            error_code=code, name=name, topic_id=topic_id, is_internal=name in INTERNAL_TOPICS
        )
        self.count += 1
        encoded = encode_struct(entry, self._version, flexible=self._version >= _FLEXIBLE_SINCE)
        self.pieces.append(encoded[: len(encoded) - len(self._no_operations)])
        if with_operations and self._wants_operations and name is not None:
            mask = self._access.operations_on(ResourceType.TOPIC, name)
            self.pieces.append(topic_tail(mask, self._version))
        else:
            self.pieces.append(self._no_operations)
