"""An attacker with a login: other names, forged lines, rights that were never granted, oversized requests."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import pytest

from barnabas.common.acl import AclOperation, AclPermissionType
from barnabas.common.resource import PatternType, ResourceType
from barnabas.common.scram_mechanism import ScramMechanism
from barnabas.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
)
from barnabas.protocol.messages.create_acls import CreateAclsRequest
from barnabas.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from barnabas.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from barnabas.protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest
from barnabas.protocol.messages.envelope import EnvelopeRequest
from barnabas.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from barnabas.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from barnabas.protocol.messages.sasl_handshake import SaslHandshakeRequest
from barnabas.protocol.record_batch import Record, iter_batches
from barnabas.protocol.record_batch_builder import build_batch
from barnabas.security.sasl.sasl_client import ScramClient
from tests.interop.attacker import latencies, memory_bytes
from tests.interop.raw_client import RawClient
from tests.interop.test_attacks import MIB, allow, in_us, login, say
from tests.peers.secure import SecureNode, running_secure_barnabas

pytestmark = [pytest.mark.interop, pytest.mark.timeout(120)]

__all__ = ["say"]

FORGED = 'x"\n2026-01-01 00:00:00,000 INFO all is well\r\x1b[2J\u2028\u202e'

EVERY_ACL: dict[str, Any] = {
    "resource_type_filter": ResourceType.ANY,
    "resource_name_filter": None,
    "pattern_type_filter": PatternType.ANY,
    "principal_filter": None,
    "host_filter": None,
    "operation": AclOperation.ANY,
    "permission_type": AclPermissionType.ANY,
}


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureNode]:
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin",
        "barnabas.audit.topic.enable": "true",
        "barnabas.audit.topic.partitions": "1",
        "barnabas.audit.window.ms": "500",
        "delegation.token.secret.key": "the key of all tokens",
        "barnabas.metrics.listener": "",
    }
    folder = tmp_path_factory.mktemp("inside")
    with running_secure_barnabas(folder, protocols=("PLAINTEXT", "SASL_PLAINTEXT"), settings=settings) as running:
        admin = login(running, "admin")
        admin.call(CreateTopicsRequest(topics=[CreatableTopic(name="orders", num_partitions=1, replication_factor=1)]))
        admin.call(CreateAclsRequest(creations=[allow("User:alice", AclOperation.ALTER, "orders")]))
        admin.close()
        yield running
    printed = running.process.printed()
    assert "Traceback" not in printed
    assert "\x1b" not in printed
    assert not any(line.startswith("2026-01-01 00:00:00,000 INFO all") for line in printed.splitlines())


def log_in_with_token(node: SecureNode, subject: str, client_id: str = "tests") -> RawClient:
    client = RawClient(node.ports["SASL_PLAINTEXT"], client_id=client_id)
    assert client.call(SaslHandshakeRequest(mechanism="OAUTHBEARER"), 1).error_code == 0
    message = f"n,,\1auth=Bearer {node.issuer.token(subject)}\1\1".encode()
    response = client.call(SaslAuthenticateRequest(auth_bytes=message), 2)
    if response.error_code:
        client.close()
        raise PermissionError(response.error_message)
    return client


def log_in_with_scram(client: RawClient, user: str, password: str) -> None:
    """Raises PermissionError."""
    assert client.call(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1).error_code == 0
    machine = ScramClient(ScramMechanism.SCRAM_SHA_256, user, password)
    token = machine.evaluate_challenge(b"")
    while not machine.is_complete:
        response = client.call(SaslAuthenticateRequest(auth_bytes=token), 2)
        if response.error_code:
            raise PermissionError(response.error_message)
        token = machine.evaluate_challenge(bytes(response.auth_bytes))


def produce(client: RawClient, topic: str) -> int:
    batch = build_batch([Record(0, 1000, None, b"x", ())])
    data = [TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=batch)])]
    answer = client.call(ProduceRequest(acks=-1, timeout_ms=5000, topic_data=data), 9)
    code: int = answer.responses[0].partition_responses[0].error_code
    return code


def topics_of(client: RawClient, *names: str) -> dict[str, int]:
    topics = [MetadataRequestTopic(name=name) for name in names]
    answer = client.call(MetadataRequest(topics=topics, allow_auto_topic_creation=True), 12)
    return {topic.name: topic.error_code for topic in answer.topics}


def test_principal_confusion_odd_names_are_never_another_user_or_a_wildcard(node: SecureNode) -> None:
    for star in ("*", " * "):
        with pytest.raises((PermissionError, ConnectionError)):
            log_in_with_token(node, star)
    for subject in (
        "User:admin",
        "admin\0",
        "\uff41dmin",
        "admin\nUser:admin",
        "admin;User:admin",
        "ADMIN",
        "a" * 30_000,
    ):
        client = log_in_with_token(node, subject)
        assert produce(client, "orders") == 29, subject
        client.close()
    for subject in ("a" * 33_000,):
        with pytest.raises((PermissionError, ConnectionError)):
            log_in_with_token(node, subject)


def test_audit_injection_names_cannot_forge_lines_or_events(node: SecureNode) -> None:
    for client in (log_in_with_token(node, FORGED, client_id=FORGED), login(node, "alice", client_id=FORGED)):
        assert produce(client, "injected") == 29
        client.call(FindCoordinatorRequest(key_type=0, coordinator_keys=[FORGED]), 4)
        client.call(InitProducerIdRequest(transactional_id=FORGED, transaction_timeout_ms=1000), 4)
        topics_of(client, FORGED)
        client.close()
    admin = login(node, "admin")
    deadline = time.monotonic() + 20
    seen: set[str] = set()
    fetch = FetchTopic(topic="__access_audit", partitions=[FetchPartition(partition=0, partition_max_bytes=8 * MIB)])
    while FORGED not in seen and time.monotonic() < deadline:
        answer = admin.call(FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=8 * MIB, topics=[fetch]), 12)
        for batch in iter_batches(answer.responses[0].partitions[0].records or b""):
            for record in batch.records():
                event = json.loads(bytes(record.value or b""))
                seen.add(event["resource_name"] or "")
                assert b"\n" not in bytes(record.value or b"")
        time.sleep(0.2)
    admin.close()
    assert FORGED in seen
    assert "all is well" in node.process.printed()


def test_privilege_escalation_clients_cannot_use_internal_topics(node: SecureNode) -> None:
    for client_id in ("tests", "__admin_client", "__access_audit"):
        alice = login(node, "alice", client_id=client_id)
        for topic in ("__access_audit", "__consumer_offsets"):
            assert produce(alice, topic) == 29
            (kept,) = alice.call(DeleteTopicsRequest(topics=[DeleteTopicState(name=topic)]), 6).responses
            assert kept.error_code in (3, 29)
        alice.close()


def test_privilege_escalation_topic_rights_grant_no_cluster_rights(node: SecureNode) -> None:
    """A user that may alter a topic may not grant rights on it."""
    alice = login(node, "alice")
    (refused,) = alice.call(CreateAclsRequest(creations=[allow("User:alice", AclOperation.ALL, "orders")]), 3).results
    assert refused.error_code == 31
    every = DeleteAclsFilter(**EVERY_ACL)
    (kept,) = alice.call(DeleteAclsRequest(filters=[every]), 3).filter_results
    assert kept.error_code == 31
    description = DescribeAclsRequest(**EVERY_ACL)
    assert alice.call(description, 3).error_code == 31
    alice.close()


def test_privilege_escalation_requests_cannot_create_topics_without_the_right(node: SecureNode) -> None:
    alice = login(node, "alice")
    assert topics_of(alice, "mine") == {"mine": 29}
    assert produce(alice, "mine") == 29
    alice.close()
    admin = login(node, "admin")
    names = [topic.name for topic in admin.call(MetadataRequest(topics=None), 12).topics]
    admin.close()
    assert "orders" in names
    assert "mine" not in names


@pytest.mark.parametrize("name", ["*", "", "-", "__", "\0", "\U0001f600", "=", "User:alice", "../x", "a" * 32_000])
def test_privilege_escalation_odd_names_of_groups_and_transactions_are_denied(node: SecureNode, name: str) -> None:
    bob = login(node, "bob")
    (coordinator,) = bob.call(FindCoordinatorRequest(key_type=0, coordinator_keys=[name]), 4).coordinators
    assert coordinator.error_code in (24, 30)
    answer = bob.call(InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=1000), 4)
    assert answer.error_code in (42, 53)
    bob.close()


@pytest.mark.parametrize("where", ["PLAINTEXT", "SASL_PLAINTEXT", "CONTROLLER"])
def test_privilege_escalation_only_brokers_may_send_envelopes(node: SecureNode, where: str) -> None:
    """The envelope is as a broker sends it, for User:admin: a broker does not serve the request, a controller denies
    it."""
    port = node.process.controller_port if where == "CONTROLLER" else node.ports[where]
    attacker = RawClient(port)
    if where == "SASL_PLAINTEXT":
        attacker.log_in("alice", "alice-secret")
    inner = b"\0\x13\0\7\0\0\0\1\0\1x\0" + CreateTopicsRequest(
        topics=[CreatableTopic(name="enveloped", num_partitions=1, replication_factor=1)]
    ).encode(7)
    principal = b"\0\0" + b"\5User" + b"\6admin" + b"\0" + b"\0"
    envelope = EnvelopeRequest(request_data=inner, request_principal=principal, client_host_address=b"\x7f\0\0\1")
    try:
        answer = attacker.call(envelope, 0)
    except ConnectionError:
        pass
    else:
        assert answer.error_code == 31
    attacker.close()
    admin = login(node, "admin")
    assert "enveloped" not in {topic.name for topic in admin.call(MetadataRequest(topics=None), 12).topics}
    admin.close()


def test_delegation_tokens_of_others_can_be_neither_read_nor_changed(node: SecureNode) -> None:
    alice, bob = login(node, "alice"), login(node, "bob")
    token = alice.call(CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=-1), 3)
    assert token.error_code == 0
    assert bob.call(RenewDelegationTokenRequest(hmac=token.hmac, renew_period_ms=1000), 2).error_code == 63
    assert bob.call(ExpireDelegationTokenRequest(hmac=token.hmac, expiry_time_period_ms=-1), 2).error_code == 63
    assert bob.call(RenewDelegationTokenRequest(hmac=b"guessed", renew_period_ms=1000), 2).error_code == 62
    assert bob.call(DescribeDelegationTokenRequest(owners=None), 3).tokens == []
    for_admin = CreateDelegationTokenRequest(
        owner_principal_type="User", owner_principal_name="admin", renewers=[], max_lifetime_ms=-1
    )
    assert bob.call(for_admin, 3).error_code == 65
    alice.close()
    bob.close()


def test_a_connection_outlives_its_users_credential_as_with_kafka(node: SecureNode) -> None:
    """It lasts until it must log in again; new connections are refused immediately (PLAIN users are settings)."""
    bob = RawClient(node.ports["SASL_PLAINTEXT"])
    log_in_with_scram(bob, "bob", "bob-secret")
    admin = login(node, "admin")
    deletions = [ScramCredentialDeletion(name=name, mechanism=1) for name in ("bob", "nobody")]
    answer = admin.call(AlterUserScramCredentialsRequest(deletions=deletions), 0)
    assert [result.error_code for result in answer.results] == [0, 91]
    admin.close()
    assert produce(bob, "orders") == 29
    bob.close()
    late = RawClient(node.ports["SASL_PLAINTEXT"])
    with pytest.raises(PermissionError):
        log_in_with_scram(late, "bob", "bob-secret")
    late.close()


def test_denial_of_service_giant_acl_requests_of_users_without_the_right(node: SecureNode, say: Any) -> None:
    """A flood of large denied requests: each is read, decided once, and answered."""
    victim, attacker = login(node, "admin"), login(node, "bob")
    alone = latencies(victim, 200)
    creations = [allow(f"User:{number}", AclOperation.READ, f"topic-{number}") for number in range(10_000)]
    began = time.monotonic()
    refused = attacker.call(CreateAclsRequest(creations=creations), 3).results
    took = time.monotonic() - began
    assert {result.error_code for result in refused} == {31}
    every = DeleteAclsFilter(**EVERY_ACL)
    began = time.monotonic()
    filters = attacker.call(DeleteAclsRequest(filters=[every] * 20_000), 3).filter_results
    say(f"denied: 10,000 ACLs to create in {took:.2f} s, 20,000 filters in {time.monotonic() - began:.2f} s")
    assert {filter_.error_code for filter_ in filters} == {31}
    say(f"victim: {in_us(alone)} before, {in_us(latencies(victim, 200))} after")
    victim.close()
    attacker.close()


def test_denial_of_service_100_000_acls_are_described(node: SecureNode, say: Any) -> None:
    admin = login(node, "admin")
    for start in range(0, 100_000, 5_000):
        creations = [allow(f"User:u-{n % 100}", AclOperation.READ, f"many-{n}") for n in range(start, start + 5_000)]
        assert not any(result.error_code for result in admin.call(CreateAclsRequest(creations=creations), 3).results)
    too_many = [allow(f"User:v-{n}", AclOperation.READ, "x") for n in range(10_001)]
    assert {result.error_code for result in admin.call(CreateAclsRequest(creations=too_many), 3).results} != {0}
    every = DescribeAclsRequest(**EVERY_ACL)
    victim, answered = login(node, "admin"), Event()
    with ThreadPoolExecutor(1) as pool:
        during = pool.submit(latencies_until, answered, victim)
        began = time.monotonic()
        frame = admin.exchange(every, 3)
        took = time.monotonic() - began
        answered.set()
        waited = during.result()
    answer = DescribeAclsResponse.decode(frame, 3, 5)
    assert answer.error_code == 0, answer.error_message
    assert len(answer.resources) > 100_000
    say(f"100,000 ACLs are described in {took:.2f} s; meanwhile {len(waited)} requests of others: {in_us(waited)}")
    assert len(waited) > 20
    admin.close()
    victim.close()


def latencies_until(end: Event, victim: RawClient) -> list[float]:
    times: list[float] = []
    while not end.is_set():
        times += latencies(victim, 1)
    return sorted(times)


def test_hash_flooding_the_decision_cache_is_bounded_and_requests_stay_flat(node: SecureNode, say: Any) -> None:
    """Every name is new, and the host changes every 1,000 names."""
    times, memory = [], []
    for host in range(10):
        client = RawClient(node.ports["SASL_PLAINTEXT"], source_host=f"127.0.1.{host + 1}")
        client.log_in("alice", "alice-secret")
        began = time.perf_counter()
        for part in range(10):
            topics_of(client, *(f"{'x' * 200}-{host}-{part}-{number}" for number in range(1000)))
        times.append(time.perf_counter() - began)
        memory.append(memory_bytes(node.process))
        client.close()
    say(
        f"100,000 names: {min(times) * 100:.1f} to {max(times) * 100:.1f} us a name; "
        f"{(memory[-1] - memory[4]) / MIB:+.0f} MiB in the second half"
    )
    assert sum(times[5:]) < 2 * sum(times[:5])
    assert memory[-1] - memory[4] < 100 * MIB
