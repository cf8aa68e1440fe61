"""Builds the answer of a fetch, for consumers and followers: the data of each partition, and its current leader."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.errors import ErrorCode
from barnabas.common.uuid import Uuid
from barnabas.protocol.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from barnabas.broker.broker import Broker
    from barnabas.broker.fetch_session import FetchContext, WantedPartition
    from barnabas.broker.partition import Partition
    from barnabas.network.api_handler import Access

__all__ = ["BEFORE_READING", "Reading", "failed", "respond", "respond_with"]

_LEADER_HINTS_SINCE = 16
BEFORE_READING = frozenset(
    {ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.TOPIC_AUTHORIZATION_FAILED}
)
"""The errors of partitions that were not read."""
_NONE_ABORTED: list[AbortedTransaction] = []
"""The shared list of transactions of all partitions that were not read. It is never changed."""


class Reading:
    """One pass over the wanted partitions."""

    __slots__ = ("_exhausted", "answers", "bytes_read", "has_error", "partitions", "useless_count")

    def __init__(self) -> None:
        self.answers: list[tuple[WantedPartition, PartitionData]] = []
        self.partitions: list[Partition] = []
        self._exhausted: list[tuple[WantedPartition, int]] = []
        self.bytes_read = 0
        self.has_error = False
        self.useless_count = 0
        """The number of partitions that do not exist or that the client may not read."""

    def note_exhausted(self, wanted: WantedPartition) -> None:
        """Note that the client will have all data of the partition after this answer."""
        self._exhausted.append((wanted, wanted.changes))

    def exhausted(self) -> Iterator[WantedPartition]:
        """Yield the noted partitions, without those that have changed since: a pass in steps takes some time."""
        return (wanted for wanted, changes in self._exhausted if wanted.changes == changes)


def failed(partition: int, code: ErrorCode) -> PartitionData:
    """Build an entry with an error and no data. Its transactions are null if a read was attempted."""
    return PartitionData(
        partition_index=partition,
        error_code=code,
        high_watermark=-1,
        records=b"",
        aborted_transactions=_NONE_ABORTED if code in BEFORE_READING else None,
    )


def respond(broker: Broker, context: FetchContext, reading: Reading, access: Access) -> FetchResponse:
    return respond_with(broker, context, reading, context.select(reading.answers), access)


def respond_with(
    broker: Broker,
    context: FetchContext,
    reading: Reading,
    selected: list[tuple[WantedPartition, PartitionData]],
    access: Access,
) -> FetchResponse:
    """Build the answer with these partitions, which the session already selected."""
    if context.session is not None:
        for wanted in reading.exhausted():
            context.session.unread.pop(wanted.key, None)
    response = FetchResponse(session_id=context.session_id, responses=_by_topic(selected))
    if reading.has_error and access.context.api_version >= _LEADER_HINTS_SINCE:
        response.node_endpoints = _leader_hints(broker, selected, access.context.listener_name)
    return response


def _by_topic(answers: Iterable[tuple[WantedPartition, PartitionData]]) -> list[FetchableTopicResponse]:
    """Group neighbouring partitions of a topic into one entry, in the session's order."""
    topics: list[FetchableTopicResponse] = []
    previous: tuple[Uuid, str] | None = None
    for wanted, answer in answers:
        topic = (wanted.key.topic_id, wanted.key.topic)
        if topic != previous:
            topics.append(FetchableTopicResponse(topic=topic[1], topic_id=topic[0]))
            previous = topic
        topics[-1].partitions.append(answer)
    return topics


def _leader_hints(
    broker: Broker, answers: Iterable[tuple[WantedPartition, PartitionData]], listener_name: str
) -> list[NodeEndpoint]:
    """Name the current leader (KIP-951)."""
    leaders: dict[int, NodeEndpoint] = {}
    for wanted, answer in answers:
        if answer.error_code not in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH):
            continue
        registration = broker.metadata.image.topics.partition(wanted.key.topic_id, wanted.key.partition)
        if registration is None or registration.leader < 0:
            continue
        answer.current_leader = LeaderIdAndEpoch(leader_id=registration.leader, leader_epoch=registration.leader_epoch)
        endpoint = broker.metadata.endpoint(registration.leader, listener_name)
        if endpoint is not None:
            rack = broker.metadata.image.cluster.brokers[registration.leader].rack
            leaders[registration.leader] = NodeEndpoint(
                node_id=registration.leader, host=endpoint.host, port=endpoint.port, rack=rack
            )
    return list(leaders.values())
