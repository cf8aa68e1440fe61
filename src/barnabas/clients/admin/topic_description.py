"""A topic with its partitions, as DescribeTopicPartitions and Metadata tell it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from barnabas.clients.admin.protocol_codes import authorized_operations
from barnabas.common.acl import AclOperation
from barnabas.common.uuid import Uuid

if TYPE_CHECKING:
    from barnabas.protocol.messages.describe_topic_partitions import (
        DescribeTopicPartitionsResponsePartition,
        DescribeTopicPartitionsResponseTopic,
    )
    from barnabas.protocol.messages.metadata import MetadataResponsePartition, MetadataResponseTopic

__all__ = ["DescribedTopic", "TopicDescription", "TopicPartitionInfo", "joined", "topic_description"]

DescribedTopic: TypeAlias = "MetadataResponseTopic | DescribeTopicPartitionsResponseTopic"


@dataclass(frozen=True, slots=True)
class TopicPartitionInfo:
    """``leader`` is None while there is none. The last two are None when the node does not tell them."""

    partition: int
    leader: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...] = ()
    leader_epoch: int | None = None
    eligible_leader_replicas: tuple[int, ...] | None = None
    last_known_elr: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class TopicDescription:
    name: str
    topic_id: Uuid
    is_internal: bool
    partitions: tuple[TopicPartitionInfo, ...]
    authorized_operations: frozenset[AclOperation] | None = None


def topic_description(topic: DescribedTopic, with_operations: bool) -> TopicDescription:
    return TopicDescription(
        topic.name or "",
        topic.topic_id,
        topic.is_internal,
        tuple(sorted(map(_partition, topic.partitions), key=lambda partition: partition.partition)),
        authorized_operations(topic.topic_authorized_operations) if with_operations else None,
    )


def _partition(each: MetadataResponsePartition | DescribeTopicPartitionsResponsePartition) -> TopicPartitionInfo:
    return TopicPartitionInfo(
        each.partition_index,
        each.leader_id if each.leader_id >= 0 else None,
        tuple(each.replica_nodes),
        tuple(each.isr_nodes),
        tuple(each.offline_replicas),
        each.leader_epoch if each.leader_epoch >= 0 else None,
        _optional(getattr(each, "eligible_leader_replicas", None)),
        _optional(getattr(each, "last_known_elr", None)),
    )


def _optional(ids: list[int] | None) -> tuple[int, ...] | None:
    return None if ids is None else tuple(ids)


def joined(begun: TopicDescription, page: TopicDescription) -> TopicDescription:
    return TopicDescription(
        begun.name,
        begun.topic_id,
        begun.is_internal,
        begun.partitions + page.partitions,
        begun.authorized_operations,
    )
