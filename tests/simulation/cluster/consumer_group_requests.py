"""The requests of a member of the consumer protocol (KIP-848), and the meaning of their errors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from barnabas.common.errors import ErrorCode
from barnabas.protocol.messages import consumer_group_heartbeat as heartbeats
from barnabas.protocol.messages import offset_commit, offset_fetch
from tests.simulation.cluster.consumer_group_checks import TopicPartition
from tests.simulation.cluster.consumer_group_shape import DATA_TOPIC, Subscription

__all__ = [
    "RETRIED",
    "add_partitions",
    "add_subscription",
    "code_of_committed",
    "code_of_fetched",
    "commit",
    "committed_offsets",
    "fetch",
    "heartbeat",
    "is_commit",
    "join",
    "leave",
    "partitions_of",
]

RETRIED = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNRELEASED_INSTANCE_ID,
    }
)
LEAVES, LEAVES_FOR_A_SHORT_TIME = -1, -2


def heartbeat(group: str, member_id: str, epoch: int, instance_id: str | None) -> Any:
    return heartbeats.ConsumerGroupHeartbeatRequest(
        group_id=group, member_id=member_id, member_epoch=epoch, instance_id=instance_id
    )


def join(
    group: str,
    member_id: str,
    instance_id: str | None,
    subscription: Subscription,
    assignor: str | None,
    rebalance_ms: int,
) -> Any:
    request = heartbeat(group, member_id, 0, instance_id)
    request.rebalance_timeout_ms = rebalance_ms
    add_subscription(request, subscription, assignor)
    add_partitions(request, ())
    return request


def leave(group: str, member_id: str, instance_id: str | None, *, returns: bool) -> Any:
    return heartbeat(group, member_id, LEAVES_FOR_A_SHORT_TIME if returns else LEAVES, instance_id)


def add_subscription(request: Any, subscription: Subscription, assignor: str | None) -> None:
    request.subscribed_topic_names = sorted(subscription.names)
    request.subscribed_topic_regex = subscription.pattern
    request.server_assignor = assignor


def add_partitions(request: Any, partitions: Iterable[TopicPartition]) -> None:
    by_topic: dict[Any, list[int]] = {}
    for topic_id, index in sorted(partitions):
        by_topic.setdefault(topic_id, []).append(index)
    request.topic_partitions = [
        heartbeats.TopicPartitions(topic_id=topic_id, partitions=indexes) for topic_id, indexes in by_topic.items()
    ]


def partitions_of(assignment: Any) -> frozenset[TopicPartition]:
    return frozenset(
        TopicPartition(topic.topic_id, index) for topic in assignment.topic_partitions for index in topic.partitions
    )


# --- offsets of one topic


def commit(
    group: str, member_id: str, instance_id: str | None, epoch: int, offsets: Mapping[TopicPartition, int]
) -> Any:
    topic = offset_commit.OffsetCommitRequestTopic(
        name=DATA_TOPIC,
        topic_id=next(iter(offsets)).topic_id,
        partitions=[
            offset_commit.OffsetCommitRequestPartition(partition_index=partition.partition, committed_offset=offset)
            for partition, offset in offsets.items()
        ],
    )
    return offset_commit.OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=epoch,
        member_id=member_id,
        group_instance_id=instance_id,
        topics=[topic],
    )


def is_commit(request: Any) -> bool:
    return isinstance(request, offset_commit.OffsetCommitRequest)


def committed_offsets(request: Any) -> dict[TopicPartition, int]:
    topic = request.topics[0]
    return {
        TopicPartition(topic.topic_id, partition.partition_index): partition.committed_offset
        for partition in topic.partitions
    }


def code_of_committed(answer: Any) -> ErrorCode:
    codes = [ErrorCode(partition.error_code) for partition in answer.topics[0].partitions]
    return next((code for code in codes if code is not ErrorCode.NONE), ErrorCode.NONE)


def fetch(group: str, member_id: str, epoch: int, partitions: list[TopicPartition]) -> Any:
    topic = offset_fetch.OffsetFetchRequestTopics(
        name=DATA_TOPIC,
        topic_id=partitions[0].topic_id,
        partition_indexes=[partition.partition for partition in partitions],
    )
    wanted = offset_fetch.OffsetFetchRequestGroup(
        group_id=group, member_id=member_id, member_epoch=epoch, topics=[topic]
    )
    return offset_fetch.OffsetFetchRequest(groups=[wanted])


def code_of_fetched(group: Any) -> ErrorCode:
    if group.error_code:
        return ErrorCode(group.error_code)
    codes = [ErrorCode(partition.error_code) for partition in group.topics[0].partitions]
    return next((code for code in codes if code is not ErrorCode.NONE), ErrorCode.NONE)
