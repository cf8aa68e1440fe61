"""``barnabas access`` and the client below it, against a real Kafka and ours: over TLS and SASL, and compared with the
answers of the cluster itself to these callers."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from barnabas.access.acl_text import parse_principal, parse_resource
from barnabas.access.explain import explain
from barnabas.access.explanation_json import explanation_json, holders_json, holdings_json
from barnabas.access.listing import access_of_principal, principals_with_access
from barnabas.access.rule_set import Policy, Rule
from barnabas.cli.access.command import main
from barnabas.clients.client_config import client_config
from barnabas.clients.errors import AuthenticationFailed, ClientError, ConnectFailed, Disconnected
from barnabas.clients.network_client import NetworkClient
from barnabas.common.acl import AclBinding, AclOperation
from barnabas.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from barnabas.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.protocol.messages.describe_acls import DescribeAclsRequest
from barnabas.protocol.messages.describe_cluster import DescribeClusterRequest
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.security.authorizer.authorized_operations import supported_operations
from tests.peers import KafkaNode, free_ports
from tests.peers.certificates import PASSWORD, Authority
from tests.peers.command_node import CommandNode
from tests.peers.node_process import NodeProcess

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180)]

USERS = ("admin", "alice", "bob", "carol", "dave", "eve")
TOPICS = ("orders", "ordinary", "payments", "zebra")
RULES = [
    AclBinding(2, "orders", 3, "User:alice", "*", 3, 3),
    AclBinding(2, "ord", 4, "User:bob", "127.0.0.1", 4, 3),
    AclBinding(2, "ord", 4, "User:bob", "10.0.0.9", 3, 3),
    AclBinding(2, "*", 3, "User:*", "*", 8, 3),
    AclBinding(2, "*", 3, "User:eve", "*", 2, 2),
    AclBinding(2, "payments", 3, "User:carol", "*", 2, 3),
    AclBinding(2, "pay", 4, "User:carol", "*", 6, 2),
    AclBinding(2, "orders", 3, "User:dave", "*", 11, 3),
    AclBinding(2, "orders", 3, "User:dave", "127.0.0.1", 8, 2),
    AclBinding(3, "app-", 4, "User:alice", "*", 3, 3),
    AclBinding(4, "kafka-cluster", 3, "User:alice", "*", 12, 3),
]

WRONG_SCRAM = "x.ScramLoginModule required username=alice password=wrong;"
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;"


class Cluster(NamedTuple):
    node: NodeProcess
    folder: Path
    ports: Mapping[str, int]
    trust: Path
    other_trust: Path

    def properties(self, listener: str, user: str = "admin", mechanism: str = "PLAIN", **more: str) -> dict[str, str]:
        protocol = {"TLS": "SSL", "SASL": "SASL_PLAINTEXT", "SASLTLS": "SASL_SSL"}.get(listener, "PLAINTEXT")
        module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
        host = "localhost" if protocol.endswith("SSL") else "127.0.0.1"
        return {
            "bootstrap.servers": f"{host}:{self.ports[listener]}",
            "security.protocol": protocol,
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": f"org.apache.kafka.common.security.{module} required "
            f'username="{user}" password="{user}-secret";',
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.trust),
            **{name.replace("_", "."): value for name, value in more.items()},
        }

    def ask(self, request: Any, properties: Mapping[str, str]) -> Any:
        async def send() -> Any:
            async with NetworkClient(client_config(properties)) as client:
                return await client.request(request)

        return asyncio.run(send())

    def command_config(self, **options: Any) -> str:
        path = self.folder / "client.properties"
        path.write_text("".join(f"{k}={v}\n" for k, v in self.properties(**options).items()))
        return str(path)


def settings_of(kind: str, ports: Mapping[str, int], store: Path) -> dict[str, str]:
    users = " ".join(f'user_{user}="{user}-secret"' for user in USERS)
    plain = f"org.apache.kafka.common.security.plain.PlainLoginModule required {users};"
    scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    listeners = [f"{name}://127.0.0.1:{port}" for name, port in ports.items()]
    protocols = {"PLAINTEXT": "PLAINTEXT", "CONTROLLER": "PLAINTEXT", "TLS": "SSL", "SASL": "SASL_PLAINTEXT",
                 "SASLTLS": "SASL_SSL"}  # fmt: skip
    settings = {
        "listeners": ",".join(listeners),
        "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in protocols.items()),
        "controller.listener.names": "CONTROLLER",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS;User:admin",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": str(store),
        "ssl.keystore.password": PASSWORD,
        "auto.create.topics.enable": "false",
    }
    if kind == "kafka":  # Its default accepts unsigned tokens; ours never does.
        settings["sasl.enabled.mechanisms"] += ",OAUTHBEARER"
        for listener in ("sasl", "sasltls"):
            settings[f"listener.name.{listener}.oauthbearer.sasl.jaas.config"] = OAUTH
    settings["listener.name.sasl.connections.max.reauth.ms"] = "1500"
    for listener in ("sasl", "sasltls"):
        settings[f"listener.name.{listener}.plain.sasl.jaas.config"] = plain
        settings[f"listener.name.{listener}.scram-sha-256.sasl.jaas.config"] = scram
    return settings


@pytest.fixture(scope="module", params=["kafka", "barnabas"])
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp(f"access-{request.param}")
    authority = Authority()
    store = authority.issue("node", hosts=["localhost"]).write_pkcs12(folder / "node.p12")
    trust, other = authority.write_pem(folder / "ca.pem"), Authority("Other").write_pem(folder / "other.pem")
    node: KafkaNode | CommandNode
    if request.param == "kafka":
        request.getfixturevalue("kafka_peer")
        node = KafkaNode(folder)
    else:
        node = CommandNode(folder)
    tls, sasl, sasl_tls = free_ports(3)
    ports = {
        "PLAINTEXT": node.port, "CONTROLLER": node.controller_port, "TLS": tls, "SASL": sasl, "SASLTLS": sasl_tls
    }  # fmt: skip
    node._settings.update(settings_of(request.param, ports, store))
    credential = ["--add-scram", "SCRAM-SHA-256=[name=alice,password=alice-secret]"]
    if isinstance(node, KafkaNode):
        node.format(*credential)
    node.start()
    try:
        cluster = Cluster(node, folder, ports, trust, other)
        admin = cluster.properties("PLAINTEXT")
        if isinstance(node, CommandNode):
            add_scram(cluster, admin)
        topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in TOPICS]
        made = cluster.ask(CreateTopicsRequest(topics=topics, timeout_ms=10_000), admin)
        assert [topic.error_code for topic in made.topics] == [0] * len(TOPICS)
        creations = [
            AclCreation(
                resource_type=b.resource_type,
                resource_name=b.name,
                resource_pattern_type=b.pattern_type,
                principal=b.principal,
                host=b.host,
                operation=b.operation,
                permission_type=b.permission,
            )
            for b in RULES
        ]
        results = cluster.ask(CreateAclsRequest(creations=creations), admin).results
        assert [result.error_code for result in results] == [0] * len(RULES)
        while isinstance(node, KafkaNode) and count_rules(cluster, admin) < len(RULES):
            time.sleep(0.05)  # Kafka's broker applies them a little later than it acknowledges them.
        yield cluster
    finally:
        node.stop()


def count_rules(cluster: Cluster, admin: Mapping[str, str]) -> int:
    everything = DescribeAclsRequest(
        resource_type_filter=1, pattern_type_filter=1, operation=1, permission_type=1,
        resource_name_filter=None, principal_filter=None, host_filter=None,
    )  # fmt: skip
    return sum(len(resource.acls) for resource in cluster.ask(everything, admin).resources)


def add_scram(cluster: Cluster, admin: Mapping[str, str]) -> None:
    from barnabas.common.scram_mechanism import ScramMechanism
    from barnabas.protocol.messages.alter_user_scram_credentials import (
        AlterUserScramCredentialsRequest,
        ScramCredentialUpsertion,
    )
    from barnabas.security.scram_credentials import salted_password_of

    salt = b"0123456789abcdef"
    salted = salted_password_of(ScramMechanism.SCRAM_SHA_256, "alice-secret", salt, 4096)
    upsertion = ScramCredentialUpsertion(name="alice", mechanism=1, iterations=4096, salt=salt, salted_password=salted)
    answer = cluster.ask(AlterUserScramCredentialsRequest(upsertions=[upsertion]), admin)
    assert [result.error_code for result in answer.results] == [0]


@pytest.mark.parametrize(
    ("listener", "user", "mechanism"),
    [
        ("PLAINTEXT", "nobody", "PLAIN"),
        ("TLS", "nobody", "PLAIN"),
        ("SASL", "bob", "PLAIN"),
        ("SASLTLS", "bob", "PLAIN"),
        ("SASL", "alice", "SCRAM-SHA-256"),
        ("SASLTLS", "alice", "SCRAM-SHA-256"),
    ],
)
def test_the_client_connects_to_every_kind_of_listener(
    cluster: Cluster, listener: str, user: str, mechanism: str
) -> None:
    answer = cluster.ask(DescribeClusterRequest(), cluster.properties(listener, user, mechanism))
    assert [broker.broker_id for broker in answer.brokers] == [1]


def test_the_first_server_that_answers_is_used(cluster: Cluster) -> None:
    properties = cluster.properties("PLAINTEXT")
    dead = f"127.0.0.1:{free_ports(1)[0]}"
    answer = cluster.ask(
        DescribeClusterRequest(), {**properties, "bootstrap.servers": f"{dead},{cluster.node.bootstrap_servers}"}
    )
    assert answer.brokers
    with pytest.raises(ConnectFailed, match="no bootstrap server can be used:\n  nothing listens at .*\n  nothing"):
        cluster.ask(DescribeClusterRequest(), {**properties, "bootstrap.servers": f"{dead},{dead}"})


def test_a_session_is_renewed_on_the_same_connection_under_load(cluster: Cluster) -> None:
    """Sessions end after 1.5 s, and a node disconnects a client that continues without logging in again."""

    async def ask_on() -> int:
        async with NetworkClient(client_config(cluster.properties("SASL", "alice", "SCRAM-SHA-256"))) as client:
            connection = await client.connect()
            end = asyncio.get_running_loop().time() + 4
            count = 0
            while asyncio.get_running_loop().time() < end:
                answers = await asyncio.gather(*(connection.request(DescribeClusterRequest()) for _ in range(5)))
                count += len(answers)
                await asyncio.sleep(0.02)
            assert await client.connect() is connection
            return count

    assert asyncio.run(ask_on()) > 10


@pytest.mark.parametrize("cluster", ["kafka"], indirect=True)
def test_a_token_is_read_from_a_file(cluster: Cluster) -> None:
    """Kafka accepts unsigned tokens if so configured. Our node accepts only signed ones: test_sasl.py."""
    now = int(time.time())
    claims = {"sub": "alice", "iat": now - 5, "exp": now + 300}
    parts = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in ({"alg": "none"}, claims)]
    token = cluster.folder / "token"
    token.write_bytes(b".".join(parts) + b".\n")
    more = {"sasl_jaas_config": OAUTH, "sasl_oauthbearer_token_endpoint_url": token.as_uri()}
    properties = cluster.properties("SASL", mechanism="OAUTHBEARER", **more)
    assert cluster.ask(DescribeClusterRequest(), properties).brokers
    token.write_text("nonsense")
    with pytest.raises(AuthenticationFailed, match="with OAUTHBEARER"):
        cluster.ask(DescribeClusterRequest(), properties)


@pytest.mark.parametrize(
    ("listener", "changes", "kind", "message"),
    [
        ("SASL", {"sasl_jaas_config": "x.PlainLoginModule required username=bob password=wrong;"}, AuthenticationFailed,
         "refused the login with PLAIN: "),
        ("SASL", {"sasl_mechanism": "SCRAM-SHA-512", "sasl_jaas_config": WRONG_SCRAM},
         AuthenticationFailed, "does not offer sasl.mechanism SCRAM-SHA-512; it offers "),
        ("SASL", {"sasl_mechanism": "SCRAM-SHA-256", "sasl_jaas_config": WRONG_SCRAM},
         AuthenticationFailed, "refused the login with SCRAM-SHA-256: "),
        ("PLAINTEXT", {"security_protocol": "SSL"}, ConnectFailed, "if that listener is not encrypted"),
        ("TLS", {"security_protocol": "PLAINTEXT"}, Disconnected, "set security.protocol"),
        ("SASL", {"security_protocol": "PLAINTEXT"}, Disconnected, "set security.protocol=SASL_PLAINTEXT"),
        ("PLAINTEXT", {"security_protocol": "SASL_PLAINTEXT"}, AuthenticationFailed, "clients do not log in at"),
        ("TLS", {"ssl_truststore_location": "other.pem"}, AuthenticationFailed, "ssl.truststore.location"),
        ("TLS", {"bootstrap_servers": "127.0.0.1"}, AuthenticationFailed, "connect by a name that is in it"),
    ],
)  # fmt: skip
def test_unsuitable_properties_are_reported(
    cluster: Cluster, listener: str, changes: dict[str, str], kind: type[ClientError], message: str
) -> None:
    properties = cluster.properties(listener, **changes)
    if "ssl_truststore_location" in changes:
        properties["ssl.truststore.location"] = str(cluster.other_trust)
    if "bootstrap_servers" in changes:
        properties["bootstrap.servers"] += f":{cluster.ports[listener]}"
    with pytest.raises(ClientError) as caught:
        cluster.ask(DescribeClusterRequest(), properties)
    assert isinstance(caught.value, kind)
    assert message in str(caught.value)


def test_any_host_name_is_accepted_without_endpoint_identification(cluster: Cluster) -> None:
    properties = cluster.properties("TLS", ssl_endpoint_identification_algorithm="")
    properties["bootstrap.servers"] = f"127.0.0.1:{cluster.ports['TLS']}"
    assert cluster.ask(DescribeClusterRequest(), properties).brokers


def answered(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> dict[str, Any]:
    assert main([*arguments, "--output", "json"]) == status
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    answer.pop("source")
    return answer


def without_ids(answer: Any) -> Any:
    if isinstance(answer, dict):
        return {key: None if key == "id" else without_ids(value) for key, value in answer.items()}
    return [without_ids(item) for item in answer] if isinstance(answer, list) else answer


def test_a_cluster_and_its_files_answer_as_its_acls_say(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    policy = Policy([Rule(binding) for binding in RULES], super_users=frozenset({"User:admin", "User:ANONYMOUS"}))
    live = [
        "--command-config",
        cluster.command_config(listener="SASLTLS"),
        "--super-users",
        "User:admin;User:ANONYMOUS",
    ]
    files = ["--directory", str(cluster.folder / "data"), "--super-users", "User:admin;User:ANONYMOUS"]
    for topic in (*TOPICS, "*"):
        expected = holders_json(principals_with_access(policy, parse_resource(f"Topic:{topic}")))
        assert answered(capsys, "who", f"Topic:{topic}", *live) == expected
        found = answered(capsys, "who", f"Topic:{topic}", *files)
        assert without_ids(found) == expected
        assert all(rule["id"] for grant in found["grants"] for rule in grant["rules"])
    for user in USERS:
        expected = holdings_json(access_of_principal(policy, parse_principal(f"User:{user}")))
        assert answered(capsys, "of", f"User:{user}", *live) == expected
        assert without_ids(answered(capsys, "of", f"User:{user}", *files)) == expected


def test_an_explanation_equals_the_decision_of_the_cluster(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    """The cluster reports to each caller its operations on a topic; the explanation is requested for each operation."""
    policy = Policy([Rule(binding) for binding in RULES], super_users=frozenset({"User:admin"}))
    for user in USERS:
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=topic) for topic in TOPICS],
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=True,
        )
        answer = cluster.ask(request, cluster.properties("SASL", user))
        for topic in answer.topics:
            mask = topic.topic_authorized_operations if topic.error_code == 0 else None
            for operation in supported_operations(2):
                found = explain(policy, parse_principal(f"User:{user}"), "127.0.0.1", operation,
                                parse_resource(f"Topic:{topic.name}"))  # fmt: skip
                if mask is not None:
                    assert found.allowed == bool(mask >> operation & 1), (user, topic.name, operation)
                elif operation == AclOperation.DESCRIBE:
                    assert not found.allowed
    question = ["explain", "--principal", "User:dave", "--host", "127.0.0.1", "--resource", "Topic:orders"]
    live = ["--command-config", cluster.command_config(listener="SASL"), "--super-users", ""]
    denied = answered(capsys, *question, "--operation", "describe", *live, status=3)
    assert denied == explanation_json(
        explain(
            policy, parse_principal("User:dave"), "127.0.0.1", AclOperation.DESCRIBE, parse_resource("Topic:orders")
        )
    )
    assert answered(capsys, *question, "--operation", "alter-configs", *live)["allowed"]


def test_a_user_that_may_not_read_acls_learns_which_right_is_missing(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["who", "Topic:orders", "--command-config", cluster.command_config(listener="SASL", user="bob")]) == 1
    assert "reading ACLs needs DESCRIBE on Cluster" in capsys.readouterr().err


def test_a_controller_answers_access_queries_too(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    config = cluster.folder / "controllers.properties"
    config.write_text(f"bootstrap.controllers=127.0.0.1:{cluster.ports['CONTROLLER']}\n")
    answer = answered(capsys, "who", "Topic:payments", "--command-config", str(config), "--super-users", "")
    policy = Policy([Rule(binding) for binding in RULES])
    assert answer == holders_json(principals_with_access(policy, parse_resource("Topic:payments")))


@pytest.mark.parametrize("kind", ["real_kafka", "barnabas_node"])
def test_a_cluster_without_an_authorizer_has_no_acls(
    kind: str, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    node: NodeProcess = request.getfixturevalue(kind)
    assert main(["who", "Topic:orders", "--bootstrap-server", node.bootstrap_servers]) == 1
    assert "has no authorizer: every client may do everything" in capsys.readouterr().err
