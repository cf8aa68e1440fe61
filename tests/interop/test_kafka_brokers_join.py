"""Unmodified brokers of Kafka 4.3.1 join a controller of ours: they serve, forward, follow, leave and return."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from barnabas.clients.admin import (
    AlterConfigOp,
    ConfigResource,
    ConfigResourceType,
    NewTopic,
    SyncAdminClient,
    TopicAuthorizationFailed,
)
from barnabas.clients.admin.quotas import ClientQuotaEntity
from barnabas.clients.admin.users import ScramUpsertion
from barnabas.common.acl import AclBinding
from barnabas.common.scram_mechanism import ScramMechanism
from barnabas.protocol.messages.describe_quorum import DescribeQuorumRequest
from tests.peers import run_class
from tests.peers.admin_requests import requests_for_broker
from tests.peers.mixed import OurBroker, RealBroker, scram_client
from tests.peers.mutation_requests import mutations
from tests.peers.quorums import OurController, Quorum, running_quorum, wait_until
from tests.peers.record_admin_answers import Connection
from tests.unit.controller import test_recorded_answers, test_recorded_mutations
from tests.unit.controller.test_recorded_answers import comparable

pytestmark = [pytest.mark.interop, pytest.mark.timeout(240)]

AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "delegation.token.secret.key": "the secret key of all tokens",
}
SOON = {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500"}


@pytest.fixture(scope="module")
def quorum(kafka_peer: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Quorum]:
    with running_quorum(
        tmp_path_factory.mktemp("controllers"), [OurController], settings={**AUTHORIZER, **SOON}
    ) as running:
        yield running
        printed = running.controllers[0].printed()
    assert "Traceback" not in printed
    assert " ERROR " not in printed


@pytest.fixture(scope="module")
def broker(quorum: Quorum, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealBroker]:
    node = real_broker(quorum, tmp_path_factory.mktemp("broker-1"), 1)
    node.start()
    yield node
    node.end()


def real_broker(quorum: Quorum, folder: Path, node_id: int, *, own_process: bool = False) -> RealBroker:
    at = {"controllers": quorum.servers, "cluster_id": quorum.cluster_id}
    settings = {**AUTHORIZER, **SOON, "broker.rack": f"rack-{node_id}"}
    return RealBroker(folder, node_id, settings=settings, own_process=own_process, **at)


@pytest.fixture
def admin(broker: RealBroker) -> Iterator[SyncAdminClient]:
    with SyncAdminClient(broker.bootstrap_servers) as client:
        yield client


def test_its_clients_receive_the_answers_of_a_kafka_cluster(broker: RealBroker) -> None:
    """Every mutation goes through the broker in an envelope; nothing in the answer distinguishes the two
    controllers."""
    connection, different = Connection(broker.port), {}
    mutation_answers = test_recorded_mutations.recorded()
    cases = [(name, request, version, mutation_answers[name]) for name, request, version in mutations()]
    admin_answers = test_recorded_answers.recorded()
    cases += [
        (name, request, version, admin_answers["broker", name]) for name, request, version in requests_for_broker()
    ]
    known = {*test_recorded_mutations.BETTER, *(name for _, name in test_recorded_answers.BETTER)}
    for name, request, version, recorded in cases:
        if isinstance(request, DescribeQuorumRequest):
            continue  # The recorded quorum is the broker's own node.
        answer = comparable(connection.ask(request, version).to_json(version))
        kafka = comparable(recorded)
        if answer != kafka and name not in known:
            different[name] = (json.dumps(kafka), json.dumps(answer))
    connection.close()
    assert different == {}


def test_records_are_written_and_read_in_a_group(broker: RealBroker, admin: SyncAdminClient) -> None:
    """An idempotent producer needs a block of producer ids; the broker itself creates the group's topic."""
    admin.create_topics([NewTopic("flights", 3, 1)], wait=True).raise_for_errors()
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})
    for number in range(100):
        producer.produce("flights", str(number).encode())
    assert producer.flush(20) == 0
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["flights"])
    seen = set()
    deadline = time.monotonic() + 30
    while len(seen) < 100 and time.monotonic() < deadline:
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            seen.add(message.value())
    consumer.commit(asynchronous=False)
    consumer.close()
    assert len(seen) == 100
    assert admin.describe_topics(["__consumer_offsets"])["__consumer_offsets"].partitions[0].leader is not None


def test_configs_quotas_users_and_acls_are_in_force(broker: RealBroker, admin: SyncAdminClient) -> None:
    topic = ConfigResource(ConfigResourceType.TOPIC, "flights")
    longer = {topic: [AlterConfigOp.set("retention.ms", "123456")]}
    admin.incremental_alter_configs(longer, wait=True).raise_for_errors()
    quota = {ClientQuotaEntity.of({"user": "alice"}): {"producer_byte_rate": 1e6}}
    admin.alter_client_quotas(quota, wait=True).raise_for_errors()
    password = ScramUpsertion("alice", ScramMechanism.SCRAM_SHA_256, "alice-secret")
    admin.alter_user_scram_credentials([password], wait=True).raise_for_errors()
    with scram_client(broker, "alice", "alice-secret") as alice:
        denied = alice.create_topics([NewTopic("alices", 1, 1)])
        assert isinstance(denied.errors["alices"], TopicAuthorizationFailed)
        may_create = AclBinding(2, "alices", 3, "User:alice", "*", 5, 3)
        admin.create_acls([may_create], wait=True).raise_for_errors()
        alice.create_topics([NewTopic("alices", 1, 1)]).raise_for_errors()


def test_tokens_belong_to_the_requesting_user_and_reach_the_broker(broker: RealBroker) -> None:
    with scram_client(broker, "alice", "alice-secret") as alice:
        token = alice.create_delegation_token()
        assert token.owner == "User:alice"
        wait_until(lambda: len(alice.describe_delegation_tokens()) == 1, what="the token")


def test_the_quorum_and_its_observers_are_described(broker: RealBroker, admin: SyncAdminClient) -> None:
    described = admin.describe_quorum()
    assert (described.leader_id, [voter.replica_id for voter in described.voters]) == (3000, [3000])
    assert [observer.replica_id for observer in described.observers] == [broker.node_id]


def test_it_follows_our_broker_and_the_changes_that_it_forwarded(
    broker: RealBroker, quorum: Quorum, admin: SyncAdminClient, tmp_path: Path
) -> None:
    """Kafka's broker reads the metadata records of our calls, and the two brokers share a partition."""
    ours = OurBroker(
        tmp_path, 7, controllers=quorum.servers, cluster_id=quorum.cluster_id, settings={**AUTHORIZER, **SOON}
    )
    ours.start()
    try:
        with SyncAdminClient(ours.bootstrap_servers) as through_ours:
            through_ours.create_topics([NewTopic("both", 4, 1)], wait=True).raise_for_errors()
            through_ours.create_topics([NewTopic("shared", 1, 2)], wait=True).raise_for_errors()
        seen = admin.describe_topics(["both", "shared"])
        assert {partition.leader for partition in seen["both"].partitions} == {1, 7}
        assert set(seen["shared"].partitions[0].isr) == {1, 7}
        assert ours.stop() == 0
    finally:
        ours.kill()
    with SyncAdminClient(broker.bootstrap_servers) as once_more:
        once_more.unregister_broker(7, wait=True)
        once_more.delete_topics(["both", "shared"]).raise_for_errors()


def test_it_shuts_down_in_an_orderly_way_and_returns(broker: RealBroker, admin: SyncAdminClient) -> None:
    broker.stop()
    took = time.monotonic()
    broker.start()
    assert time.monotonic() - took < 30
    wait_until(lambda: 1 in {node.id for node in admin.describe_cluster().nodes}, what="its return")
    led = admin.describe_topics(["flights"])["flights"].partitions
    assert {partition.leader for partition in led} == {1}


@pytest.mark.long
def test_two_brokers_replicate_and_the_other_leads_when_one_dies(
    broker: RealBroker, quorum: Quorum, admin: SyncAdminClient, tmp_path: Path
) -> None:
    second = real_broker(quorum, tmp_path, 2, own_process=True)
    second.start()
    try:
        admin.create_topics([NewTopic("replicated", 4, 2)], wait=True).raise_for_errors()
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "acks": "all", "enable.idempotence": True})
        producer.produce("replicated", b"before", partition=0)
        assert producer.flush(20) == 0

        def leaders() -> set[int | None]:
            found = admin.describe_topics(["replicated"])["replicated"].partitions
            return {partition.leader for partition in found}

        assert leaders() == {1, 2}
        second.kill()
        wait_until(lambda: leaders() == {1}, what="the other's leadership", timeout_s=25)
        producer.produce("replicated", b"after", partition=0)
        assert producer.flush(20) == 0
        second.start()

        def in_sync() -> bool:
            found = admin.describe_topics(["replicated"])["replicated"].partitions
            return all(len(partition.isr) == 2 for partition in found)

        wait_until(in_sync, what="its return into the ISR", timeout_s=40)
        run_class("leader-election", "--bootstrap-server", broker.bootstrap_servers, "--election-type", "preferred",
                  "--all-topic-partitions")  # fmt: skip
        wait_until(lambda: leaders() == {1, 2}, what="its leadership")
        assert second.stop() is not None
        wait_until(lambda: leaders() == {1}, what="a leadership that moved before it left", timeout_s=3)
    finally:
        second.kill()
