"""SCRAM credentials and delegation tokens: Kafka's tools, clients, and the real Kafka on the files of our node."""

from __future__ import annotations

import asyncio
import gc
import re
import time
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.request import urlopen

import pytest

from barnabas.clients.client_config import client_config
from barnabas.clients.errors import ClientError
from barnabas.clients.network_client import NetworkClient
from barnabas.common.errors import ErrorCode
from barnabas.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from barnabas.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from barnabas.protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest
from barnabas.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from barnabas.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from barnabas.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from barnabas.protocol.schema import Request
from tests.interop.raw_client import RawClient
from tests.peers import KafkaNode, free_ports, run_class
from tests.peers.command_node import CommandNode
from tests.peers.credential_requests import PASSWORDS, PLAINTEXT, steps, steps_without_tokens
from tests.peers.record_credential_answers import answers, kafka_settings, prepare_rights
from tests.peers.secure import USERS, SecureNode, jaas_client, running_secure_barnabas
from tests.unit.broker.apis.test_credential_apis import BETTER, recorded

pytestmark = [
    pytest.mark.interop,
    pytest.mark.timeout(240),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]

DELEGATION_TOKENS = "org.apache.kafka.tools.DelegationTokenCommand"
SECRET_KEY = "the secret key of all tokens"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
SCRAM = MECHANISMS[1:]


class Token(NamedTuple):
    token_id: str
    hmac: str
    """The HMAC in base64, as the owner logs in with it."""


@pytest.fixture(scope="module")
def metrics_port() -> int:
    return free_ports(1)[0]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory, metrics_port: int) -> Iterator[SecureNode]:
    with running_secure_barnabas(
        tmp_path_factory.mktemp("tokens"),
        protocols=("PLAINTEXT", "SASL_PLAINTEXT", "SASL_SSL"),
        mechanisms=MECHANISMS,
        settings={
            "delegation.token.secret.key": SECRET_KEY,
            "barnabas.log.level": "DEBUG",
            "barnabas.metrics.listener": f"127.0.0.1:{metrics_port}",
        },
    ) as running:
        yield running
        printed = running.process.printed()
    assert "Traceback" not in printed
    for secret in (SECRET_KEY, *USERS.values()):
        assert secret not in printed


def java(
    node: SecureNode, folder: Path, name: str, *args: str, user: str = "alice", check: bool = True, **login: str
) -> str:
    """Return the output of a Kafka tool that logs in as ``user``, or with ``login``."""
    protocol = login.pop("protocol", "SASL_PLAINTEXT")
    mechanism = login.pop("mechanism", "SCRAM-SHA-256")
    settings = {"request.timeout.ms": "15000", **{key.replace("_", "."): value for key, value in login.items()}}
    file = node.java_client(protocol, mechanism, user, folder, **settings)
    done = run_class(
        name, "--bootstrap-server", node.bootstrap(protocol), "--command-config", str(file), *args,
        check=check,
    )  # fmt: skip
    return done.stdout if check else done.stdout + done.stderr


def configs(node: SecureNode, *args: str) -> str:
    bootstrap = node.bootstrap("PLAINTEXT")
    return run_class("configs", "--bootstrap-server", bootstrap, *args).stdout


def request_as(
    bootstrap: str, user: str, password: str, *requests: Request[Any], mechanism: str, token_auth: bool
) -> Any:
    """The answers that our own client receives on SASL_PLAINTEXT."""

    async def ask() -> list[Any]:
        config = client_config(
            {
                "bootstrap.servers": bootstrap,
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": mechanism,
                "sasl.jaas.config": jaas_client(mechanism, user, password, token_auth=token_auth),
            }
        )
        async with NetworkClient(config) as client:
            return [await client.request(request) for request in requests]

    return asyncio.run(ask())


def as_alice(node: SecureNode, *requests: Request[Any]) -> Any:
    return request_as(
        node.bootstrap("SASL_PLAINTEXT"),
        "alice",
        USERS["alice"],
        *requests,
        mechanism="SCRAM-SHA-512",
        token_auth=False,
    )


def with_token(node: SecureNode, token: Token, *requests: Request[Any], mechanism: str = "SCRAM-SHA-256") -> Any:
    bootstrap = node.bootstrap("SASL_PLAINTEXT")
    return request_as(bootstrap, token.token_id, token.hmac, *requests, mechanism=mechanism, token_auth=True)


def new_token(node: SecureNode, **fields: Any) -> Token:
    from base64 import b64encode

    (created,) = as_alice(node, CreateDelegationTokenRequest(**{"max_lifetime_ms": -1, **fields}))
    assert created.error_code == 0
    return Token(created.token_id, b64encode(created.hmac).decode())


# Kafka's tools


@pytest.mark.usefixtures("kafka_peer")
def test_configs_tool_adds_describes_and_deletes_credentials_that_log_in(node: SecureNode, tmp_path: Path) -> None:
    user = ("--entity-type", "users", "--entity-name", "dave")
    for mechanism, iterations in (("SCRAM-SHA-256", 8192), ("SCRAM-SHA-512", 4096)):
        added = configs(
            node, "--alter", *user, "--add-config", f"{mechanism}=[iterations={iterations},password=dave-secret]"
        )
        assert "Completed updating config for user dave" in added
    described = configs(node, "--describe", *user)
    assert re.search(
        r"SCRAM credential configs for user-principal 'dave' are SCRAM-SHA-256=iterations=8192, "
        r"SCRAM-SHA-512=iterations=4096",
        described,
    ), described
    everybody = configs(node, "--describe", "--entity-type", "users")
    assert {name for name in USERS if f"'{name}'" in everybody} == set(USERS)
    for mechanism in SCRAM:
        jaas = jaas_client(mechanism, "dave", "dave-secret")
        assert java(node, tmp_path, "topics", "--list", user="dave", mechanism=mechanism, sasl_jaas_config=jaas) == "\n"
    configs(node, "--alter", *user, "--delete-config", "SCRAM-SHA-256")
    assert "SCRAM-SHA-256" not in configs(node, "--describe", *user)
    jaas = jaas_client("SCRAM-SHA-256", "dave", "dave-secret")
    refused = java(
        node, tmp_path, "topics", "--list", user="dave", mechanism="SCRAM-SHA-256", sasl_jaas_config=jaas, check=False
    )
    assert "Authentication failed during authentication due to invalid credentials with SASL mechanism" in refused
    assert java(
        node, tmp_path, "topics", "--list", user="dave", mechanism="SCRAM-SHA-512",
        sasl_jaas_config=jaas_client("SCRAM-SHA-512", "dave", "dave-secret"),
    ) == "\n"  # fmt: skip


@pytest.mark.usefixtures("kafka_peer")
@pytest.mark.parametrize(
    ("protocol", "mechanism"), [("SASL_PLAINTEXT", "SCRAM-SHA-256"), ("SASL_SSL", "SCRAM-SHA-512")]
)
def test_token_tool_creates_describes_renews_and_expires_a_token_that_logs_in(
    node: SecureNode, tmp_path: Path, protocol: str, mechanism: str
) -> None:
    created = java(
        node, tmp_path, DELEGATION_TOKENS, "--create", "--max-life-time-period", "-1",
        "--renewer-principal", "User:bob", protocol=protocol,
    )  # fmt: skip
    found = re.search(r"^(\S{22})\s+(\S{88})\s+User:alice\s+User:alice\s+\[User:bob\]", created, re.MULTILINE)
    assert found is not None, created
    token = Token(*found.groups())
    described = java(
        node, tmp_path, DELEGATION_TOKENS, "--describe", "--owner-principal", "User:alice", protocol=protocol
    )
    assert token.token_id in described
    assert token.hmac in described
    renewed = java(
        node, tmp_path, DELEGATION_TOKENS, "--renew", "--renew-time-period", "3600000", "--hmac", token.hmac,
        user="bob", protocol=protocol,
    )  # fmt: skip
    assert "Completed renew operation. New expiry date" in renewed
    login: dict[str, Any] = {
        "protocol": protocol,
        "mechanism": mechanism,
        "sasl_jaas_config": jaas_client(mechanism, token.token_id, token.hmac, token_auth=True),
    }
    assert java(node, tmp_path, "topics", "--list", user="token", **login) == "\n"
    refused = java(
        node,
        tmp_path,
        DELEGATION_TOKENS,
        "--create",
        "--max-life-time-period",
        "-1",
        user="token",
        check=False,
        **login,
    )
    assert "DelegationTokenDisabledException" not in refused
    assert "Delegation Token requests are not allowed" in refused
    expired = java(
        node, tmp_path, DELEGATION_TOKENS, "--expire", "--expiry-time-period", "-1", "--hmac", token.hmac,
        protocol=protocol,
    )  # fmt: skip
    assert "Completed expire operation. New expiry date" in expired
    gone = java(node, tmp_path, "topics", "--list", user="token", check=False, **login)
    assert "Authentication failed" in gone


# Clients


def test_a_credential_that_librdkafka_made_logs_in_every_client(node: SecureNode) -> None:
    from confluent_kafka.admin import (
        AdminClient,
        ScramCredentialInfo,
        ScramMechanism,
        UserScramCredentialDeletion,
        UserScramCredentialUpsertion,
    )

    admin = AdminClient({"bootstrap.servers": node.bootstrap("PLAINTEXT"), "log_level": 0})
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 10_000)
    changed: Any = admin.alter_user_scram_credentials(
        [UserScramCredentialUpsertion("erin", info, b"erin-secret", b"pepper")]
    )
    changed["erin"].result(10)
    described: Any = admin.describe_user_scram_credentials(["erin"])
    described = described["erin"].result(10)
    assert [(info.mechanism, info.iterations) for info in described.scram_credential_infos] == [
        (ScramMechanism.SCRAM_SHA_512, 10_000)
    ]
    assert log_ins(node, "SCRAM-SHA-512", "erin", "erin-secret") == {"librdkafka", "kafka-python", "aiokafka", "ours"}
    assert log_ins(node, "SCRAM-SHA-512", "erin", "wrong") == set()
    deletion = UserScramCredentialDeletion("erin", ScramMechanism.SCRAM_SHA_512)
    admin.alter_user_scram_credentials([deletion])["erin"].result(10)
    assert log_ins(node, "SCRAM-SHA-512", "erin", "erin-secret") == set()


def log_ins(node: SecureNode, mechanism: str, user: str, password: str) -> set[str]:
    """Return the clients that can list topics with this login."""
    bootstrap = node.bootstrap("SASL_PLAINTEXT")
    named = {
        "bootstrap_servers": bootstrap, "security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": mechanism,
        "sasl_plain_username": user, "sasl_plain_password": password,
    }  # fmt: skip
    return {
        name
        for name, try_it in (
            ("librdkafka", lambda: _librdkafka(bootstrap, mechanism, user, password)),
            ("kafka-python", lambda: _kafka_python(named)),
            ("aiokafka", lambda: asyncio.run(_aiokafka(named))),
            ("ours", lambda: _ours(bootstrap, mechanism, user, password)),
        )
        if try_it()
    }


def _librdkafka(bootstrap: str, mechanism: str, user: str, password: str) -> bool:
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    admin = AdminClient(
        {
            "bootstrap.servers": bootstrap, "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism,
            "sasl.username": user, "sasl.password": password, "log_level": 0, "socket.timeout.ms": 5000,
        }
    )  # fmt: skip
    try:
        return bool(admin.list_topics(timeout=3).brokers)
    except KafkaException:
        return False


def _kafka_python(named: dict[str, Any]) -> bool:
    # A KafkaConsumer or KafkaAdminClient that cannot log in raises, but its thread goes on trying for ever.
    from kafka import KafkaProducer
    from kafka.errors import KafkaError

    try:
        KafkaProducer(**named, bootstrap_timeout_ms=3000).close()
    except KafkaError:
        return False
    finally:
        gc.collect()
    return True


async def _aiokafka(named: dict[str, Any]) -> bool:
    from aiokafka import AIOKafkaProducer
    from aiokafka.errors import KafkaError

    producer = AIOKafkaProducer(**named)
    try:
        await producer.start()
    except KafkaError:
        return False
    finally:
        await producer.stop()
    return True


def _ours(bootstrap: str, mechanism: str, user: str, password: str) -> bool:
    everybody = DescribeDelegationTokenRequest(owners=None)
    try:
        request_as(bootstrap, user, password, everybody, mechanism=mechanism, token_auth=False)
    except ClientError:
        return False
    return True


@pytest.mark.parametrize("mechanism", SCRAM)
def test_a_new_token_logs_in_immediately_and_not_after_it_expires(node: SecureNode, mechanism: str) -> None:
    everybody = DescribeDelegationTokenRequest(owners=None)
    for _ in range(5):
        token = new_token(node)
        (described,) = as_alice(node, everybody)
        assert token.token_id in {known.token_id for known in described.tokens}
        creation = CreateDelegationTokenRequest(max_lifetime_ms=-1)
        for answer in with_token(node, token, everybody, creation, mechanism=mechanism):
            assert answer.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        hmac = b64decode(token.hmac)
        renewal = RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=60_000)
        expiry = ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=0)
        assert [answer.error_code for answer in as_alice(node, renewal, expiry)] == [0, 0]
        time.sleep(0.002)
        with pytest.raises(ClientError, match="invalid credentials"):
            with_token(node, token, everybody, mechanism=mechanism)
        with pytest.raises(ClientError, match="invalid credentials"):
            with_token(node, token._replace(token_id="no-such-token"), everybody, mechanism=mechanism)


def test_a_token_is_neither_its_owners_password_nor_a_user(node: SecureNode) -> None:
    token = new_token(node)
    everybody = DescribeDelegationTokenRequest(owners=None)
    bootstrap = node.bootstrap("SASL_PLAINTEXT")
    for user, password, token_auth in (
        (token.token_id, token.hmac, False),
        ("alice", token.hmac, False),
        ("alice", token.hmac, True),
        ("alice", USERS["alice"], True),
    ):
        with pytest.raises(ClientError, match="invalid credentials"):
            request_as(bootstrap, user, password, everybody, mechanism="SCRAM-SHA-256", token_auth=token_auth)


# Secrets


def test_no_answer_and_no_metric_shows_a_secret(node: SecureNode, metrics_port: int) -> None:
    """The log of the node is inspected after it has stopped."""
    token = new_token(node)
    client = RawClient(node.ports["PLAINTEXT"])
    resources = [DescribeConfigsResource(resource_type=4, resource_name="1", configuration_keys=None)]
    shown = client.exchange(DescribeConfigsRequest(resources=resources, include_synonyms=True), 4)
    assert b"delegation.token.secret.key" in shown
    shown += client.exchange(DescribeUserScramCredentialsRequest(users=None), 0)
    assert b"alice" in shown
    client.close()
    with urlopen(f"http://127.0.0.1:{metrics_port}/metrics", timeout=10) as answer:
        shown += answer.read()
    for secret in (SECRET_KEY, token.hmac, *USERS.values()):
        assert secret.encode() not in shown
    assert b64decode(token.hmac) not in shown


# The wire


@pytest.mark.parametrize("has_tokens", [True, False], ids=["tokens", "disabled"])
def test_every_answer_on_the_wire_equals_kafkas(tmp_path: Path, has_tokens: bool) -> None:
    node = CommandNode(tmp_path)
    (sasl_port,) = free_ports(1)
    node.change_settings(kafka_settings(node.port, sasl_port, node.controller_port, has_tokens=has_tokens))
    node.start()
    clients = {PLAINTEXT: RawClient(node.port)}
    try:
        for user, password in PASSWORDS.items():
            clients[user] = RawClient(sasl_port)
            clients[user].log_in(user, password)
        prepare_rights(clients[PLAINTEXT])
        chosen = steps() if has_tokens else steps_without_tokens()
        # Quotas can be described but not yet set: cases that need quotas are compared in a unit test.
        ours = answers(clients, [step for step in chosen if not step.name.startswith("quotas")], pause_s=0.002)
    finally:
        for client in clients.values():
            client.close()
        node.stop()
    kafka = recorded()
    different = {name: (kafka[name], answer) for name, answer in ours.items() if answer != kafka[name]}
    assert {name: pair for name, pair in different.items() if name not in BETTER} == {}
    printed = node.printed()
    assert "Traceback" not in printed
    assert "a secret" not in printed


# The log


def test_credentials_and_tokens_survive_a_kill(tmp_path: Path) -> None:
    with running_secure_barnabas(
        tmp_path, protocols=("PLAINTEXT", "SASL_PLAINTEXT"), mechanisms=MECHANISMS,
        settings={"delegation.token.secret.key": SECRET_KEY},
    ) as node:  # fmt: skip
        token, gone = new_token(node), new_token(node)
        as_alice(node, ExpireDelegationTokenRequest(hmac=b64decode(gone.hmac), expiry_time_period_ms=-1))
        node.process.kill()
        node.process.start()
        everybody = DescribeDelegationTokenRequest(owners=None)
        (described,) = as_alice(node, everybody)
        assert [known.token_id for known in described.tokens] == [token.token_id]
        assert [b64decode(token.hmac)] == [known.hmac for known in described.tokens]
        assert with_token(node, token, everybody)[0].error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        with pytest.raises(ClientError, match="invalid credentials"):
            with_token(node, gone, everybody)


@pytest.mark.usefixtures("kafka_peer")
def test_a_real_kafka_accepts_our_users_and_tokens(tmp_path: Path) -> None:
    settings = {"delegation.token.secret.key": SECRET_KEY}
    with running_secure_barnabas(
        tmp_path / "ours", protocols=("PLAINTEXT", "SASL_PLAINTEXT"), mechanisms=MECHANISMS, settings=settings
    ) as ours:
        token = new_token(ours, renewers=[])
        (described,) = as_alice(ours, DescribeDelegationTokenRequest(owners=None))
        ours.process.stop()
        properties = (tmp_path / "ours" / "server.properties").read_text()
        kafka = KafkaNode(tmp_path / "kafka")
        kafka.folder.mkdir()
        kafka.properties.write_text(properties)
        kafka.start()
        try:
            deadline = time.monotonic() + 20
            while True:
                try:
                    (listed,) = as_alice(ours, DescribeDelegationTokenRequest(owners=None))
                    if listed.tokens or time.monotonic() > deadline:
                        break
                except ClientError:
                    if time.monotonic() > deadline:
                        raise
                time.sleep(0.2)
            assert listed.tokens == described.tokens
            refusal = with_token(ours, token, DescribeDelegationTokenRequest(owners=None), mechanism="SCRAM-SHA-512")
            assert refusal[0].error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        finally:
            kafka.stop()
