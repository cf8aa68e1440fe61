"""One controller of ours and two of Kafka's vote in one quorum.

Either kind leads, either kind fetches the other's snapshot, and the logs are equal byte for byte.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import pytest

from barnabas.clients.admin import NewTopic, SyncAdminClient
from barnabas.protocol.record_batch import iter_batches
from tests.interop.test_quorum import elected, leader_of, quorum_seen_by
from tests.peers import require_peer
from tests.peers.quorums import (
    ControllerNode,
    OurBroker,
    OurController,
    Quorum,
    RealController,
    barnabas,
    running_quorum,
    wait_until,
)

pytestmark = pytest.mark.interop

SNAPSHOTS = {"metadata.log.max.record.bytes.between.snapshots": "6000", "metadata.max.idle.interval.ms": "100"}

TOPICS = 30


@pytest.fixture(scope="module")
def quorum(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Quorum]:
    require_peer()
    kinds = (OurController, RealController, RealController)
    with running_quorum(tmp_path_factory.mktemp("mixed"), kinds, settings=SNAPSHOTS) as running:
        yield running


def high_watermark(leader: ControllerNode) -> int:
    seen = quorum_seen_by(leader)
    return -1 if seen is None else seen.high_watermark


def wait_for_all(quorum: Quorum) -> None:
    """Wait until every voter has all records that are committed now."""
    leader = elected(quorum)
    end = high_watermark(leader)

    def have_it() -> bool:
        seen = quorum_seen_by(leader)
        return seen is not None and all(voter.log_end_offset >= end for voter in seen.current_voters)

    wait_until(have_it, what="every voter's catching up", timeout_s=30)


def hand_over(quorum: Quorum, leader: ControllerNode) -> ControllerNode:
    """Stop and start the leader. Return the controller that leads afterwards."""
    assert leader.stop() == 0
    wait_until(lambda: leader_of(quorum) is not None, what="another leader")
    leader.launch()
    wait_for_all(quorum)
    return elected(quorum)


def let_lead(quorum: Quorum, chosen: ControllerNode, *, leader: ControllerNode, wiped: ControllerNode) -> None:
    """The leader dies, and only ``chosen`` has the last committed records; the third has lost its disk, and votes."""
    wiped.kill()
    before = high_watermark(leader)
    wait_until(lambda: high_watermark(leader) > before + 1, what="a commit without the third voter")
    leader.kill()
    quorum.wipe(wiped)
    wiped.launch()
    wait_until(lambda: leader_of(quorum) is chosen, what=f"the election of {chosen.node_id}", timeout_s=30)
    wait_until(lambda: bool(snapshots(wiped)), what=f"a snapshot of {chosen.node_id}'s")
    leader.launch()


def log_folder(controller: ControllerNode) -> Path:
    return controller.folder / "data" / "__cluster_metadata-0"


def snapshots(controller: ControllerNode) -> dict[str, bytes]:
    """Return the snapshots created since the quorum was formatted."""
    return {
        path.name: path.read_bytes()
        for path in log_folder(controller).glob("*.checkpoint")
        if not path.name.startswith(f"{0:020}-")
    }


def oldest_snapshot(controller: ControllerNode) -> tuple[str, bytes]:
    """Return the snapshot that was fetched after the loss of the disk."""
    return min(snapshots(controller).items())


def batches(controller: ControllerNode) -> dict[int, bytes]:
    return {
        batch.base_offset: bytes(batch.tobytes())
        for path in sorted(log_folder(controller).glob("*.log"))
        for batch in iter_batches(path.read_bytes())
    }


def fill(quorum: Quorum, folder: Path) -> None:
    """Write enough records for a snapshot on every voter."""
    broker = OurBroker(folder, quorum)
    broker.start()
    try:
        with SyncAdminClient(broker.bootstrap_servers) as admin:
            names = [f"topic-{i}" for i in range(TOPICS)]
            admin.create_topics([NewTopic(name, partitions=3, replication_factor=1) for name in names])
            assert {topic.name for topic in admin.list_topics()} >= set(names)
        assert broker.stop() == 0
    finally:
        broker.kill()
    wait_until(
        lambda: all(snapshots(controller) for controller in quorum.controllers), what="a snapshot on every voter"
    )


def test_leadership_snapshots_and_logs_are_exchanged_both_ways(quorum: Quorum, tmp_path: Path) -> None:
    ours, *real = quorum.controllers
    fill(quorum, tmp_path / "broker")
    for controller in quorum.controllers:
        shown = barnabas("shell", "--bootstrap-controller", controller.address, "ls", "/image/topics/byName")
        assert len(shown.split()) == TOPICS
    leader = elected(quorum)
    if leader is ours:
        leader = hand_over(quorum, leader)
    other = next(controller for controller in real if controller is not leader)

    let_lead(quorum, ours, leader=leader, wiped=other)
    name, data = oldest_snapshot(other)
    assert snapshots(ours)[name] == data

    ours.kill()
    wait_until(lambda: leader_of(quorum) in real, what="the election of a real controller", timeout_s=30)
    quorum.wipe(ours)
    ours.launch()
    wait_until(lambda: bool(snapshots(ours)), what="a real controller's snapshot")
    name, data = oldest_snapshot(ours)
    leader = elected(quorum)
    assert snapshots(leader)[name] == data
    end = high_watermark(leader)
    wait_until(lambda: high_watermark(leader) > end + 12, what="a dozen commits that all three have")
    wait_for_all(quorum)

    for controller in quorum.controllers:
        controller.stop()
    logs = [batches(controller) for controller in quorum.controllers]
    for first, second in combinations(logs, 2):
        common = first.keys() & second.keys()
        assert len(common) > 8
        assert all(first[offset] == second[offset] for offset in common)
