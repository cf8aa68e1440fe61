"""An attacker with sockets against our node, while another client is served: each attack by its name.

Decisions of state machines without sockets are tested in tests/unit/security and tests/unit/network. These tests need a
process: they check time, memory, the log, and the effects of requests.
"""

from __future__ import annotations

import random
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from itertools import pairwise
from typing import Any

import pytest

from barnabas.common.acl import AclOperation, AclPermissionType
from barnabas.common.resource import PatternType, ResourceType
from barnabas.protocol.messages.api_versions import ApiVersionsRequest
from barnabas.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from barnabas.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.protocol.messages.sasl_authenticate import SaslAuthenticateResponse
from tests.interop.attacker import (
    all_closed,
    authenticate,
    framed,
    handshake,
    in_waves,
    is_closed,
    latencies,
    memory_bytes,
    opened,
    read_frame,
    request,
    wait_until,
)
from tests.interop.hostile_frames import hostile_bytes
from tests.interop.raw_client import RawClient
from tests.peers.secure import USERS, SecureNode, running_secure_barnabas

pytestmark = [pytest.mark.interop, pytest.mark.timeout(120)]

MIB = 1024 * 1024
TIMEOUT_S = 3
GOOD, WRONG = b"\0alice\0alice-secret", b"\0alice\0wrong"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureNode]:
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin",
        "barnabas.audit.topic.enable": "true",
        "barnabas.audit.topic.partitions": "1",
        "barnabas.audit.window.ms": "500",
        "barnabas.authentication.timeout.ms": str(TIMEOUT_S * 1000),
        "delegation.token.secret.key": "the key of all tokens",
        "barnabas.metrics.listener": "",
    }
    with running_secure_barnabas(tmp_path_factory.mktemp("attacks"), settings=settings) as running:
        admin = login(running, "admin")
        admin.call(CreateTopicsRequest(topics=[CreatableTopic(name="orders", num_partitions=1, replication_factor=1)]))
        admin.call(CreateAclsRequest(creations=[allow("User:alice", AclOperation.READ, "orders")]))
        admin.close()
        yield running
    printed = running.process.printed()
    assert "Traceback" not in printed
    assert "\x1b" not in printed


@pytest.fixture(scope="module")
def victim(node: SecureNode) -> Iterator[RawClient]:
    client = login(node, "alice")
    yield client
    client.close()


def login(node: SecureNode, user: str, client_id: str = "tests") -> RawClient:
    client = RawClient(node.ports["SASL_PLAINTEXT"], client_id=client_id)
    client.log_in(user, USERS[user])
    return client


def allow(principal: str, operation: AclOperation, name: str, kind: int = ResourceType.TOPIC) -> AclCreation:
    return AclCreation(
        resource_type=kind,
        resource_name=name,
        resource_pattern_type=PatternType.LITERAL,
        principal=principal,
        host="*",
        operation=operation,
        permission_type=AclPermissionType.ALLOW,
    )


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Any:
    def show(text: str) -> None:
        with capsys.disabled():
            print(f"\n{text}")

    return show


def drip(connections: list[socket.socket], data: bytes) -> None:
    """Send to the connections that the node has not closed yet."""
    for connection in connections:
        with suppress(OSError):
            connection.send(data)


def in_us(times: list[float]) -> str:
    return f"median {times[len(times) // 2] * 1e6:.0f} us, worst {times[-1] * 1e3:.1f} ms"


# --- slow and half-open


def test_slow_loris_byte_by_byte_before_the_login_does_not_slow_other_clients(
    node: SecureNode, victim: RawClient, say: Any
) -> None:
    """500 connections that send an occasional byte of a SASL exchange, 200 in the middle of one."""
    alone = latencies(victim, 300)
    data = handshake() + authenticate(GOOD)[:-1]
    with opened(node.ports["SASL_PLAINTEXT"], 700) as connections:
        for connection in connections[500:]:
            connection.sendall(handshake("SCRAM-SHA-256"))
        meanwhile = []
        for index in range(60):
            drip(connections[:500], data[index : index + 1])
            meanwhile += latencies(victim, 5)
        meanwhile.sort()
        say(f"slow loris: {in_us(alone)} alone; {in_us(meanwhile)} beside 700 slow logins")
        assert meanwhile[150] < alone[150] * 3 + 0.002
        wait_until(lambda: all_closed(connections), TIMEOUT_S + 5)
    assert node.process.printed().count("not logged in within") <= 3


def test_slow_loris_in_the_tls_handshake_and_half_open_after_it(node: SecureNode, victim: RawClient, say: Any) -> None:
    """Connections that are silent, stop within a hello, send byte by byte, or complete TLS but never start SASL."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    alone = latencies(victim, 300)
    hello = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(100)
    with opened(node.ports["SASL_SSL"], 300) as connections:
        for connection in connections[200:250]:
            connection.sendall(hello)
        done = [context.wrap_socket(connection) for connection in connections[250:]]
        meanwhile = []
        for index in range(60):
            drip(connections[:200:2], hello[index : index + 1])
            meanwhile += latencies(victim, 5)
        meanwhile.sort()
        say(f"slow TLS: {in_us(alone)} alone; {in_us(meanwhile)} beside 300 handshakes")
        assert meanwhile[150] < alone[150] * 3 + 0.002
        wait_until(lambda: all_closed(connections[:250]), TIMEOUT_S + 5)
        for connection in done:
            connection.settimeout(TIMEOUT_S + 5)
            assert connection.recv(1) == b""
            connection.close()


def test_half_open_clients_that_never_read_are_disconnected_before_the_login(node: SecureNode, say: Any) -> None:
    """Each could make the node keep megabytes of answers forever: only a reading peer completes a graceful close."""
    before = memory_bytes(node.process)
    flood = framed(b"\0\x12\0\x63\0\0\0\7\xff\xff") * 2000  # ApiVersions of a future version
    with opened(node.ports["SASL_PLAINTEXT"], 100) as connections:
        for connection in connections:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.setblocking(False)
        began = time.monotonic()
        is_cut_off = [False] * len(connections)
        most = 0
        while not all(is_cut_off):
            assert time.monotonic() - began < TIMEOUT_S + 15, f"{is_cut_off.count(False)} are still connected"
            for index, connection in enumerate(connections):
                try:
                    if not is_cut_off[index]:
                        connection.send(flood)
                except BlockingIOError:
                    pass
                except OSError:
                    is_cut_off[index] = True
            most = max(most, memory_bytes(node.process))
            time.sleep(0.1)
        say(
            f"half-open: 100 clients that don't read are disconnected within {time.monotonic() - began:.1f} s, "
            f"{(most - before) / MIB:.0f} MiB meanwhile"
        )
    assert most - before < 100 * MIB


# --- oversized and fuzzed


def test_oversized_frames_before_the_login_cost_nothing(node: SecureNode, say: Any) -> None:
    before = memory_bytes(node.process)
    port = node.ports["SASL_PLAINTEXT"]
    for size in (524289, 100 * MIB, 2**31 - 1, -1, -(2**31)):
        [answer] = in_waves(port, 1, lambda _, size=size: size.to_bytes(4, "big", signed=True) + b"x" * 100)  # type: ignore[misc]
        assert answer == b""
    with opened(port, 100) as connections:
        for connection in connections:
            connection.sendall((524288).to_bytes(4, "big") + b"x" * 100_000)
        grown = memory_bytes(node.process) - before
        say(f"oversized: 100 frames that announce 512 KiB and send 100 kB of it: {grown / MIB:.0f} MiB")
        assert grown < 60 * MIB
        wait_until(lambda: all_closed(connections), TIMEOUT_S + 5)


def test_fuzzing_before_the_login_only_closes_the_connection(node: SecureNode, victim: RawClient, say: Any) -> None:
    rng = random.Random(4)
    parts = [handshake(), handshake(version=0), handshake("SCRAM-SHA-512"), handshake("OAUTHBEARER"), framed(WRONG)]
    parts += [authenticate(WRONG), authenticate(b"n,,n=alice,r=x"), authenticate(b"n,,\1auth=Bearer x\1\1")]
    parts += [request(ApiVersionsRequest(), 0), request(MetadataRequest(topics=None), 9)]

    def data(_: int) -> bytes:
        stream = b"".join(
            rng.choice(parts) if rng.random() < 0.7 else hostile_bytes(rng) for _ in range(rng.randrange(1, 6))
        )
        if rng.random() < 0.5:
            position = rng.randrange(len(stream))
            stream = stream[:position] + rng.randbytes(2) + stream[position + 2 :]
        return stream

    began = time.monotonic()
    for answer in in_waves(node.ports["SASL_PLAINTEXT"], 1200, data):
        assert b"orders" not in answer
    took = time.monotonic() - began
    say(f"fuzzing: 1200 exchanges before a login in {took:.1f} s; victim {in_us(latencies(victim, 50))}")


# --- the state of SASL


def test_sasl_state_abuse_requests_behind_a_failing_login_are_not_executed(node: SecureNode) -> None:
    create = request(
        CreateTopicsRequest(topics=[CreatableTopic(name="stolen", num_partitions=1, replication_factor=1)]), 7
    )
    good = authenticate(b"\0admin\0admin-secret")
    before_and_behind = [
        create + handshake() + good,
        handshake() + create + good + create,
        handshake() + authenticate(WRONG) + create,
        handshake() + authenticate(WRONG) + good + create,
        handshake() + authenticate(WRONG) + handshake() + good + create,
        handshake("GSSAPI") + handshake() + good + create,
        handshake() + handshake() + good + create,
        good + create,
        handshake("SCRAM-SHA-256") + good + create,
        handshake("SCRAM-SHA-256") + authenticate(b"n,,n=admin,r=x") + authenticate(b"") + create,
        handshake("OAUTHBEARER") + authenticate(b"n,,\1auth=Bearer x\1\1") + authenticate(b"\1") + create,
        handshake(version=0) + good + create,
        handshake(version=0) + framed(WRONG) + create,
    ]
    in_waves(node.ports["SASL_PLAINTEXT"], len(before_and_behind), lambda number: before_and_behind[number])
    admin = login(node, "admin")
    names = [topic.name for topic in admin.call(MetadataRequest(topics=None), 12).topics]
    assert "orders" in names
    assert "stolen" not in names
    admin.close()


def test_sasl_state_abuse_requests_behind_the_last_token_run_as_the_new_user(node: SecureNode) -> None:
    asks = request(MetadataRequest(topics=[MetadataRequestTopic(name="orders")]), 12)
    for user, error_code in (("alice", 0), ("bob", 29)):
        with opened(node.ports["SASL_PLAINTEXT"], 1) as [connection]:
            connection.sendall(handshake() + authenticate(f"\0{user}\0{USERS[user]}".encode()) + asks)
            read_frame(connection)
            assert SaslAuthenticateResponse.decode(read_frame(connection), 2, 5).error_code == 0
            answer = read_frame(connection)
            assert answer[18:].find(b"orders") >= 0
            assert error_code.to_bytes(2, "big") + b"\7orders" in answer
            assert not is_closed(connection)


def test_user_enumeration_known_and_unknown_users_look_alike_on_every_listener(node: SecureNode) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE

    def first(port: int, user: str) -> dict[str, str]:
        with ExitStack() as stack:
            [connection] = stack.enter_context(opened(port, 1))
            if port == node.ports["SASL_SSL"]:
                connection = stack.enter_context(context.wrap_socket(connection))
            connection.sendall(handshake("SCRAM-SHA-256") + authenticate(f"n,,n={user},r=nonce".encode()))
            read_frame(connection)
            challenge = SaslAuthenticateResponse.decode(read_frame(connection), 2, 5).auth_bytes
            parts = dict(part.split("=", 1) for part in bytes(challenge).decode().split(","))
            connection.sendall(authenticate(f"c=biws,r={parts['r']},p={'A' * 43}=".encode()))
            answer = SaslAuthenticateResponse.decode(read_frame(connection), 2, 5)
            parts["error"] = f"{answer.error_code} {answer.error_message}"
            return parts

    port = node.ports["SASL_PLAINTEXT"]
    known, unknown = first(port, "alice"), first(port, "mallory")
    assert [known[key] for key in ("i", "error")] == [unknown[key] for key in ("i", "error")]
    assert abs(len(known["s"]) - len(unknown["s"])) <= 4
    assert known.keys() == unknown.keys()
    for listener in ("SASL_PLAINTEXT", "SASL_SSL"):
        assert first(node.ports[listener], "mallory")["s"] == unknown["s"]
        assert first(node.ports[listener], "alice")["s"] == known["s"]
    assert first(port, "mallet")["s"] != unknown["s"]


# --- floods


@pytest.mark.long
def test_memory_and_log_stay_bounded_under_10000_failed_logins(node: SecureNode, victim: RawClient, say: Any) -> None:
    """Each login has another user, mechanism and reason."""
    port = node.ports["SASL_PLAINTEXT"]

    def attempt(number: int) -> bytes:
        if number % 3 == 0:
            return handshake() + authenticate(f"\0user-{number}\0{number}".encode())
        if number % 3 == 1:
            first = authenticate(f"n,,n=user-{number},r=x".encode())
            return handshake("SCRAM-SHA-256") + first + authenticate(b"c=biws,r=x,p=AAAA")
        return handshake(f"MECHANISM-{number}\n2026-01-01 INFO all is well\x1b[2J")

    in_waves(port, 1000, attempt)
    memory, lines = [memory_bytes(node.process)], len(node.process.printed().splitlines())
    began = time.monotonic()
    for _ in range(4):
        in_waves(port, 5000, attempt)
        memory.append(memory_bytes(node.process))
    took = time.monotonic() - began
    # Memory kept for each login grows every time; a heap that is still filling does not.
    grown = min(after - before for before, after in pairwise(memory))
    more = len(node.process.printed().splitlines()) - lines
    say(f"20,000 failed logins in {took:.1f} s: {grown / MIB:+.1f} MiB, {more} lines; {in_us(latencies(victim, 50))}")
    assert grown < 2 * MIB  # 400 bytes for each login.
    assert more < 30 * (2 + took / 10)
    assert not any(line.startswith("2026-01-01 INFO all") for line in node.process.printed().splitlines())


def test_memory_and_log_stay_bounded_under_10000_failed_handshakes(node: SecureNode, say: Any) -> None:
    """Half of the handshakes are not TLS, half offer no supported version: TLS 1.1 at most."""
    hello = b"\x03\x02" + bytes(32) + b"\0" + b"\0\2\0\x2f" + b"\1\0"
    record = b"\x16\x03\x01" + (len(hello) + 4).to_bytes(2, "big") + b"\1\0" + len(hello).to_bytes(2, "big") + hello

    def attempt(number: int) -> bytes:
        return record if number % 2 else framed(number.to_bytes(2, "big") + b"\0\0")

    port = node.ports["SASL_SSL"]
    answers = in_waves(port, 1000, attempt, at_once=100)
    assert all(answer[:1] == b"\x15" for answer in answers[1::2])  # An alert, and no ServerHello.
    memory, lines = memory_bytes(node.process), len(node.process.printed().splitlines())
    began = time.monotonic()
    in_waves(port, 10_000, attempt, at_once=100)
    took, grown = time.monotonic() - began, memory_bytes(node.process) - memory
    more = len(node.process.printed().splitlines()) - lines
    say(f"10,000 failed handshakes in {took:.1f} s: {grown / MIB:+.1f} MiB, {more} lines")
    assert grown < 2 * MIB  # 400 bytes for each login.
    assert more < 30 * (2 + took / 10)


def test_log_flooding_with_broken_frames_of_a_logged_in_user_is_bounded(node: SecureNode, say: Any) -> None:
    lines = len(node.process.printed().splitlines())
    log_in = handshake() + authenticate(GOOD)
    in_waves(node.ports["SASL_PLAINTEXT"], 500, lambda number: log_in + framed(number.to_bytes(4, "big") * 5))
    in_waves(node.ports["PLAINTEXT"], 500, lambda number: (200 * MIB + number).to_bytes(4, "big"))
    more = len(node.process.printed().splitlines()) - lines
    say(f"1,000 broken frames: {more} lines")
    assert more < 120
