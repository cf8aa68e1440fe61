"""A node hangs while clients write: SIGSTOP, or a network that drops what it sends, what it receives, or both.

``python -m tests.history.hangs --seconds 20`` applies every kind of hang once to the active controller, to a
partition's leader and to a follower. It reports violations of these guarantees:

* No broker is fenced that did not hang itself.
* No partition is without an acknowledgement for longer than the session timeout plus one second. A broker that receives
  nothing can still send: the controller counts its session from the next heartbeat, which adds the heartbeat interval.
* No acknowledged record is lost, no record is doubled, all replicas end up equal.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from barnabas.clients.admin import AdminError, SyncAdminClient
from barnabas.clients.admin.replicas import ElectionType
from barnabas.clients.errors import ClientError
from barnabas.testing.link_proxy import CLIENT
from tests.history.clients import HistoryProducer, HistoryReader, final_read
from tests.history.cluster import KINDS, Cluster, ClusterNode, running_cluster
from tests.history.metadata_watch import Fencing, MetadataWatch
from tests.history.records_check import RecordsCheck
from tests.history.stall_probe import Stall, StallProbe, longest
from tests.history.story import check_equal_logs, create_replicated, leader, wait_for_replicas
from tests.peers.quorums import wait_until

__all__ = [
    "SESSION_S",
    "SETTINGS",
    "STALL_SLACK_S",
    "Hang",
    "HangStory",
    "Outcome",
    "Target",
    "Way",
    "active_controller",
    "hung",
]

TOPIC = "hangs"
ASSIGNMENTS = [[1, 2, 3], [2, 1, 3]]
"""Broker 3 leads nothing of the topic."""
SESSION_S = 9.0
"""Kafka's default, and ours."""
STALL_SLACK_S = 1.0
HEARTBEAT_S = 2.0
SETTINGS = {
    "broker.session.timeout.ms": str(int(SESSION_S * 1000)),
    "broker.heartbeat.interval.ms": str(int(HEARTBEAT_S * 1000)),
    "replica.lag.time.max.ms": "30000",
}
_HEALTHY_WITHIN_S = 60.0


class Target(StrEnum):
    CONTROLLER = "the active controller"
    LEADER = "a partition's leader"
    FOLLOWER = "a follower"


class Way(StrEnum):
    STOP = "SIGSTOP"
    DROP = "drops what it sends and receives"
    DROP_SENT = "drops what it sends"
    DROP_RECEIVED = "drops what it receives"


@dataclass(frozen=True, slots=True)
class Hang:
    target: Target
    way: Way
    lasts_s: float

    def __str__(self) -> str:
        return f"{self.target.name} {self.way.name} {self.lasts_s:.0f} s"


@dataclass(slots=True)
class Outcome:
    hang: Hang
    node: str
    fencings: list[Fencing] = field(default_factory=list)
    stalls: list[Stall] = field(default_factory=list)
    healthy_after_s: float = 0.0

    def broken(self, session_s: float) -> list[str]:
        """The guarantees that were violated."""
        limit_s = session_s + STALL_SLACK_S
        if self.hang.way is Way.DROP_RECEIVED:
            limit_s += HEARTBEAT_S
        others = [fencing for fencing in self.fencings if f"broker-{fencing.broker_id}" != self.node]
        late = [stall for stall in self.stalls if stall.lasted_s > limit_s]
        return [f"{self.hang} ({self.node}): {what}" for what in (*others, *late)]

    def __str__(self) -> str:
        fenced = sorted(fencing.broker_id for fencing in self.fencings)
        return (
            f"{self.hang!s:28} {self.node:16} fenced {fenced!s:10} longest stall {longest(self.stalls):5.1f} s,"
            f" healthy {self.healthy_after_s:4.1f} s after it"
        )


def active_controller(cluster: Cluster) -> ClusterNode:
    """Return the node with the role, as the brokers report it. Raise AdminError or ClientError while none is known."""
    with SyncAdminClient(cluster.bootstrap_servers) as admin:
        return cluster.node(f"controller-{admin.describe_quorum().leader_id}")


@contextmanager
def hung(cluster: Cluster, node: ClusterNode, way: Way) -> Iterator[None]:
    """Make ``node`` hang in this way for the duration of the block."""
    if way is Way.STOP:
        node.freeze()
        try:
            yield
        finally:
            node.thaw()
        return
    others = [other.name for other in cluster.nodes if other is not node] + [CLIENT]
    sent = [(node.name, other) for other in others] if way is not Way.DROP_RECEIVED else []
    received = [(other, node.name) for other in others] if way is not Way.DROP_SENT else []
    for source, destination in (*sent, *received):
        cluster.proxy.drop(source, destination)
    try:
        yield
    finally:
        for source, destination in (*sent, *received):
            cluster.proxy.heal(source, destination, resets=False)


class HangStory:
    """Runs hangs one after the other in one cluster under load. ``outcomes`` holds the result of each."""

    def __init__(self, cluster: Cluster, *, rate: int = 200, say: Callable[[str], None] = lambda text: None) -> None:
        self._cluster, self._say = cluster, say
        self._records = RecordsCheck()
        servers, count = cluster.bootstrap_servers, len(ASSIGNMENTS)
        self._probe = StallProbe(servers, TOPIC, count, self._records, name="probe")
        self._producer = HistoryProducer(servers, TOPIC, count, self._records, name="producer", rate=rate, seed=1)
        self._reader = HistoryReader(servers, TOPIC, count, self._records, name="reader", seed=1, jumps=False)
        self.outcomes: list[Outcome] = []

    def run(self, hangs: Sequence[Hang]) -> None:
        create_replicated(self._cluster, TOPIC, ASSIGNMENTS)
        clients = [self._probe, self._producer, self._reader]
        with MetadataWatch([controller.data for controller in self._cluster.controllers]) as watch:
            for client in clients:
                client.start()
            wait_until(lambda: self._probe.counts["acknowledged"] > 20, what="acknowledgements", timeout_s=60)
            for hang in hangs:
                self.outcomes.append(self._hang(hang, watch))
                self._say(str(self.outcomes[-1]))
            for client in clients:
                client.ask_to_stop()
            for client in clients:
                client.stop()

    def broken(self, session_s: float = SESSION_S) -> list[str]:
        """Return every violated guarantee; the brokers are stopped to compare their logs."""
        final_read(self._cluster.bootstrap_servers, TOPIC, range(len(ASSIGNMENTS)), self._records, timeout_s=30)
        found = [str(violation) for violation in self._records.violations()]
        check_equal_logs(self._cluster, [TOPIC])
        return [*(what for outcome in self.outcomes for what in outcome.broken(session_s)), *found]

    def _hang(self, hang: Hang, watch: MetadataWatch) -> Outcome:
        self._settle()
        node = self._node(hang.target)
        began_s, stall_count = time.monotonic(), len(self._probe.stalls)
        with hung(self._cluster, node, hang.way):
            time.sleep(hang.lasts_s)
        ended_s = time.monotonic()
        wait_until(self._is_healthy, what=f"health after {hang}", timeout_s=_HEALTHY_WITHIN_S)
        wait_until(
            lambda: min(self._probe.acknowledged_s) > ended_s, what=f"records after {hang}", timeout_s=_HEALTHY_WITHIN_S
        )
        healthy_after_s = time.monotonic() - ended_s
        time.sleep(1.5)  # A fencing counts when it is on disk.
        return Outcome(
            hang,
            node.name,
            [fencing for fencing in watch.fencings() if fencing.seen_s >= began_s],
            [stall for stall in self._probe.stalls[stall_count:] if stall.to_s > began_s],
            healthy_after_s,
        )

    def _settle(self) -> None:
        """Wait until preferred leaders lead and every replica is in sync, then for a quiet period."""
        wait_until(self._is_healthy, what="health", timeout_s=_HEALTHY_WITHIN_S)

        def elected() -> bool:
            try:
                with SyncAdminClient(self._cluster.bootstrap_servers) as admin:
                    admin.elect_leaders(ElectionType.PREFERRED, timeout_s=5)
                return [leader(self._cluster, TOPIC, partition).node_id for partition in range(2)] == [1, 2]
            except (AdminError, ClientError):
                return False

        wait_until(elected, what="the preferred leaders", timeout_s=_HEALTHY_WITHIN_S)
        time.sleep(3)

    def _is_healthy(self) -> bool:
        try:
            wait_for_replicas(self._cluster, [TOPIC], timeout_s=5)
            active_controller(self._cluster)
        except (AdminError, ClientError, AssertionError):
            return False
        return True

    def _node(self, target: Target) -> ClusterNode:
        if target is Target.CONTROLLER:
            return active_controller(self._cluster)
        return self._cluster.brokers[0 if target is Target.LEADER else 2]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.history.hangs", description=__doc__)
    parser.add_argument("--kind", choices=KINDS, default="ours")
    parser.add_argument("--seconds", type=float, nargs="+", default=[20.0], help="how long each hang lasts")
    parser.add_argument("--target", nargs="+", choices=[target.name for target in Target], default=None)
    parser.add_argument("--way", nargs="+", choices=[way.name for way in Way], default=None)
    parser.add_argument("--session", type=float, default=SESSION_S, help="broker.session.timeout.ms, in seconds")
    parser.add_argument("--data", type=Path, default=None, help="a new folder for logs and data, which is kept")
    given = parser.parse_args()
    folder = given.data or Path(tempfile.mkdtemp(prefix="barnabas-hangs-"))
    folder.mkdir(parents=True, exist_ok=True)
    print(f"logs of the nodes: {folder}", flush=True)
    hangs = [
        Hang(Target[target], Way[way], seconds)
        for seconds in given.seconds
        for target in given.target or Target.__members__
        for way in given.way or Way.__members__
    ]
    settings = {**SETTINGS, "broker.session.timeout.ms": str(int(given.session * 1000))}
    with running_cluster(folder, KINDS[given.kind], settings=settings) as cluster:
        story = HangStory(cluster, say=lambda text: print(text, flush=True))
        story.run(hangs)
        broken = story.broken(given.session)
    print("\n".join([*broken, f"{len(broken)} guarantees violated"]))
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
