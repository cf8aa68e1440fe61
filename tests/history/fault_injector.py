"""Applies the faults of a plan to running processes, and reverts them."""

from __future__ import annotations

import math
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace

from barnabas.clients.admin import AdminError, SyncAdminClient
from barnabas.clients.admin.replicas import ElectionType
from barnabas.clients.errors import ClientError
from barnabas.common.topic_partition import TopicPartition
from barnabas.testing.link_proxy import CLIENT
from tests.history.cluster import Cluster, ClusterNode
from tests.history.faults import Direction, Fault, FaultKind, Role
from tests.history.hang_check import Impairment

__all__ = ["FaultInjector"]


class FaultInjector:
    """Runs one thread for each track. ``log`` lists the faults that were injected, with their times. ``topics``: the
    numbers of partitions, whose leaders hang and whose replicas move."""

    def __init__(self, cluster: Cluster, topics: Mapping[str, int], *, seed: int) -> None:
        self._cluster = cluster
        self._partitions = [TopicPartition(topic, number) for topic, count in topics.items() for number in range(count)]
        self._rng = random.Random(f"{seed} replicas")
        self._began_s = time.monotonic()
        self._locks = {node.name: threading.RLock() for node in cluster.nodes}
        self.counts: Counter[str] = Counter()
        self.log: list[str] = []
        self.impairments: list[Impairment] = []
        self.latest_s = 0.0
        """The largest delay of a fault after its planned time: the faults before it took longer than planned."""
        self.crash: BaseException | None = None

    def run(self, tracks: list[list[Fault]], lasts_s: float) -> None:
        """Run until all faults have ended, or the remaining ones would begin after ``lasts_s``. Raise the error that
        stopped a track, such as a node that fails to start.
        """
        self._began_s = time.monotonic()
        threads = [threading.Thread(target=self._run_track, args=(track, lasts_s), daemon=True) for track in tracks]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self.crash is not None:
            raise self.crash

    def _run_track(self, track: list[Fault], lasts_s: float) -> None:
        """A fault that takes longer than planned delays those after it, so that the cluster has the planned rest."""
        late_s = 0.0
        try:
            for number, fault in enumerate(track):
                begins_s = fault.begins_s + late_s
                if begins_s > lasts_s:
                    self.counts["left out for want of time"] += len(track) - number
                    return
                time.sleep(max(0.0, begins_s - self._elapsed_s()))
                if self.crash is not None:
                    return
                self._do(fault)
                late_s = max(0.0, self._elapsed_s() - fault.begins_s - fault.lasts_s)
        except BaseException as error:
            self.crash = error
        finally:
            self.latest_s = max(self.latest_s, late_s)

    def _elapsed_s(self) -> float:
        return time.monotonic() - self._began_s

    def _do(self, fault: Fault) -> None:
        """Inject the fault into the nodes that it names, or into the node that now has the role that it names."""
        if fault.role is not None:
            fault = replace(fault, nodes=(self._holder(fault.role, fault.nodes[0]),))
        self.log.append(f"{time.monotonic() - self._began_s:7.1f} s {fault} {' '.join(fault.nodes)}")
        self.counts[fault.kind.name] += 1
        began_s, place = time.monotonic(), len(self.impairments)
        nodes = _disturbed(fault)
        self.impairments.append(Impairment(nodes, began_s, math.inf))
        try:
            self._act(fault)
        finally:
            self.impairments[place] = Impairment(nodes, began_s, time.monotonic())

    def _act(self, fault: Fault) -> None:
        match fault.kind:
            case FaultKind.KILL | FaultKind.KILL_TWO:
                self._take_down(fault, orderly=False)
            case FaultKind.STOP:
                self._take_down(fault, orderly=True)
            case FaultKind.FREEZE | FaultKind.HANG:
                self._freeze(fault)
            case FaultKind.CUT | FaultKind.ISOLATE | FaultKind.DEAFEN:
                self._cut(fault)
            case FaultKind.DROP:
                self._drop(fault)
            case FaultKind.FULL_DISK:
                self._fill_disk(fault)
            case FaultKind.CLOCK:
                self._set_clock(fault)
            case FaultKind.LEADERS:
                self._elect()
            case FaultKind.REASSIGN:
                self._reassign(fault)

    def _holder(self, role: Role, otherwise: str) -> str:
        """Return the node with the role, as reported by a broker that answers, or ``otherwise`` while none answers."""
        try:
            with SyncAdminClient(self._cluster.bootstrap_servers) as admin:
                if role is Role.CONTROLLER:
                    return f"controller-{admin.describe_quorum(timeout_s=3).leader_id}"
                place = self._rng.choice(self._partitions)
                partition = admin.describe_topics([place.topic], timeout_s=3)[place.topic].partitions[place.partition]
        except (AdminError, ClientError):
            return otherwise
        if role is Role.LEADER:
            return otherwise if partition.leader is None else f"broker-{partition.leader}"
        followers = [broker for broker in partition.replicas if broker != partition.leader]
        return f"broker-{self._rng.choice(followers)}" if followers else otherwise

    def _drop(self, fault: Fault) -> None:
        links = self._dropped_links(fault)
        for source, destination in links:
            self._cluster.proxy.drop(source, destination)
        time.sleep(fault.lasts_s)
        for source, destination in links:
            self._cluster.proxy.heal(source, destination, resets=fault.resets)

    def _dropped_links(self, fault: Fault) -> list[tuple[str, str]]:
        (node,) = fault.nodes
        others = [other.name for other in self._cluster.nodes if other.name != node] + [CLIENT]
        sent = [(node, other) for other in others] if fault.direction is not Direction.RECEIVED else []
        received = [(other, node) for other in others] if fault.direction is not Direction.SENT else []
        return [*sent, *received]

    def _take_down(self, fault: Fault, *, orderly: bool) -> None:
        nodes = [self._cluster.node(name) for name in fault.nodes]
        with self._alone(nodes):
            for node in nodes:
                if orderly and node.is_running:
                    self._stop(node)
                else:
                    node.kill()
            time.sleep(fault.lasts_s)
            for node in nodes:
                node.launch()
        for node in nodes:
            with self._alone([node]):
                self.bring_up(node)

    def _stop(self, node: ClusterNode) -> None:
        """Stop a node. A node that receives no answers may take arbitrarily long to leave; it is then killed, as an
        operator would do."""
        try:
            node.stop(timeout_s=20)
        except AssertionError:
            self.counts["STOP ended with a kill"] += 1

    def bring_up(self, node: ClusterNode) -> None:
        """Wait for the node, and start it again if it exited, as it may with a full disk."""
        if not node.is_running:
            node.kill()
            node.launch()
        if node.role == "broker":
            with suppress(AssertionError):
                node.wait_until_ready(timeout_s=30)

    def _freeze(self, fault: Fault) -> None:
        node = self._cluster.node(fault.nodes[0])
        with self._alone([node]):
            if not node.is_running:
                return
            node.freeze()
            time.sleep(fault.lasts_s)
            node.thaw()

    def _cut(self, fault: Fault) -> None:
        links = self._links(fault)
        for source, destination in links:
            self._cluster.proxy.cut(source, destination)
        time.sleep(fault.lasts_s)
        for source, destination in links:
            self._cluster.proxy.heal(source, destination, resets=fault.resets)

    def _links(self, fault: Fault) -> list[tuple[str, str]]:
        if fault.kind is FaultKind.CUT:
            source, destination = fault.nodes
            return [(source, destination)]
        (name,) = fault.nodes
        others = [node.name for node in self._cluster.nodes if node.name != name] + [CLIENT]
        if fault.kind is FaultKind.ISOLATE:
            return [(name, other) for other in others]
        return [(other, name) for other in others]

    def _fill_disk(self, fault: Fault) -> None:
        """A failed log directory stays failed until its node restarts."""
        node = self._cluster.node(fault.nodes[0])
        assert node.disk is not None
        node.disk.fill()
        time.sleep(fault.lasts_s)
        node.disk.free()
        with self._alone([node]):
            if not node.is_running:
                self.counts["FULL_DISK ended the node"] += 1
            node.kill()
            self.bring_up(node)

    def _set_clock(self, fault: Fault) -> None:
        node = self._cluster.node(fault.nodes[0])
        assert node.clock is not None
        node.clock.set_offset(fault.jump_s)
        time.sleep(fault.lasts_s)
        node.clock.set_offset(0)

    def _elect(self) -> None:
        with suppress(AdminError, ClientError), SyncAdminClient(self._cluster.bootstrap_servers) as admin:
            admin.elect_leaders(ElectionType.PREFERRED, timeout_s=5)

    def _reassign(self, fault: Fault) -> None:
        """Move replicas to two brokers, or to three in another order, and finally to three again."""
        partition = self._rng.choice(self._partitions)
        for count in (self._rng.choice([2, 3]), 3):
            brokers = [broker.node_id for broker in self._cluster.brokers]
            wanted = self._rng.sample(brokers, count)
            try:
                with SyncAdminClient(self._cluster.bootstrap_servers) as admin:
                    admin.alter_partition_reassignments({partition: wanted}, timeout_s=5).raise_for_errors()
            except (AdminError, ClientError):
                self.counts["REASSIGN not answered"] += 1
            time.sleep(fault.lasts_s / 2)

    def give_back_replicas(self) -> None:
        """Move every partition of the topics back to all brokers, even if the move back was not acknowledged."""
        brokers = [broker.node_id for broker in self._cluster.brokers]
        wanted = dict.fromkeys(self._partitions, brokers)
        with suppress(AdminError, ClientError), SyncAdminClient(self._cluster.bootstrap_servers) as admin:
            admin.alter_partition_reassignments(wanted, timeout_s=10)

    @contextmanager
    def _alone(self, nodes: list[ClusterNode]) -> Iterator[None]:
        """The tracks never start, stop or freeze a node concurrently."""
        with ExitStack() as held:
            for name in sorted(node.name for node in nodes):
                held.enter_context(self._locks[name])
            yield


def _disturbed(fault: Fault) -> tuple[str, ...]:
    """A jump of the wall clock excuses nothing; moving replicas count as one more disturbance."""
    if fault.kind is FaultKind.CLOCK:
        return ()
    return fault.nodes or ("replicas",)
