"""Three nodes, each broker and controller; the files of one are damaged while the other two run on. The damaged node
keeps its data as long as it is sound. After a cell in which it was not, its directory is restored to the state in which
the node ended, as an operator would undo a mistake.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from barnabas.cli.storage.command import random_uuid
from tests.storage_faults.content import (
    ACLS,
    COMMITTED,
    GROUP,
    TOPIC_CONFIGS,
    produce_all,
    wait_for_directories,
    write_transactions,
)
from tests.storage_faults.nodes import Node
from tests.storage_faults.probe import NodeClient
from tests.storage_faults.scene import START_S, Ended, Kind, Scene
from tests.storage_faults.verdicts import Cell, is_named

__all__ = ["Three"]

_FORMATTED = ("bootstrap.checkpoint", "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint")
"""Files that only formatting writes, and that are the same on all three nodes."""
_BACK_S = 40
"""The time in which the damaged node must be in sync again."""


class Three(Scene):
    replicas = (1, 2, 3)

    def __init__(self, kind: Kind, folder: Path, *, ended: Ended) -> None:
        super().__init__(kind, folder, ended=ended)
        ports = {number: self.new_ports() for number in self.replicas}
        self._servers = ",".join(f"127.0.0.1:{controller}" for _, controller in ports.values())
        hosts = {number: self.new_host(f"host-{number}", feels_no_space=number == 1) for number in self.replicas}
        self._nodes = {
            number: self.new_node(folder / f"node-{number}", number, ports[number], self._servers, hosts[number])
            for number in self.replicas
        }
        self._voters = ",".join(
            f"{number}@127.0.0.1:{controller}:{random_uuid()}" for number, (_, controller) in ports.items()
        )
        self._topics: Sequence[str] = ()

    def more_settings(self) -> Mapping[str, str]:
        return {
            "broker.session.timeout.ms": "6000",
            "broker.heartbeat.interval.ms": "500",
            "min.insync.replicas": "1",
            "default.replication.factor": "3",
            "auto.leader.rebalance.enable": "false",
            "initial.broker.registration.timeout.ms": "300000",
        }

    def make(self, topics: Sequence[str]) -> None:
        """The second time, only some of the topics are needed."""
        if self._topics:
            client = NodeClient(self._nodes[2].port)
            client.delete_topics([topic for topic in self._topics if topic not in topics])
            client.close()
            self._topics = topics
            return
        self._topics = topics
        cluster_id = str(random_uuid())
        for node in self._nodes.values():
            self.format(node, cluster_id, "--initial-controllers", self._voters)
        self._start_all()
        client = NodeClient(self._nodes[1].port)
        client.create_topics(topics, TOPIC_CONFIGS, self.replicas)
        client.create_acls(ACLS)
        client.close()
        self._await_in_sync(topics)
        self._lead_by_the_first(topics)
        client = NodeClient(self._nodes[1].port)
        produce_all(client, topics)
        client.commit(GROUP, "kept", COMMITTED)
        client.close()
        for node in self._nodes.values():
            wait_for_directories(node.data, topics)
        for node in self._nodes.values():
            node.stop()
        for node in self._nodes.values():
            write_transactions(node.data, topics)
        self._start_all()
        self._await_in_sync(topics)

    def _start_all(self) -> None:
        """A node is ready when a majority runs, so all are launched before waiting for one."""
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(3) as pool:
            outcomes = list(pool.map(lambda node: node.start(timeout_s=START_S), self._nodes.values()))
        assert outcomes == ["up"] * 3, "\n".join(node.printed()[-2000:] for node in self._nodes.values())

    def begin_try(self) -> Node:
        node = self._nodes[1]
        time.sleep(1.5)  # The checkpoints are written each second.
        node.stop() if self.ended == "cleanly" else node.kill()
        for path in _FORMATTED:
            if not (node.data / path).exists():  # An earlier try removed it, and the node does not need it.
                shutil.copy(self._nodes[2].data / path, node.data / path)
        backup = self.folder / "backup"
        shutil.rmtree(backup, ignore_errors=True)
        shutil.copytree(node.data, backup)
        return node

    def other_data(self) -> Path:
        return self._nodes[2].data

    def end_try(self, node: Node, cells: Mapping[str, Cell]) -> None:
        is_sound = node.is_running and all(cell.verdict in ("kept", "-") for cell in cells.values())
        if is_sound:
            return
        node.end()
        if cells:
            shutil.rmtree(node.data)
            shutil.copytree(self.folder / "backup", node.data)
        assert node.start(timeout_s=START_S) == "up", node.printed()[-4000:]
        self._await_in_sync(self._topics)

    def await_service(self, node: Node, topics: Sequence[str]) -> Cell | None:
        """Wait until the node is in sync and leads again. If it does not return, the data of the others counts."""
        deadline = time.monotonic() + _BACK_S
        waiting = set(topics)
        while waiting and node.is_running and time.monotonic() < deadline:
            waiting -= self._in_sync(topics)
            time.sleep(0.1)
        if not waiting and node.is_running:
            self._lead_by_the_first(topics)
        return None

    def _judge_topic(self, node: Node, topic: str, path: Path) -> Cell:
        """Read from the node, if it leads again, and then from the current leader, as a client that retries."""
        cell = None
        if node.is_running and self._leader(topic) == 1:
            cell = super()._judge_topic(node, topic, path)
            if cell.verdict in ("kept", "wrong", "traceback"):
                return cell
        kept = self.without_the_node(topic)
        if kept.verdict != "kept":
            return kept
        if not node.is_running:
            return self._ended(node, path)
        if cell is not None and self._comes_back(topic):
            return super()._judge_topic(node, topic, path)
        return Cell("refused" if is_named(path, node.printed()) else "unnamed", "the node does not lead again")

    def _comes_back(self, topic: str) -> bool:
        """The node noticed the damage on a read, and copies the lost data."""
        deadline = time.monotonic() + _BACK_S
        while time.monotonic() < deadline:
            if self._in_sync([topic]):
                self._lead_by_the_first([topic])
                return True
            time.sleep(0.1)
        return False

    def without_the_node(self, topic: str) -> Cell:
        """As soon as a broker leads, it serves everything; a client retries."""
        deadline = time.monotonic() + 20
        cell = Cell("lost, silent", "never tried")
        while time.monotonic() < deadline:
            leader = self._leader(topic)
            cell = Cell("lost, silent", f"the others have no leader of {topic}")
            if leader in (2, 3) or (leader == 1 and self._nodes[1].is_running):
                cell = self._judge_port(self._nodes[leader].port, topic, False)
                if cell.verdict == "kept":
                    break
            time.sleep(0.2)
        return cell

    # --- the cluster, as its second node shows it

    def _partitions(self, topics: Sequence[str]) -> dict[str, tuple[int, frozenset[int]]]:
        client = NodeClient(self._nodes[2].port)
        try:
            return client.partitions(topics)
        finally:
            client.close()

    def _in_sync(self, topics: Sequence[str]) -> set[str]:
        return {name for name, (_, isr) in self._partitions(topics).items() if isr == {1, 2, 3}}

    def _leader(self, topic: str) -> int:
        return self._partitions([topic]).get(topic, (-1, frozenset()))[0]

    def _await_in_sync(self, topics: Sequence[str]) -> None:
        deadline = time.monotonic() + START_S
        while missing := set(topics) - self._in_sync(topics):
            assert time.monotonic() < deadline, f"not in sync: {sorted(missing)}"
            time.sleep(0.1)

    def _lead_by_the_first(self, topics: Sequence[str]) -> None:
        client = NodeClient(self._nodes[2].port)
        client.elect_preferred()
        client.close()
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            if all(leader == 1 for leader, _ in self._partitions(topics).values()):
                return
            time.sleep(0.1)

    def close(self) -> None:
        for node in self._nodes.values():
            node.kill()
        super().close()
