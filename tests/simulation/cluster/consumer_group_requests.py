"""The requests of a member of the consumer protocol (KIP-848), and the meaning of their errors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from barnabas.common.errors import ErrorCode
from barnabas.protocol.messages import consumer_group_heartbeat as heartbeats
from tests.simulation.cluster.consumer_group_checks import TopicPartition
from tests.simulation.cluster.consumer_group_shape import Protocols, Subscription

__all__ = ["add_partitions", "add_subscription", "heartbeat", "is_join", "join", "leave", "partitions_of", "retried"]

RETRIED = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.UNRELEASED_INSTANCE_ID,
    }
)
LEAVES, LEAVES_FOR_A_SHORT_TIME = -1, -2


def retried(protocols: Protocols) -> frozenset[ErrorCode]:
    """Return the errors after which a member tries again.

    A classic group whose first generation is not complete cannot become a consumer group, in Kafka as well.
    """
    return RETRIED if protocols is Protocols.CONSUMER else RETRIED | {ErrorCode.UNKNOWN_SERVER_ERROR}


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


def is_join(request: Any) -> bool:
    return isinstance(request, heartbeats.ConsumerGroupHeartbeatRequest) and request.member_epoch == 0


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
