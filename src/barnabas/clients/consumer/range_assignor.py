"""Kafka's range assignor, and what consumers of a classic group exchange through the coordinator.

The partitions of each topic are divided into ranges, one for each member that subscribes to it, in the order of the
member ids; the first members get one partition more if there is a rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from barnabas.common.topic_partition import TopicPartition
from barnabas.protocol.errors import DecodeError
from barnabas.protocol.records.consumer_protocol_assignment import ConsumerProtocolAssignment
from barnabas.protocol.records.consumer_protocol_assignment import TopicPartition as AssignedTopic
from barnabas.protocol.records.consumer_protocol_subscription import ConsumerProtocolSubscription

__all__ = ["PROTOCOL_NAME", "PROTOCOL_TYPE", "assign", "read_assignment", "subscribed_topics", "subscription"]

PROTOCOL_TYPE = "consumer"
PROTOCOL_NAME = "range"

_VERSION = b"\0\0"
"""Version 0, which all clients read: later ones add fields at the end."""


def assign(topics_by_member: Mapping[str, Sequence[str]], partition_counts: Mapping[str, int]) -> dict[str, bytes]:
    """Return the assignment of each member, for SyncGroup. A topic without a count has no partitions."""
    assigned: dict[str, list[AssignedTopic]] = {member: [] for member in topics_by_member}
    for topic in sorted({topic for topics in topics_by_member.values() for topic in topics}):
        members = sorted(member for member, topics in topics_by_member.items() if topic in topics)
        share, rest = divmod(partition_counts.get(topic, 0), len(members))
        start = 0
        for index, member in enumerate(members):
            end = start + share + (index < rest)
            if end > start:
                assigned[member].append(AssignedTopic(topic=topic, partitions=list(range(start, end))))
            start = end
    return {
        member: _VERSION + ConsumerProtocolAssignment(assigned_partitions=partitions).encode(0)
        for member, partitions in assigned.items()
    }


def read_assignment(data: bytes) -> frozenset[TopicPartition]:
    """Return the assigned partitions. Raise DecodeError."""
    if not data:
        return frozenset()
    read = ConsumerProtocolAssignment.decode(data, 0, len(_VERSION))
    return frozenset(
        TopicPartition(part.topic, number) for part in read.assigned_partitions for number in part.partitions
    )


def subscription(topics: Sequence[str]) -> bytes:
    """Return the metadata of a member that reads these topics, for JoinGroup."""
    return _VERSION + ConsumerProtocolSubscription(topics=list(topics)).encode(0)


def subscribed_topics(metadata: bytes) -> list[str]:
    """Return the topics of another member; none if its metadata can't be read."""
    try:
        return list(ConsumerProtocolSubscription.decode(metadata, 0, len(_VERSION)).topics)
    except DecodeError:
        return []
