"""The port between a test node and what runs it: a process of its own, or a thread of this process."""

from __future__ import annotations

from typing import Protocol

from barnabas.testing.launch import Launch

__all__ = ["Runner"]


class Runner(Protocol):
    """Runs a node once. A restarted node has another runner."""

    @property
    def pid(self) -> int: ...

    @property
    def is_running(self) -> bool: ...

    def launch(self, launch: Launch) -> None:
        """Begin to start the node."""

    def await_ready(self, timeout_s: float) -> None:
        """Wait until the node serves. Raise NodeFailed if it does not start in time."""

    def stop(self, timeout_s: float) -> None:
        """Stop the node in order: it leaves the cluster. After the time it is ended.

        Raise NodeFailed if a running node does not end in time, or ends with an error.
        """

    def kill(self) -> None:
        """End the node without notice. Raise NotPossible if only a process can do that."""

    def pause(self) -> None:
        """Stop the node from doing anything, with all connections open."""

    def resume(self) -> None: ...

    def set_disk_full(self, *, is_full: bool) -> None: ...
