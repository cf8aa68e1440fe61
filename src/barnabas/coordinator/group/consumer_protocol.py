"""The ``consumer`` embedded protocol: what classic consumers write into JoinGroup and SyncGroup.

Data begin with their version; a newer version than ours is read as our newest. The coordinator reads subscriptions to
know a group's topics, and both directions when a group changes its protocol.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from struct import Struct

from barnabas.protocol.errors import BufferUnderflow, DecodeError, UnsupportedVersion
from barnabas.protocol.record_serde import encode_versioned
from barnabas.protocol.records.consumer_protocol_assignment import ConsumerProtocolAssignment, TopicPartition
from barnabas.protocol.records.consumer_protocol_subscription import ConsumerProtocolSubscription

__all__ = ["PROTOCOL_TYPE", "read_assignment", "read_subscription", "subscribed_topics", "write_assignment"]

PROTOCOL_TYPE = "consumer"
_NEWEST_VERSION = 3
_VERSION = Struct(">h")


def subscribed_topics(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """Return the union of all members' topics, or None if one of them can't be read.

    Each is read as version 0 whatever its version field: every version begins with version 0, so that newer clients
    are supported. Most members of a group have the same bytes.
    """
    topics: set[str] = set()
    try:
        for subscription in set(subscriptions):
            if len(subscription) < _VERSION.size:
                return None
            topics.update(ConsumerProtocolSubscription.decode(subscription, 0, _VERSION.size).topics)
    except DecodeError:
        return None
    return frozenset(topics)


def read_subscription(data: bytes) -> ConsumerProtocolSubscription:
    """Raise DecodeError for bytes that are not a subscription."""
    return ConsumerProtocolSubscription.decode(data, _version_of(data), _VERSION.size)


def read_assignment(data: bytes) -> ConsumerProtocolAssignment:
    """Raise DecodeError for bytes that are not an assignment."""
    return ConsumerProtocolAssignment.decode(data, _version_of(data), _VERSION.size)


def write_assignment(partitions: Mapping[str, Sequence[int]], subscription: bytes) -> bytes:
    """Return the assignment of a member, in the version of its subscription. Raise DecodeError if that has none."""
    topics = [TopicPartition(topic=name, partitions=list(of_topic)) for name, of_topic in partitions.items()]
    return encode_versioned(ConsumerProtocolAssignment(assigned_partitions=topics), _version_of(subscription))


def _version_of(data: bytes) -> int:
    if len(data) < _VERSION.size:
        raise BufferUnderflow(f"{len(data)} bytes of the consumer protocol do not have a version")
    version: int = _VERSION.unpack_from(data)[0]
    if version < 0:
        raise UnsupportedVersion(f"version {version} of the consumer protocol does not exist")
    return min(version, _NEWEST_VERSION)
