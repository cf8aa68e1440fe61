"""Unmodified clients log in to our node with every mechanism, with and without TLS. Exchanges that no client would send
are compared with the behaviour of the real Kafka.
"""

from __future__ import annotations

import asyncio
import gc
import http.server
import json
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from barnabas.clients.client_config import read_client_config
from barnabas.clients.errors import AuthenticationFailed
from barnabas.clients.network_client import NetworkClient
from barnabas.protocol.messages.api_versions import ApiVersionsRequest
from barnabas.protocol.messages.describe_cluster import DescribeClusterRequest
from barnabas.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from barnabas.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.interop.raw_client import RawClient
from tests.peers import free_ports, run_class
from tests.peers.sasl_exchanges import AGAIN, AGAIN_SETTINGS, EXCHANGES, FILE, SETTINGS, observe_all
from tests.peers.secure import (
    MECHANISMS,
    USERS,
    SecureNode,
    TokenIssuer,
    jaas_client,
    running_secure_barnabas,
    running_secure_kafka,
)

pytestmark = [
    pytest.mark.interop,
    pytest.mark.timeout(180),
    # Warnings of the client libraries are not ours.
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]

SASL_PROTOCOLS = ("SASL_PLAINTEXT", "SASL_SSL")
TIMEOUT_S = 15


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureNode]:
    with running_secure_barnabas(tmp_path_factory.mktemp("sasl")) as running:
        yield running
        printed = running.process.printed()
    assert "Traceback" not in printed
    for secret in USERS.values():
        assert secret not in printed


@pytest.fixture(scope="module", autouse=True)
def _older_objects_are_left_out() -> None:
    """Collections visit only the objects of this module: the others take a second, after the tests of Spark."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _clients_are_collected() -> Iterator[None]:
    """Clients that could not log in leave sockets open."""
    yield
    gc.collect()


Login = tuple[str, str, str, str]
"""Security protocol, mechanism, user, password."""


def with_kafka_python(node: SecureNode, login: Login) -> list[bytes]:
    from kafka import KafkaConsumer, KafkaProducer
    from kafka.net.sasl.oauth import AbstractTokenProvider

    protocol, mechanism, user, password = login

    class Provider(AbstractTokenProvider):
        def token(self) -> str:
            return node.issuer.token(user)

    settings: dict[str, Any] = {
        "bootstrap_servers": node.bootstrap(protocol),
        "security_protocol": protocol,
        "sasl_mechanism": mechanism,
        "sasl_plain_username": user,
        "sasl_plain_password": password,
    }
    if mechanism == "OAUTHBEARER":
        settings["sasl_oauth_token_provider"] = Provider()
    if protocol == "SASL_SSL":
        settings["ssl_cafile"] = str(node.authority)
    topic = f"kafka-python-{protocol}-{mechanism}"
    with closing(KafkaProducer(**settings, max_block_ms=TIMEOUT_S * 1000)) as producer:
        producer.send(topic, b"hello").get(TIMEOUT_S)
    settings |= {"group_id": topic, "auto_offset_reset": "earliest", "consumer_timeout_ms": TIMEOUT_S * 1000}
    with closing(KafkaConsumer(topic, **settings)) as consumer:
        return [next(consumer).value]


def with_confluent_kafka(node: SecureNode, login: Login) -> list[bytes]:
    from confluent_kafka import Consumer, KafkaError, Producer

    protocol, mechanism, user, password = login
    fatal: list[KafkaError] = []
    settings: dict[str, Any] = {
        "bootstrap.servers": node.bootstrap(protocol),
        "security.protocol": protocol,
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": password,
        "ssl.ca.location": str(node.authority),
        "error_cb": lambda error: fatal.append(error) if error.code() == KafkaError._AUTHENTICATION else None,
        "message.timeout.ms": TIMEOUT_S * 1000,
    }
    if mechanism == "OAUTHBEARER":
        token = node.issuer.token(user)
        settings["oauth_cb"] = lambda config: (token, json.loads(_payload(token))["exp"])
    topic = f"confluent-{protocol}-{mechanism}"
    producer = Producer(settings)
    producer.produce(topic, b"hello")
    for _ in range(TIMEOUT_S * 10):
        if fatal:
            raise PermissionError(str(fatal[0]))
        if not producer.flush(0.1):
            break
    del settings["message.timeout.ms"]
    consumer = Consumer({**settings, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    try:
        for _ in range(TIMEOUT_S * 10):
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                return [message.value()]
    finally:
        consumer.close()
    return []


def _payload(token: str) -> bytes:
    import base64

    part = token.split(".")[1]
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


def with_aiokafka(node: SecureNode, login: Login) -> list[bytes]:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
    from aiokafka.abc import AbstractTokenProvider
    from aiokafka.helpers import create_ssl_context

    protocol, mechanism, user, password = login

    class Provider(AbstractTokenProvider):
        async def token(self) -> str:
            return node.issuer.token(user)

    async def run() -> list[bytes]:
        settings: dict[str, Any] = {
            "bootstrap_servers": node.bootstrap(protocol),
            "security_protocol": protocol,
            "sasl_mechanism": mechanism,
            "sasl_plain_username": user,
            "sasl_plain_password": password,
        }
        if mechanism == "OAUTHBEARER":
            settings["sasl_oauth_token_provider"] = Provider()
        if protocol == "SASL_SSL":
            settings["ssl_context"] = create_ssl_context(cafile=str(node.authority))
        topic = f"aiokafka-{protocol}-{mechanism}"
        async with asyncio.timeout(TIMEOUT_S), AIOKafkaProducer(**settings) as producer:
            await producer.send_and_wait(topic, b"hello")
        consumer = AIOKafkaConsumer(topic, **settings, group_id=topic, auto_offset_reset="earliest")
        async with asyncio.timeout(TIMEOUT_S), consumer:
            return [(await consumer.getone()).value]

    return asyncio.run(run())


CLIENTS = [with_kafka_python, with_confluent_kafka, with_aiokafka]


@pytest.mark.parametrize("protocol", SASL_PROTOCOLS)
@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.__name__)
def test_a_client_logs_in_writes_and_reads(
    node: SecureNode, client: Callable[[SecureNode, Login], list[bytes]], mechanism: str, protocol: str
) -> None:
    assert client(node, (protocol, mechanism, "alice", USERS["alice"])) == [b"hello"]


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
@pytest.mark.parametrize("user", ["alice", "nobody"])
@pytest.mark.parametrize("client", [with_confluent_kafka, with_aiokafka], ids=lambda client: client.__name__)
def test_a_wrong_password_and_an_unknown_user_are_refused_alike(
    node: SecureNode, client: Callable[[SecureNode, Login], list[bytes]], mechanism: str, user: str
) -> None:
    """Without kafka-python, which retries until its timeout."""
    with pytest.raises(Exception, match=r"(?i)authentication fail|invalid credentials|KafkaConnectionError"):
        client(node, ("SASL_PLAINTEXT", mechanism, user, "wrong"))


@pytest.mark.usefixtures("kafka_peer")
@pytest.mark.parametrize("protocol", SASL_PROTOCOLS)
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafkas_own_tools_log_in(node: SecureNode, tmp_path: Path, mechanism: str, protocol: str) -> None:
    done = java(
        node, tmp_path, protocol, mechanism, "alice", "topics", "--create", "--topic", f"java-{protocol}-{mechanism}"
    )
    assert f"Created topic java-{protocol}-{mechanism}." in done


@pytest.mark.usefixtures("kafka_peer")
@pytest.mark.parametrize(
    ("mechanism", "expected"),
    [
        ("PLAIN", "Authentication failed: Invalid username or password"),
        (
            "SCRAM-SHA-512",
            "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-512",
        ),
    ],
)
def test_kafkas_tools_print_what_they_print_with_a_real_node(
    node: SecureNode, tmp_path: Path, mechanism: str, expected: str
) -> None:
    for user in ("alice", "nobody"):
        jaas = jaas_client(mechanism, user, "wrong")
        printed = java(
            node, tmp_path, "SASL_SSL", mechanism, user, "topics", "--list", check=False, sasl_jaas_config=jaas
        )
        assert expected in printed


def java(
    node: SecureNode,
    folder: Path,
    protocol: str,
    mechanism: str,
    user: str,
    tool: str,
    *args: str,
    check: bool = True,
    **settings: str,
) -> str:
    named = {name.replace("_", "."): value for name, value in settings.items()}
    properties = node.java_client(protocol, mechanism, user, folder, **named)
    token_file = folder / f"{user}.token"
    allowed = {
        "org.apache.kafka.sasl.oauthbearer.allowed.urls": token_file.as_uri(),
        "org.apache.kafka.sasl.oauthbearer.allowed.files": str(token_file),
    }
    done = run_class(
        tool, "--bootstrap-server", node.bootstrap(protocol), "--command-config", str(properties), *args,
        properties=allowed, check=check,
    )  # fmt: skip
    return done.stdout + done.stderr


def ask_with_our_client(properties: Path, bootstrap: str) -> int:
    async def run() -> int:
        async with NetworkClient(read_client_config(str(properties), bootstrap=bootstrap)) as client:
            response = await client.request(DescribeClusterRequest())
            return int(response.error_code)

    return asyncio.run(run())


@pytest.mark.parametrize("protocol", SASL_PROTOCOLS)
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_our_client_logs_in(node: SecureNode, tmp_path: Path, mechanism: str, protocol: str) -> None:
    properties = node.java_client(protocol, mechanism, "bob", tmp_path)
    assert ask_with_our_client(properties, node.bootstrap(protocol)) == 0


def test_our_client_says_why_it_could_not_log_in(node: SecureNode, tmp_path: Path) -> None:
    line = jaas_client("PLAIN", "bob", "wrong")
    properties = node.java_client("SASL_PLAINTEXT", "PLAIN", "bob", tmp_path, **{"sasl.jaas.config": line})
    with pytest.raises(AuthenticationFailed, match="Invalid username or password"):
        ask_with_our_client(properties, node.bootstrap("SASL_PLAINTEXT"))


@pytest.mark.usefixtures("kafka_peer")
def test_our_client_logs_in_to_the_real_kafka(tmp_path: Path) -> None:
    with running_secure_kafka(tmp_path) as kafka:
        for protocol in SASL_PROTOCOLS:
            for mechanism in MECHANISMS:
                properties = kafka.java_client(protocol, mechanism, "bob", tmp_path)
                assert ask_with_our_client(properties, kafka.bootstrap(protocol)) == 0, (protocol, mechanism)
        line = jaas_client("SCRAM-SHA-256", "bob", "wrong")
        properties = kafka.java_client("SASL_SSL", "SCRAM-SHA-256", "bob", tmp_path, **{"sasl.jaas.config": line})
        with pytest.raises(AuthenticationFailed, match="invalid credentials with SASL mechanism SCRAM-SHA-256"):
            ask_with_our_client(properties, kafka.bootstrap("SASL_SSL"))


@pytest.mark.usefixtures("kafka_peer")
def test_a_java_client_logs_in_again_and_again_while_it_writes(tmp_path: Path) -> None:
    metrics_port = free_ports(1)[0]
    settings = {"connections.max.reauth.ms": "1500", "barnabas.metrics.listener": f"127.0.0.1:{metrics_port}"}
    with running_secure_barnabas(
        tmp_path, protocols=("PLAINTEXT", "SASL_PLAINTEXT"), mechanisms=("SCRAM-SHA-256",), settings=settings
    ) as node:
        java(node, tmp_path, "SASL_PLAINTEXT", "SCRAM-SHA-256", "alice", "topics", "--create", "--topic", "again")
        properties = node.java_client("SASL_PLAINTEXT", "SCRAM-SHA-256", "alice", tmp_path)
        done = run_class(
            "producer-perf", "--topic", "again", "--num-records", "500", "--record-size", "10", "--throughput", "100",
            "--bootstrap-server", node.bootstrap("SASL_PLAINTEXT"), "--command-config", str(properties),
        )  # fmt: skip
        assert "500 records sent" in done.stdout
        with urllib.request.urlopen(f"http://127.0.0.1:{metrics_port}/metrics", timeout=10) as response:
            metrics = response.read().decode()
    name = 'kafka_server_socket_server_{}_total{{listener="SASL_PLAINTEXT",mechanism="SCRAM-SHA-256"}}'
    counts = {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in metrics.splitlines() if line[0] != "#"}
    assert counts[name.format("successful_reauthentication")] >= 2
    assert counts[name.format("failed_authentication")] == 0
    assert counts['kafka_server_socket_server_expired_connections_killed_total{listener="SASL_PLAINTEXT"}'] == 0


@pytest.mark.usefixtures("kafka_peer")
def test_describing_the_broker_shows_no_secret(node: SecureNode, tmp_path: Path) -> None:
    described = java(
        node, tmp_path, "SASL_SSL", "PLAIN", "admin",
        "configs", "--describe", "--entity-type", "brokers", "--entity-name", "1", "--all",
    )  # fmt: skip
    assert "listener.name.sasl_ssl.plain.sasl.jaas.config=null sensitive=true" in described
    assert not any(secret in described for secret in USERS.values())


def test_a_controller_listener_requires_a_login_too(tmp_path: Path) -> None:
    prefix = "listener.name.controller.plain"
    settings = {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
        f"{prefix}.sasl.jaas.config": 'org.apache.kafka.common.security.plain.PlainLoginModule required user_a="b";',
        "sasl.mechanism.controller.protocol": "PLAIN",
    }
    with running_secure_barnabas(tmp_path, protocols=("PLAINTEXT",), mechanisms=("PLAIN",), settings=settings) as node:
        port = node.process.controller_port
        stranger = RawClient(port)
        with pytest.raises(ConnectionError):
            stranger.call(DescribeClusterRequest(endpoint_type=2), 1)
        stranger.close()
        client = RawClient(port)
        client.call(ApiVersionsRequest(client_software_name="x", client_software_version="1"), 3)
        client.log_in("a", "b")
        assert client.call(DescribeClusterRequest(endpoint_type=2), 1).error_code == 0
        client.close()


class KeyServer(http.server.BaseHTTPRequestHandler):
    """Serves the key set that the test stored in ``document``."""

    document = b""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.document)

    def log_message(self, format: str, *args: Any) -> None: ...


@pytest.fixture
def key_server() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), KeyServer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/keys"
        server.shutdown()
        thread.join()


def test_keys_that_an_issuer_changed_are_fetched_when_a_token_names_them(tmp_path: Path, key_server: str) -> None:
    old, new = TokenIssuer(tmp_path, key_id="old"), TokenIssuer(tmp_path, key_id="new")
    KeyServer.document = json.dumps({"keys": [old.description()]}).encode()
    settings = {"sasl.oauthbearer.jwks.endpoint.url": key_server}

    def logs_in(issuer: TokenIssuer) -> bool:
        client = RawClient(secured.ports["SASL_PLAINTEXT"])
        client.call(SaslHandshakeRequest(mechanism="OAUTHBEARER"), 1)
        message = f"n,,\x01auth=Bearer {issuer.token('alice')}\x01\x01".encode()
        answer = client.call(SaslAuthenticateRequest(auth_bytes=message), 2)
        client.close()
        return not answer.auth_bytes and answer.error_code == 0

    def soon(issuer: TokenIssuer) -> bool:
        deadline = time.monotonic() + 10
        while not logs_in(issuer):
            if time.monotonic() > deadline:
                return False
            time.sleep(0.2)
        return True

    protocols = ("PLAINTEXT", "SASL_PLAINTEXT")
    with running_secure_barnabas(
        tmp_path, protocols=protocols, mechanisms=("OAUTHBEARER",), settings=settings
    ) as secured:
        assert soon(old)
        assert not logs_in(new)
        KeyServer.document = json.dumps({"keys": [new.description()]}).encode()
        # An unknown key was requested recently: until this pause ends, no other unknown key makes the node fetch.
        time.sleep(10)
        assert soon(new)
        assert not logs_in(old)


@pytest.mark.parametrize(
    ("exchanges", "settings"), [(EXCHANGES, SETTINGS), (AGAIN, AGAIN_SETTINGS)], ids=["first", "again"]
)
def test_exchanges_that_no_client_would_send_end_as_with_the_real_kafka(
    tmp_path: Path, exchanges: dict[str, Any], settings: dict[str, str]
) -> None:
    """The exchanges were recorded by ``tests.peers.sasl_exchanges``. In one case ours answers less: a request that is
    illegal in the middle of an exchange is not decoded for an answer."""
    recorded = json.loads(FILE.read_text())
    with running_secure_barnabas(
        tmp_path,
        protocols=("PLAINTEXT", "SASL_PLAINTEXT"),
        mechanisms=("PLAIN", "SCRAM-SHA-256"),
        settings=settings,
    ) as node:
        seen = observe_all(node.ports["SASL_PLAINTEXT"], exchanges)
        printed = node.process.printed()
    differing = {
        name: (observed, recorded[name])
        for name, observed in seen.items()
        if observed != recorded[name]
        and not ("handshake1 metadata" in name and observed == without_metadata(recorded[name]))
    }
    assert differing == {}
    assert set(recorded) == {*EXCHANGES, *AGAIN}
    assert "Traceback" not in printed


def without_metadata(observed: list[str]) -> list[str]:
    return [request for request in observed if request != "API 3"]
