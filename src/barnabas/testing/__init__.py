"""A Kafka for tests: nodes and clusters as context managers, with faults on request, and fixtures for pytest.

``docs/testing.md`` is the guide. The names here are imported when they are first used: pytest loads this package in
every run, also in those that need no node.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from barnabas.testing.acls import allow, deny
    from barnabas.testing.cluster import Cluster
    from barnabas.testing.cluster_node import ClusterNode
    from barnabas.testing.connect_worker import ConnectWorker
    from barnabas.testing.errors import NodeFailed, NotPossible
    from barnabas.testing.node import Node
    from barnabas.testing.records import ReceivedRecord

__all__ = [
    "Cluster",
    "ClusterNode",
    "ConnectWorker",
    "Node",
    "NodeFailed",
    "NotPossible",
    "ReceivedRecord",
    "allow",
    "deny",
]

_MODULES = {
    "Cluster": "cluster",
    "ClusterNode": "cluster_node",
    "ConnectWorker": "connect_worker",
    "Node": "node",
    "NodeFailed": "errors",
    "NotPossible": "errors",
    "ReceivedRecord": "records",
    "allow": "acls",
    "deny": "acls",
}


def __getattr__(name: str) -> object:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{module}"), name)
