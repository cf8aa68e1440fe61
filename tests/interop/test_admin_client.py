"""The admin client against our node, a real Kafka 4.3.1 and (some of the tests) the last 3.x."""

from __future__ import annotations

import asyncio
import base64
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from barnabas.clients.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOp,
    ClientQuotaEntity,
    ClientQuotaFilter,
    ConfigResource,
    ConfigResourceType,
    ConfigSource,
    ElectionType,
    FeatureUpdate,
    GroupIdNotFound,
    GroupNotEmpty,
    InvalidConfig,
    InvalidReplicationFactor,
    InvalidTopic,
    InvalidUpdateVersion,
    MemberToRemove,
    NewPartitions,
    NewTopic,
    OffsetAndMetadata,
    OffsetSpec,
    PatternType,
    QuotaMatch,
    ResourceNotFound,
    ResourceType,
    ScramDeletion,
    ScramMechanism,
    ScramUpsertion,
    SyncAdminClient,
    TopicAlreadyExists,
    TopicAuthorizationFailed,
    TopicPartition,
    UnknownTopicOrPartition,
    Uuid,
)
from barnabas.clients.client_config import Address, client_config
from barnabas.clients.errors import AuthenticationFailed, UnsupportedVersion
from barnabas.clients.network_client import NetworkClient
from barnabas.clients.node_connection import NodeConnection, SupportedVersions
from barnabas.common.error_code import ErrorCode
from barnabas.protocol.api_keys import ApiKey
from tests.peers import PROJECT
from tests.peers.kinds import run_on_each_kind
from tests.peers.secure import SecureNode
from tests.peers.secure_kinds import running_kind, sasl_properties

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180), pytest.mark.usefixtures("kafka_peer")]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    run_on_each_kind(metafunc, "peer")


@pytest.fixture(scope="module")
def peer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureNode]:
    with running_kind(request.param, tmp_path_factory.mktemp(f"admin-{request.param}")) as node:
        yield node


@pytest.fixture
def admin(peer: SecureNode) -> Iterator[SyncAdminClient]:
    """Connect as a super user, without a login."""
    with AdminClient.sync(peer.bootstrap("PLAINTEXT")) as client:
        yield client


def login(peer: SecureNode, user: str, mechanism: str = "PLAIN", **more: Any) -> SyncAdminClient:
    return AdminClient.sync(peer.bootstrap("SASL_SSL"), sasl_properties(peer, user, mechanism, **more))


VERSIONS_OF_3_0 = {
    ApiKey.LIST_OFFSETS: 7, ApiKey.METADATA: 11, ApiKey.OFFSET_COMMIT: 8, ApiKey.OFFSET_FETCH: 8,
    ApiKey.FIND_COORDINATOR: 4, ApiKey.LEAVE_GROUP: 4, ApiKey.DESCRIBE_GROUPS: 5, ApiKey.LIST_GROUPS: 4,
    ApiKey.API_VERSIONS: 3, ApiKey.CREATE_TOPICS: 7, ApiKey.DELETE_TOPICS: 6, ApiKey.DELETE_RECORDS: 2,
    ApiKey.DESCRIBE_ACLS: 2, ApiKey.CREATE_ACLS: 2, ApiKey.DELETE_ACLS: 2, ApiKey.DESCRIBE_CONFIGS: 4,
    ApiKey.ALTER_CONFIGS: 2, ApiKey.DESCRIBE_LOG_DIRS: 2, ApiKey.CREATE_PARTITIONS: 3,
    ApiKey.CREATE_DELEGATION_TOKEN: 2, ApiKey.DESCRIBE_DELEGATION_TOKEN: 2, ApiKey.DELETE_GROUPS: 2,
    ApiKey.ELECT_LEADERS: 2, ApiKey.INCREMENTAL_ALTER_CONFIGS: 1, ApiKey.ALTER_PARTITION_REASSIGNMENTS: 0,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: 0, ApiKey.OFFSET_DELETE: 0, ApiKey.DESCRIBE_CLIENT_QUOTAS: 1,
    ApiKey.ALTER_CLIENT_QUOTAS: 1, ApiKey.UPDATE_FEATURES: 0, ApiKey.DESCRIBE_CLUSTER: 0,
}  # fmt: skip
"""The newest versions of Kafka 3.0; it lacks APIs that are not listed here."""


class OldNetwork(NetworkClient):
    """Treats every node as a Kafka 3.0."""

    async def connection_to(self, address: Address) -> NodeConnection:
        connection = await super().connection_to(address)
        connection.versions = {
            key: SupportedVersions(versions.min, min(versions.max, VERSIONS_OF_3_0[ApiKey(key)]))
            for key, versions in connection.versions.items()
            if key in VERSIONS_OF_3_0
        }
        return connection


def test_every_request_works_in_the_versions_of_an_old_kafka(peer: SecureNode) -> None:
    async def test() -> None:
        config = client_config({}, bootstrap=peer.bootstrap("PLAINTEXT"))
        async with AdminClient(config=config, network=OldNetwork(config)) as admin:
            (await admin.create_topics([NewTopic("adm-old", 2)], wait=True)).raise_for_errors()
            assert "adm-old" in {topic.name async for topic in admin.list_topics()}
            topics = await admin.describe_topics(["adm-old", "adm-none"], include_authorized_operations=True)
            assert topics["adm-old"].authorized_operations
            assert list(topics.errors) == ["adm-none"]
            with pytest.raises(UnsupportedVersion, match="Metadata in versions 0 to 11, but version 12 is needed"):
                await admin.describe_topics([topics["adm-old"].topic_id])

            config_of = ConfigResource.topic("adm-old")
            change = {config_of: [AlterConfigOp.set("retention.ms", "1000")]}
            (await admin.incremental_alter_configs(change, wait=True)).raise_for_errors()
            (await admin.create_acls([rule("adm-old")], wait=True)).raise_for_errors()
            assert [acl async for acl in admin.describe_acls(AclBindingFilter(name="adm-old"))] == [rule("adm-old")]
            gone = await admin.delete_acls([AclBindingFilter(name="adm-old")], wait=True)
            assert list(gone.values.values()) == [(rule("adm-old"),)]

            partition = TopicPartition("adm-old", 0)
            assert (await admin.list_offsets({partition: OffsetSpec.max_timestamp()}))[partition].offset == -1
            with pytest.raises(UnsupportedVersion, match="ListOffsets"):
                await admin.list_offsets({partition: OffsetSpec.earliest_local()})
            (await admin.alter_group_offsets("adm-old-group", {partition: 0})).raise_for_errors()
            assert (await admin.list_group_offsets(["adm-old-group"]))["adm-old-group"][partition].offset == 0
            described = await admin.describe_groups(["adm-old-group", "adm-none"])
            assert described["adm-old-group"].type == "classic"
            assert isinstance(described.errors["adm-none"], GroupIdNotFound)
            listed = (await admin.list_groups(states=["Empty"])).raise_for_errors()
            assert "adm-old-group" in {group.group_id for group in listed}
            assert listed[0].type is None
            (await admin.delete_groups(["adm-old-group"])).raise_for_errors()

            assert (await admin.describe_cluster(include_authorized_operations=True)).authorized_operations
            assert (await admin.describe_log_dirs())[1]
            assert (await admin.describe_features()).finalized["metadata.version"].max
            refused = await admin.update_features({"metadata.version": FeatureUpdate(999)})
            assert not refused.ok
            with pytest.raises(UnsupportedVersion, match="does not offer DescribeQuorum"):
                await admin.describe_quorum()
            (await admin.delete_topics(["adm-old"], wait=True)).raise_for_errors()

    asyncio.run(test())


@pytest.mark.kafka_3("always")
def test_topics_are_created_described_and_deleted(admin: SyncAdminClient) -> None:
    made = admin.create_topics(
        [NewTopic("adm-a", 2, 1, {"retention.ms": "3600000"}), NewTopic("adm-b"), NewTopic("adm-c", 1, 3)], wait=True
    )
    assert (made["adm-a"].partitions, made["adm-a"].replication_factor) == (2, 1)
    assert made["adm-a"].configs is not None
    assert made["adm-a"].configs["retention.ms"] == "3600000"
    assert isinstance(made.errors["adm-c"], InvalidReplicationFactor)
    with pytest.raises(TopicAlreadyExists):
        admin.create_topics([NewTopic("adm-a")])["adm-a"]
    assert {"adm-a", "adm-b"} <= {listing.name for listing in admin.list_topics()}

    by_name = admin.describe_topics(["adm-a", "adm-none"], include_authorized_operations=True)
    assert isinstance(by_name.errors["adm-none"], UnknownTopicOrPartition)
    topic = by_name["adm-a"]
    assert [(partition.leader, partition.isr) for partition in topic.partitions] == [(1, (1,))] * 2
    assert topic.authorized_operations is not None
    assert AclOperation.ALTER_CONFIGS in topic.authorized_operations
    assert admin.describe_topics([topic.topic_id])[topic.topic_id].name == "adm-a"

    grown = admin.create_partitions({"adm-a": 4, "adm-b": NewPartitions(2, [[1]]), "adm-none": 2}, wait=True)
    assert len(admin.describe_topics(["adm-a"])["adm-a"].partitions) == 4
    assert isinstance(grown.errors["adm-none"], UnknownTopicOrPartition)

    gone = admin.delete_topics(["adm-a", "adm-none"], wait=True)
    assert isinstance(gone.errors["adm-none"], UnknownTopicOrPartition)
    by_id = admin.describe_topics(["adm-b"])["adm-b"].topic_id
    admin.delete_topics([by_id], wait=True).raise_for_errors()
    assert (
        admin.delete_topics([Uuid.from_int(1 << 100)]).errors[Uuid.from_int(1 << 100)].code
        == ErrorCode.UNKNOWN_TOPIC_ID
    )
    assert not {"adm-a", "adm-b"} & {listing.name for listing in admin.list_topics()}


def test_validate_only_changes_nothing(admin: SyncAdminClient) -> None:
    assert admin.create_topics([NewTopic("adm-dry")], validate_only=True).ok
    assert not admin.describe_topics(["adm-dry"]).ok


@pytest.mark.kafka_3("always")
def test_configs(admin: SyncAdminClient) -> None:
    admin.create_topics([NewTopic("adm-cfg")], wait=True).raise_for_errors()
    topic, broker = ConfigResource.topic("adm-cfg"), ConfigResource.broker(1)
    missing = ConfigResource.topic("adm-none")
    changed = admin.incremental_alter_configs(
        {
            topic: [AlterConfigOp.set("retention.ms", "01000"), AlterConfigOp.append("cleanup.policy", "compact")],
            missing: [AlterConfigOp.set("retention.ms", "1")],
        },
        wait=True,
    )
    assert isinstance(changed.errors[missing], UnknownTopicOrPartition)
    found = admin.describe_configs([topic, broker, missing, ConfigResource.broker(77)], include_synonyms=True)
    assert found[topic].get("retention.ms") == "1000"
    assert found[topic]["cleanup.policy"].value == "delete,compact"
    assert found[topic]["retention.ms"].source == ConfigSource.TOPIC_CONFIG
    assert found[topic]["retention.ms"].synonyms[0].source == ConfigSource.TOPIC_CONFIG
    assert found[broker].get("node.id") == "1"
    assert found.errors[ConfigResource.broker(77)].code == ErrorCode.BROKER_NOT_AVAILABLE
    assert isinstance(found.errors[missing], UnknownTopicOrPartition)
    with pytest.raises(InvalidConfig):
        admin.incremental_alter_configs({topic: [AlterConfigOp.set("retention.ms", "soon")]})[topic]
    admin.incremental_alter_configs({topic: [AlterConfigOp.delete("retention.ms")]}, wait=True).raise_for_errors()
    assert admin.describe_configs([topic])[topic]["retention.ms"].is_default


def test_the_legacy_alter_replaces_all_configs(admin: SyncAdminClient) -> None:
    admin.create_topics([NewTopic("adm-legacy", configs={"retention.ms": "1000"})], wait=True).raise_for_errors()
    topic = ConfigResource.topic("adm-legacy")
    admin.alter_configs({topic: {"flush.ms": "5"}}, wait=True).raise_for_errors()
    found = admin.describe_configs([topic])[topic]
    assert found["retention.ms"].is_default
    assert found.get("flush.ms") == "5"


def test_dynamic_broker_configs_are_listed(admin: SyncAdminClient) -> None:
    for resource in (ConfigResource.broker(1), ConfigResource.broker()):
        change = {resource: [AlterConfigOp.set("log.cleaner.backoff.ms", "14000")]}
        admin.incremental_alter_configs(change, wait=True).raise_for_errors()
        undo = {resource: [AlterConfigOp.delete("log.cleaner.backoff.ms")]}
        admin.incremental_alter_configs(undo, wait=True).raise_for_errors()


@pytest.mark.kafka_3("always")
def test_resources_with_configs_are_listed(admin: SyncAdminClient) -> None:
    admin.create_topics([NewTopic("adm-listed")], wait=True).raise_for_errors()
    listed = admin.list_config_resources()
    assert ConfigResource.topic("adm-listed") in listed
    assert ConfigResource.broker(1) in listed
    assert {resource.type for resource in admin.list_config_resources([ConfigResourceType.BROKER])} == {
        ConfigResourceType.BROKER
    }


def rule(name: str, pattern: PatternType = PatternType.LITERAL) -> AclBinding:
    return AclBinding(ResourceType.TOPIC, name, pattern, "User:bob", "*", AclOperation.READ, AclPermissionType.ALLOW)


@pytest.mark.kafka_3("always")
def test_rules(admin: SyncAdminClient) -> None:
    wanted = [rule("adm-acl"), rule("adm-acl-", PatternType.PREFIXED)]
    senseless = wanted[0]._replace(resource_type=ResourceType.CLUSTER)
    results = admin.create_acls([*wanted, senseless], wait=True)
    assert set(results.values) == set(wanted)
    assert results.errors[senseless].code == ErrorCode.INVALID_REQUEST
    assert admin.create_acls(wanted).ok
    about = AclBindingFilter(name="adm-acl-x", pattern_type=PatternType.MATCH, resource_type=ResourceType.TOPIC)
    assert list(admin.describe_acls(about)) == wanted[1:]
    assert set(wanted) <= set(admin.describe_acls())
    everything = AclBindingFilter(principal="User:bob")
    removed = admin.delete_acls([everything, AclBindingFilter(principal="User:nobody")], wait=True)
    assert set(removed[everything]) == set(wanted)
    assert removed[AclBindingFilter(principal="User:nobody")] == ()
    assert list(admin.describe_acls(everything)) == []


def test_many_acls_do_not_stall_the_event_loop(peer: SecureNode) -> None:
    count = 6_000

    async def test() -> None:
        async with AdminClient(peer.bootstrap("PLAINTEXT")) as admin:
            made = await admin.create_acls([rule(f"adm-many-{n}") for n in range(count)], wait=True)
            assert len(made.values) == count
            turns = 0
            async for _ in admin.describe_acls(AclBindingFilter(principal="User:bob")):
                turns += 1
            assert turns == count
            gone = await admin.delete_acls([AclBindingFilter(principal="User:bob")], wait=True)
            assert sum(map(len, gone.values.values())) == count

    asyncio.run(test())


@pytest.mark.kafka_3("always")
def test_the_cluster(admin: SyncAdminClient) -> None:
    found = admin.describe_cluster(include_authorized_operations=True)
    assert [node.id for node in found.nodes] == [1]
    assert found.cluster_id
    assert found.authorized_operations is not None
    assert AclOperation.CLUSTER_ACTION in found.authorized_operations
    assert admin.describe_cluster().authorized_operations is None
    with pytest.raises(Exception, match="BROKER_ID_NOT_REGISTERED"):
        admin.unregister_broker(77)


@pytest.mark.kafka_3("never")
def test_fenced_brokers_are_reported(admin: SyncAdminClient) -> None:
    found = admin.describe_cluster(include_fenced_brokers=True)
    assert [(node.id, node.is_fenced) for node in found.nodes] == [(1, False)]


@pytest.mark.kafka_3("only")
def test_a_node_that_is_too_old_is_reported_with_the_needed_version(admin: SyncAdminClient) -> None:
    with pytest.raises(UnsupportedVersion, match="speaks DescribeCluster in versions 0 to 1, but version 2 is needed"):
        admin.describe_cluster(include_fenced_brokers=True)
    with pytest.raises(UnsupportedVersion, match="ListConfigResources in versions 0 to 0, but version 1 is needed"):
        admin.list_config_resources([ConfigResourceType.GROUP])


def test_the_client_connects_to_controllers(peer: SecureNode) -> None:
    controllers = {"bootstrap.controllers": f"localhost:{peer.process.controller_port}"}
    with AdminClient.sync(properties=controllers) as admin:
        found = admin.describe_cluster()
        assert found.controller is not None
        assert [node.port for node in found.nodes] == [peer.process.controller_port]
        assert admin.describe_quorum().leader_id == 1
        entity = ClientQuotaEntity.of({"user": "adm-controller"})
        admin.alter_client_quotas({entity: {"producer_byte_rate": 1000}}).raise_for_errors()
        admin.alter_client_quotas({entity: {"producer_byte_rate": None}}).raise_for_errors()


def test_quotas(admin: SyncAdminClient) -> None:
    both = ClientQuotaEntity.of({"user": "adm-q", "client-id": None})
    bad = ClientQuotaEntity.of({"user": "adm-q2"})
    results = admin.alter_client_quotas(
        {both: {"producer_byte_rate": 1e6, "consumer_byte_rate": 2e6}, bad: {"no_such_rate": 1}}, wait=True
    )
    assert results.errors[bad].code == ErrorCode.INVALID_REQUEST
    mine = ClientQuotaFilter((QuotaMatch("user", "adm-q"), QuotaMatch("client-id", any_name=True)), strict=True)
    assert admin.describe_client_quotas(mine) == {both: {"producer_byte_rate": 1e6, "consumer_byte_rate": 2e6}}
    admin.alter_client_quotas({both: dict.fromkeys(("producer_byte_rate", "consumer_byte_rate"))}, wait=True)
    assert admin.describe_client_quotas(mine) == {}


def test_a_user_logs_in_after_its_password_is_set(peer: SecureNode, admin: SyncAdminClient) -> None:
    change = ScramUpsertion("adm-user", ScramMechanism.SCRAM_SHA_512, "pencil", iterations=4096)
    admin.alter_user_scram_credentials([change], wait=True).raise_for_errors()
    assert admin.describe_user_scram_credentials(["adm-user"])["adm-user"][0].iterations == 4096
    assert "adm-user" in admin.describe_user_scram_credentials().values
    with login(peer, "adm-user", "SCRAM-SHA-512", password="pencil") as user:
        topics = user.describe_topics(["adm-cfg"])
        assert isinstance(topics.errors["adm-cfg"], TopicAuthorizationFailed)
    with login(peer, "adm-user", "SCRAM-SHA-512", password="pen") as user, pytest.raises(AuthenticationFailed):
        user.describe_cluster()
    end = ScramDeletion("adm-user", ScramMechanism.SCRAM_SHA_512)
    admin.alter_user_scram_credentials([end], wait=True).raise_for_errors()
    with pytest.raises(ResourceNotFound):
        admin.alter_user_scram_credentials([end])["adm-user"]


def test_delegation_tokens(peer: SecureNode) -> None:
    with login(peer, "admin") as admin:
        token = admin.create_delegation_token(renewers=["User:alice"], max_lifetime_ms=3_600_000, wait=True)
        assert (token.owner, token.requester, token.renewers) == ("User:admin", "User:admin", ("User:alice",))
        (described,) = (
            candidate for candidate in admin.describe_delegation_tokens() if candidate.token_id == token.token_id
        )
        assert described == token
        assert admin.renew_delegation_token(token.hmac, wait=True) <= token.max_timestamp_ms
        password = base64.b64encode(token.hmac).decode()
        with login(peer, token.token_id, "SCRAM-SHA-256", password=password, token_auth=True) as holder:
            assert holder.describe_cluster().cluster_id
        admin.expire_delegation_token(token.hmac, wait=True)
        assert token.token_id not in {remaining.token_id for remaining in admin.describe_delegation_tokens()}
        assert repr(token.hmac)[2:-1] not in repr(token)


@pytest.mark.kafka_3("always")
def test_groups_and_their_offsets(peer: SecureNode, admin: SyncAdminClient) -> None:
    admin.create_topics([NewTopic("adm-group", 2)], wait=True).raise_for_errors()
    first, second = TopicPartition("adm-group", 0), TopicPartition("adm-group", 1)
    server = peer.bootstrap("PLAINTEXT")
    producer = Producer({"bootstrap.servers": server})
    for number in range(10):
        producer.produce("adm-group", b"value", partition=number % 2)
    assert producer.flush(30) == 0
    consumer = Consumer(
        {
            "bootstrap.servers": server,
            "group.id": "adm-g",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe(["adm-group"])
    assert len(consumer.consume(10, timeout=30)) == 10
    consumer.commit(asynchronous=False)

    listed = {group.group_id: group for group in admin.list_groups().raise_for_errors()}
    assert (listed["adm-g"].state, listed["adm-g"].type) == ("Stable", "classic")
    found = admin.describe_groups(["adm-g", "adm-none"], include_authorized_operations=True)
    assert found["adm-g"].members[0].assignment == (first, second)
    assert found["adm-g"].authorized_operations is not None
    assert isinstance(found.errors["adm-none"], GroupIdNotFound)
    assert {partition: at.offset for partition, at in admin.list_group_offsets(["adm-g"])["adm-g"].values.items()} == {
        first: 5,
        second: 5,
    }
    with pytest.raises(GroupNotEmpty):
        admin.delete_groups(["adm-g"])["adm-g"]
    unknown = MemberToRemove(member_id="nobody")
    assert admin.remove_members("adm-g", [unknown]).errors[unknown].code == ErrorCode.UNKNOWN_MEMBER_ID
    admin.remove_members("adm-g").raise_for_errors()
    consumer.close()

    admin.alter_group_offsets("adm-g", {first: 3, second: OffsetAndMetadata(1, 0, "by hand")}).raise_for_errors()
    assert admin.list_group_offsets({"adm-g": [second]})["adm-g"].values == {second: OffsetAndMetadata(1, 0, "by hand")}
    admin.delete_group_offsets("adm-g", [first]).raise_for_errors()
    assert list(admin.list_group_offsets(["adm-g"])["adm-g"].values) == [second]
    admin.delete_groups(["adm-g"]).raise_for_errors()

    offsets = admin.list_offsets({first: OffsetSpec.latest(), second: OffsetSpec.for_timestamp(0)})
    assert (offsets[first].offset, offsets[second].offset) == (5, 0)
    assert admin.delete_records({first: 2, second: -1}).raise_for_errors() == {first: 2, second: 5}
    assert admin.list_offsets({first: OffsetSpec.earliest()})[first].offset == 2
    elected = admin.elect_leaders(ElectionType.PREFERRED, [first, TopicPartition("adm-none", 0)], wait=True)
    assert elected.values == {first: False}
    assert isinstance(elected.errors[TopicPartition("adm-none", 0)], UnknownTopicOrPartition)
    moved = admin.alter_partition_reassignments({first: [1], second: None}, wait=True)
    assert moved.errors[second].code == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    assert admin.list_partition_reassignments() == {}


def test_records_of_internal_topics_cannot_be_deleted(admin: SyncAdminClient) -> None:
    admin.create_topics([NewTopic("adm-internal")], wait=True).raise_for_errors()
    admin.alter_group_offsets("adm-internal", {TopicPartition("adm-internal", 0): 0}).raise_for_errors()
    partition = TopicPartition("__consumer_offsets", 0)
    assert isinstance(admin.delete_records({partition: -1}).errors[partition], InvalidTopic)


@pytest.mark.kafka_3("always")
def test_features_and_the_quorum(admin: SyncAdminClient) -> None:
    features = admin.describe_features()
    level = features.finalized["metadata.version"].max
    assert level <= features.supported["metadata.version"].max
    refused = admin.update_features({"metadata.version": FeatureUpdate(level + 100)})
    assert isinstance(refused.errors["metadata.version"], InvalidUpdateVersion)
    quorum = admin.describe_quorum()
    assert (quorum.leader_id, [voter.replica_id for voter in quorum.voters]) == (1, [1])
    assert quorum.high_watermark > 0


def test_log_directories(admin: SyncAdminClient) -> None:
    admin.create_topics([NewTopic("adm-dirs")], wait=True).raise_for_errors()
    partition = TopicPartition("adm-dirs", 0)
    for _ in range(200):  # Our node creates a partition's directory when it is idle, or on the first request for it.
        found = admin.describe_log_dirs([1, 77], partitions=[partition])
        ((directory, description),) = found[1].items()
        if description.replicas:
            break
        time.sleep(0.05)
    assert directory.startswith("/")
    assert list(description.replicas) == [partition]
    assert description.usable_bytes is not None
    assert found.errors[77].code == ErrorCode.BROKER_NOT_AVAILABLE


@pytest.mark.kafka_3("never")  # It shows an error with the text of Kafka 4.
def test_the_tutorial_prints_the_documented_output(peer: SecureNode) -> None:
    text = (PROJECT / "docs/tutorials/admin-client.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```.*?```text\n(.*?)```", text, re.DOTALL)
    assert len(blocks) == 4
    addresses = {
        "localhost:9092": peer.bootstrap("PLAINTEXT"),
        "localhost:9093": f"localhost:{peer.process.controller_port}",
    }
    for code, printed in blocks:
        for shown, real in addresses.items():
            code, printed = code.replace(shown, real), printed.replace(shown, real)
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
        assert done.stdout == printed, done.stderr
