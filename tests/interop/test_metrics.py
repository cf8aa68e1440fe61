"""The Prometheus endpoint reports the work of the clients, in the Prometheus text format."""

from __future__ import annotations

import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from barnabas.common.errors import ErrorCode
from barnabas.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from barnabas.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.protocol.messages.heartbeat import HeartbeatRequest
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.protocol.record_batch import Record
from barnabas.protocol.record_batch_builder import build_batch
from barnabas.server.metrics.collector import METRICS
from barnabas.testing import Node
from tests.interop.raw_client import RawClient
from tests.peers.node_process import free_ports

pytestmark = [pytest.mark.interop, pytest.mark.filterwarnings("ignore::ResourceWarning")]

OURS = ("kafka_", "barnabas_")
KAFKAS_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


class MeasuredNode(Node):
    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        (self.metrics_port,) = free_ports(1)
        super().__init__(settings={"barnabas.metrics.listener": f"127.0.0.1:{self.metrics_port}", **(settings or {})})

    def get(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}{path}", timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def samples(self) -> dict[tuple[str, ...], float]:
        """Return the values by name and label values."""
        status, text = self.get("/metrics")
        assert status == 200
        return {
            (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }


@pytest.fixture
def node(request: pytest.FixtureRequest) -> Iterator[MeasuredNode]:
    """Its settings are the parameter of the test, if it has one."""
    with MeasuredNode(getattr(request, "param", None)) as made:
        yield made
        made.stop()
        assert "Traceback" not in made.log


def produce(client: RawClient, topic: str, partition: int, value: bytes) -> int:
    """Produce a batch. Return its size."""
    batch = build_batch([Record(0, int(time.time() * 1000), None, value, ())])
    data = [PartitionProduceData(index=partition, records=batch)]
    client.call(
        ProduceRequest(acks=-1, timeout_ms=5000, topic_data=[TopicProduceData(name=topic, partition_data=data)]), 12
    )
    return len(batch)


def test_every_metric_has_the_name_type_and_labels_that_are_documented(node: MeasuredNode) -> None:
    client = RawClient(node.port)
    client.call(HeartbeatRequest(group_id="g", member_id="m"), 4)
    client.close()
    families = {
        family.name: family
        for family in text_string_to_metric_families(node.get("/metrics")[1])
        if family.name.startswith(OURS)
    }
    assert families.keys() == METRICS.keys()
    for name, family in families.items():
        assert (family.type, family.documentation) == (METRICS[name].kind, METRICS[name].text)
        for sample in family.samples:
            assert set(sample.labels) - {"le"} == set(METRICS[name].labels)


def test_the_metrics_count_the_work_that_was_done(node: MeasuredNode) -> None:
    client = RawClient(node.port)
    client.call(
        CreateTopicsRequest(topics=[CreatableTopic(name="measured", num_partitions=3, replication_factor=1)]), 7
    )
    written = sum(produce(client, "measured", partition, b"x" * 1000) for partition in (0, 1, 1, 2))
    produce(client, "measured", 99, b"lost")
    produce(client, "measured", 98, b"lost")
    for _ in range(5):
        client.call(HeartbeatRequest(group_id="nobody", generation_id=1, member_id="m"), 4)
    wanted = [FetchPartition(partition=1, fetch_offset=0, partition_max_bytes=100_000)]
    fetched = client.call(FetchRequest(min_bytes=1, topics=[FetchTopic(topic="measured", partitions=wanted)]), 12)
    read = len(fetched.responses[0].partitions[0].records)
    found = node.samples()
    client.close()

    requests = "kafka_network_request_metrics_requests_total"
    errors = "kafka_network_request_metrics_errors_total"
    assert found[requests, "Produce", "12"] == 6
    assert found[requests, "Heartbeat", "4"] == 5
    assert found[requests, "Fetch", "12"] == 1
    assert found[errors, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.name, "Produce"] == 2
    assert sum(value for key, value in found.items() if key[0] == errors and key[2] == "Heartbeat") == 5
    assert not [key for key in found if key[0] == errors and key[2] == "Fetch"]
    latency = "kafka_network_request_metrics_total_time_seconds"
    assert found[f"{latency}_count", "Produce"] == found[f"{latency}_bucket", "+Inf", "Produce"] == 6
    assert 0 < found[f"{latency}_sum", "Produce"] < 6
    assert found["kafka_network_request_metrics_request_bytes_total", "Produce"] > written
    assert found["kafka_network_request_metrics_response_bytes_total", "Fetch"] > read
    topics = "kafka_server_broker_topic_metrics"
    assert found[f"{topics}_bytes_in_total",] == written
    assert found[f"{topics}_batches_in_total",] == 4
    assert found[f"{topics}_bytes_out_total",] == read
    assert found["kafka_log_size_bytes",] == written
    assert found["kafka_log_num_log_segments",] == 3
    assert found["kafka_server_replica_manager_partition_count",] == 3
    assert found["kafka_server_replica_manager_leader_count",] == 3
    assert found["kafka_server_socket_server_connection_count", "CLIENTS"] == 1
    assert found["kafka_server_broker_state",] == 3
    controller = "kafka_controller_kafka_controller"
    assert found[f"{controller}_active_controller_count",] == 1
    assert found[f"{controller}_active_broker_count",] == 1
    assert found[f"{controller}_fenced_broker_count",] == 0
    assert (
        found[f"{controller}_offline_partitions_count",]
        == found[f"{controller}_preferred_replica_imbalance_count",]
        == 0
    )
    assert found["kafka_controller_controller_stats_unclean_leader_elections_total",] == 0
    assert found[f"{controller}_global_topic_count",] == 1
    assert found[f"{controller}_global_partition_count",] == 3
    raft = "kafka_server_raft_metrics"
    assert [found[f"{raft}_{name}",] for name in ("current_leader", "current_epoch", "number_of_voters")] == [1, 1, 1]
    assert found[f"{raft}_log_end_offset",] >= found[f"{raft}_high_watermark",]
    assert found["kafka_server_raft_metrics_high_watermark",] > found[f"{controller}_last_applied_record_offset",] - 2
    assert found["process_resident_memory_bytes",] > 0


def test_groups_are_counted_by_their_state(node: MeasuredNode) -> None:
    from confluent_kafka import Consumer, TopicPartition

    client = RawClient(node.port)
    client.call(CreateTopicsRequest(topics=[CreatableTopic(name="grouped", num_partitions=1, replication_factor=1)]), 7)
    client.close()
    consumer = Consumer(
        {"bootstrap.servers": node.bootstrap_servers, "group.id": "counted", "enable.auto.commit": False}
    )
    consumer.subscribe(["grouped"])
    for _ in range(200):
        consumer.poll(0.1)
        if consumer.assignment():
            break
    consumer.commit(offsets=[TopicPartition("grouped", 0, 0)], asynchronous=False)
    found = node.samples()
    consumer.close()
    assert found["kafka_coordinator_group_group_count", "classic", "Stable"] == 1
    assert found["kafka_coordinator_group_num_offsets",] == 1
    assert found["kafka_coordinator_group_offset_commit_total",] == 1
    assert found["kafka_coordinator_group_group_completed_rebalance_total",] >= 1


@pytest.mark.parametrize(
    "node", [{"authorizer.class.name": KAFKAS_AUTHORIZER, "super.users": "User:ANONYMOUS"}], indirect=True
)
def test_acls_and_decisions_are_counted(node: MeasuredNode) -> None:
    prefix = "kafka_server_authorizer"
    before = node.samples()
    assert before[f"{prefix}_acl_count",] == 0
    client = RawClient(node.port)
    rules = [
        AclCreation(resource_type=2, resource_name=name, principal="User:a", host="*", operation=3, permission_type=3)
        for name in ("one", "two", "two")
    ]
    client.call(CreateAclsRequest(creations=rules))
    client.close()
    found = node.samples()
    assert found[f"{prefix}_acl_count",] == 2
    requested, allowed, denied = (
        found[f"{prefix}_authorization_{what}_total",] - before[f"{prefix}_authorization_{what}_total",]
        for what in ("request", "allowed", "denied")
    )
    assert (requested, allowed, denied) == (1, 1, 0)


def test_health_readiness_and_unknown_paths_have_their_status(node: MeasuredNode) -> None:
    assert node.get("/healthz") == (200, "ok\n")
    assert node.get("/readyz") == (200, "ready\n")
    for path in ("/", "/metric", "/metrics/", "/healthz/x", "/../metrics"):
        status, text = node.get(path)
        assert status == 404, path
        assert "/metrics, /healthz and /readyz" in text


def test_a_silent_client_does_not_block_others(node: MeasuredNode) -> None:
    import socket

    with socket.create_connection(("127.0.0.1", node.metrics_port)):
        assert node.get("/readyz") == (200, "ready\n")


def test_the_endpoint_exists_only_if_it_is_configured() -> None:
    with Node() as node:
        opened = {
            line.split()[1].rpartition(":")[2]
            for table in ("tcp", "tcp6")
            for line in Path(f"/proc/{node.pid}/net/{table}").read_text().splitlines()[1:]
            if line.split()[3] == "0A" and line.split()[9] in _inodes(node.pid)
        }
        assert {int(port, 16) for port in opened} == {node.port, node.controller_port}
        node.stop()


def _inodes(pid: int) -> set[str]:
    """Return the inodes of the open sockets of the process."""
    links = []
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # The node has closed it since it was listed.
            links.append(str(descriptor.readlink()))
    return {link[8:-1] for link in links if link.startswith("socket:[")}
