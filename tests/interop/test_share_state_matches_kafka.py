"""Our share coordinator answers as Kafka 4.3.1's does, and writes the same records: random walks through both."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from barnabas.coordinator.share.persister import SharePartitionKey, StateBatch, StateWrite
from barnabas.protocol.records.share_snapshot_value import ShareSnapshotValue
from tests.interop.raw_client import RawClient
from tests.interop.share_state_walk import Story, walk
from tests.interop.walks import walk_seeds, walk_steps
from tests.peers import KafkaNode
from tests.peers.command_node import CommandNode
from tests.peers.node_process import NodeProcess
from tests.peers.share_state_client import ShareStateClient, settle

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

STEPS = walk_steps(700)
SEEDS = walk_seeds(1, 2)
SETTINGS = {
    "share.coordinator.state.topic.num.partitions": "3",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.snapshot.update.records.per.snapshot": "4",
}


@pytest.fixture(scope="module")
def nodes(kafka_peer: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[NodeProcess, NodeProcess]]:
    folder = tmp_path_factory.mktemp("nodes")
    theirs = KafkaNode(folder / "kafka", settings=SETTINGS)
    ours = CommandNode(folder / "ours", settings=SETTINGS)
    try:
        theirs.start()
        ours.start()
        yield theirs, ours
        assert "Traceback" not in ours.printed()
    finally:
        theirs.end()
        ours.end()


@pytest.mark.parametrize("seed", SEEDS)
def test_both_nodes_tell_the_same_story(seed: int, nodes: tuple[NodeProcess, NodeProcess]) -> None:
    theirs, ours = (walk(node.port, seed, STEPS) for node in nodes)
    compare_steps(seed, theirs, ours)
    assert ours.records.keys() == theirs.records.keys()
    for key, expected in theirs.records.items():
        for number, (theirs_record, ours_record) in enumerate(zip(expected, ours.records[key], strict=True)):
            assert ours_record == theirs_record, f"seed {seed}: record {number} about {key}"
    counted = sum(map(len, theirs.records.values()))
    assert counted > STEPS / 4, f"only {counted} records: the walk hardly changes anything"


def compare_steps(seed: int, theirs: Story, ours: Story) -> None:
    for number, (expected, seen) in enumerate(zip(theirs.steps, ours.steps, strict=True)):
        before = "\n".join(f"    {step.what}: {step.answer}" for step in theirs.steps[max(number - 8, 0) : number])
        assert seen == expected, f"seed {seed}, step {number}: after\n{before}\nkafka: {expected}\n ours: {seen}"


def test_both_nodes_prune_the_log_of_cold_share_partitions(kafka_peer: Path, tmp_path: Path) -> None:
    often = {
        **SETTINGS,
        "share.coordinator.state.topic.prune.interval.ms": "700",
        "share.coordinator.cold.partition.snapshot.interval.ms": "1500",
    }
    theirs = KafkaNode(tmp_path / "kafka", settings=often)
    ours = CommandNode(tmp_path / "ours", settings=often)
    stories = []
    for node in (theirs, ours):
        try:
            node.start()
            before = pruned(node)
            node.stop()
            node.start()
            with closing(ShareStateClient(RawClient(node.port))) as client:
                key = SharePartitionKey("cold", client.metadata("cold").topic_id, 0)
                client.prepare([key])
                stories.append((before, tuple(client.read(key)), tuple(client.summary(key))))
        finally:
            node.end()
    assert stories[1] == stories[0]


def pruned(node: NodeProcess) -> str:
    """Write state, wait until only one record of it is left, and show this record."""
    with closing(ShareStateClient(RawClient(node.port))) as client:
        key = SharePartitionKey("cold", client.create_topic("cold", 1), 0)
        client.prepare([key])
        client.initialize(key, state_epoch=3, start_offset=2)
        client.read(key, leader_epoch=5)
        for number in range(6):
            batch = StateBatch(4 * number, 4 * number + 1, 2, 1)
            assert client.write(key, StateWrite(3, 5, number, number, (batch,))).error_code == 0
        settle(lambda: len(client.records().get(key, ())) == 1, "the log is not pruned")
        (snapshot,) = client.records()[key]
    assert isinstance(snapshot, ShareSnapshotValue)
    assert snapshot.write_timestamp - snapshot.create_timestamp >= 1_500
    snapshot.create_timestamp = snapshot.write_timestamp = 0
    return str(snapshot)
