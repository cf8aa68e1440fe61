"""Acknowledgements in a request, ShareAcknowledge or ShareFetch: which of its partitions may be acknowledged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from barnabas.broker.share.share_session import TopicIdPartition
from barnabas.common.acl import AclOperation
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.resource import ResourceType
from barnabas.coordinator.share_partition.record_state import AcknowledgeType
from barnabas.coordinator.share_partition.state_batch import AcknowledgementBatch

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from barnabas.broker.broker import Broker
    from barnabas.common.uuid import Uuid
    from barnabas.network.api_handler import Access

    class RequestedBatch(Protocol):
        first_offset: int
        last_offset: int
        acknowledge_types: list[int]

    class RequestedPartition(Protocol):
        partition_index: int

        @property
        def acknowledgement_batches(self) -> Sequence[RequestedBatch]: ...

    class RequestedTopic(Protocol):
        topic_id: Uuid

        @property
        def partitions(self) -> Sequence[RequestedPartition]: ...


__all__ = ["Acknowledgements", "AllowedTopics"]


class AllowedTopics:
    """Which topics the caller may read. Each is decided once in a request."""

    __slots__ = ("_access", "_by_id", "_topics")

    def __init__(self, broker: Broker, access: Access) -> None:
        self._topics = broker.metadata.image.topics.by_id
        self._access = access
        self._by_id: dict[Uuid, ApiException | None] = {}

    def error_of(self, partition: TopicIdPartition) -> ApiException | None:
        """Return why the caller can't use the partition; None if nothing prevents it."""
        topic_id, index = partition
        if topic_id not in self._by_id:
            self._by_id[topic_id] = self._decide(topic_id)
        error = self._by_id[topic_id]
        if error is None and index not in self._topics[topic_id].partitions:
            return ApiException(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return error

    def _decide(self, topic_id: Uuid) -> ApiException | None:
        topic = self._topics.get(topic_id)
        if topic is None:
            return ApiException(ErrorCode.UNKNOWN_TOPIC_ID)
        if self._access.allows(ResourceType.TOPIC, AclOperation.READ, topic.name):
            return None
        return self._access.denied(AclOperation.READ, ResourceType.TOPIC, topic.name)


class Acknowledgements:
    """``valid`` may be passed on. ``errors`` are the answers of the other partitions, None for those without batches.

    If no partition has valid batches, those without are not answered.
    """

    __slots__ = ("errors", "valid")

    def __init__(
        self, topics: Iterable[RequestedTopic], allowed: AllowedTopics, *, may_renew: bool, is_renewal: bool
    ) -> None:
        """``may_renew``: the version of the request knows renewals. ``is_renewal``: the request announced them."""
        self.valid: dict[TopicIdPartition, list[AcknowledgementBatch]] = {}
        self.errors: dict[TopicIdPartition, ApiException | None] = {}
        without_batches = []
        last_type = AcknowledgeType.RENEW if may_renew else AcknowledgeType.REJECT
        for topic in topics:
            for requested in topic.partitions:
                partition = TopicIdPartition(topic.topic_id, requested.partition_index)
                batches = requested.acknowledgement_batches
                error = allowed.error_of(partition)
                if error is None or error.code is not ErrorCode.UNKNOWN_TOPIC_ID:
                    error = _problem(batches, last_type, is_renewal=is_renewal) or error
                if error is not None:
                    self.errors[partition] = error
                elif batches:
                    self.valid[partition] = [
                        AcknowledgementBatch(batch.first_offset, batch.last_offset, tuple(batch.acknowledge_types))
                        for batch in batches
                    ]
                else:
                    without_batches.append(partition)
        if self.valid:
            self.errors.update(dict.fromkeys(without_batches))


def _problem(batches: Iterable[RequestedBatch], last_type: int, *, is_renewal: bool) -> ApiException | None:
    """Return INVALID_REQUEST if the batches are not in order, or if their types don't fit."""
    previous_end = -1
    for batch in batches:
        first, last, types = batch.first_offset, batch.last_offset, batch.acknowledge_types
        if first > last or first < previous_end:
            return _invalid(f"The offsets {first} to {last} are not in ascending order")
        if not types or (len(types) > 1 and len(types) != last - first + 1):
            return _invalid(f"The offsets {first} to {last} need one acknowledge type, or one each; {len(types)} exist")
        if min(types) < 0 or max(types) > last_type:
            return _invalid(f"Acknowledge types must be between 0 and {int(last_type)}")
        if AcknowledgeType.RENEW in types and not is_renewal:
            return _invalid("A request that renews locks must set IsRenewAck")
        previous_end = last
    return None


def _invalid(message: str) -> ApiException:
    return ApiException(ErrorCode.INVALID_REQUEST, message)
