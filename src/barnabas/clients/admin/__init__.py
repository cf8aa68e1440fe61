"""The public admin client: topics, configs, access rules, groups, quotas, users and the cluster, of any Kafka.

A name is imported when it is first used, because all of them together take longer than most commands.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from barnabas.clients.admin.client import AdminClient
    from barnabas.clients.admin.cluster import ClusterDescription, Node
    from barnabas.clients.admin.config_entries import (
        AlterConfigOp,
        AlterConfigOpType,
        Config,
        ConfigEntry,
        ConfigResource,
        ConfigResourceType,
        ConfigSource,
        ConfigSynonym,
    )
    from barnabas.clients.admin.errors import (
        AdminError,
        ClusterAuthorizationFailed,
        DelegationTokenNotFound,
        GroupAuthorizationFailed,
        GroupIdNotFound,
        GroupNotEmpty,
        GroupSubscribedToTopic,
        InvalidConfig,
        InvalidPartitions,
        InvalidReplicationFactor,
        InvalidRequest,
        InvalidTopic,
        InvalidUpdateVersion,
        NotVisible,
        OperationTimedOut,
        PolicyViolation,
        ResourceNotFound,
        SecurityDisabled,
        TopicAlreadyExists,
        TopicAuthorizationFailed,
        UnknownTopicOrPartition,
    )
    from barnabas.clients.admin.features import FeatureMetadata, FeatureUpdate, UpgradeType, VersionRange
    from barnabas.clients.admin.group_description import GroupDescription, StreamsTopology, Subtopology
    from barnabas.clients.admin.group_member import MemberDescription, StreamsTasks, TaskId
    from barnabas.clients.admin.group_offsets import OffsetAndMetadata
    from barnabas.clients.admin.groups import GroupListing, GroupListings, MemberToRemove
    from barnabas.clients.admin.log_dirs import LogDirDescription, ReplicaInfo, TopicPartitionReplica
    from barnabas.clients.admin.partitions import IsolationLevel, ListedOffset, OffsetSpec
    from barnabas.clients.admin.quorum import QuorumInfo, QuorumNode, RaftVoterEndpoint, ReplicaState
    from barnabas.clients.admin.quotas import ClientQuotaEntity, ClientQuotaFilter, QuotaMatch
    from barnabas.clients.admin.replicas import ElectionType, PartitionReassignment
    from barnabas.clients.admin.results import Results
    from barnabas.clients.admin.share_group_offsets import ShareGroupOffset
    from barnabas.clients.admin.sync_client import SyncAdminClient
    from barnabas.clients.admin.tokens import DelegationToken
    from barnabas.clients.admin.topic_description import TopicDescription, TopicPartitionInfo
    from barnabas.clients.admin.topics import (
        CreatedTopic,
        NewPartitions,
        NewTopic,
        TopicListing,
    )
    from barnabas.clients.admin.transactions import (
        FencedProducer,
        ProducerState,
        TransactionDescription,
        TransactionListing,
        TransactionListings,
    )
    from barnabas.clients.admin.users import ScramCredentialInfo, ScramDeletion, ScramUpsertion
    from barnabas.clients.errors import ClientError, UnsupportedVersion
    from barnabas.common.acl import AclBinding, AclBindingFilter, AclOperation, AclPermissionType
    from barnabas.common.resource import PatternType, ResourceType
    from barnabas.common.scram_mechanism import ScramMechanism
    from barnabas.common.topic_partition import TopicPartition
    from barnabas.common.uuid import Uuid

__all__ = [
    "AclBinding",
    "AclBindingFilter",
    "AclOperation",
    "AclPermissionType",
    "AdminClient",
    "AdminError",
    "AlterConfigOp",
    "AlterConfigOpType",
    "ClientError",
    "ClientQuotaEntity",
    "ClientQuotaFilter",
    "ClusterAuthorizationFailed",
    "ClusterDescription",
    "Config",
    "ConfigEntry",
    "ConfigResource",
    "ConfigResourceType",
    "ConfigSource",
    "ConfigSynonym",
    "CreatedTopic",
    "DelegationToken",
    "DelegationTokenNotFound",
    "ElectionType",
    "FeatureMetadata",
    "FeatureUpdate",
    "FencedProducer",
    "GroupAuthorizationFailed",
    "GroupDescription",
    "GroupIdNotFound",
    "GroupListing",
    "GroupListings",
    "GroupNotEmpty",
    "GroupSubscribedToTopic",
    "InvalidConfig",
    "InvalidPartitions",
    "InvalidReplicationFactor",
    "InvalidRequest",
    "InvalidTopic",
    "InvalidUpdateVersion",
    "IsolationLevel",
    "ListedOffset",
    "LogDirDescription",
    "MemberDescription",
    "MemberToRemove",
    "NewPartitions",
    "NewTopic",
    "Node",
    "NotVisible",
    "OffsetAndMetadata",
    "OffsetSpec",
    "OperationTimedOut",
    "PartitionReassignment",
    "PatternType",
    "PolicyViolation",
    "ProducerState",
    "QuorumInfo",
    "QuorumNode",
    "QuotaMatch",
    "RaftVoterEndpoint",
    "ReplicaInfo",
    "ReplicaState",
    "ResourceNotFound",
    "ResourceType",
    "Results",
    "ScramCredentialInfo",
    "ScramDeletion",
    "ScramMechanism",
    "ScramUpsertion",
    "SecurityDisabled",
    "ShareGroupOffset",
    "StreamsTasks",
    "StreamsTopology",
    "Subtopology",
    "SyncAdminClient",
    "TaskId",
    "TopicAlreadyExists",
    "TopicAuthorizationFailed",
    "TopicDescription",
    "TopicListing",
    "TopicPartition",
    "TopicPartitionInfo",
    "TopicPartitionReplica",
    "TransactionDescription",
    "TransactionListing",
    "TransactionListings",
    "UnknownTopicOrPartition",
    "UnsupportedVersion",
    "UpgradeType",
    "Uuid",
    "VersionRange",
]

_MODULES = {
    "barnabas.clients.admin.client": ("AdminClient",),
    "barnabas.clients.admin.cluster": (
        "ClusterDescription",
        "Node",
    ),
    "barnabas.clients.admin.config_entries": (
        "AlterConfigOp",
        "AlterConfigOpType",
        "Config",
        "ConfigEntry",
        "ConfigResource",
        "ConfigResourceType",
        "ConfigSource",
        "ConfigSynonym",
    ),
    "barnabas.clients.admin.errors": (
        "AdminError",
        "ClusterAuthorizationFailed",
        "DelegationTokenNotFound",
        "GroupAuthorizationFailed",
        "GroupIdNotFound",
        "GroupNotEmpty",
        "GroupSubscribedToTopic",
        "InvalidConfig",
        "InvalidPartitions",
        "InvalidReplicationFactor",
        "InvalidRequest",
        "InvalidTopic",
        "InvalidUpdateVersion",
        "NotVisible",
        "OperationTimedOut",
        "PolicyViolation",
        "ResourceNotFound",
        "SecurityDisabled",
        "TopicAlreadyExists",
        "TopicAuthorizationFailed",
        "UnknownTopicOrPartition",
    ),
    "barnabas.clients.admin.features": (
        "FeatureMetadata",
        "FeatureUpdate",
        "UpgradeType",
        "VersionRange",
    ),
    "barnabas.clients.admin.group_description": (
        "GroupDescription",
        "StreamsTopology",
        "Subtopology",
    ),
    "barnabas.clients.admin.group_member": (
        "MemberDescription",
        "StreamsTasks",
        "TaskId",
    ),
    "barnabas.clients.admin.group_offsets": ("OffsetAndMetadata",),
    "barnabas.clients.admin.groups": (
        "GroupListing",
        "GroupListings",
        "MemberToRemove",
    ),
    "barnabas.clients.admin.log_dirs": (
        "LogDirDescription",
        "ReplicaInfo",
        "TopicPartitionReplica",
    ),
    "barnabas.clients.admin.partitions": (
        "IsolationLevel",
        "ListedOffset",
        "OffsetSpec",
    ),
    "barnabas.clients.admin.quorum": (
        "QuorumInfo",
        "QuorumNode",
        "RaftVoterEndpoint",
        "ReplicaState",
    ),
    "barnabas.clients.admin.quotas": (
        "ClientQuotaEntity",
        "ClientQuotaFilter",
        "QuotaMatch",
    ),
    "barnabas.clients.admin.replicas": (
        "ElectionType",
        "PartitionReassignment",
    ),
    "barnabas.clients.admin.results": ("Results",),
    "barnabas.clients.admin.share_group_offsets": ("ShareGroupOffset",),
    "barnabas.clients.admin.sync_client": ("SyncAdminClient",),
    "barnabas.clients.admin.tokens": ("DelegationToken",),
    "barnabas.clients.admin.topic_description": (
        "TopicDescription",
        "TopicPartitionInfo",
    ),
    "barnabas.clients.admin.topics": (
        "CreatedTopic",
        "NewPartitions",
        "NewTopic",
        "TopicListing",
    ),
    "barnabas.clients.admin.transactions": (
        "FencedProducer",
        "ProducerState",
        "TransactionDescription",
        "TransactionListing",
        "TransactionListings",
    ),
    "barnabas.clients.admin.users": (
        "ScramCredentialInfo",
        "ScramDeletion",
        "ScramUpsertion",
    ),
    "barnabas.clients.errors": (
        "ClientError",
        "UnsupportedVersion",
    ),
    "barnabas.common.acl": (
        "AclBinding",
        "AclBindingFilter",
        "AclOperation",
        "AclPermissionType",
    ),
    "barnabas.common.resource": (
        "PatternType",
        "ResourceType",
    ),
    "barnabas.common.scram_mechanism": ("ScramMechanism",),
    "barnabas.common.topic_partition": ("TopicPartition",),
    "barnabas.common.uuid": ("Uuid",),
}
"""The module of each public name; ``tests/unit/clients/admin`` compares them with the imports above."""


if not TYPE_CHECKING:  # A type checker would accept any name.

    def __getattr__(name: str) -> object:
        for module, names in _MODULES.items():
            if name in names:
                found: object = getattr(import_module(module), name)
                globals()[name] = found
                return found
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
