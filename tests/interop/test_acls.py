"""ACLs with real tools and clients: AclCommand of Kafka, kafka-python and confluent-kafka; and on disk, both ways.

aiokafka has no ACL calls. Callers of the PLAINTEXT listener are User:ANONYMOUS, the super user here; others log in on
the listener SECURE.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import confluent_kafka.admin as confluent
import pytest

from barnabas.common.acl import AclBinding, AclBindingFilter
from barnabas.common.errors import ErrorCode
from barnabas.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from barnabas.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from barnabas.protocol.messages.describe_acls import DescribeAclsRequest
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.interop.raw_client import RawClient
from tests.peers import KafkaNode, free_ports, metadata_shell, run_class
from tests.peers.command_node import CommandNode
from tests.peers.node_process import NodeProcess

pytestmark = [
    pytest.mark.interop,
    pytest.mark.timeout(240),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.usefixtures("kafka_peer"),
]

PASSWORD = "of-all-users"
USERS = ("alice", "bob", "carol")
ANY = AclBindingFilter()
ALICE_READS = AclBinding(2, "orders", 3, "User:alice", "*", 3, 3)


def secured(node: NodeProcess, secure_port: int) -> dict[str, str]:
    jaas = "org.apache.kafka.common.security.plain.PlainLoginModule required " + " ".join(
        f'user_{user}="{PASSWORD}"' for user in USERS
    )
    return {
        "node.id": "1",
        "listeners": f"PLAINTEXT://127.0.0.1:{node.port},SECURE://127.0.0.1:{secure_port},"
        f"CONTROLLER://127.0.0.1:{node.controller_port}",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SECURE:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.secure.plain.sasl.jaas.config": f"{jaas};",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }


@pytest.fixture(scope="module")
def secure_port() -> int:
    return free_ports(1)[0]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory, secure_port: int) -> Iterator[CommandNode]:
    made = CommandNode(tmp_path_factory.mktemp("acls"))
    made.change_settings(secured(made, secure_port))
    made.start()
    yield made
    made.stop()
    assert " ERROR " not in made.printed()
    assert "Traceback" not in made.printed()


def acl_command(bootstrap: str, *args: str) -> list[str]:
    """Return its lines without their order, which a hash map decides."""
    done = run_class("org.apache.kafka.tools.AclCommand", "--bootstrap-server", bootstrap, *args)
    return sorted(line.strip() for line in done.stdout.splitlines() if line.strip())


def fields_of(acl_filter: AclBindingFilter) -> dict[str, Any]:
    names = (
        "resource_type_filter", "resource_name_filter", "pattern_type_filter", "principal_filter", "host_filter",
        "operation", "permission_type",
    )  # fmt: skip
    return dict(zip(names, acl_filter, strict=True))


def described(node: NodeProcess, acl_filter: AclBindingFilter = ANY, *, port: int | None = None) -> set[AclBinding]:
    with closing(RawClient(port or node.port)) as client:
        response = client.call(DescribeAclsRequest(**fields_of(acl_filter)))
    assert response.error_code == 0, response.error_message
    return {
        AclBinding(
            r.resource_type, r.resource_name, r.pattern_type, a.principal, a.host, a.operation, a.permission_type
        )
        for r in response.resources
        for a in r.acls
    }


def create(client: RawClient, *bindings: AclBinding) -> list[int]:
    creations = []
    for type_, name, pattern, principal, host, operation, permission in bindings:
        creations.append(
            AclCreation(
                resource_type=type_, resource_name=name, resource_pattern_type=pattern, principal=principal, host=host,
                operation=operation, permission_type=permission,
            )
        )  # fmt: skip
    return [result.error_code for result in client.call(CreateAclsRequest(creations=creations)).results]


def delete(client: RawClient, acl_filter: AclBindingFilter = ANY) -> int:
    response = client.call(DeleteAclsRequest(filters=[DeleteAclsFilter(**fields_of(acl_filter))]))
    assert response.filter_results[0].error_code == 0
    return len(response.filter_results[0].matching_acls)


def as_user(port: int, user: str) -> RawClient:
    client = RawClient(port)
    client.log_in(user, PASSWORD)
    return client


SCRIPT = (
    "--add --allow-principal User:alice --operation Read --operation Describe --topic orders",
    "--add --allow-principal User:bob --producer --topic clicks --idempotent --transactional-id tx-1",
    "--add --allow-principal User:carol --consumer --topic clicks --group carols",
    "--add --deny-principal User:* --deny-host 192.0.2.7 --operation All --topic orders",
    "--add --allow-principal User:dave --allow-host 192.0.2.8 --operation Write --topic team- "
    "--resource-pattern-type prefixed",
    "--add --allow-principal User:erin --operation Alter --cluster",
    "--add --allow-principal User:erin --operation CreateTokens --user-principal User:frank",
    "--list --topic team-blue --resource-pattern-type match",
    "--list --principal User:bob --principal User:carol",
    "--list --topic clicks --principal User:carol",
    "--remove --force --allow-principal User:alice --operation Read --topic orders",
    "--remove --force --topic clicks",
    "--remove --force --topic no-such",
    "--list",
)


def test_acl_command_works_as_against_a_real_kafka(node: CommandNode, tmp_path: Path) -> None:
    theirs = KafkaNode(tmp_path / "kafka")
    theirs.change_settings(secured(theirs, free_ports(1)[0]))
    theirs.start()
    try:
        with closing(RawClient(node.port)) as client:
            delete(client)
        for line in SCRIPT:
            expected = acl_command(theirs.bootstrap_servers, *line.split())
            assert acl_command(node.bootstrap_servers, *line.split()) == expected, line
        assert len(expected) > 5
        assert described(node) == described(theirs)
    finally:
        theirs.stop()


def test_acl_command_reaches_the_controller_itself(node: CommandNode) -> None:
    with closing(RawClient(node.port)) as client:
        delete(client)
    done = run_class(
        "org.apache.kafka.tools.AclCommand", "--bootstrap-controller", f"127.0.0.1:{node.controller_port}",
        "--add", "--allow-principal", "User:alice", "--operation", "Read", "--topic", "orders",
    )  # fmt: skip
    assert "principal=User:alice, host=*, operation=READ, permissionType=ALLOW" in done.stdout
    assert described(node) == described(node, port=node.controller_port) == {ALICE_READS}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_kafka_python_creates_finds_and_deletes(node: CommandNode) -> None:
    import kafka.admin as module

    admin = module.KafkaAdminClient(bootstrap_servers=node.bootstrap_servers)
    pattern = module.ResourcePattern(module.ResourceType.TOPIC, "py-", module.ACLResourcePatternType.PREFIXED)
    rule = module.ACL("User:py", "192.0.2.1", module.ACLOperation.WRITE, module.ACLPermissionType.DENY, pattern)
    wanted = AclBindingFilter(name="py-")
    try:
        assert len(admin.create_acls([rule])["succeeded"]) == 1
        assert described(node, wanted) == {AclBinding(2, "py-", 4, "User:py", "192.0.2.1", 4, 2)}
        filter_ = module.ACLFilter(
            "User:py", None, module.ACLOperation.ANY, module.ACLPermissionType.ANY,
            module.ResourcePatternFilter(module.ResourceType.TOPIC, "py-x", module.ACLResourcePatternType.MATCH),
        )  # fmt: skip
        found, error = admin.describe_acls(filter_)
        assert error.errno == 0
        assert [(acl.principal, acl.resource_pattern.resource_name) for acl in found] == [("User:py", "py-")]
        ((_, matches, error),) = admin.delete_acls([filter_])
        assert error.errno == 0
        assert len(matches) == 1
        assert described(node, wanted) == set()
    finally:
        admin.close()


def test_confluent_kafka_creates_finds_and_deletes(node: CommandNode) -> None:
    admin = confluent.AdminClient({"bootstrap.servers": node.bootstrap_servers, "log_level": 0})
    rule = confluent.AclBinding(
        confluent.ResourceType.GROUP, "rd", confluent.ResourcePatternType.LITERAL, "User:rd", "*",
        confluent.AclOperation.READ, confluent.AclPermissionType.ALLOW,
    )  # fmt: skip
    anything = confluent.AclBindingFilter(
        confluent.ResourceType.ANY, None, confluent.ResourcePatternType.ANY, "User:rd", None,
        confluent.AclOperation.ANY, confluent.AclPermissionType.ANY,
    )  # fmt: skip
    for future in admin.create_acls([rule], request_timeout=20).values():
        assert future.result() is None
    assert admin.describe_acls(anything, request_timeout=20).result() == [rule]
    assert described(node, ANY._replace(principal="User:rd")) == {AclBinding(3, "rd", 3, "User:rd", "*", 3, 3)}
    for future in admin.delete_acls([anything], request_timeout=20).values():
        assert future.result() == [rule]
    assert admin.describe_acls(anything, request_timeout=20).result() == []


def test_an_acl_is_in_force_on_the_node_that_acknowledged_it(node: CommandNode, secure_port: int) -> None:
    describe = MetadataRequest(topics=[MetadataRequestTopic(name="mine")])
    rule = AclBinding(2, "mine", 3, "User:alice", "*", 8, 3)
    with (
        closing(RawClient(node.port)) as admin,
        closing(as_user(secure_port, "alice")) as alice,
        closing(as_user(secure_port, "bob")) as bob,
    ):
        admin.call(CreateTopicsRequest(topics=[CreatableTopic(name="mine", num_partitions=1, replication_factor=1)]))
        for _ in range(50):
            assert alice.call(describe).topics[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
            assert create(admin, rule) == [0]
            assert alice.call(describe).topics[0].error_code == 0
            assert bob.call(describe).topics[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
            assert delete(admin, AclBindingFilter(*rule)) == 1
        refused = alice.call(DescribeAclsRequest(**fields_of(ANY)))
        assert refused.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert refused.error_message == "User:alice lacks DESCRIBE on Cluster:kafka-cluster"


def test_acls_survive_a_restart_and_apply_to_the_first_request(tmp_path: Path) -> None:
    ours = CommandNode(tmp_path / "ours")
    secure = free_ports(1)[0]
    often = {"metadata.log.max.record.bytes.between.snapshots": "100000"}
    ours.change_settings(secured(ours, secure) | {"early.start.listeners": "SECURE"} | often)
    ours.start()
    rules = [ALICE_READS._replace(name=f"t{number}") for number in range(5000)]
    with closing(RawClient(ours.port)) as admin:
        assert set(create(admin, *rules)) == {0}
        log = ours.folder / "data" / "__cluster_metadata-0"
        while not any(path.stat().st_size > 100_000 for path in log.glob("*.checkpoint")):
            assert delete(admin, AclBindingFilter(*rules[0])) == 1
            assert create(admin, rules[0]) == [0]
        assert create(admin, AclBinding(4, "kafka-cluster", 3, "User:alice", "*", 8, 3)) == [0]
    ours.kill()
    with ThreadPoolExecutor(1) as asking:
        first_answer = asking.submit(_ask_as_soon_as_possible, secure)
        ours.start()
        try:
            assert len(first_answer.result(60).resources) == 5001
            assert "own broker is" not in ours.printed()
        finally:
            ours.stop()


def _ask_as_soon_as_possible(port: int) -> Any:
    """A listener may open before the ACLs are loaded: the answer then waits for them."""
    deadline = time.monotonic() + 60
    while True:
        try:
            client = as_user(port, "alice")
            break
        except ConnectionRefusedError:
            assert time.monotonic() < deadline
            time.sleep(0.001)
    with closing(client):
        return client.call(DescribeAclsRequest(**fields_of(ANY)))


def test_a_directory_with_acls_moves_from_kafka_to_barnabas_and_back(tmp_path: Path) -> None:
    secure = free_ports(1)[0]
    theirs = KafkaNode(tmp_path / "kafka")
    theirs.change_settings(secured(theirs, secure))
    theirs.start()
    rules = {
        ALICE_READS,
        ALICE_READS._replace(pattern_type=4, name="team-", permission=2, host="192.0.2.7"),
        AclBinding(4, "kafka-cluster", 3, "User:bob", "*", 8, 3),
    }
    with closing(RawClient(theirs.port)) as client:
        assert set(create(client, *rules)) == {0}
    theirs.stop()

    ours = CommandNode(tmp_path / "ours", properties=theirs.properties)
    ours.change_settings(secured(ours, secure) | {"log.dirs": str(tmp_path / "kafka" / "data")})
    ours.start()
    assert described(ours) == rules
    added = AclBinding(5, "tx-", 4, "User:carol", "*", 4, 3)
    with closing(as_user(secure, "bob")) as bob:
        assert bob.call(DescribeAclsRequest(**fields_of(ANY))).error_code == 0
    with closing(RawClient(ours.port)) as client:
        assert create(client, added, ALICE_READS) == [0, 0]
        assert delete(client, ANY._replace(principal="User:bob")) == 1
    with closing(as_user(secure, "bob")) as bob:
        assert bob.call(DescribeAclsRequest(**fields_of(ANY))).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    left = {rule for rule in (*rules, added) if rule.principal != "User:bob"}
    assert described(ours) == left
    listed = acl_command(ours.bootstrap_servers, "--list")
    ours.stop()

    log = next((tmp_path / "kafka" / "data" / "__cluster_metadata-0").glob("*.log"))
    (shown,) = metadata_shell(log, "tree image/acls/byId")
    assert shown.count("StandardAcl[") == len(left)
    theirs.start()
    try:
        assert described(theirs) == left
        assert acl_command(theirs.bootstrap_servers, "--list") == listed
    finally:
        theirs.stop()
