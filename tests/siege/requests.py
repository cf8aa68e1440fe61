"""Large and odd requests, from users with few rights or none."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from barnabas.common.uuid import Uuid
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from barnabas.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from barnabas.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from barnabas.protocol.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from barnabas.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from barnabas.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.protocol.messages.describe_acls import DescribeAclsRequest
from barnabas.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from barnabas.protocol.messages.describe_groups import DescribeGroupsRequest
from barnabas.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from barnabas.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from barnabas.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from barnabas.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from barnabas.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from barnabas.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.siege.before_login import always
from tests.siege.entry import Entry, Way
from tests.siege.frames import MIB, request, sized, tags, varint
from tests.siege.stage import BOB, CONTROLLER, GROUP, MALLORY, OWN_TOPIC, Scene

__all__ = ["REQUESTS"]

_MANY = 90_000
"""Just below the limit of names in one request (``barnabas.request.max.elements``)."""
_MANY_AT_ONCE = 19_900
"""Just below the limit of names where the request is decided as a whole."""
_TOO_MANY = 2_000_000
_SASL = "SASL_PLAINTEXT"


def _names(count: int = _MANY) -> list[str]:
    return [f"topic-{number}" for number in range(count)]


def _metadata(count: int) -> bytes:
    return request(MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in _names(count)]), 12)


def _metadata_of_ids(scene: Scene, rng: Random) -> list[bytes]:
    topics = [MetadataRequestTopic(topic_id=Uuid(rng.randbytes(16)), name=None) for _ in range(_MANY)]
    return [request(MetadataRequest(topics=topics), 12)]


def _fetch(count: int, epoch: int) -> Callable[[Scene, Random], list[bytes]]:
    def make(scene: Scene, rng: Random) -> list[bytes]:
        partitions = [FetchPartition(partition=number, partition_max_bytes=1000) for number in range(count)]
        topic = FetchTopic(topic_id=Uuid(scene.own_topic_id), partitions=partitions)
        return [request(FetchRequest(max_wait_ms=0, session_epoch=epoch, topics=[topic]), 17)]

    return make


def _create_topics(count: int) -> bytes:
    topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in _names(count)]
    return request(CreateTopicsRequest(topics=topics, timeout_ms=5000))


def _join(member: str, size: int) -> bytes:
    return request(
        JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=30_000,
            rebalance_timeout_ms=60_000,
            member_id=member,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=bytes(size))],
        ),
        9,
    )


def _commit(count: int) -> bytes:
    partitions = [
        OffsetCommitRequestPartition(partition_index=number, committed_offset=1, committed_metadata="")
        for number in range(count)
    ]
    topic = OffsetCommitRequestTopic(name=OWN_TOPIC, partitions=partitions)
    return request(OffsetCommitRequest(group_id=GROUP, generation_id_or_member_epoch=-1, topics=[topic]), 9)


def _fetch_offsets(count: int) -> bytes:
    topic = OffsetFetchRequestTopics(name=OWN_TOPIC, partition_indexes=list(range(count)))
    return request(OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=GROUP, topics=[topic])]), 9)


def _acl(number: int, size: int) -> AclCreation:
    return AclCreation(
        resource_type=2,
        resource_name=f"{number}" + "x" * size,
        resource_pattern_type=3,
        principal="User:x",
        host="*",
        operation=3,
        permission_type=3,
    )


def _acl_filters(count: int) -> bytes:
    filters = [
        DeleteAclsFilter(
            resource_type_filter=1, resource_name_filter=None, pattern_type_filter=1, principal_filter=None,
            host_filter=None, operation=1, permission_type=1,
        )
        for _ in range(count)
    ]  # fmt: skip
    return request(DeleteAclsRequest(filters=filters))


def _configs(count: int, kind: int, name: str) -> bytes:
    keys = [f"unknown.{number}" for number in range(count)]
    return request(
        DescribeConfigsRequest(
            resources=[DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)]
        )
    )


def _alter_configs(count: int, kind: int, name: str) -> bytes:
    configs = [AlterableConfig(name=f"unknown.{n}", config_operation=0, value="1") for n in range(count)]
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    return request(IncrementalAlterConfigsRequest(resources=[resource]))


def _token(renewers: int) -> bytes:
    names = [CreatableRenewers(principal_type="User", principal_name=f"r{n}") for n in range(renewers)]
    return request(CreateDelegationTokenRequest(renewers=names, max_lifetime_ms=-1), 3)


def _offsets(count: int) -> bytes:
    partitions = [ListOffsetsPartition(partition_index=n, timestamp=-1) for n in range(count)]
    return request(ListOffsetsRequest(topics=[ListOffsetsTopic(name=OWN_TOPIC, partitions=partitions)]), 9)


def _epochs(count: int) -> bytes:
    topics = [
        OffsetForLeaderTopic(topic=name, partitions=[OffsetForLeaderPartition(partition=0)])
        for name in _names(count // 2)
    ]
    return request(OffsetForLeaderEpochRequest(topics=topics))


def _scram(count: int) -> bytes:
    upsertions = [
        ScramCredentialUpsertion(name=f"u{n}", mechanism=1, iterations=16384, salt=b"s" * 16, salted_password=b"p" * 32)
        for n in range(count)
    ]
    return request(AlterUserScramCredentialsRequest(upsertions=upsertions))


_EVERY_ACL = DescribeAclsRequest(
    resource_type_filter=1, resource_name_filter=None, pattern_type_filter=1, principal_filter=None, host_filter=None,
    operation=1, permission_type=1,
)  # fmt: skip


REQUESTS = (
    *(
        Entry(f"Metadata with 20 MB of empty tagged fields, {listener}", listener,
              always(lambda: sized(ApiKey.METADATA, 12, b"\x01\0\0" + tags(20 * MIB))), user=user, connections=2)
        for listener, user in (("PLAINTEXT", None), (_SASL, BOB), ("SASL_SSL", BOB))
    ),
    Entry("DescribeQuorum with 20 MB of empty tagged fields, controller", CONTROLLER,
          always(lambda: sized(ApiKey.DESCRIBE_QUORUM, 2, b"\x01" + tags(20 * MIB))), user=BOB, connections=2),
    Entry("Metadata with 1 MB of tagged fields of 100 bytes", _SASL,
          always(lambda: sized(ApiKey.METADATA, 12, b"\x01\0\0" + tags(MIB, 100))), user=BOB),
    Entry("Heartbeat with 1 MB of empty tagged fields", _SASL,
          always(lambda: sized(ApiKey.HEARTBEAT, 4, b"\x02g\0\0\0\0\x02m\0" + tags(MIB - 100))), user=BOB),
    Entry("Metadata whose topics have 60 tagged fields each", _SASL,
          always(lambda: sized(ApiKey.METADATA, 12,
                               varint(5001) + (bytes(16) + b"\x02t" + tags(180)) * 5000 + b"\0\0\0")),
          user=BOB),
    Entry("array that claims 2^31 - 1 elements", _SASL,
          always(lambda: sized(ApiKey.METADATA, 5, b"\x7f\xff\xff\xff" + bytes(MIB))), user=BOB),
    Entry("varints of five bytes", _SASL,
          always(lambda: sized(ApiKey.METADATA, 12, b"\xff\xff\xff\xff\x0f" * 200_000)), user=BOB),
    Entry("Metadata of 2,000,000 names of one byte", _SASL,
          always(lambda: sized(ApiKey.METADATA, 5, _TOO_MANY.to_bytes(4, "big") + b"\0\x01t" * _TOO_MANY + b"\0")),
          user=BOB, connections=2),
    Entry("Metadata of 90,000 unknown names", _SASL, always(lambda: _metadata(_MANY)), user=BOB),
    Entry("Metadata of 90,000 unknown names, PLAINTEXT", "PLAINTEXT", always(lambda: _metadata(_MANY))),
    Entry("Metadata of 90,000 unknown ids", _SASL, _metadata_of_ids, user=BOB),
    Entry("Metadata of 1,900 unknown names without end", _SASL, always(lambda: _metadata(1900)), user=BOB,
          connections=16),
    Entry("Metadata of names of 32 KB", _SASL,
          always(lambda: request(MetadataRequest(topics=[MetadataRequestTopic(name="x" * 32_000)] * 1500), 12)),
          user=BOB),
    Entry("DescribeTopicPartitions of 90,000 names", _SASL,
          always(lambda: request(DescribeTopicPartitionsRequest(topics=[TopicRequest(name=n) for n in _names()]))),
          user=BOB),
    Entry("CreateTopics of 90,000 topics without a right", _SASL, always(lambda: _create_topics(_MANY)), user=BOB),
    Entry("DeleteTopics of 90,000 ids", _SASL,
          lambda scene, rng: [request(DeleteTopicsRequest(topics=[DeleteTopicState(
              name=None, topic_id=Uuid(rng.randbytes(16))) for _ in range(_MANY)]))], user=BOB),
    Entry("CreateTopics of 19,900 topics without a right", _SASL, always(lambda: _create_topics(_MANY_AT_ONCE)),
          user=BOB),
    Entry("CreatePartitions of 19,900 topics without a right", _SASL,
          always(lambda: request(CreatePartitionsRequest(topics=[
              CreatePartitionsTopic(name=name, count=9, assignments=None) for name in _names(_MANY_AT_ONCE)],
              timeout_ms=5000))), user=BOB),
    Entry("DeleteTopics of 19,900 names without a right", _SASL,
          always(lambda: request(DeleteTopicsRequest(topics=[
              DeleteTopicState(name=name) for name in _names(_MANY_AT_ONCE)], timeout_ms=5000))), user=BOB),
    Entry("IncrementalAlterConfigs of 9,900 topics without a right", _SASL,
          always(lambda: request(IncrementalAlterConfigsRequest(resources=[
              AlterConfigsResource(resource_type=2, resource_name=name, configs=[
                  AlterableConfig(name="retention.ms", config_operation=0, value="1")])
              for name in _names(_MANY_AT_ONCE // 2)]))), user=BOB),
    Entry("AlterPartitionReassignments of 9,900 partitions without a right", _SASL,
          always(lambda: request(AlterPartitionReassignmentsRequest(timeout_ms=5000, topics=[
              ReassignableTopic(name=OWN_TOPIC, partitions=[
                  ReassignablePartition(partition_index=number, replicas=[1])
                  for number in range(_MANY_AT_ONCE // 2)])]))), user=BOB),
    Entry("ElectLeaders of 19,900 partitions without a right", _SASL,
          always(lambda: request(ElectLeadersRequest(election_type=0, timeout_ms=5000, topic_partitions=[
              TopicPartitions(topic=OWN_TOPIC, partitions=list(range(_MANY_AT_ONCE)))]))), user=BOB),
    Entry("Fetch of 90,000 partitions", _SASL, _fetch(_MANY, -1), user=MALLORY),
    Entry("Fetch sessions of 90,000 partitions", _SASL, _fetch(_MANY, 0), user=MALLORY),
    Entry("Fetch of 19,000 partitions", _SASL, _fetch(19_000, -1), user=MALLORY),
    Entry("Fetch sessions of 19,000 partitions", _SASL, _fetch(19_000, 0), user=MALLORY),
    Entry("Fetch sessions of 1,900 partitions without a right", _SASL, _fetch(1900, 0), user=BOB, connections=16),
    Entry("ListOffsets of 90,000 partitions", _SASL, always(lambda: _offsets(_MANY)), user=MALLORY),
    Entry("OffsetForLeaderEpoch of 45,000 topics", _SASL, always(lambda: _epochs(_MANY)), user=BOB),
    Entry("OffsetCommit of 90,000 partitions", _SASL, always(lambda: _commit(_MANY)), user=MALLORY),
    Entry("OffsetFetch of 90,000 partitions", _SASL, always(lambda: _fetch_offsets(_MANY)), user=MALLORY),
    Entry("JoinGroup of new members without end", _SASL, always(lambda: _join("", 100)), user=MALLORY, connections=16),
    Entry("JoinGroup with 4 MB of metadata", _SASL, always(lambda: _join("", 4 * MIB)), user=MALLORY),
    Entry("SyncGroup with 80,000 assignments", _SASL,
          always(lambda: request(SyncGroupRequest(group_id=GROUP, generation_id=1, member_id="m", assignments=[
              SyncGroupRequestAssignment(member_id=f"m{n}", assignment=bytes(100)) for n in range(80_000)]))),
          user=MALLORY),
    Entry("LeaveGroup of 80,000 members", _SASL,
          always(lambda: request(LeaveGroupRequest(group_id=GROUP, members=[
              MemberIdentity(member_id=f"m{n}") for n in range(80_000)]))), user=MALLORY),
    Entry("DescribeGroups of 80,000 groups", _SASL,
          always(lambda: request(DescribeGroupsRequest(groups=[f"g{n}" for n in range(80_000)]))), user=MALLORY),
    Entry("FindCoordinator of 80,000 groups", _SASL,
          always(lambda: request(FindCoordinatorRequest(
              key_type=0, coordinator_keys=[f"g{n}" for n in range(80_000)]))),
          user=MALLORY),
    Entry("DescribeConfigs of 80,000 unknown names", _SASL, always(lambda: _configs(80_000, 2, OWN_TOPIC)),
          user=MALLORY),
    Entry("DescribeConfigs of 80,000 topics", _SASL,
          always(lambda: request(DescribeConfigsRequest(resources=[
              DescribeConfigsResource(resource_type=2, resource_name=f"t{n}") for n in range(80_000)]))), user=BOB),
    Entry("IncrementalAlterConfigs of 80,000 unknown names", _SASL,
          always(lambda: _alter_configs(80_000, 2, OWN_TOPIC)),
          user=BOB),
    Entry("CreateAcls of 90,000 rules", _SASL,
          always(lambda: request(CreateAclsRequest(creations=[_acl(n, 10) for n in range(_MANY)]))), user=BOB),
    Entry("CreateAcls of 19,900 rules without a right", _SASL,
          always(lambda: request(CreateAclsRequest(creations=[_acl(n, 10) for n in range(_MANY_AT_ONCE)]))), user=BOB),
    Entry("CreateAcls of names of 32 KB", _SASL,
          always(lambda: request(CreateAclsRequest(creations=[_acl(n, 32_000) for n in range(500)]))), user=BOB),
    Entry("DeleteAcls with 90,000 filters", _SASL, always(lambda: _acl_filters(_MANY)), user=BOB),
    Entry("DeleteAcls with 19,900 filters without a right", _SASL, always(lambda: _acl_filters(_MANY_AT_ONCE)),
          user=BOB),
    Entry("DescribeAcls without a right", _SASL, always(lambda: request(_EVERY_ACL)), user=BOB, way=Way.PIPELINE),
    Entry("delegation tokens without end", _SASL, always(lambda: _token(0)), user=BOB, connections=8),
    Entry("delegation token with 50,000 renewers", _SASL, always(lambda: _token(50_000)), user=BOB),
    Entry("AlterUserScramCredentials of 20,000 users", _SASL, always(lambda: _scram(20_000)), user=BOB),
    Entry("requests without end, pipelined", _SASL, always(lambda: _metadata(1) * 500), user=BOB, way=Way.PIPELINE),
    Entry("requests whose answers are never read", _SASL, always(lambda: _metadata(1900)), user=BOB, way=Way.NEVER_READ,
          connections=8),
    Entry("requests one byte at a time", _SASL, always(lambda: _metadata(1)), user=BOB, way=Way.DRIP, connections=40),
)  # fmt: skip
