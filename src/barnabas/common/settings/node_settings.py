"""All settings of a node: ``NodeSettings`` has an attribute for each whose value is used unchanged."""

from __future__ import annotations

from barnabas.common.settings.node.coordinators import CoordinatorSettings
from barnabas.common.settings.node.network import NetworkSettings
from barnabas.common.settings.node.own import BarnabasSettings
from barnabas.common.settings.node.quorum import QuorumSettings
from barnabas.common.settings.node.remote_storage import RemoteStorageSettings
from barnabas.common.settings.node.replicas import ReplicaSettings
from barnabas.common.settings.node.security import SecuritySettings

__all__ = ["NodeSettings"]


class NodeSettings(
    BarnabasSettings,
    CoordinatorSettings,
    NetworkSettings,
    QuorumSettings,
    RemoteStorageSettings,
    ReplicaSettings,
    SecuritySettings,
):
    """A row for each setting of a Kafka 4.3.1 node, and for those of barnabas's own."""
