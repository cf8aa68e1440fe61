"""A broker of ours forwards its clients' requests to controllers in another process, a real Kafka's or our own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from confluent_kafka import Producer
from prometheus_client.parser import text_string_to_metric_families

from barnabas.broker.apis import SERVED_BY_BROKER
from barnabas.clients.admin import (
    AdminError,
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
from barnabas.common.errors import ErrorCode
from barnabas.common.scram_mechanism import ScramMechanism
from barnabas.common.uuid import Uuid
from barnabas.protocol.api_keys import API_TABLE
from barnabas.protocol.messages.api_versions import ApiVersionsRequest
from barnabas.protocol.messages.create_topics import CreateTopicsRequest
from barnabas.protocol.messages.describe_quorum import DescribeQuorumRequest
from barnabas.protocol.messages.envelope import EnvelopeRequest
from barnabas.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.interop.raw_client import RawClient
from tests.peers.admin_requests import requests_for_broker
from tests.peers.envelope_requests import HOST, SUPER, inner
from tests.peers.mixed import OurBroker, scram_client
from tests.peers.mutation_requests import mutations
from tests.peers.quorums import OurController, Quorum, RealController, running_quorum, wait_until
from tests.peers.record_admin_answers import Connection
from tests.unit.controller import test_recorded_answers, test_recorded_mutations
from tests.unit.controller.controller_harness import topic as new_topic
from tests.unit.controller.test_recorded_answers import comparable

pytestmark = [pytest.mark.interop, pytest.mark.timeout(240)]

AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "delegation.token.secret.key": "the secret key of all tokens",
}


@pytest.fixture(scope="module", params=[RealController, OurController], ids=["kafka", "ours"])
def quorum(request: Any, kafka_peer: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Quorum]:
    with running_quorum(tmp_path_factory.mktemp("controllers"), [request.param], settings=AUTHORIZER) as running:
        yield running


@pytest.fixture(scope="module")
def broker(quorum: Quorum, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OurBroker]:
    node = OurBroker(
        tmp_path_factory.mktemp("broker"),
        1,
        controllers=quorum.servers,
        cluster_id=quorum.cluster_id,
        settings=AUTHORIZER,
    )
    node.start()
    yield node
    node.kill()
    assert "Traceback" not in node.printed()


@pytest.fixture
def admin(broker: OurBroker) -> Iterator[SyncAdminClient]:
    with SyncAdminClient(broker.bootstrap_servers) as client:
        yield client


def test_its_clients_receive_the_answers_of_a_kafka_cluster(broker: OurBroker) -> None:
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
    assert not different, "\n".join(f"{name}: {pair}" for name, pair in different.items())


def test_versions_served_by_both_nodes_are_offered(broker: OurBroker, quorum: Quorum) -> None:
    def offered(port: int) -> dict[int, tuple[int, int]]:
        client = RawClient(port)
        answer = client.call(ApiVersionsRequest(client_software_name="x", client_software_version="1"), 4)
        client.close()
        return {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}

    broker_offers, controller_offers = offered(broker.port), offered(quorum.controllers[0].controller_port)
    for key, (low, high) in SERVED_BY_BROKER.items():
        if API_TABLE[key].forwardable:
            theirs = controller_offers[key]
            assert broker_offers[key] == (max(low, theirs[0]), min(high, theirs[1]))
        else:
            assert broker_offers[key] == (low, high)


def test_voters_are_changed_through_a_broker(admin: SyncAdminClient) -> None:
    with pytest.raises(AdminError) as refused:
        admin.remove_raft_voter(99, Uuid.from_int(7))
    assert refused.value.code is ErrorCode.VOTER_NOT_FOUND


def test_an_idempotent_producer_receives_its_id_and_a_missing_topic_is_created(
    broker: OurBroker, admin: SyncAdminClient
) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})
    producer.produce("made-on-demand", b"value")
    assert producer.flush(20) == 0
    assert admin.describe_topics(["made-on-demand"])["made-on-demand"].partitions[0].leader == 1


def test_configs_users_acls_and_tokens_reach_the_controller_and_replicate_back(
    broker: OurBroker, admin: SyncAdminClient
) -> None:
    admin.create_topics([NewTopic("flights", 3, 1)], wait=True).raise_for_errors()
    topic = ConfigResource(ConfigResourceType.TOPIC, "flights")
    longer = {topic: [AlterConfigOp.set("retention.ms", "123456")]}
    admin.incremental_alter_configs(longer, wait=True).raise_for_errors()
    password = ScramUpsertion("alice", ScramMechanism.SCRAM_SHA_256, "alice-secret")
    admin.alter_user_scram_credentials([password], wait=True).raise_for_errors()
    with scram_client(broker, "alice", "alice-secret") as alice:
        denied = alice.create_topics([NewTopic("alices", 1, 1)])
        assert isinstance(denied.errors["alices"], TopicAuthorizationFailed)
        may_create = AclBinding(2, "alices", 3, "User:alice", "*", 5, 3)
        admin.create_acls([may_create], wait=True).raise_for_errors()
        alice.create_topics([NewTopic("alices", 1, 1)]).raise_for_errors()
        token = alice.create_delegation_token()
        assert token.owner == "User:alice"
        wait_until(lambda: len(alice.describe_delegation_tokens()) == 1, what="the token")


def test_a_controller_alone_counts_the_requests_of_its_brokers_clients(quorum: Quorum, admin: SyncAdminClient) -> None:
    controller = quorum.controllers[0]
    if not isinstance(controller, OurController):
        return
    quota = {ClientQuotaEntity.of({"client-id": "hasty"}): {"request_percentage": 0.001}}
    admin.alter_client_quotas(quota, wait=True).raise_for_errors()
    client = RawClient(controller.controller_port)
    request = ListPartitionReassignmentsRequest(timeout_ms=1000, topics=None)
    waits = []
    for _ in range(2):
        data = inner(request, 0, client_id="hasty")
        answer = client.call(EnvelopeRequest(request_data=data, request_principal=SUPER, client_host_address=HOST), 0)
        waits.append(ListPartitionReassignmentsResponse.decode(answer.response_data, 0, 5).throttle_time_ms)
    client.close()
    assert waits[-1] > 0, "the client is throttled, and the broker's connection is not"


def test_an_acknowledged_change_is_visible_on_the_broker_that_answered(broker: OurBroker, quorum: Quorum) -> None:
    """Between our nodes, the answer contains the offset that the broker must reach; Kafka's controllers don't send
    it."""
    if not isinstance(quorum.controllers[0], OurController):
        return
    client = RawClient(broker.port)
    for number in range(30):
        name = f"at-once-{number}"
        made = client.call(CreateTopicsRequest(topics=[new_topic(name)], timeout_ms=9000), 7)
        assert made.topics[0].error_code == 0
        found = client.call(MetadataRequest(topics=[MetadataRequestTopic(name=name)]), 12).topics[0]
        assert (found.error_code, len(found.partitions)) == (0, 1)
    client.close()


def test_forwarded_requests_are_counted_by_client(broker: OurBroker) -> None:
    with urlopen(f"http://127.0.0.1:{broker.metrics_port}/metrics", timeout=10) as answer:
        samples = {
            (sample.name, *sample.labels.values()): sample.value
            for family in text_string_to_metric_families(answer.read().decode())
            for sample in family.samples
        }
    assert samples["kafka_server_num_requests_forwarding_to_controller_total", "barnabas"] > 0
    prefix = "kafka_server_forwarding_manager"
    assert samples[f"{prefix}_queue_length",] == 0
    assert samples[f"{prefix}_remote_time_seconds_count",] == samples[f"{prefix}_queue_time_seconds_count",] > 0


def test_the_controllers_audit_names_client_and_broker(broker: OurBroker, quorum: Quorum) -> None:
    controller = quorum.controllers[0]

    def lines() -> list[str]:
        return [
            line for line in controller.printed().splitlines() if "is Denied" in line and "Topic:LITERAL:alices" in line
        ]

    if isinstance(controller, OurController):
        wait_until(lambda: bool(lines()), what="the line")
        assert "Principal = User:alice" in lines()[0]
        assert "forwarded by = User:ANONYMOUS" in lines()[0]


def test_without_the_controller_clients_wait_and_reads_continue(
    broker: OurBroker, admin: SyncAdminClient, quorum: Quorum
) -> None:
    controller = quorum.controllers[0]
    controller.kill()
    reader = RawClient(broker.port)
    known = reader.call(MetadataRequest(topics=[MetadataRequestTopic(name="flights")]), 12).topics[0]
    assert (known.error_code, len(known.partitions)) == (0, 3)
    writer = RawClient(broker.port)
    writer.send(CreateTopicsRequest(topics=[new_topic("patience")], timeout_ms=60_000), 7)
    controller.launch()
    made = writer.receive()
    assert {topic.error_code for topic in made.topics} == {0}
    reader.close()
    writer.close()
