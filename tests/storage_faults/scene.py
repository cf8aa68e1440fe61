"""The common part of the two scenes, one node and three nodes: nodes of a kind, faults, and the verdict of a cell. A
changed content stays while the node runs. A fault of the environment ends: the node is used under it, stopped, and
started again without it, and the verdict is the worse of the two.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

from tests.peers.node_process import free_ports
from tests.peers.quorums import barnabas
from tests.storage_faults.content import (
    ACLS,
    COMMITTED,
    COUNT,
    FEW_TOPICS,
    GROUP,
    GROUPS,
    NODE_FILES,
    PARTITION_FILES,
    all_topics,
    expected_records,
    node_file,
    partition_file,
    topic_of,
)
from tests.storage_faults.faults import ALL_FAULTS, FAULTS, SURROUNDINGS, damage, surroundings
from tests.storage_faults.no_space import NoSpace
from tests.storage_faults.nodes import KafkaHost, Node, NodeOfKafka, NodeOfOurs, OurHost
from tests.storage_faults.probe import NodeClient
from tests.storage_faults.verdicts import Cell, is_named, judge_records, last_line, worst

__all__ = ["Ended", "Kind", "Scene", "Wanted"]

Kind = Literal["barnabas", "kafka"]
Ended = Literal["cleanly", "by a kill"]
Wanted = Callable[[str, str], bool]
Host = KafkaHost | OurHost

START_S = 120
SETTINGS = {
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "log.flush.offset.checkpoint.interval.ms": "1000",
    "replica.high.watermark.checkpoint.interval.ms": "1000",
    "log.flush.start.offset.checkpoint.interval.ms": "1000",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "4",
}
_USE_COUNT = 25
"""More records than a segment holds: the log rolls, and each kind of file is written."""
_PROBLEMS = (OSError, AssertionError)


class Scene(ABC):
    """One test setup. The damaged node has the id 1."""

    replicas: tuple[int, ...]

    def __init__(self, kind: Kind, folder: Path, *, ended: Ended) -> None:
        self.kind = kind
        self.folder = folder
        self.ended = ended
        self.no_space = NoSpace.build(folder)
        self._hosts: list[Host] = []
        self.extra: dict[str, dict[int, bytes]] = {}
        """By topic and offset: records acknowledged after the content was created."""
        self.rules: set[tuple[str, int]] = set()

    def new_node(self, folder: Path, node_id: int, ports: tuple[int, int], servers: str, host: Host) -> Node:
        settings = {
            **SETTINGS,
            "node.id": str(node_id),
            "listeners": f"PLAINTEXT://127.0.0.1:{ports[0]},CONTROLLER://127.0.0.1:{ports[1]}",
            "controller.quorum.bootstrap.servers": servers,
            "offsets.topic.replication.factor": str(len(self.replicas)),
            **self.more_settings(),
        }
        if isinstance(host, OurHost):
            return NodeOfOurs(folder, settings, host)
        # Kafka writes its checkpoints only 30 s after the start, when the fault has ended.
        return NodeOfKafka(folder, {**settings, "log.initial.task.delay.ms": "500"}, host)

    def more_settings(self) -> Mapping[str, str]:
        return {}

    def new_host(self, name: str, *, feels_no_space: bool = True) -> Host:
        no_space = self.no_space if feels_no_space else None
        host = KafkaHost(self.folder / name, no_space) if self.kind == "kafka" else OurHost(no_space)
        self._hosts.append(host)
        return host

    def new_ports(self) -> tuple[int, int]:
        first, second = free_ports(2)
        return first, second

    @staticmethod
    def format(node: Node, cluster_id: str, *options: str) -> None:
        barnabas("storage", "format", "-t", cluster_id, "-c", str(node.properties), *options)

    # --- the parts of a scene

    @abstractmethod
    def make(self, topics: Sequence[str]) -> None:
        """Create the node's directory, with all content of these topics."""

    @abstractmethod
    def begin_try(self) -> Node:
        """Return a stopped node whose files may be damaged."""

    @abstractmethod
    def other_data(self) -> Path:
        """Return the directory of another node."""

    @abstractmethod
    def end_try(self, node: Node, cells: Mapping[str, Cell]) -> None:
        """Remove the leftovers of the try, or keep them if they are sound."""

    @abstractmethod
    def await_service(self, node: Node, topics: Sequence[str]) -> Cell | None:
        """Wait until the started node takes part. Return what is wrong otherwise."""

    @abstractmethod
    def without_the_node(self, topic: str) -> Cell:
        """Return what a client finds while the node does not run."""

    def close(self) -> None:
        for host in self._hosts:
            host.kill()

    # --- cells

    def cells(
        self, wanted: Wanted = lambda file, fault: True, *, of_partitions: bool = True, of_nodes: bool = True
    ) -> Iterator[tuple[str, Cell]]:
        """Yield the name ``file / fault`` and the cell of each pair."""
        groups = [[(file, fault) for file in group for fault in FAULTS if wanted(file, fault)] for group in GROUPS]
        if of_partitions and any(groups):
            self.make(all_topics())
            for group in groups:
                yield from self._partition_cells(group)
        kinds = [*(PARTITION_FILES if of_partitions else ()), *(NODE_FILES if of_nodes else ())]
        one_by_one = [
            (file, fault)
            for file in kinds
            for fault in (SURROUNDINGS if file in PARTITION_FILES else ALL_FAULTS)
            if wanted(file, fault)
        ]
        if one_by_one:
            self.make(FEW_TOPICS)
        for file, fault in one_by_one:
            try_one = self._surroundings_cell if fault in SURROUNDINGS else self._node_cell
            yield f"{file} / {fault}", try_one(file, fault)

    def _partition_cells(self, pending: list[tuple[str, str]]) -> Iterator[tuple[str, Cell]]:
        """Run all cells in one start. If that ends the node, run each half in a separate start."""
        found = self._try_together(pending) if pending else {}
        if found is not None:
            yield from found.items()
            return
        middle = len(pending) // 2
        yield from self._partition_cells(pending[:middle])
        yield from self._partition_cells(pending[middle:])

    def _try_together(self, wanted: list[tuple[str, str]]) -> dict[str, Cell] | None:
        """Return None if the node failed with more than one fault."""
        cells: dict[str, Cell] = {}
        node = self.begin_try()
        paths: dict[tuple[str, str], Path] = {}
        for file, fault in wanted:
            path = partition_file(node.data, topic_of(file, fault), file)
            if path is not None and damage(path, fault, partition_file(self.other_data(), "other", file)):
                paths[file, fault] = path
            else:
                cells[f"{file} / {fault}"] = Cell("-")
        problem = self._start(node, next(iter(paths.values())), [topic_of(*key) for key in paths]) if paths else None
        if problem is not None and len(paths) > 1:
            self.end_try(node, {"all": problem})
            return None
        for key, path in paths.items():
            cells[" / ".join(key)] = problem or self._judge_topic(node, topic_of(*key), path)
        self.end_try(node, cells)
        return cells

    def _node_cell(self, file: str, fault: str) -> Cell:
        node = self.begin_try()
        path = node_file(node.data, file)
        if path is None or not damage(path, fault, node_file(self.other_data(), file)):
            self.end_try(node, {})
            return Cell("-")
        cell = self._start(node, path, ["kept"]) or self._judge_all(node, path)
        self.end_try(node, {file: cell})
        return cell

    def _surroundings_cell(self, file: str, fault: str) -> Cell:
        node = self.begin_try()
        is_partition = file in PARTITION_FILES
        topic = topic_of(file, fault)
        path = partition_file(node.data, topic, file) if is_partition else node_file(node.data, file)
        if path is None:
            self.end_try(node, {})
            return Cell("-")
        with surroundings(path, fault, self.no_space) as is_possible:
            if not is_possible:
                self.end_try(node, {})
                return Cell("-", "this machine cannot cause it")
            cell = self._start(node, path, [topic])
            if cell is None:
                self._use(node, topic)
                cell = self._judge(node, topic, path, is_partition=is_partition)
            node.stop()
        healed = self._start(node, path, [topic]) or self._judge(node, topic, path, is_partition=is_partition)
        if healed.verdict not in ("kept", "-"):
            healed = Cell(healed.verdict, f"after the fault had ended: {healed.detail}")
        cell = worst((cell, healed))
        self.end_try(node, {file: healed})
        return cell

    def _use(self, node: Node, topic: str) -> None:
        """Write, and record acknowledged data in ``extra`` and ``rules``. Failures are expected."""
        with suppress(*_PROBLEMS):
            client = NodeClient(node.port)
            try:
                for number in range(_USE_COUNT):
                    written = b"%d later " % number + b"x" * 300
                    error, offset = client.try_produce([topic], [written])[topic]
                    if error:
                        break
                    self.extra.setdefault(topic, {})[offset] = written
                rule = ("User:later", 3)
                client.create_acls([rule])
                self.rules.add(rule)
            finally:
                client.close()
        time.sleep(1.5)  # The checkpoints are written each second.

    def _start(self, node: Node, path: Path, topics: Sequence[str]) -> Cell | None:
        outcome = node.start(timeout_s=START_S)
        if outcome == "hang":
            node.end()
            return Cell("hang", f"neither up nor ended after {START_S} s")
        if outcome == "ended":
            return worst((self._ended(node, path), self.without_the_node(topics[0])))
        try:
            problem = self.await_service(node, topics)
        except _PROBLEMS as error:
            problem = Cell("hang", str(error))
        if problem is not None and self._has_ended(node):
            return worst((self._ended(node, path), self.without_the_node(topics[0])))
        return problem

    def _has_ended(self, node: Node) -> bool:
        """Return whether the node ends, now that it has closed a connection."""
        deadline = time.monotonic() + 10
        while node.is_running and time.monotonic() < deadline:
            time.sleep(0.1)
        return not node.is_running

    def _ended(self, node: Node, path: Path) -> Cell:
        printed = node.printed()
        if self.kind == "barnabas" and "Traceback (most recent call last)" in printed:
            return Cell("traceback", last_line(printed))
        return Cell("refused" if is_named(path, printed) else "unnamed", "the node ends: " + last_line(printed))

    # --- verdicts

    def _judge(self, node: Node, topic: str, path: Path, *, is_partition: bool) -> Cell:
        return self._judge_topic(node, topic, path) if is_partition else self._judge_all(node, path)

    def expected(self, topic: str) -> dict[int, bytes]:
        return {**expected_records(topic), **self.extra.get(topic, {})}

    def _judge_topic(self, node: Node, topic: str, path: Path) -> Cell:
        try:
            cell = self._judge_port(node.port, topic, is_named(path, node.printed()))
        except _PROBLEMS as error:
            if self._has_ended(node):
                return worst((self._ended(node, path), self.without_the_node(topic)))
            return Cell("hang", f"{type(error).__name__}: {error}")
        printed = node.printed()
        if self.kind == "barnabas" and "Traceback (most recent call last)" in printed:
            return Cell("traceback", last_line(printed))
        return Cell("refused", cell.detail) if cell.verdict == "unnamed" and is_named(path, printed) else cell

    def _judge_port(self, port: int, topic: str, is_named: bool) -> Cell:
        client = NodeClient(port)
        try:
            expected = self.expected(topic)
            found = client.read(topic, max(expected) + 1)
        finally:
            client.close()
        # Records behind the initial ones may have been written without an acknowledgement.
        values = {offset: value for offset, value in found.values.items() if offset < COUNT or offset in expected}
        return judge_records(found._replace(values=values), expected, is_named=is_named)

    def _judge_all(self, node: Node, path: Path) -> Cell:
        cell = self._judge_topic(node, "kept", path)
        if cell.verdict != "kept":
            return cell
        try:
            client = NodeClient(node.port)
            try:
                acls, committed = client.acls(), client.committed(GROUP, "kept")
            finally:
                client.close()
        except _PROBLEMS as error:
            return (
                self._ended(node, path) if self._has_ended(node) else Cell("hang", f"{type(error).__name__}: {error}")
            )
        named = is_named(path, node.printed())
        if isinstance(acls, str):
            return Cell("refused" if named else "unnamed", f"ACLs: {acls}")
        if not acls >= ACLS | self.rules:
            return Cell("lost, named" if named else "lost, silent", f"ACLs: {acls}")
        if isinstance(committed, str):
            return Cell("refused" if named else "unnamed", f"committed offset: {committed}")
        if committed != COMMITTED:
            return Cell("lost, named" if named else "lost, silent", f"committed offset: {committed}")
        return cell
