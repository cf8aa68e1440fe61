"""The requests whose turns are measured, and the names of the topics that they are about."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from barnabas.common.uuid import Uuid
from barnabas.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    EntityData,
    OpData,
)
from barnabas.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    BrokerState,
)
from barnabas.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from barnabas.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsRequestDirectoryData,
    AssignReplicasToDirsRequestPartitionData,
    AssignReplicasToDirsRequestTopicData,
)
from barnabas.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from barnabas.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from bench.turns_stage import BROKERS, Stage
from tests.unit.controller.controller_harness import topic
from tests.unit.controller.partitions_of_broker import partitions_on

__all__ = [
    "Shape",
    "acl_creation",
    "acl_deletion",
    "acl_deletion_of_all",
    "assignments",
    "deletion",
    "feature",
    "isr_changes",
    "quotas",
    "reassignment",
    "settings",
    "topic_id",
    "topic_name",
    "topics",
]


class Shape(NamedTuple):
    topics: int
    partitions: int
    replicas: int

    @property
    def name(self) -> str:
        partitions = "partition" if self.partitions == 1 else "partitions"
        replicas = "replica" if self.replicas == 1 else "replicas"
        return f"{self.topics:,} topics of {self.partitions} {partitions}, {self.replicas} {replicas}"


def topic_name(index: int) -> str:
    return f"topic-{index:06}"


def topic_id(index: int) -> Uuid:
    return Uuid.from_int((0x1234_5678_9ABC_DEF0 << 64) | (index * 2_654_435_761 & 0xFFFF_FFFF_FFFF))


def acl_creation(first: int, count: int) -> Any:
    """Rules about topics with names of their own."""
    creations = [
        AclCreation(
            resource_type=2,
            resource_name=f"acl-{number:06}",
            resource_pattern_type=3,
            principal="User:alice",
            host="*",
            operation=3,
            permission_type=3,
        )
        for number in range(first, first + count)
    ]
    return CreateAclsRequest(creations=creations)


def acl_deletion(first: int, count: int) -> Any:
    """The same rules by a filter for each."""
    filters = [
        DeleteAclsFilter(
            resource_type_filter=2,
            resource_name_filter=f"acl-{number:06}",
            pattern_type_filter=3,
            principal_filter=None,
            host_filter=None,
            operation=1,
            permission_type=1,
        )
        for number in range(first, first + count)
    ]
    return DeleteAclsRequest(filters=filters)


def acl_deletion_of_all() -> Any:
    return DeleteAclsRequest(
        filters=[
            DeleteAclsFilter(
                resource_type_filter=1,
                resource_name_filter=None,
                pattern_type_filter=1,
                principal_filter=None,
                host_filter=None,
                operation=1,
                permission_type=1,
            )
        ]
    )


def quotas(count: int) -> Any:
    entries = [
        AlterClientQuotasRequestEntryData(
            entity=[EntityData(entity_type="user", entity_name=f"user-{number}")],
            ops=[OpData(key="producer_byte_rate", value=1_000_000.0, remove=False)],
        )
        for number in range(count)
    ]
    return AlterClientQuotasRequest(entries=entries)


def topics(prefix: str, count: int, partitions: int) -> list[Any]:
    return [topic(f"{prefix}-{number:05}", partitions, 1) for number in range(count)]


def _places(shape: Shape, count: int) -> Iterator[tuple[int, list[int]]]:
    """The topic and its partitions, until there are so many partitions."""
    index = 0
    while count > 0:
        yield index, list(range(min(count, shape.partitions)))
        count -= shape.partitions
        index += 1


def reassignment(shape: Shape, count: int) -> Any:
    reassigned = [
        ReassignableTopic(
            name=topic_name(index),
            partitions=[
                ReassignablePartition(partition_index=number, replicas=[4, *BROKERS][: shape.replicas])
                for number in ids
            ],
        )
        for index, ids in _places(shape, count)
    ]
    return AlterPartitionReassignmentsRequest(topics=reassigned)


def isr_changes(stage: Stage, count: int) -> Any:
    """Of partitions that broker 2 leads: it proposes itself alone."""
    image = stage.controller.state.image
    brokers = image.cluster.brokers
    changes = []
    for place, (found, index, partition) in enumerate(partitions_on(image.topics, 2)):
        if partition.leader == 2 and not partition.is_reassigning:
            data = AlterPartitionRequestPartitionData(
                partition_index=index,
                leader_epoch=partition.leader_epoch,
                partition_epoch=partition.partition_epoch,
                new_isr_with_epochs=[BrokerState(broker_id=2, broker_epoch=brokers[2].epoch)],
            )
            changes.append(AlterPartitionRequestTopicData(topic_id=found.id, partitions=[data]))
        if len(changes) == count or place > 100_000:
            break
    return AlterPartitionRequest(broker_id=2, broker_epoch=brokers[2].epoch, topics=changes)


def assignments(stage: Stage, count: int) -> Any:
    named = []
    for found, index, _ in partitions_on(stage.controller.state.image.topics, 3):
        partition = AssignReplicasToDirsRequestPartitionData(partition_index=index)
        named.append(AssignReplicasToDirsRequestTopicData(topic_id=found.id, partitions=[partition]))
        if len(named) == count:
            break
    directory = AssignReplicasToDirsRequestDirectoryData(id=Uuid.from_int(1), topics=named)
    broker = stage.controller.state.image.cluster.brokers[3]
    return AssignReplicasToDirsRequest(broker_id=3, broker_epoch=broker.epoch, directories=[directory])


def settings(count: int) -> Any:
    change = AlterableConfig(name="retention.ms", config_operation=0, value="86400000")
    resources = [
        AlterConfigsResource(resource_type=2, resource_name=topic_name(index), configs=[change])
        for index in range(count)
    ]
    return IncrementalAlterConfigsRequest(resources=resources)


def feature(level: int, upgrade_type: int) -> Any:
    key = FeatureUpdateKey(
        feature="eligible.leader.replicas.version", max_version_level=level, upgrade_type=upgrade_type
    )
    return UpdateFeaturesRequest(feature_updates=[key])


def deletion(prefix: str, count: int) -> Any:
    return DeleteTopicsRequest(topics=[DeleteTopicState(name=f"{prefix}-{number:05}") for number in range(count)])
