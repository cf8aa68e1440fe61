"""Wall clocks that were briefly wrong: our quorum elects as usual, and a Kafka voter does not.

Timers of Kafka's raft read the wall clock and never run backwards: after a clock is set back, no timer expires until
the clock has caught up. Such a voter keeps a hung leader for that time (docs/history.md).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from barnabas.clients.admin.errors import AdminError
from barnabas.clients.errors import ClientError
from tests.history.cluster import Cluster, ClusterNode, Kind
from tests.history.hangs import active_controller

pytestmark = [
    pytest.mark.interop,
    pytest.mark.long,
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]

AHEAD_S = 120
HANG_S = 30


@contextmanager
def cluster_with_clocks(folder: Path, *controllers: Kind) -> Iterator[Cluster]:
    cluster = Cluster(folder, (("ours",), controllers))
    try:
        if not cluster.give_clocks():
            pytest.skip("clocks of processes can't be moved here: no C compiler")
        cluster.format()
        cluster.start()
        yield cluster
    finally:
        cluster.end()


def set_ahead_and_back(nodes: list[ClusterNode]) -> None:
    for offset_s in (AHEAD_S, 0):
        for node in nodes:
            assert node.clock is not None
            node.clock.set_offset(offset_s)
        time.sleep(1.6)


def successor(cluster: Cluster, hung: ClusterNode) -> ClusterNode | None:
    """Return the controller that is elected while this one hangs, or None if no election happens in half a minute."""
    hung.freeze()
    try:
        deadline = time.monotonic() + HANG_S
        while time.monotonic() < deadline:
            try:
                if (found := active_controller(cluster)) is not hung:
                    return found
            except (AdminError, ClientError):
                pass  # No leader is known.
            time.sleep(0.1)
        return None
    finally:
        hung.thaw()


def test_a_quorum_of_ours_elects_after_clocks_were_set_back(tmp_path: Path) -> None:
    with cluster_with_clocks(tmp_path, "ours", "ours", "ours") as cluster:
        set_ahead_and_back(cluster.controllers)
        assert successor(cluster, active_controller(cluster)) is not None


def test_a_kafka_voter_keeps_a_hung_leader_until_its_clock_catches_up(tmp_path: Path, kafka_peer: Path) -> None:
    with cluster_with_clocks(tmp_path, "kafka", "ours", "ours") as cluster:
        active = active_controller(cluster)
        while active.kind == "kafka":
            assert successor(cluster, active) is not None
            active = active_controller(cluster)
        set_ahead_and_back(cluster.controllers)
        assert successor(cluster, active) is None
