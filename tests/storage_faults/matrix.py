"""Cells, and what became of each: a verdict that is the same word for our node and for Kafka's.

Faults of a partition's files are tried all at once, one topic for each, in one directory; those of a node's own files
one after the other, each in a copy of the directory. Where one fault keeps a node from starting, the fault is taken out
and the others are tried again.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tests.peers import KafkaNode
from tests.peers.barnabas_node import BarnabasNode
from tests.peers.node_process import NodeProcess
from tests.storage_faults.faults import FAULTS, damage
from tests.storage_faults.probe import NodeClient

__all__ = ["NODE_FILES", "PARTITION_FILES", "Cell", "Scene", "worse"]

COUNT = 60
VALUE = b"x" * 300
GROUP = "g"
ACLS = {("User:alice", 3), ("User:mallory", 2)}
SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "log.flush.offset.checkpoint.interval.ms": "1000",
}
TOPIC_CONFIGS = {"internal.segment.bytes": "8000", "index.interval.bytes": "1000"}
_START_S = 120

PARTITION_FILES: Mapping[str, tuple[str, int]] = {
    "log, rolled": (".log", 0),
    "log, active": (".log", -1),
    "index, rolled": (".index", 0),
    "index, active": (".index", -1),
    "timeindex, rolled": (".timeindex", 0),
    "timeindex, active": (".timeindex", -1),
    "producer snapshot": (".snapshot", -1),
    "leader-epoch-checkpoint": ("leader-epoch-checkpoint", 0),
    "partition.metadata": ("partition.metadata", 0),
}

_GROUPS = (
    ("log, rolled", "log, active"),
    ("index, rolled", "index, active", "timeindex, rolled", "timeindex, active"),
    ("producer snapshot",),
    ("leader-epoch-checkpoint",),
    ("partition.metadata",),
)

NODE_FILES: Mapping[str, str] = {
    "meta.properties": "meta.properties",
    "bootstrap.checkpoint": "bootstrap.checkpoint",
    "metadata log": "__cluster_metadata-0/*.log",
    "metadata index": "__cluster_metadata-0/*.index",
    "metadata timeindex": "__cluster_metadata-0/*.timeindex",
    "metadata producer snapshot": "__cluster_metadata-0/*.snapshot",
    "metadata checkpoint": "__cluster_metadata-0/*.checkpoint",
    "quorum-state": "__cluster_metadata-0/quorum-state",
    "metadata leader epochs": "__cluster_metadata-0/leader-epoch-checkpoint",
    "metadata partition.metadata": "__cluster_metadata-0/partition.metadata",
    "recovery-point": "__cluster_metadata-0/recovery-point",
    "recovery-point-offset-checkpoint": "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint": "log-start-offset-checkpoint",
    "replication-offset-checkpoint": "replication-offset-checkpoint",
    "cleaner-offset-checkpoint": "cleaner-offset-checkpoint",
    ".kafka_cleanshutdown": ".kafka_cleanshutdown",
    ".lock": ".lock",
    "barnabas-topic-ids": "barnabas-topic-ids",
    "committed offsets": "__consumer_offsets-?/00000000000000000000.log",
}

_RANK = {
    "kept": 0,
    "refused": 1,
    "lost, named": 2,
    "lost, silent": 3,
    "unnamed": 3,
    "wrong": 3,
    "traceback": 3,
    "hang": 3,
}


class Cell(NamedTuple):
    """``verdict`` is a key of the ranking above, or ``-`` where no such file exists or the fault changes nothing."""

    verdict: str
    detail: str = ""


def worse(ours: str, theirs: str) -> bool:
    return ours != "-" and theirs != "-" and _RANK[ours] > _RANK[theirs]


def topic_of(file: str, fault: str) -> str:
    return re.sub(r"[^a-z]+", "-", f"c {file} {fault}".lower()).strip("-")


class Scene:
    """A node's directory, made once by a node of that kind and copied for each try."""

    def __init__(self, kind: str, folder: Path, *, is_clean: bool) -> None:
        self.kind = kind
        self.folder = folder
        self.is_clean = is_clean
        self._tries = 0
        self._base = self._node("base")
        self._ports = (self._base.port, self._base.controller_port)

    def _node(self, name: str) -> NodeProcess:
        make = BarnabasNode if self.kind == "barnabas" else KafkaNode
        return make(self.folder / name, settings=SETTINGS)

    def make(self) -> None:
        node = self._base
        node.start()
        client = NodeClient(node.port)
        topics = ["kept", *(topic_of(file, fault) for file in PARTITION_FILES for fault in FAULTS)]
        client.create_topics(topics, TOPIC_CONFIGS)
        client.create_topics(["other"], TOPIC_CONFIGS)
        client.create_acls()
        for number in range(COUNT):
            for topic in topics:
                client.produce(topic, b"%d " % number + VALUE)
            client.produce("other", b"%d other " % number + VALUE)
        client.commit(GROUP, "kept", 42)
        client.close()
        time.sleep(2.5)
        if self.is_clean:
            node.stop()
        else:
            node.kill()

    # --- one try

    def copy(self) -> NodeProcess:
        self._tries += 1
        name = f"try{self._tries}"
        target = self.folder / name
        shutil.copytree(self.folder / "base" / "data", target / "data")
        node = self._node(name)
        node.port, node.controller_port = self._ports
        node.change_settings(
            {"listeners": f"PLAINTEXT://127.0.0.1:{node.port},CONTROLLER://127.0.0.1:{node.controller_port}"}
        )
        if isinstance(node, KafkaNode):
            node.change_settings({"controller.quorum.bootstrap.servers": f"127.0.0.1:{node.controller_port}"})
            node.write_properties()
        return node

    def partition_file(self, data: Path, topic: str, file: str) -> Path | None:
        suffix, index = PARTITION_FILES[file]
        found = sorted(path for path in (data / f"{topic}-0").iterdir() if path.name.endswith(suffix))
        if suffix in (".index", ".timeindex") and index == -1:
            stem = max(path.stem for path in (data / f"{topic}-0").glob("*.log"))
            found = [path for path in found if path.stem == stem]
        return found[index] if found else None

    def partition_cells(
        self,
        wanted: Callable[[str, str], bool] = lambda file, fault: True,
        on_cell: Callable[[str, Cell], None] = lambda name, cell: None,
    ) -> dict[str, Cell]:
        """By ``file / fault``. A group of files in which one keeps the node from starting is tried cell by cell."""
        cells: dict[str, Cell] = {}
        for group in _GROUPS:
            pending = [(file, fault) for file in group for fault in FAULTS if wanted(file, fault)]
            found = self._try_together(pending)
            if found is None:
                found = {}
                for each in pending:
                    found.update(self._try_together([each]) or {})
            for name, cell in found.items():
                on_cell(name, cell)
            cells.update(found)
        return cells

    def _try_together(self, wanted: list[tuple[str, str]]) -> dict[str, Cell] | None:
        """None if the node did not start with more than one fault."""
        cells: dict[str, Cell] = {}
        node = self.copy()
        data = node.folder / "data"
        pending: list[tuple[str, str]] = []
        for file, fault in wanted:
            path = self.partition_file(data, topic_of(file, fault), file)
            if path is not None and damage(path, fault, self.partition_file(data, "other", file)):
                pending.append((file, fault))
            else:
                cells[f"{file} / {fault}"] = Cell("-")
        problem = self._start(node) if pending else None
        if problem is not None:
            if len(pending) > 1:
                self._end(node)
                return None
            (each,) = pending
            is_named = f"{topic_of(*each)}-0" in node.printed()
            cells[" / ".join(each)] = problem if is_named else problem._replace(verdict="unnamed")
        elif pending:
            client = NodeClient(node.port)
            time.sleep(1.5)
            for file, fault in pending:
                topic = topic_of(file, fault)
                cells[f"{file} / {fault}"] = self._judge(client, node, topic, f"{topic}-0")
            client.close()
        self._end(node)
        return cells

    def node_cell(self, file: str, fault: str) -> Cell:
        node = self.copy()
        data = node.folder / "data"
        found = sorted(data.glob(NODE_FILES[file]), key=lambda path: path.stat().st_size)
        if not found or not damage(found[-1], fault, None):
            shutil.rmtree(node.folder)
            return Cell("-")
        problem = self._start(node, path=found[-1])
        if problem is not None:
            self._end(node)
            return problem
        client = NodeClient(node.port)
        try:
            return self._judge_node(client, node, found[-1])
        except (OSError, AssertionError) as error:
            return Cell("hang", str(error))
        finally:
            client.close()
            self._end(node)

    def _start(self, node: NodeProcess, path: Path | None = None) -> Cell | None:
        began = time.monotonic()
        try:
            NodeProcess.start(node, timeout_s=_START_S)
        except AssertionError:
            printed = node.printed()
            if time.monotonic() - began >= _START_S:
                return Cell("hang", f"neither up nor ended after {_START_S} s")
            if self.kind == "barnabas" and "Traceback (most recent call last)" in printed:
                return Cell("traceback", _last_line(printed))
            if path is not None and path.name not in printed and path.parent.name not in printed:
                return Cell("unnamed", _last_line(printed))
            return Cell("refused", "the node does not start: " + _last_line(printed))
        return None

    def _end(self, node: NodeProcess) -> None:
        with suppress(AssertionError, subprocess.TimeoutExpired):
            node.kill()
        shutil.rmtree(node.folder, ignore_errors=True)

    # --- verdicts

    def _judge(self, client: NodeClient, node: NodeProcess, topic: str, name: str) -> Cell:
        found = client.read(topic, COUNT)
        printed = node.printed()
        if self.kind == "barnabas" and "Traceback (most recent call last)" in printed:
            return Cell("traceback", _last_line(printed))
        is_right = all(value == b"%d " % offset + VALUE for offset, value in found.values.items())
        if found.wrong or not is_right:
            return Cell("wrong", f"{found.wrong} batches with a wrong checksum were served")
        missing = COUNT - len(found.values)
        if not missing:
            return Cell("kept")
        is_named = any(name in line for line in printed.splitlines() if re.search(r"WARN|ERROR|FATAL", line))
        if len(found.errors) == missing:
            errors = sorted(set(found.errors.values()))
            return Cell("refused" if is_named else "unnamed", f"{missing} of {COUNT} records: {', '.join(errors)}")
        return Cell("lost, named" if is_named else "lost, silent", f"{missing} of {COUNT} records")

    def _judge_node(self, client: NodeClient, node: NodeProcess, path: Path) -> Cell:
        cell = self._judge(client, node, "kept", path.name)
        printed = node.printed()
        acls, committed = client.acls(), client.committed(GROUP, "kept")
        if cell.verdict != "kept":
            return cell
        is_named = path.name in printed or path.parent.name in printed
        if acls != ACLS:
            return Cell("lost, named" if is_named else "lost, silent", f"ACLs: {acls}")
        if committed != 42:
            is_error = isinstance(committed, str)
            what = ("refused" if is_named else "unnamed") if is_error else "lost, named" if is_named else "lost, silent"
            return Cell(what, f"committed offset: {committed}")
        return cell


def _last_line(printed: str) -> str:
    lines = [line for line in printed.splitlines() if re.search(r"ERROR|FATAL|Error|Exception|cannot|can't", line)]
    return (lines or printed.splitlines() or [""])[-1][-300:]


def all_node_cells(
    scene: Scene, wanted: Callable[[str, str], bool] = lambda file, fault: True
) -> Iterator[tuple[str, Cell]]:
    for file in NODE_FILES:
        for fault in FAULTS:
            if wanted(file, fault):
                yield f"{file} / {fault}", scene.node_cell(file, fault)
