"""A single node, without replicas to recover from: its directory is created once, and copied for each try."""

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
    value,
    wait_for_directories,
    write_transactions,
)
from tests.storage_faults.nodes import Node
from tests.storage_faults.probe import NodeClient
from tests.storage_faults.scene import START_S, Ended, Kind, Scene
from tests.storage_faults.verdicts import Cell

__all__ = ["Alone"]


class Alone(Scene):
    replicas = (1,)

    def __init__(self, kind: Kind, folder: Path, *, ended: Ended) -> None:
        super().__init__(kind, folder, ended=ended)
        self._ports = self.new_ports()
        self._host = self.new_host("host")
        self._tries = 0

    def make(self, topics: Sequence[str]) -> None:
        if not self.other_data().exists():
            self._make_other()
        shutil.rmtree(self.folder / "base", ignore_errors=True)
        node = self._node(self.folder / "base")
        self.format(node, str(random_uuid()), "--standalone")
        self._start_sound(node)
        client = NodeClient(node.port)
        client.create_topics(topics, TOPIC_CONFIGS)
        client.create_acls(ACLS)
        produce_all(client, topics)
        client.commit(GROUP, "kept", COMMITTED)
        client.close()
        wait_for_directories(node.data, topics)
        node.stop()
        write_transactions(node.data, topics)
        self._start_sound(node)
        time.sleep(2.5)
        node.stop() if self.ended == "cleanly" else node.kill()

    def _start_sound(self, node: Node) -> None:
        assert node.start(timeout_s=START_S) == "up", node.printed()[-4000:]

    def _make_other(self) -> None:
        """Create the directory of a node of another cluster."""
        ports = self.new_ports()
        node = self.new_node(self.folder / "other", 2, ports, f"127.0.0.1:{ports[1]}", self._host)
        self.format(node, str(random_uuid()), "--standalone")
        self._start_sound(node)
        client = NodeClient(node.port)
        client.create_topics(["other", "kept"], TOPIC_CONFIGS)
        for offset in range(30):
            client.produce(["other"], [value("other", offset)])
        client.commit(GROUP, "kept", 7)
        client.close()
        time.sleep(2.5)
        node.stop()

    def _node(self, folder: Path) -> Node:
        return self.new_node(folder, 1, self._ports, f"127.0.0.1:{self._ports[1]}", self._host)

    def begin_try(self) -> Node:
        self._tries += 1
        self.extra.clear()
        self.rules.clear()
        folder = self.folder / f"try{self._tries}"
        shutil.copytree(self.folder / "base" / "data", folder / "data")
        return self._node(folder)

    def other_data(self) -> Path:
        return self.folder / "other" / "data"

    def end_try(self, node: Node, cells: Mapping[str, Cell]) -> None:
        node.end()
        shutil.rmtree(node.folder, ignore_errors=True)

    def await_service(self, node: Node, topics: Sequence[str]) -> Cell | None:
        """A running node serves; a client itself waits for a partition's leader."""
        time.sleep(1.5)  # The node has time to detect the fault without a request.
        return None

    def without_the_node(self, topic: str) -> Cell:
        return Cell("refused")
