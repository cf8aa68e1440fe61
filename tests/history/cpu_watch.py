"""Detects when a node of ours lacked CPU time: the kernel counts how long its event loop waited for a CPU.

On an overloaded machine, the machine and not the nodes breaks every guarantee that contains a time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path

from tests.history.cluster import ClusterNode

__all__ = ["CpuWatch"]

_EVERY_S = 0.5
_SHARE_MAX = 0.4
"""The share of its time that a loop may wait for the CPU."""


class CpuWatch:
    """Collects in ``starved``, inside a ``with`` block, (node, from, to) by the monotonic clock."""

    def __init__(self, nodes: Sequence[ClusterNode]) -> None:
        self._nodes = [node for node in nodes if node.kind == "ours"]
        self._known: dict[str, tuple[int, float, int]] = {}
        self.starved: list[tuple[str, float, float]] = []
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, name="cpu-watch", daemon=True)

    def __enter__(self) -> CpuWatch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ends.wait(_EVERY_S):
            for node in self._nodes:
                self._look_at(node)

    def _look_at(self, node: ClusterNode) -> None:
        try:
            pid = node.pid
            waited_ns = int(Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()[1])
        except (OSError, AssertionError, IndexError):
            self._known.pop(node.name, None)
            return
        now_s = time.monotonic()
        known_pid, before_s, before_ns = self._known.get(node.name, (0, now_s, waited_ns))
        self._known[node.name] = (pid, now_s, waited_ns)
        if known_pid == pid and (waited_ns - before_ns) / 1e9 > _SHARE_MAX * (now_s - before_s):
            self.starved.append((node.name, before_s, now_s))
