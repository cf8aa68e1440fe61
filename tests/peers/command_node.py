"""The command ``barnabas node`` as a process, for tests of the command: its files, settings, output and exit status.

A test of what a node does, however it was started, uses ``barnabas.testing.Node``.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.peers.node_process import NodeProcess

__all__ = ["CommandNode"]


class CommandNode(NodeProcess):
    """``settings`` are passed as ``--override``. Without ``server.properties`` the node formats its folder itself."""

    def __init__(
        self, folder: Path, *, settings: Mapping[str, str] | None = None, properties: Path | None = None
    ) -> None:
        super().__init__(folder)
        self._properties = properties
        self._settings = {
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{self.controller_port}",
            "log.dirs": str(folder / "data"),
            "group.initial.rebalance.delay.ms": "0",
            "offsets.topic.num.partitions": "4",
            **(settings or {}),
        }

    def command(self) -> list[str]:
        overrides = [part for key, value in self._settings.items() for part in ("--override", f"{key}={value}")]
        file = [str(self._properties)] if self._properties else []
        return [str(Path(sys.executable).parent / "barnabas"), "node", *file, *overrides]

    def is_ready(self, printed: str) -> bool:
        with socket.socket() as probe:
            return " is ready in " in printed and probe.connect_ex(("127.0.0.1", self.port)) == 0
