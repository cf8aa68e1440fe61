"""Our own node as a separate process, started as a user starts it."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.peers.node_process import NodeProcess

__all__ = ["CommandNode", "running_barnabas"]


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


@contextmanager
def running_barnabas(folder: Path, *, settings: Mapping[str, str] | None = None) -> Iterator[CommandNode]:
    """Run our node for the duration of a ``with`` block."""
    node = CommandNode(folder, settings=settings)
    node.start()
    try:
        yield node
    finally:
        node.stop()
