"""Groups and offsets move with their directory, from a real Kafka 4.3.1 to ours and back.

Kafka's log holds records that ours does not write itself: a group of the next-generation protocol, and offsets that a
transaction committed or aborted.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, ConsumerGroupState, ConsumerGroupType, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.peers import KafkaNode
from tests.peers.command_node import CommandNode

pytestmark = pytest.mark.interop

TOPIC = "moved"
GROUPS = ("classic", "simple", "nextgen", "transactional")


@contextmanager
def consumer(bootstrap: str, group: str, **options: str) -> Iterator[Consumer]:
    client = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            **options,
        }
    )
    try:
        yield client
    finally:
        client.close()


def read_and_commit(bootstrap: str, group: str, count: int, **options: str) -> None:
    with consumer(bootstrap, group, **options) as client:
        client.subscribe([TOPIC])
        seen, deadline = 0, time.monotonic() + 60
        while seen < count:
            assert time.monotonic() < deadline, f"{group} saw {seen} records of {count}"
            message = client.poll(1.0)
            seen += message is not None and message.error() is None
        client.commit(asynchronous=False)


def produce(bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for index in range(10):
        producer.produce(TOPIC, b"%d" % index, partition=0)
    assert producer.flush(30) == 0


def commit_in_a_transaction(bootstrap: str, offset: int, *, aborts: bool) -> None:
    with consumer(bootstrap, "transactional") as client:
        client.assign([TopicPartition(TOPIC, 0)])
        group = client.consumer_group_metadata()
        producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"aborts-{aborts}"})
        producer.init_transactions(60)
        producer.begin_transaction()
        producer.send_offsets_to_transaction([TopicPartition(TOPIC, 0, offset)], group, 60)
        if aborts:
            producer.abort_transaction(60)
        else:
            producer.commit_transaction(60)


def committed(bootstrap: str, group: str) -> int:
    with consumer(bootstrap, group) as client:
        deadline = time.monotonic() + 60
        while True:
            try:
                (partition,) = client.committed([TopicPartition(TOPIC, 0)], timeout=30)
            except Exception:
                assert time.monotonic() < deadline, f"{group} has no coordinator"
                time.sleep(0.5)  # Its partition is still being loaded.
                continue
            return int(partition.offset)


def listed(bootstrap: str) -> dict[str, tuple[ConsumerGroupType, ConsumerGroupState]]:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    answer = admin.list_consumer_groups(request_timeout=30).result()
    assert not answer.errors
    return {group.group_id: (group.type, group.state) for group in answer.valid}


@pytest.mark.timeout(300)
def test_groups_move_between_kafka_and_barnabas_both_ways(kafka_peer: Path, tmp_path: Path) -> None:
    kafka = KafkaNode(tmp_path / "kafka")
    bootstrap = kafka.bootstrap_servers
    ours = CommandNode(kafka.folder, properties=kafka.properties, settings={"listeners": _listeners(kafka)})
    ours.port, ours.controller_port = kafka.port, kafka.controller_port
    empty = ConsumerGroupState.EMPTY
    try:
        kafka.start()
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(30)
        produce(bootstrap)
        read_and_commit(bootstrap, "classic", 10)
        read_and_commit(bootstrap, "nextgen", 10, **{"group.protocol": "consumer"})
        with consumer(bootstrap, "simple") as client:
            client.commit(offsets=[TopicPartition(TOPIC, 0, 3)], asynchronous=False)
        commit_in_a_transaction(bootstrap, 4, aborts=False)
        commit_in_a_transaction(bootstrap, 5, aborts=True)
        kafka.stop()

        ours.start()
        assert [committed(bootstrap, group) for group in GROUPS] == [10, 3, 10, 4]
        assert listed(bootstrap)["nextgen"] == (ConsumerGroupType.CONSUMER, empty)
        produce(bootstrap)
        read_and_commit(bootstrap, "classic", 10)
        read_and_commit(bootstrap, "nextgen", 10)  # The member is a classic one: the group changes its type.
        admin.delete_consumer_groups(["simple"])["simple"].result(30)
        ours.stop()

        kafka.start()
        assert [committed(bootstrap, group) for group in GROUPS] == [20, -1001, 20, 4]
        groups = listed(bootstrap)
        assert groups["classic"] == groups["nextgen"] == (ConsumerGroupType.CLASSIC, empty)
        assert "simple" not in groups
    finally:
        ours.kill()
        kafka.end()


def _listeners(kafka: KafkaNode) -> str:
    return f"PLAINTEXT://127.0.0.1:{kafka.port},CONTROLLER://127.0.0.1:{kafka.controller_port}"
