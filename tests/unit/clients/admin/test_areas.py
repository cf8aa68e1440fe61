"""The requests of each area's operations, and how they handle the responses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from barnabas.clients.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AlterConfigOp,
    ClientQuotaEntity,
    ConfigResource,
    ConfigResourceType,
    ConfigSource,
    FeatureUpdate,
    MemberToRemove,
    NotVisible,
    PatternType,
    ResourceType,
    ScramMechanism,
    ScramUpsertion,
    SecurityDisabled,
    TopicPartition,
    UnsupportedVersion,
    UpgradeType,
    Uuid,
)
from barnabas.clients.admin.acl_response import AclAnswer
from barnabas.clients.admin.protocol_codes import authorized_operations
from barnabas.clients.errors import RemoteProtocolError
from barnabas.clients.node_connection import SupportedVersions
from barnabas.common.error_code import ErrorCode
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import DecodeError
from barnabas.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from barnabas.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from barnabas.protocol.messages.consumer_group_describe import ConsumerGroupDescribeResponse
from barnabas.protocol.messages.consumer_group_describe import DescribedGroup as ConsumerGroup
from barnabas.protocol.messages.create_acls import AclCreationResult, CreateAclsResponse
from barnabas.protocol.messages.describe_acls import AclDescription, DescribeAclsResource, DescribeAclsResponse
from barnabas.protocol.messages.describe_configs import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from barnabas.protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember, DescribeGroupsResponse
from barnabas.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from barnabas.protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from barnabas.protocol.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)
from barnabas.protocol.messages.leave_group import LeaveGroupResponse, MemberResponse
from barnabas.protocol.messages.list_config_resources import ConfigResource as ListedConfigResource
from barnabas.protocol.messages.list_config_resources import ListConfigResourcesResponse
from barnabas.protocol.messages.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic
from barnabas.protocol.messages.update_features import UpdateFeaturesResponse
from barnabas.protocol.records import consumer_protocol_assignment as assigned
from tests.unit.clients.admin.scripted import ScriptedCluster, admin_of


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(test())


def rule(name: str = "orders", principal: str = "User:alice") -> AclBinding:
    return AclBinding(
        ResourceType.TOPIC, name, PatternType.LITERAL, principal, "*", AclOperation.READ, AclPermissionType.ALLOW
    )


def listing(resources: int, rules: int) -> DescribeAclsResponse:
    return DescribeAclsResponse(
        error_message=None,
        resources=[
            DescribeAclsResource(
                resource_type=2,
                resource_name=f"topic-{n}",
                pattern_type=3,
                acls=[
                    AclDescription(principal=f"User:{m}", host="*", operation=3, permission_type=3)
                    for m in range(rules)
                ],
            )
            for n in range(resources)
        ],
    )


# --- ACLs


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_response_in_slices_has_the_same_acls(version: int) -> None:
    answer = AclAnswer(bytearray(listing(3, 2).encode(version)), version, 0)
    assert (answer.error_code, answer.error_message) == (0, None)
    assert [(acl.name, acl.principal, acl.operation) for acl in answer.rules()] == [
        (f"topic-{n}", f"User:{m}", 3) for n in range(3) for m in range(2)
    ]


@pytest.mark.parametrize("version", [1, 3])
def test_a_listing_cut_anywhere_raises_a_decode_error_and_nothing_else(version: int) -> None:
    whole = listing(2, 2).encode(version)
    for length in range(len(whole) - 1):
        with pytest.raises(DecodeError):
            list(AclAnswer(bytearray(whole[:length]), version, 0).rules())


def test_others_have_turns_while_a_large_listing_is_read() -> None:
    async def test() -> None:
        cluster = ScriptedCluster()
        cluster[1].script[ApiKey.DESCRIBE_ACLS] = listing(1, 20_000)
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        other = asyncio.ensure_future(count())
        rules = [acl async for acl in admin_of(cluster).describe_acls()]
        other.cancel()
        assert len(rules) == 20_000
        assert turns >= 40

    run(test)


def test_a_malformed_listing_is_an_error_of_the_node() -> None:
    async def test() -> None:
        class Cut:
            def encode(self, version: int) -> bytes:
                return listing(1, 1).encode(version)[:-3]

        cluster = ScriptedCluster()
        cluster[1].script[ApiKey.DESCRIBE_ACLS] = Cut()
        with pytest.raises(RemoteProtocolError, match="DescribeAcls can't be read"):
            [acl async for acl in admin_of(cluster).describe_acls()]

    run(test)


def test_a_cluster_without_authorizer_is_reported() -> None:
    async def test() -> None:
        cluster = ScriptedCluster()
        cluster[1].script[ApiKey.DESCRIBE_ACLS] = DescribeAclsResponse(error_code=ErrorCode.SECURITY_DISABLED)
        with pytest.raises(SecurityDisabled):
            [acl async for acl in admin_of(cluster).describe_acls(AclBindingFilter(name="orders"))]

    run(test)


def test_creating_acls_waits_for_each_broker() -> None:
    async def test() -> None:
        cluster = ScriptedCluster(2)
        cluster.everywhere(
            ApiKey.CREATE_ACLS,
            lambda request: CreateAclsResponse(results=[AclCreationResult() for _ in request.creations]),
        )
        shown = listing(1, 1)
        shown.resources[0].resource_name = "orders"
        shown.resources[0].acls[0].principal = "User:alice"
        cluster[1].script[ApiKey.DESCRIBE_ACLS] = shown
        cluster[2].script[ApiKey.DESCRIBE_ACLS] = [DescribeAclsResponse(), DescribeAclsResponse(), shown]
        assert (await admin_of(cluster).create_acls([rule()], wait=True)).ok
        assert len(cluster[2].requests(ApiKey.DESCRIBE_ACLS)) == 3

    run(test)


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("principal", "alice", "Type:name"),
        ("name", "", "needs the name"),
        ("host", "", "needs a host"),
        ("operation", AclOperation.ANY, "needs one operation"),
        ("pattern_type", PatternType.MATCH, "LITERAL or PREFIXED"),
        ("permission", AclPermissionType.ANY, "allows or denies"),
        ("resource_type", ResourceType.ANY, "one type of resource"),
    ],
)
def test_invalid_acls_are_refused_before_anything_is_sent(field: str, value: Any, problem: str) -> None:
    async def test() -> None:
        cluster = ScriptedCluster()
        with pytest.raises(ValueError, match=problem):
            await admin_of(cluster).create_acls([rule()._replace(**{field: value})])
        assert not cluster[1].received

    run(test)


def test_authorized_operations_are_a_set_or_unknown() -> None:
    assert authorized_operations(-2147483648) is None
    assert authorized_operations(0) == frozenset()
    assert authorized_operations(1 << 3 | 1 << 8 | 1 << 30 | 0b111) == {AclOperation.READ, AclOperation.DESCRIBE}


@pytest.mark.parametrize(("version", "expected"), [(7, None), (10, frozenset({AclOperation.ALTER}))])
def test_operations_that_an_old_node_does_not_return_are_none(
    version: int, expected: frozenset[AclOperation] | None
) -> None:
    async def test() -> None:
        cluster = ScriptedCluster()
        node = cluster[1]
        del node.versions[ApiKey.DESCRIBE_CLUSTER]
        del node.versions[ApiKey.DESCRIBE_TOPIC_PARTITIONS]
        node.versions[ApiKey.METADATA] = SupportedVersions(0, version)

        def metadata(request: Any) -> MetadataResponse:
            made = cluster.default(node, request)
            made.topics = [MetadataResponseTopic(name=named.name) for named in request.topics or ()]
            if version >= 8:
                made.cluster_authorized_operations = 1 << AclOperation.ALTER
                for topic in made.topics:
                    topic.topic_authorized_operations = 1 << AclOperation.ALTER
            return made

        node.script[ApiKey.METADATA] = metadata
        admin = admin_of(cluster)
        found = await admin.describe_cluster(include_authorized_operations=True)
        assert found.authorized_operations == expected
        topics = await admin.describe_topics(["t"], include_authorized_operations=True)
        assert topics["t"].authorized_operations == expected
        assert (await admin.describe_topics(["t"]))["t"].authorized_operations is None

    run(test)


def test_config_resources_of_an_old_node_come_from_its_metadata() -> None:
    async def test() -> None:
        cluster = ScriptedCluster()
        node = cluster[1]
        admin = admin_of(cluster)

        def metadata(request: Any) -> MetadataResponse:
            made = cluster.default(node, request)
            made.topics = [MetadataResponseTopic(name=name) for name in ("b", "a") if request.topics is None]
            return made

        node.script[ApiKey.METADATA] = metadata
        node.versions[ApiKey.LIST_CONFIG_RESOURCES] = SupportedVersions(0, 0)
        node.script[ApiKey.LIST_CONFIG_RESOURCES] = ListConfigResourcesResponse(
            config_resources=[ListedConfigResource(resource_name="m")]
        )
        topics, brokers = [ConfigResource.topic("a"), ConfigResource.topic("b")], [ConfigResource.broker(1)]
        metrics = [ConfigResource.client_metrics("m")]
        assert await admin.list_config_resources() == topics + brokers + [ConfigResource.broker_logger(1)] + metrics
        assert await admin.list_config_resources([ConfigResourceType.BROKER]) == brokers
        assert await admin.list_config_resources([ConfigResourceType.CLIENT_METRICS]) == metrics
        with pytest.raises(UnsupportedVersion, match="ListConfigResources in versions 0 to 0, but version 1 is needed"):
            await admin.list_config_resources([ConfigResourceType.TOPIC, ConfigResourceType.GROUP])
        del node.versions[ApiKey.LIST_CONFIG_RESOURCES]
        assert await admin.list_config_resources([ConfigResourceType.TOPIC]) == topics
        assert len(await admin.list_config_resources()) == 4
        with pytest.raises(UnsupportedVersion, match="does not offer ListConfigResources"):
            await admin.list_config_resources([ConfigResourceType.CLIENT_METRICS])

    run(test)


# --- topics


def page(name: str, *partitions: int, cursor: Cursor | None = None) -> DescribeTopicPartitionsResponse:
    return DescribeTopicPartitionsResponse(
        topics=[
            DescribeTopicPartitionsResponseTopic(
                name=name,
                partitions=[DescribeTopicPartitionsResponsePartition(partition_index=n) for n in partitions],
            )
        ],
        next_cursor=cursor,
    )


def test_a_topic_that_continues_on_the_next_page_is_one_topic() -> None:
    async def test() -> None:
        cluster = ScriptedCluster()
        pages = [page("t", 0, 1, cursor=Cursor(topic_name="t", partition_index=2)), page("t", 2)]
        cluster[1].script[ApiKey.DESCRIBE_TOPIC_PARTITIONS] = list(pages)
        admin = admin_of(cluster)
        found = (await admin.describe_topics(["t"]))["t"]
        assert [partition.partition for partition in found.partitions] == [0, 1, 2]
        assert cluster[1].received[-1].cursor.partition_index == 2
        cluster[1].script[ApiKey.DESCRIBE_TOPIC_PARTITIONS] = list(pages)
        assert [topic.name async for topic in admin.list_topics()] == ["t"]

    run(test)


def test_an_old_node_receives_a_metadata_request() -> None:
    async def test() -> None:
        cluster = ScriptedCluster()
        node = cluster[1]
        del node.versions[ApiKey.DESCRIBE_TOPIC_PARTITIONS]
        node.versions[ApiKey.METADATA] = SupportedVersions(0, 11)

        def metadata(request: Any) -> MetadataResponse:
            made = cluster.default(node, request)
            made.topics = [MetadataResponseTopic(name="b"), MetadataResponseTopic(name="a", is_internal=True)]
            return made

        node.script[ApiKey.METADATA] = metadata
        admin = admin_of(cluster)
        assert [topic.name async for topic in admin.list_topics()] == ["b"]
        assert [topic.name async for topic in admin.list_topics(include_internal=True)] == ["a", "b"]
        assert (await admin.describe_topics(["a", "b"])).ok
        with pytest.raises(UnsupportedVersion, match="Metadata in versions 0 to 11, but version 12 is needed"):
            await admin.describe_topics([Uuid.from_int(1 << 80)])

    run(test)


# --- configs


def altered(request: Any) -> IncrementalAlterConfigsResponse:
    return IncrementalAlterConfigsResponse(
        responses=[
            AlterConfigsResourceResponse(
                resource_type=resource.resource_type, resource_name=resource.resource_name, error_message=None
            )
            for resource in request.resources
        ]
    )


def described(value: str | None, source: ConfigSource, *, secret: bool = False) -> Callable[[Any], Any]:
    return lambda request: DescribeConfigsResponse(
        results=[
            DescribeConfigsResult(
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
                error_message=None,
                configs=[
                    DescribeConfigsResourceResult(
                        name="k", value=value, config_source=source, is_sensitive=secret, documentation=None
                    )
                ],
            )
            for resource in request.resources
        ]
    )


TOPIC = ConfigSource.TOPIC_CONFIG
DEFAULT = ConfigSource.DEFAULT_CONFIG


@pytest.mark.parametrize(
    ("op", "value", "source", "is_shown"),
    [
        (AlterConfigOp.set("k", "0100"), "100", TOPIC, True),
        (AlterConfigOp.set("k", "TRUE"), "true", TOPIC, True),
        (AlterConfigOp.set("k", "a, b"), "a,b", TOPIC, True),
        (AlterConfigOp.set("k", "1"), "1", DEFAULT, False),
        (AlterConfigOp.set("k", "1"), "2", TOPIC, False),
        (AlterConfigOp.delete("k"), "1", DEFAULT, True),
        (AlterConfigOp.delete("k"), "1", TOPIC, False),
        (AlterConfigOp.append("k", "b"), "a,b", TOPIC, True),
        (AlterConfigOp.append("k", "b"), "a", TOPIC, False),
        (AlterConfigOp.subtract("k", "b"), "a", TOPIC, True),
        (AlterConfigOp.subtract("k", "b"), "a,b", TOPIC, False),
    ],
)
def test_waiting_ends_when_describe_shows_the_change(
    op: AlterConfigOp, value: str, source: ConfigSource, is_shown: bool
) -> None:
    async def test() -> None:
        cluster = ScriptedCluster()
        cluster[1].script[ApiKey.INCREMENTAL_ALTER_CONFIGS] = altered
        cluster[1].script[ApiKey.DESCRIBE_CONFIGS] = described(value, source)
        changes = {ConfigResource.topic("t"): [op]}
        if is_shown:
            assert (await admin_of(cluster).incremental_alter_configs(changes, wait=True)).ok
        else:
            with pytest.raises(NotVisible):
                await admin_of(cluster).incremental_alter_configs(changes, wait=True, timeout_s=0.02)

    run(test)


def test_broker_configs_are_requested_from_that_broker_and_others_from_any() -> None:
    async def test() -> None:
        cluster = ScriptedCluster(2)
        cluster.everywhere(ApiKey.DESCRIBE_CONFIGS, described("1", DEFAULT))
        results = await admin_of(cluster).describe_configs(
            [
                ConfigResource.broker(2),
                ConfigResource.broker(),
                ConfigResource.broker_logger(2),
                ConfigResource.broker(9),
            ]
        )
        assert results[ConfigResource.broker(2)].get("k") == "1"
        assert results.errors[ConfigResource.broker(9)].code == ErrorCode.BROKER_NOT_AVAILABLE
        (own,) = cluster[2].requests(ApiKey.DESCRIBE_CONFIGS)
        assert {described_request.resource_type for described_request in own.resources} == {
            ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER,
        }  # fmt: skip

    run(test)


def test_a_changed_value_is_not_in_any_text() -> None:
    assert "secret" not in repr(AlterConfigOp.set("ssl.key.password", "secret"))


# --- groups


def with_coordinator(cluster: ScriptedCluster) -> None:
    cluster.everywhere(
        ApiKey.FIND_COORDINATOR,
        lambda request: FindCoordinatorResponse(
            coordinators=[Coordinator(key=key, node_id=1, host="node-1", port=9092) for key in request.coordinator_keys]
        ),
    )


@pytest.mark.parametrize("knows_the_new_protocol", [True, False])
def test_a_group_is_described_with_the_api_of_its_protocol(knows_the_new_protocol: bool) -> None:
    async def test() -> None:
        cluster = ScriptedCluster()
        with_coordinator(cluster)
        node = cluster[1]
        body = assigned.ConsumerProtocolAssignment(
            assigned_partitions=[assigned.TopicPartition(topic="t", partitions=[1, 0])]
        ).encode(0)
        node.script[ApiKey.DESCRIBE_GROUPS] = lambda request: DescribeGroupsResponse(
            groups=[
                DescribedGroup(
                    group_id=group, group_state="Stable", protocol_type="consumer",
                    members=[DescribedGroupMember(member_id="m", member_assignment=b"\0\3" + body)],
                )
                for group in request.groups
            ]
        )  # fmt: skip
        node.script[ApiKey.CONSUMER_GROUP_DESCRIBE] = lambda request: ConsumerGroupDescribeResponse(
            groups=[
                ConsumerGroup(group_id=described_id, group_state="Empty", group_epoch=3)
                if described_id == "new"
                else ConsumerGroup(group_id=described_id, error_code=ErrorCode.GROUP_ID_NOT_FOUND)
                for described_id in request.group_ids
            ]
        )
        if not knows_the_new_protocol:
            del node.versions[ApiKey.CONSUMER_GROUP_DESCRIBE]
        found = (await admin_of(cluster).describe_groups(["new", "old"])).raise_for_errors()
        assert found["old"].type == "classic"
        assert found["old"].members[0].assignment == (TopicPartition("t", 0), TopicPartition("t", 1))
        assert found["new"].type == ("consumer" if knows_the_new_protocol else "classic")
        assert found["new"].group_epoch == (3 if knows_the_new_protocol else None)

    run(test)


def test_members_are_removed_by_instance_or_by_id() -> None:
    async def test() -> None:
        cluster = ScriptedCluster()
        with_coordinator(cluster)
        cluster[1].script[ApiKey.LEAVE_GROUP] = LeaveGroupResponse(
            members=[
                MemberResponse(member_id="", group_instance_id="i"),
                MemberResponse(member_id="m", group_instance_id=None, error_code=ErrorCode.UNKNOWN_MEMBER_ID),
            ]
        )
        by_instance, by_id = MemberToRemove("i"), MemberToRemove(member_id="m")
        results = await admin_of(cluster).remove_members("g", [by_instance, by_id])
        assert list(results.values) == [by_instance]
        assert str(results.errors[by_id]) == "member m: UNKNOWN_MEMBER_ID"

    run(test)


# --- users, quotas, features


def test_a_password_is_salted_by_the_client() -> None:
    async def test() -> None:
        import hashlib

        cluster = ScriptedCluster()
        cluster[1].script[ApiKey.ALTER_USER_SCRAM_CREDENTIALS] = AlterUserScramCredentialsResponse(
            results=[AlterUserScramCredentialsResult(user="alice", error_message=None)]
        )
        change = ScramUpsertion("alice", ScramMechanism.SCRAM_SHA_512, "pencil", iterations=4096, salt=b"salt")
        assert (await admin_of(cluster).alter_user_scram_credentials([change])).ok
        (sent,) = cluster[1].requests(ApiKey.ALTER_USER_SCRAM_CREDENTIALS)
        assert sent.upsertions[0].salted_password == hashlib.pbkdf2_hmac("sha512", b"pencil", b"salt", 4096)
        assert "pencil" not in repr(change) + repr(sent)

    run(test)


@pytest.mark.parametrize("iterations", [4095, 16385])
def test_iterations_are_checked_before_anything_is_sent(iterations: int) -> None:
    async def test() -> None:
        cluster = ScriptedCluster()
        change = ScramUpsertion("alice", ScramMechanism.SCRAM_SHA_512, "pencil", iterations=iterations)
        with pytest.raises(ValueError, match="iterations must be 4096 to 16384"):
            await admin_of(cluster).alter_user_scram_credentials([change])
        assert not cluster[1].received

    run(test)


def test_a_quota_that_is_not_a_number_is_refused() -> None:
    async def test() -> None:
        changes = {ClientQuotaEntity.of({"user": None}): {"producer_byte_rate": float("nan")}}
        with pytest.raises(ValueError, match="can't be nan"):
            await admin_of(ScriptedCluster()).alter_client_quotas(changes)

    run(test)


def test_the_error_of_a_feature_update_is_the_error_of_each_feature() -> None:
    async def test() -> None:
        cluster = ScriptedCluster()
        cluster[1].script[ApiKey.UPDATE_FEATURES] = UpdateFeaturesResponse(
            error_code=ErrorCode.INVALID_UPDATE_VERSION, error_message="too new"
        )
        results = await admin_of(cluster).update_features(
            {"a": FeatureUpdate(2), "b": FeatureUpdate(0, UpgradeType.SAFE_DOWNGRADE)}
        )
        assert {str(error) for error in results.errors.values()} == {
            "a: INVALID_UPDATE_VERSION: too new",
            "b: INVALID_UPDATE_VERSION: too new",
        }

    run(test)


# --- leaders and replicas


def test_waiting_for_a_reassignment_ends_when_no_replica_is_added_or_removed() -> None:
    async def test() -> None:
        cluster = ScriptedCluster(2)

        def replicas(*brokers: int) -> Callable[[Any], MetadataResponse]:
            def answer(request: Any) -> MetadataResponse:
                made: MetadataResponse = cluster.default(cluster[1], request)
                partition = MetadataResponsePartition(partition_index=0, leader_id=1, replica_nodes=list(brokers))
                made.topics = [
                    MetadataResponseTopic(name=topic.name, partitions=[partition]) for topic in request.topics
                ]
                return made

            return answer

        moving = ReassignableTopicResponse(name="t", partitions=[ReassignablePartitionResponse(error_message=None)])
        cluster.everywhere(
            ApiKey.ALTER_PARTITION_REASSIGNMENTS,
            AlterPartitionReassignmentsResponse(responses=[moving], error_message=None),
        )
        cluster[1].script[ApiKey.METADATA] = replicas(2)
        cluster[2].script[ApiKey.METADATA] = [replicas(2, 1), replicas(2, 1), replicas(2)]
        assert (await admin_of(cluster).alter_partition_reassignments({TopicPartition("t", 0): [2]}, wait=True)).ok
        assert len(cluster[2].requests(ApiKey.METADATA)) == 3

    run(test)
