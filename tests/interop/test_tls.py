"""TLS listeners from outside: clients of every kind, hostile peers, keys that change, and the real Kafka as the
reference. All files are created at run time; the nodes listen on the loopback only.
"""

from __future__ import annotations

import asyncio
import shutil
import socket
import ssl
import statistics
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from barnabas.protocol.messages.api_versions import ApiVersionsRequest
from barnabas.protocol.messages.describe_cluster import DescribeClusterRequest
from barnabas.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.security.distinguished_name import subject_name
from barnabas.security.ssl_principal_mapper import SslPrincipalMapper
from tests.interop.raw_client import RawClient
from tests.peers import KafkaNode, run_class
from tests.peers.certificates import PASSWORD, Authority, Identity
from tests.peers.command_node import CommandNode

pytestmark = [
    pytest.mark.interop,
    pytest.mark.timeout(180),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]

RULES = "RULE:^CN=([a-z]+),OU=ops.*$/$1@ops/L,RULE:^CN=(.*?),O=Acme.*$/$1/U,DEFAULT"
AUTHORITY = Authority()
SERVER = AUTHORITY.issue("localhost")
ALICE = AUTHORITY.issue("alice")


class TlsNode:
    """Our node with an SSL listener that requests certificates, and its files."""

    def __init__(self, folder: Path, **more: str) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        SERVER.write_pkcs12(folder / "server.p12")
        AUTHORITY.write_pem(folder / "ca.pem")
        AUTHORITY.write_trust_store(folder / "trust.p12")
        ALICE.write_pem(folder / "alice.pem")
        ALICE.write_pkcs12(folder / "alice.p12")
        self.node = CommandNode(folder, settings={})
        settings = {
            "listeners": f"SSL://127.0.0.1:{self.node.port},CONTROLLER://127.0.0.1:{self.node.controller_port}",
            "listener.security.protocol.map": "SSL:SSL,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "SSL",
            "offsets.topic.replication.factor": "1",
            "ssl.keystore.location": str(folder / "server.p12"),
            "ssl.keystore.password": PASSWORD,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(folder / "ca.pem"),
            "ssl.client.auth": "requested",
            **{name.replace("_", "."): text for name, text in more.items()},
        }
        self.node._settings.update(settings)

    @property
    def port(self) -> int:
        return self.node.port

    @property
    def log(self) -> str:
        return self.node.printed()

    def client(self, identity: Identity | None = None, **more: Any) -> TlsClient:
        return TlsClient(self.port, client_context_of(AUTHORITY, identity, self.folder), **more)

    def java_config(self, name: str, *, with_key: bool) -> Path:
        lines = [
            "security.protocol=SSL",
            f"ssl.truststore.location={self.folder / 'trust.p12'}",
            f"ssl.truststore.password={PASSWORD}",
        ]
        if with_key:
            lines += [f"ssl.keystore.location={self.folder / 'alice.p12'}", f"ssl.keystore.password={PASSWORD}"]
        path = self.folder / f"{name}.properties"
        path.write_text("\n".join(lines) + "\n")
        return path


class TlsClient(RawClient):
    """The raw client over TLS."""

    def __init__(self, port: int, context: ssl.SSLContext) -> None:
        super().__init__(port)
        self._socket = context.wrap_socket(self._socket, server_hostname="localhost")

    @property
    def peer(self) -> ssl.SSLSocket:
        assert isinstance(self._socket, ssl.SSLSocket)
        return self._socket

    def is_served(self) -> bool:
        try:
            return self.call(ApiVersionsRequest(client_software_name="t", client_software_version="1")).error_code == 0
        except (ssl.SSLError, ConnectionError):
            return False


def client_context_of(authority: Authority, identity: Identity | None, folder: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=authority.pem())
    if identity is not None:
        path = identity.write_pem(folder / f"client-{id(identity)}.pem")
        context.load_cert_chain(path)
    return context


@pytest.fixture(scope="module")
def tls_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsNode]:
    node = TlsNode(tmp_path_factory.mktemp("tls"), barnabas_authentication_timeout_ms="8000")
    node.node.start()
    yield node
    node.node.stop()


def wait_for(what: str, node: TlsNode, *, seconds: float = 15) -> None:
    deadline = time.monotonic() + seconds
    while what not in node.log:
        assert time.monotonic() < deadline, f"never said '{what}':\n{node.log[-3000:]}"
        time.sleep(0.1)


# --- clients


@pytest.mark.usefixtures("kafka_peer")
@pytest.mark.parametrize("with_key", [False, True])
def test_java_tools(tls_node: TlsNode, with_key: bool) -> None:
    config = str(tls_node.java_config(f"java-{with_key}", with_key=with_key))
    topic = f"java-{with_key}"
    bootstrap = ("--bootstrap-server", f"localhost:{tls_node.port}")
    run_class("topics", *bootstrap, "--command-config", config, "--create", "--topic", topic, "--partitions", "2")
    sent = run_class(
        "producer-perf", "--topic", topic, "--num-records", "20000", "--record-size", "500", "--throughput", "-1",
        "--bootstrap-server", f"localhost:{tls_node.port}", "--command-config", config,
    )  # fmt: skip
    assert "20000 records sent" in sent.stdout
    read = run_class(
        "console-consumer", *bootstrap, "--topic", topic, "--from-beginning", "--max-messages", "20000",
        "--command-config", config, "--timeout-ms", "30000",
    )  # fmt: skip
    assert len(read.stdout.splitlines()) == 20000


@pytest.mark.parametrize("with_key", [False, True])
def test_kafka_python(tls_node: TlsNode, with_key: bool) -> None:
    from kafka import KafkaConsumer, KafkaProducer

    options: dict[str, Any] = {
        "bootstrap_servers": f"localhost:{tls_node.port}",
        "security_protocol": "SSL",
        "ssl_cafile": str(tls_node.folder / "ca.pem"),
        "ssl_certfile": str(tls_node.folder / "alice.pem") if with_key else None,
    }
    topic = f"kafka-python-{with_key}"
    with closing(KafkaProducer(**options)) as producer:
        for number in range(200):
            producer.send(topic, b"%d" % number * 1000)
        producer.flush()
    options |= {"auto_offset_reset": "earliest", "group_id": topic, "consumer_timeout_ms": 15_000}
    with closing(KafkaConsumer(topic, **options)) as consumer:
        assert sum(1 for _, _ in zip(range(200), consumer, strict=False)) == 200


@pytest.mark.parametrize("with_key", [False, True])
def test_confluent_kafka(tls_node: TlsNode, with_key: bool) -> None:
    from confluent_kafka import Consumer, Producer

    options = {
        "bootstrap.servers": f"localhost:{tls_node.port}",
        "security.protocol": "SSL",
        "ssl.ca.location": str(tls_node.folder / "ca.pem"),
    }
    if with_key:
        options["ssl.keystore.location"] = str(tls_node.folder / "alice.p12")
        options["ssl.keystore.password"] = PASSWORD
    topic = f"confluent-{with_key}"
    producer = Producer(options)
    for number in range(200):
        producer.produce(topic, b"%d" % number * 1000)
    assert producer.flush(20) == 0
    consumer = Consumer({**options, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    read = 0
    deadline = time.monotonic() + 30
    while read < 200 and time.monotonic() < deadline:
        message = consumer.poll(1)
        read += message is not None and message.error() is None
    consumer.close()
    assert read == 200


@pytest.mark.parametrize("with_key", [False, True])
def test_aiokafka(tls_node: TlsNode, with_key: bool) -> None:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    topic = f"aiokafka-{with_key}"
    options = {
        "bootstrap_servers": f"localhost:{tls_node.port}",
        "security_protocol": "SSL",
        "ssl_context": client_context_of(AUTHORITY, ALICE if with_key else None, tls_node.folder),
    }

    async def story() -> int:
        async with AIOKafkaProducer(**options) as producer:
            for number in range(200):
                await producer.send_and_wait(topic, b"%d" % number * 1000)
        async with AIOKafkaConsumer(topic, **options, auto_offset_reset="earliest") as consumer:
            return sum([1 async for _ in _first(consumer, 200)])

    assert asyncio.run(asyncio.wait_for(story(), 60)) == 200


async def _first(consumer: Any, count: int) -> Any:
    for _ in range(count):
        yield await consumer.getone()


# --- versions, and peers that speak something else


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs the openssl command")
@pytest.mark.parametrize(("version", "served"), [("1_3", True), ("1_2", True), ("1_1", False), ("1", False)])
def test_versions_of_tls(tls_node: TlsNode, version: str, served: bool) -> None:
    done = subprocess.run(
        ["openssl", "s_client", f"-tls{version}", "-cipher", "ALL:@SECLEVEL=0", "-CAfile",
         str(tls_node.folder / "ca.pem"), "-verify_return_error", "-connect", f"127.0.0.1:{tls_node.port}"],
        input="", capture_output=True, text=True, timeout=20, check=False,
    )  # fmt: skip
    assert ("Cipher is (NONE)" not in done.stdout) is served
    assert ("alert protocol version" in done.stderr) is not served


def test_a_plaintext_client_is_identified_in_the_log(tls_node: TlsNode) -> None:
    client = RawClient(tls_node.port)
    with pytest.raises(ConnectionError):
        client.call(ApiVersionsRequest(client_software_name="t", client_software_version="1"))
    wait_for("it sent a plaintext request (API key 18) to a TLS listener; set security.protocol=SSL", tls_node)
    assert "Traceback" not in tls_node.log


def test_a_tls_client_on_a_plaintext_port_is_identified_in_the_log(tls_node: TlsNode) -> None:
    with pytest.raises((ssl.SSLError, ConnectionError)):
        TlsClient(tls_node.node.controller_port, client_context_of(AUTHORITY, None, tls_node.folder))
    wait_for("it speaks TLS and this listener does not; set security.protocol=PLAINTEXT", tls_node)


def test_strangers_are_refused_with_a_bounded_log(tls_node: TlsNode) -> None:
    stranger = Authority("Elsewhere").issue("mallory")
    for _ in range(30):
        client = TlsClient(tls_node.port, client_context_of(AUTHORITY, stranger, tls_node.folder))
        assert not client.is_served()
        client.close()
    wait_for("its certificate is not accepted", tls_node)
    assert tls_node.log.count("its certificate is not accepted") == 1
    assert "Traceback" not in tls_node.log


def test_stalled_handshakes_and_garbage_do_not_block_other_clients(
    tls_node: TlsNode, capsys: pytest.CaptureFixture[str]
) -> None:
    """1,000 peers that connect and stall (silent, in the middle of a hello, with garbage) while another is served."""
    client = tls_node.client()
    alone = statistics.median(_turns(client, 300))
    with ExitStack() as stack:
        for number in range(1000):
            peer = stack.enter_context(socket.create_connection(("127.0.0.1", tls_node.port)))
            if number % 3 == 1:
                peer.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(100))
            elif number % 3 == 2:
                peer.sendall(b"\x16\x03\x01\x40\x00\x01\x00\x3f\xfc" + bytes(range(256)) * 8)
        meanwhile = statistics.median(_turns(client, 300))
        other = tls_node.client(ALICE)
        assert other.is_served()
        other.close()
        with capsys.disabled():
            print(
                f"\nrequest over TLS: {alone * 1e6:.0f} us alone, {meanwhile * 1e6:.0f} us beside 1,000 stalled peers"
            )
        assert meanwhile < alone * 5 + 0.002
        deadline = time.monotonic() + 30
        while (left := _still_open(stack)) and time.monotonic() < deadline:
            time.sleep(0.5)
        assert not left, f"{left} stalled handshakes are still open"
    client.close()
    assert "no TLS handshake within" in tls_node.log
    assert "Traceback" not in tls_node.log
    assert tls_node.log.count("no TLS handshake within") <= 3


def _turns(client: TlsClient, count: int) -> list[float]:
    times = []
    for _ in range(count):
        began = time.perf_counter()
        assert client.is_served()
        times.append(time.perf_counter() - began)
    return times


def _still_open(stack: ExitStack) -> int:
    held = [callback.__self__ for _, callback in stack._exit_callbacks if hasattr(callback, "__self__")]  # type: ignore[attr-defined]
    count = 0
    for peer in held:
        peer.setblocking(False)
        try:
            count += peer.recv(1000) != b""
        except BlockingIOError:
            count += 1
        except OSError:
            pass
    return count


@pytest.mark.usefixtures("kafka_peer")
def test_controllers_may_be_reached_over_tls_and_secrets_are_not_described(tmp_path: Path) -> None:
    node = TlsNode(
        tmp_path / "node",
        listener_security_protocol_map="SSL:SSL,CONTROLLER:SSL",
    )
    node.node._settings["listener.name.controller.ssl.client.auth"] = "required"
    node.node._settings["listener.name.controller.ssl.keystore.password"] = PASSWORD
    node.node.start()
    try:
        context = client_context_of(AUTHORITY, ALICE, node.folder)
        controller = TlsClient(node.node.controller_port, context)
        assert controller.is_served()
        registered = controller.call(DescribeClusterRequest(endpoint_type=2))
        assert [broker.port for broker in registered.brokers] == [node.node.controller_port]
        anonymous = TlsClient(node.node.controller_port, client_context_of(AUTHORITY, None, node.folder))
        assert not anonymous.is_served()
        config = str(node.java_config("no-key", with_key=False))
        done = run_class(
            "quorum", "--bootstrap-controller", f"localhost:{node.node.controller_port}", "--command-config", config,
            "describe", "--status", check=False,
        )  # fmt: skip
        assert "SslAuthenticationException" in done.stdout + done.stderr
        client = node.client()
        metadata = client.call(MetadataRequest(topics=[]), 12)
        assert [(broker.host, broker.port) for broker in metadata.brokers] == [("127.0.0.1", node.port)]
        described = client.call(
            DescribeConfigsRequest(resources=[DescribeConfigsResource(resource_type=4, resource_name="1")])
        ).results[0]
        values = {config.name: config.value for config in described.configs}
        assert values["ssl.keystore.password"] is None
        assert values.get("listener.name.controller.ssl.keystore.password") is None
        assert values["ssl.client.auth"] == "requested"
        assert PASSWORD not in str(values) + node.log
    finally:
        node.node.stop()


def test_a_custom_principal_builder_decides_and_may_refuse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "node").mkdir()
    (tmp_path / "node" / "own_builder.py").write_text(OWN_BUILDER)
    node = TlsNode(tmp_path / "node", principal_builder_class="own_builder:Builder")
    monkeypatch.setenv("PYTHONPATH", str(node.folder))
    node.node.start()
    try:
        assert node.client(ALICE).is_served()
        assert not node.client(AUTHORITY.issue("mallory")).is_served()
        wait_for("no principal could be built: PermissionError: not on the list", node)
    finally:
        node.node.stop()


OWN_BUILDER = """
from barnabas.security.principal import Principal
from barnabas.security.principal_builder import DefaultPrincipalBuilder


class Builder(DefaultPrincipalBuilder):
    def build(self, context):
        if context.peer_certificate is not None and "alice" not in context.peer_certificate.subject.rfc4514_string():
            raise PermissionError("not on the list")
        return Principal("Team", "staff")
"""


# --- keys that change


def test_new_connections_use_the_new_stores_and_old_ones_continue(tmp_path: Path) -> None:
    node = TlsNode(tmp_path / "node", ssl_client_auth="required")
    node.node.start()
    try:
        old = node.client(ALICE)
        assert old.is_served()
        before = old.peer.getpeercert(binary_form=True)
        successor = Authority("Next CA")
        bob = successor.issue("bob")
        (node.folder / "broken").write_bytes(b"half a st")
        (node.folder / "broken").rename(node.folder / "server.p12")
        wait_for("keeps its certificate, the changed store can't be used", node)
        assert node.client(ALICE).is_served()
        AUTHORITY.issue("localhost").write_pkcs12(node.folder / "new.p12")
        (node.folder / "new.p12").rename(node.folder / "server.p12")
        successor.write_pem(node.folder / "ca.pem")
        wait_for("the stores were read again", node)
        new = node.client(bob)
        assert new.is_served()
        assert new.peer.getpeercert(binary_form=True) != before
        assert not node.client(ALICE).is_served()
        assert old.is_served()
    finally:
        node.node.stop()


# --- the real Kafka as the reference


@pytest.mark.long
@pytest.mark.usefixtures("kafka_peer")
@pytest.mark.parametrize("who", ["kafka", "barnabas"])
def test_kafka_and_barnabas_derive_the_same_principals_from_certificates(tmp_path: Path, who: str) -> None:
    """The super user with our principal name may list ACLs on either node, with the same certificate and mapping
    rules."""
    identities = [ALICE, *(AUTHORITY.issue(name) for name in _names())]
    mapper = SslPrincipalMapper(RULES)
    principals = [mapper.name_of(subject_name(identity.der)) for identity in identities]
    assert principals == [
        "CN=alice",
        "carol@ops",
        'DÖRTE \\"D\\"',
        "CN=日本 \\+1,1.2.840.113549.1.9.1=#160d" + (b"x@example.com".hex()),
    ]
    super_users = ";".join(f"User:{name}" for name in [*principals, "ANONYMOUS", "CN=localhost"])
    settings = {
        "ssl.client.auth": "required",
        "ssl.principal.mapping.rules": RULES,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": super_users if who == "barnabas" else _escaped(super_users),
    }
    ours = TlsNode(tmp_path / "node")
    ours.node._settings |= settings
    theirs = KafkaNode(tmp_path / "kafka", settings=settings)
    theirs._settings |= {
        "listeners": f"SSL://127.0.0.1:{theirs.port},CONTROLLER://127.0.0.1:{theirs.controller_port}",
        "listener.security.protocol.map": "SSL:SSL,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "SSL",
        "ssl.keystore.location": str(ours.folder / "server.p12"),
        "ssl.keystore.password": PASSWORD,
        "ssl.truststore.location": str(ours.folder / "trust.p12"),
        "ssl.truststore.password": PASSWORD,
    }
    node: CommandNode | KafkaNode = ours.node if who == "barnabas" else theirs
    node.start()
    try:
        for identity, principal in zip(identities, principals, strict=True):
            assert _may_list_acls(node, identity, ours.folder), principal
        assert not _may_list_acls(node, AUTHORITY.issue("nobody"), ours.folder)
    finally:
        node.stop()


def _escaped(text: str) -> str:
    """Return the name as in a properties file, which Java reads as Latin-1."""
    return "".join(f"\\u{ord(char):04x}" if char == "\\" or not char.isascii() else char for char in text)


def _names() -> list[x509.Name]:
    def name(*parts: tuple[x509.ObjectIdentifier, str]) -> x509.Name:
        return x509.Name([x509.NameAttribute(oid, text) for oid, text in parts])

    return [
        name((NameOID.ORGANIZATIONAL_UNIT_NAME, "ops"), (NameOID.COMMON_NAME, "carol")),
        name((NameOID.ORGANIZATION_NAME, "Acme, Inc"), (NameOID.COMMON_NAME, 'Dörte "D"')),
        name((NameOID.EMAIL_ADDRESS, "x@example.com"), (NameOID.COMMON_NAME, "日本 +1")),
    ]


def _may_list_acls(node: CommandNode | KafkaNode, identity: Identity, folder: Path) -> bool:
    config = folder / "acls.properties"
    identity.write_pkcs12(folder / "client.p12")
    config.write_text(
        f"security.protocol=SSL\nssl.truststore.location={folder / 'trust.p12'}\nssl.truststore.password={PASSWORD}\n"
        f"ssl.keystore.location={folder / 'client.p12'}\nssl.keystore.password={PASSWORD}\n"
    )
    bootstrap = ("--bootstrap-server", f"localhost:{node.port}")
    done = run_class(
        "org.apache.kafka.tools.AclCommand", *bootstrap, "--command-config", str(config), "--list", check=False
    )
    return done.returncode == 0 and "ClusterAuthorizationException" not in done.stdout + done.stderr
