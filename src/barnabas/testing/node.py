"""One node for a test: ``with Node() as node``. It is a Kafka broker and controller in a process of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Unpack

from barnabas.testing.cluster import Cluster
from barnabas.testing.cluster_node import ClusterNode
from barnabas.testing.options import NodeOptions

__all__ = ["Node"]


class Node(Cluster):
    """A cluster of one node, with the faults of that node: see ``Cluster`` and ``ClusterNode``.

    After ``kill``, or ``disk_full``, the node is started again with ``start``: at the same address, with its data.
    """

    def __init__(self, **options: Unpack[NodeOptions]) -> None:
        """The options are those of ``NodeOptions``. Raise NotPossible, which names the option."""
        super().__init__(1, **options)

    @property
    def broker(self) -> ClusterNode:
        return self.brokers[0]

    @property
    def port(self) -> int:
        """The port of ``bootstrap_servers``."""
        return self.broker.port

    @property
    def controller_port(self) -> int:
        """The port of ``bootstrap_controllers``."""
        return self.broker.controller_port

    @property
    def pid(self) -> int:
        """The id of the process that runs the node. Raise NotPossible if the node does not run."""
        return self.broker.pid

    @property
    def is_running(self) -> bool:
        return self._built is not None and self.broker.is_running

    @property
    def log(self) -> str:
        """The log since the last start."""
        return self.broker.log

    @property
    def log_path(self) -> Path:
        """The file with the log of all starts."""
        return self.broker.log_path

    def restart(self) -> None:
        """Stop the node in order and start it again, with its data and at its address. Raise NodeFailed."""
        self.broker.restart()

    def kill(self) -> None:
        """End the node like ``kill -9``: it flushes nothing and closes no session."""
        self.broker.kill()

    def pause(self) -> None:
        """Stop the node like a long pause of the machine: connections stay open, and nothing is answered."""
        self.broker.pause()

    def resume(self) -> None:
        """End a pause."""
        self.broker.resume()

    def disk_full(self) -> None:
        """Refuse all writes to the node's disk with ENOSPC. As in Kafka, a node whose only log directory fails ends."""
        self.broker.disk_full()

    def disk_free(self) -> None:
        """Let the node write again. If it has ended, start it with ``start``."""
        self.broker.disk_free()

    @property
    def _noun(self) -> str:
        return "node"
