"""A topic with its partitions, as DescribeTopicPartitions and Metadata describe it."""

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
    """``leader`` is None without a leader. The last two are None when the node does not return them."""

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


def _partition(partition: MetadataResponsePartition | DescribeTopicPartitionsResponsePartition) -> TopicPartitionInfo:
    return TopicPartitionInfo(
        partition.partition_index,
        partition.leader_id if partition.leader_id >= 0 else None,
        tuple(partition.replica_nodes),
        tuple(partition.isr_nodes),
        tuple(partition.offline_replicas),
        partition.leader_epoch if partition.leader_epoch >= 0 else None,
        _optional(getattr(partition, "eligible_leader_replicas", None)),
        _optional(getattr(partition, "last_known_elr", None)),
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
