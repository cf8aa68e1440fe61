"""A data directory moves from a real Kafka to our node and back, with transactions, groups, settings and all
records."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from barnabas.common.errors import ErrorCode
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tests.interop.raw_client import RawClient
from tests.peers import KafkaNode
from tests.peers.command_node import CommandNode
from tests.peers.node_process import NodeProcess

pytestmark = [
    pytest.mark.interop,
    pytest.mark.timeout(240),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.usefixtures("kafka_peer"),
]

QUIET = {"log_level": 0}
UNCOMMITTED, COMMITTED = 0, 1


class Fetched(NamedTuple):
    """The answer to one fetch."""

    offset: int
    error_code: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: list[tuple[int, int]]
    size: int


class View(NamedTuple):
    """The state of a partition that clients see at one isolation level."""

    records: list[tuple[int, bytes]]
    latest: int
    fetches: list[Fetched]


def view(node: NodeProcess, topic: str, isolation: int) -> View:
    client = RawClient(node.port)
    latest = latest_offset(client, topic, isolation)
    fetches = [fetch(client, topic, isolation, offset) for offset in (*range(min(latest, 60)), latest, latest + 1000)]
    client.close()
    return View(records=list(consume(node, topic, isolation)), latest=latest, fetches=fetches)


def fetch(client: RawClient, topic: str, isolation: int, offset: int) -> Fetched:
    wanted = [FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=10_000_000)]
    answer = client.call(
        FetchRequest(isolation_level=isolation, topics=[FetchTopic(topic=topic, partitions=wanted)]), 12
    )
    partition = answer.responses[0].partitions[0]
    return Fetched(
        offset=offset,
        error_code=partition.error_code,
        high_watermark=partition.high_watermark,
        last_stable_offset=partition.last_stable_offset,
        log_start_offset=partition.log_start_offset,
        aborted=sorted(
            (transaction.producer_id, transaction.first_offset) for transaction in partition.aborted_transactions or ()
        ),
        size=len(partition.records or b""),
    )


def latest_offset(client: RawClient, topic: str, isolation: int) -> int:
    """A broker that has just started may not lead yet, or may not know its high watermark."""
    partitions = [ListOffsetsPartition(partition_index=0, timestamp=-1)]
    request = ListOffsetsRequest(
        replica_id=-1, isolation_level=isolation, topics=[ListOffsetsTopic(name=topic, partitions=partitions)]
    )
    deadline = time.monotonic() + 20
    while True:
        partition = client.call(request, 7).topics[0].partitions[0]
        if partition.error_code == ErrorCode.NONE:
            offset: int = partition.offset
            return offset
        assert partition.error_code in (ErrorCode.OFFSET_NOT_AVAILABLE, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        assert time.monotonic() < deadline
        time.sleep(0.05)


def consume(node: NodeProcess, topic: str, isolation: int) -> Iterator[tuple[int, bytes]]:
    """Offset and value of every record."""
    for offset, _, value in consume_keyed(node, topic, isolation):
        assert value is not None
        yield offset, value


def consume_keyed(node: NodeProcess, topic: str, isolation: int) -> Iterator[tuple[int, bytes, bytes | None]]:
    """Offset, key and value of every record."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(
        {
            **QUIET,
            "bootstrap.servers": node.bootstrap_servers,
            "group.id": "viewer",
            "isolation.level": "read_committed" if isolation else "read_uncommitted",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    deadline = time.monotonic() + 30
    try:
        while time.monotonic() < deadline:
            message = consumer.poll(1.0)
            if message is not None and message.error() is not None:
                assert message.error().name() == "_PARTITION_EOF", message.error()
                return
            if message is not None:
                yield message.offset(), message.key(), message.value()
    finally:
        consumer.close()
    raise AssertionError("the end was not reached")


def producer(node: NodeProcess, transactional_id: str | None = None) -> Any:
    from confluent_kafka import Producer

    settings: dict[str, Any] = {**QUIET, "bootstrap.servers": node.bootstrap_servers, "linger.ms": 0}
    if transactional_id is not None:
        settings |= {"transactional.id": transactional_id, "transaction.timeout.ms": 600_000}
    made = Producer(settings)
    if transactional_id is not None:
        made.init_transactions(60)
    return made


def send(sender: Any, topic: str, name: str, count: int = 3) -> None:
    for number in range(count):
        sender.produce(topic, value=f"{name} {number}".encode(), partition=0)
    assert sender.flush(30) == 0


def write_transactions(node: NodeProcess, topic: str) -> Any:
    """Write committed, aborted and interleaved transactions, and leave one open. Return its producer."""
    plain, first, second, third = producer(node), producer(node, "a"), producer(node, "b"), producer(node, "c")
    send(plain, topic, "plain")
    for end in ("commit", "abort", "commit"):
        first.begin_transaction()
        send(first, topic, f"first, {end}")
        getattr(first, f"{end}_transaction")(30)
    first.begin_transaction()
    second.begin_transaction()
    for turn in range(3):
        send(first, topic, f"interleaved {turn}, commit")
        send(second, topic, f"interleaved {turn}, abort")
        send(plain, topic, f"interleaved {turn}, plain")
    second.abort_transaction(30)
    first.commit_transaction(30)
    send(plain, topic, "before the open one")
    third.begin_transaction()
    send(third, topic, "open")
    send(plain, topic, "after the open one")
    return third


def create(node: NodeProcess, topic: str, config: Mapping[str, str] | None = None) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({**QUIET, "bootstrap.servers": node.bootstrap_servers})
    admin.create_topics([NewTopic(topic, 1, 1, config=dict(config or {}))])[topic].result(30)


def commit(node: NodeProcess, group: str, topic: str, offset: int) -> None:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(
        {**QUIET, "bootstrap.servers": node.bootstrap_servers, "group.id": group, "enable.auto.commit": False}
    )
    consumer.subscribe([topic])
    deadline = time.monotonic() + 30
    while not consumer.assignment() and time.monotonic() < deadline:
        consumer.poll(0.1)
    consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    consumer.close()


def committed(node: NodeProcess, group: str, topic: str) -> int:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({**QUIET, "bootstrap.servers": node.bootstrap_servers, "group.id": group})
    try:
        offset: int = consumer.committed([TopicPartition(topic, 0)], 30)[0].offset
        return offset
    finally:
        consumer.close()


def retention_of(node: NodeProcess, topic: str) -> str:
    from confluent_kafka.admin import AdminClient, ConfigResource

    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    admin = AdminClient({**QUIET, "bootstrap.servers": node.bootstrap_servers})
    value: str = admin.describe_configs([resource])[resource].result(30)["retention.ms"].value
    return value


@pytest.mark.long
def test_transactions_of_a_real_kafka_are_read_as_kafka_reads_them(tmp_path: Path) -> None:
    kafka = KafkaNode(tmp_path / "kafka")
    kafka.start()
    create(kafka, "moved", {"retention.ms": "123456789"})
    left_open = write_transactions(kafka, "moved")
    commit(kafka, "readers", "moved", 7)
    expected = {isolation: view(kafka, "moved", isolation) for isolation in (UNCOMMITTED, COMMITTED)}
    assert kafka.stop() in (0, 143)
    first = expected[COMMITTED].fetches[0]
    assert expected[COMMITTED].latest == first.last_stable_offset < first.high_watermark
    assert len(first.aborted) == 2

    ours = CommandNode(
        tmp_path / "ours", settings={"log.dirs": str(tmp_path / "kafka" / "data")}, properties=kafka.properties
    )
    ours.start()
    assert {isolation: view(ours, "moved", isolation) for isolation in (UNCOMMITTED, COMMITTED)} == expected
    assert committed(ours, "readers", "moved") == 7
    assert retention_of(ours, "moved") == "123456789"
    ours.kill()
    ours.start()  # Recovery finds the transactions in the batches.
    assert {isolation: view(ours, "moved", isolation) for isolation in (UNCOMMITTED, COMMITTED)} == expected
    create(ours, "made-by-ours")
    send(producer(ours), "made-by-ours", "ours", 500)
    commit(ours, "readers", "moved", 11)
    commit(ours, "new-readers", "made-by-ours", 250)
    assert ours.stop() == 0
    assert "Traceback" not in ours.printed()

    kafka.start()
    assert {isolation: view(kafka, "moved", isolation) for isolation in (UNCOMMITTED, COMMITTED)} == expected
    assert [value for _, value in consume(kafka, "made-by-ours", COMMITTED)] == [b"ours %d" % n for n in range(500)]
    assert committed(kafka, "readers", "moved") == 11
    assert committed(kafka, "new-readers", "made-by-ours") == 250
    # The open transaction is still known to its coordinator: its producer's successor ends it.
    del left_open
    producer(kafka, "c")
    after = view(kafka, "moved", COMMITTED).fetches[0]
    assert after.last_stable_offset == after.high_watermark > first.high_watermark
    kafka.stop()


def test_a_real_kafka_opens_our_data_directory(tmp_path: Path) -> None:
    ours = CommandNode(tmp_path / "ours", settings={"log.segment.bytes": "1048576"})
    ours.start()
    create(ours, "ours", {"retention.ms": "987654321"})
    sender = producer(ours)
    values = [b"%06d" % number + b"." * 500 for number in range(5000)]
    for value in values:
        sender.produce("ours", value=value, partition=0)
    assert sender.flush(30) == 0
    commit(ours, "readers", "ours", 1234)
    expected = {isolation: view(ours, "ours", isolation) for isolation in (UNCOMMITTED, COMMITTED)}
    assert ours.stop() == 0

    kafka = KafkaNode(tmp_path / "kafka", settings={"log.dirs": str(tmp_path / "ours" / "data")})
    kafka.write_properties()
    kafka.start()
    found = {isolation: view(kafka, "ours", isolation) for isolation in (UNCOMMITTED, COMMITTED)}
    assert found == expected
    assert [value for _, value in found[COMMITTED].records] == values
    assert committed(kafka, "readers", "ours") == 1234
    assert retention_of(kafka, "ours") == "987654321"
    send(producer(kafka), "ours", "theirs", 10)
    kafka.stop()
    # Kafka's controller may register before it is active, repeats that, and logs it as an error.
    errors = [
        line for line in kafka.printed().splitlines() if "ERROR" in line and "CONTROLLER_REGISTRATION" not in line
    ]
    assert errors == []

    ours.start()
    assert [value for _, value in consume(ours, "ours", COMMITTED)][5000:] == [b"theirs %d" % n for n in range(10)]
    assert committed(ours, "readers", "ours") == 1234
    assert ours.stop() == 0
    assert "Traceback" not in ours.printed()
