"""Transactions in a cluster of Kafka's broker and ours: coordinators, partitions and offsets on either side.

Every transactional id and every group is coordinated by one of the two brokers, and every topic has partitions on both,
so that markers and verifications cross between them in both directions.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from barnabas.clients.admin import NewTopic, SyncAdminClient
from barnabas.clients.admin import TopicPartition as AdminTopicPartition
from barnabas.coordinator.partitioner import coordinator_partition
from barnabas.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from barnabas.protocol.messages.describe_transactions import DescribeTransactionsRequest
from barnabas.protocol.messages.end_txn import EndTxnRequest
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tests.interop.prepared_transaction_probes import HeldTransaction, probe
from tests.interop.raw_client import RawClient
from tests.peers import run_class
from tests.peers.java import run_source
from tests.peers.mixed import OurBroker, RealBroker
from tests.peers.quorums import OurController, Quorum, running_quorum, wait_until

pytestmark = [pytest.mark.interop, pytest.mark.timeout(240)]

KAFKA, OURS = 1, 2
LIMIT_S = 20.0
PARTITIONS = 4
PLACEMENT = [[(KAFKA, OURS)[partition % 2]] for partition in range(PARTITIONS)]
SETTINGS = {
    "transaction.state.log.num.partitions": str(PARTITIONS),
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "offsets.topic.num.partitions": str(PARTITIONS),
    "offsets.topic.replication.factor": "1",
    "transaction.partition.verification.enable": "true",
}


class Both:
    """A controller of ours, a broker of Kafka's and one of ours."""

    def __init__(self, quorum: Quorum, folder: Path) -> None:
        named = {"controllers": quorum.servers, "cluster_id": quorum.cluster_id, "settings": SETTINGS}
        self.kafka = RealBroker(folder / "kafka", KAFKA, own_process=True, **named)  # type: ignore[arg-type]
        self.ours = OurBroker(folder / "ours", OURS, **named)  # type: ignore[arg-type]
        self.kafka.start()
        self.ours.start()

    @property
    def servers(self) -> str:
        return f"{self.kafka.bootstrap_servers},{self.ours.bootstrap_servers}"

    def prepare(self) -> None:
        """Create the topics, with partitions on both brokers."""
        with SyncAdminClient(self.servers) as admin:
            for name in ("__transaction_state", "__consumer_offsets", "in", "out", "copied"):
                configs = {"cleanup.policy": "compact"} if name.startswith("__") else {}
                new = NewTopic(name, configs=configs, assignments=PLACEMENT)
                admin.create_topics([new], wait=True).raise_for_errors()

    def name_on(self, broker: int, prefix: str) -> str:
        """Return a transactional id or a group that this broker coordinates."""
        number = 0
        while (KAFKA, OURS)[coordinator_partition(f"{prefix}-{number}", PARTITIONS) % 2] != broker:
            number += 1
        return f"{prefix}-{number}"


@pytest.fixture(scope="module")
def both(kafka_peer: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    with running_quorum(tmp_path_factory.mktemp("controllers"), [OurController]) as quorum:
        cluster = Both(quorum, tmp_path_factory.mktemp("brokers"))
        try:
            cluster.prepare()
            yield cluster
            assert "Traceback" not in cluster.ours.printed()
        finally:
            cluster.kafka.kill()
            cluster.ours.kill()


def read(both: Both, topic: str, isolation: str = "read_committed") -> list[bytes]:
    consumer = Consumer(
        {
            "bootstrap.servers": both.servers,
            "group.id": "reader",
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    values, ended = [], 0
    while ended < PARTITIONS:
        message = consumer.poll(LIMIT_S)
        assert message is not None, f"{values} and nothing more"
        if message.error():
            ended += 1
        else:
            values.append(message.value())
    consumer.close()
    return [value for value in values if value is not None]


@pytest.mark.parametrize("coordinator", [KAFKA, OURS])
def test_markers_and_verifications_cross_between_the_brokers(both: Both, coordinator: int) -> None:
    name = both.name_on(coordinator, "id")
    producer = Producer({"bootstrap.servers": both.servers, "transactional.id": name})
    producer.init_transactions(LIMIT_S)
    for outcome in ("committed", "aborted", "committed"):
        producer.begin_transaction()
        for partition in range(PARTITIONS):
            producer.produce("out", f"{name} {outcome} {partition}", partition=partition)
        producer.flush(LIMIT_S)
        if outcome == "committed":
            producer.commit_transaction(LIMIT_S)
        else:
            producer.abort_transaction(LIMIT_S)
    seen = sorted(value.decode() for value in read(both, "out") if value.startswith(name.encode()))
    assert seen == sorted([f"{name} committed {partition}" for partition in range(PARTITIONS)] * 2)
    everything = [value for value in read(both, "out", "read_uncommitted") if value.startswith(name.encode())]
    assert len(everything) == 3 * PARTITIONS


@pytest.mark.parametrize("coordinator", [KAFKA, OURS])
@pytest.mark.parametrize("group_coordinator", [KAFKA, OURS])
def test_offsets_commit_with_records(both: Both, coordinator: int, group_coordinator: int) -> None:
    name = both.name_on(coordinator, f"copier-{group_coordinator}")
    group = both.name_on(group_coordinator, f"group-{coordinator}")
    producer = Producer({"bootstrap.servers": both.servers, "transactional.id": name})
    producer.init_transactions(LIMIT_S)
    consumer = Consumer({"bootstrap.servers": both.servers, "group.id": group, "enable.auto.commit": False})
    consumer.assign([TopicPartition("in", partition, 0) for partition in range(PARTITIONS)])
    for number, outcome in enumerate(("aborted", "committed"), 5):
        producer.begin_transaction()
        producer.produce("out", "copied", partition=0)
        offsets = [TopicPartition("in", partition, number) for partition in range(PARTITIONS)]
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), LIMIT_S)
        if outcome == "committed":
            producer.commit_transaction(LIMIT_S)
        else:
            producer.abort_transaction(LIMIT_S)
        found = consumer.committed(
            [TopicPartition("in", partition) for partition in range(PARTITIONS)], timeout=LIMIT_S
        )
        assert {item.offset for item in found} == ({6} if outcome == "committed" else {-1001})
    consumer.close()


def test_javas_newest_producer_copies_a_topic_through_both(both: Both) -> None:
    producer = Producer({"bootstrap.servers": both.servers})
    for number in range(400):
        producer.produce("in", f"{number}", partition=number % PARTITIONS)
    producer.flush(LIMIT_S)
    output = run_source("Transactions", both.servers, "in", "copied", "400", "100")
    seen = dict(line.split(": ", 1) for line in output.splitlines() if ": " in line)
    assert seen["distinct"] == "400 of 400"
    assert seen["described"] == "CompleteAbort"


def test_kafkas_tool_shows_the_transactions_of_both(both: Both) -> None:
    names = {coordinator: both.name_on(coordinator, "open") for coordinator in (KAFKA, OURS)}
    producers = []
    for coordinator, name in names.items():
        producer = Producer({"bootstrap.servers": both.servers, "transactional.id": name})
        producer.init_transactions(LIMIT_S)
        producer.begin_transaction()
        producer.produce("out", "open", partition=coordinator)
        producer.flush(LIMIT_S)
        producers.append(producer)
    tool = ("transactions", "--bootstrap-server", both.servers)
    listed = {line.split()[0]: line.split() for line in run_class(*tool, "list").stdout.splitlines() if line}
    for coordinator, name in names.items():
        assert (listed[name][1], listed[name][3]) == (str(coordinator), "Ongoing")
        described = run_class(*tool, "describe", "--transactional-id", name).stdout
        assert f"out-{coordinator}" in described
        shown = run_class(*tool, "describe-producers", "--topic", "out", "--partition", str(coordinator)).stdout
        assert listed[name][2] in shown
    for pattern, expected in (("open-.*", set(names.values())), (names[OURS], {names[OURS]}), ("nothing", set())):
        matching = run_class(*tool, "list", "--transactional-id-pattern", pattern).stdout
        assert {line.split()[0] for line in matching.splitlines()[1:] if line} == expected
    assert len(run_class(*tool, "find-hanging", "--broker-id", str(OURS)).stdout.splitlines()) == 1
    for producer in producers:
        producer.abort_transaction(LIMIT_S)


@pytest.mark.parametrize("is_commit", [True, False])
@pytest.mark.parametrize("version", [4, 5])
def test_requests_before_the_markers_are_written_have_kafkas_answers(both: Both, version: int, is_commit: bool) -> None:
    """The leader of the partition hangs, so the transaction stays decided and not complete."""
    found = {coordinator: held_answers(both, coordinator, version, is_commit) for coordinator in (KAFKA, OURS)}
    assert found[OURS] == found[KAFKA]


def held_answers(both: Both, coordinator: int, version: int, is_commit: bool) -> dict[str, str]:
    """End a transaction whose partition the other broker leads, while that broker hangs, and probe its coordinator."""
    name = both.name_on(coordinator, f"held-{version}-{is_commit}")
    partition = PLACEMENT.index([KAFKA if coordinator == OURS else OURS])
    broker, other = (both.kafka, both.ours) if coordinator == KAFKA else (both.ours, both.kafka)
    with closing(RawClient(broker.port)) as client:
        for _ in range(3):
            held = begin(client, name, partition)
        end = EndTxnRequest(
            transactional_id=name, producer_id=held.producer_id, producer_epoch=held.epoch, committed=is_commit
        )
        other.freeze()
        try:
            assert client.call(end, version).error_code == 0
            answers = probe(client, held)
            assert state_of(client, name) == ("PrepareCommit" if is_commit else "PrepareAbort")
        finally:
            other.thaw()
        wait_until(lambda: state_of(client, name).startswith("Complete"), what="the markers", timeout_s=60)
    return answers


def begin(client: RawClient, name: str, partition: int) -> HeldTransaction:
    """Begin a transaction in a partition. An open one of the id is aborted."""
    found: list[InitProducerIdResponse] = []

    def is_initialized() -> bool:
        found[:] = [client.call(InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000), 5)]
        return found[0].error_code == 0

    wait_until(is_initialized, what="a producer")
    held = HeldTransaction(name, found[0].producer_id, found[0].producer_epoch, "out", partition, "group")
    adding = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=name,
        v3_and_below_producer_id=held.producer_id,
        v3_and_below_producer_epoch=held.epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name="out", partitions=[partition])],
    )
    results = client.call(adding, 3).results_by_topic_v3_and_below
    assert results[0].results_by_partition[0].partition_error_code == 0
    return held


def state_of(client: RawClient, name: str) -> str:
    (state,) = client.call(DescribeTransactionsRequest(transactional_ids=[name]), 0).transaction_states
    return str(state.transaction_state)


def test_a_coordinator_moves_between_the_brokers_with_its_transaction(both: Both) -> None:
    name = both.name_on(KAFKA, "moving")
    number = coordinator_partition(name, PARTITIONS)
    producer = Producer({"bootstrap.servers": both.servers, "transactional.id": name})
    producer.init_transactions(LIMIT_S)
    for target in (OURS, KAFKA, OURS):
        producer.begin_transaction()
        producer.produce("out", f"{name} to {target}", partition=target)
        producer.flush(LIMIT_S)
        move(both, number, target)
        producer.commit_transaction(LIMIT_S)
    seen = [value for value in read(both, "out") if value.startswith(name.encode())]
    assert sorted(seen) == sorted([f"{name} to {target}".encode() for target in (OURS, KAFKA, OURS)])


def move(both: Both, partition: int, target: int) -> None:
    """Move a partition of the transaction state, with its records, to a broker."""
    moved = AdminTopicPartition("__transaction_state", partition)

    def leads() -> bool:
        found = admin.describe_topics(["__transaction_state"])["__transaction_state"].partitions[partition]
        return found.leader == target and not admin.list_partition_reassignments()

    with SyncAdminClient(both.servers) as admin:
        admin.alter_partition_reassignments({moved: [target]}).raise_for_errors()
        wait_until(leads, what="the move")
