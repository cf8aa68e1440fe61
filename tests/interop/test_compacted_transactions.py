"""Our node compacts transactions that a real Kafka wrote; both read the same records from the compacted log."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.interop.test_data_moves_both_ways import COMMITTED, UNCOMMITTED, consume_keyed, create, producer
from tests.peers import KafkaNode
from tests.peers.command_node import CommandNode
from tests.peers.node_process import NodeProcess

pytestmark = [
    pytest.mark.interop,
    pytest.mark.timeout(240),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.usefixtures("kafka_peer"),
]

TOPIC = "compacted"
KEYS = 50
VALUE = b"." * 5_000
CONFIG = {
    "cleanup.policy": "compact",
    "segment.bytes": "1048576",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "0",
}


def write(node: NodeProcess) -> None:
    """Committed, aborted and interleaved transactions over the same keys; then more than a segment of another key."""
    first, second, plain = producer(node, "a"), producer(node, "b"), producer(node)
    for turn in range(12):
        first.begin_transaction()
        second.begin_transaction()
        for number in range(KEYS):
            sender = (first, second, plain)[(number + turn) % 3]
            value = None if number % 7 == turn % 7 else b"%d in turn %d " % (number, turn) + VALUE
            sender.produce(TOPIC, key=b"key %d" % number, value=value, partition=0)
            if number % 10 == 0:
                assert sender.flush(30) == 0
        for sender in (first, second, plain):
            assert sender.flush(30) == 0
        (first.abort_transaction if turn % 4 == 3 else first.commit_transaction)(30)
        (second.abort_transaction if turn % 3 == 2 else second.commit_transaction)(30)
    for _ in range(3):
        plain.produce(TOPIC, key=b"filler", value=b"f" * 700_000, partition=0)
        assert plain.flush(30) == 0


def last_values(node: NodeProcess) -> dict[bytes, tuple[int, bytes]]:
    """Return the final view of a read_committed consumer: each key's last offset and value."""
    state: dict[bytes, tuple[int, bytes]] = {}
    for offset, key, value in consume_keyed(node, TOPIC, COMMITTED):
        if value is None:
            state.pop(key, None)
        else:
            state[key] = (offset, value)
    return state


@pytest.mark.long
def test_compacted_transactions_are_the_same_on_both_kinds_of_node(tmp_path: Path) -> None:
    kafka = KafkaNode(tmp_path / "kafka", settings={"log.cleaner.enable": "false"})
    kafka.start()
    create(kafka, TOPIC, CONFIG)
    write(kafka)
    expected = last_values(kafka)
    everything = len(list(consume_keyed(kafka, TOPIC, UNCOMMITTED)))
    kafka.stop()

    ours = CommandNode(
        tmp_path / "ours",
        settings={
            "log.dirs": str(tmp_path / "kafka" / "data"),
            "log.cleaner.enable": "true",
            "log.cleaner.backoff.ms": "50",
        },
        properties=kafka.properties,
    )
    ours.start()
    checkpoint = tmp_path / "kafka" / "data" / "cleaner-offset-checkpoint"
    deadline = time.monotonic() + 60
    while not (checkpoint.exists() and f"{TOPIC} 0 " in checkpoint.read_text()):
        assert time.monotonic() < deadline, ours.printed()
        time.sleep(0.1)
    assert last_values(ours) == expected
    left = {isolation: list(consume_keyed(ours, TOPIC, isolation)) for isolation in (UNCOMMITTED, COMMITTED)}
    assert len(left[UNCOMMITTED]) < everything / 5
    ours.kill()
    ours.start()
    assert {isolation: list(consume_keyed(ours, TOPIC, isolation)) for isolation in left} == left
    assert ours.stop() == 0
    printed = ours.printed()
    assert "Traceback" not in printed
    assert "cannot compact" not in printed

    kafka.start()
    assert {isolation: list(consume_keyed(kafka, TOPIC, isolation)) for isolation in left} == left
    assert last_values(kafka) == expected
    kafka.stop()
