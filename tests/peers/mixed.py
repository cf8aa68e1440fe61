"""Brokers separate from their controllers: a real Kafka's and ours, with controllers of either kind."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from barnabas.clients.admin import SyncAdminClient
from tests.peers import KafkaNode
from tests.peers.command_node import CommandNode
from tests.peers.node_process import free_ports
from tests.peers.secure import jaas_client

__all__ = ["OurBroker", "RealBroker", "scram_client"]

_SCRAM_LISTENER = "SASLP"


def _settings(node_id: int, controllers: str, port: int, scram_port: int) -> dict[str, str]:
    """A broker with a listener for logins with SCRAM-SHA-256."""
    return {
        "process.roles": "broker",
        "node.id": str(node_id),
        "controller.quorum.bootstrap.servers": controllers,
        "listeners": f"PLAINTEXT://127.0.0.1:{port},{_SCRAM_LISTENER}://127.0.0.1:{scram_port}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": (
            f"CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,{_SCRAM_LISTENER}:SASL_PLAINTEXT"
        ),
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
        "listener.name.saslp.scram-sha-256.sasl.jaas.config": (
            "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        ),
    }


class RealBroker(KafkaNode):
    """A broker of Kafka 4.3.1 with two log directories, and a listener for SCRAM-SHA-256 at ``scram_port``."""

    def __init__(
        self,
        folder: Path,
        node_id: int,
        *,
        controllers: str,
        cluster_id: str,
        settings: Mapping[str, str] | None = None,
        jvm: Sequence[str] = (),
        own_process: bool = False,
    ) -> None:
        super().__init__(folder, jvm=jvm, own_process=own_process)
        self.node_id = node_id
        self.scram_port = self.controller_port
        self._cluster_id = cluster_id
        self.change_settings(
            {
                **_settings(node_id, controllers, self.port, self.scram_port),
                "log.dirs": f"{folder / 'data-0'},{folder / 'data-1'}",
                **(settings or {}),
            }
        )

    def format(self, *options: str) -> None:
        """Format the folder with our own tool, whose files equal those of Kafka's tool."""
        self.write_properties()
        _format(self.properties, self._cluster_id, *options)


class OurBroker(CommandNode):
    """A broker of ours without a controller. It formats its folder itself."""

    def __init__(
        self,
        folder: Path,
        node_id: int,
        *,
        controllers: str,
        cluster_id: str,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(folder)
        self.node_id = node_id
        self.scram_port = self.controller_port
        (self.metrics_port,) = free_ports(1)
        self._cluster_id = cluster_id
        self._settings = {
            **_settings(node_id, controllers, self.port, self.scram_port),
            "log.dirs": str(folder / "data"),
            "barnabas.metrics.listener": f"127.0.0.1:{self.metrics_port}",
            "group.initial.rebalance.delay.ms": "0",
            "offsets.topic.num.partitions": "4",
            "offsets.topic.replication.factor": "1",
            **(settings or {}),
        }

    @property
    def properties(self) -> Path:
        return self.folder / "server.properties"

    def start(self, *, timeout_s: float = 60, on_spawned: Callable[[int], None] | None = None) -> None:
        if not self.properties.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            self.properties.write_text("".join(f"{key}={value}\n" for key, value in self._settings.items()))
            _format(self.properties, self._cluster_id)
        super().start(timeout_s=timeout_s, on_spawned=on_spawned)

    def command(self) -> list[str]:
        return [_barnabas(), "node", str(self.properties)]


def scram_client(broker: OurBroker | RealBroker, user: str, password: str) -> SyncAdminClient:
    login = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.jaas.config": jaas_client("SCRAM-SHA-256", user, password),
    }
    return SyncAdminClient(f"127.0.0.1:{broker.scram_port}", login)


def _format(properties: Path, cluster_id: str, *options: str) -> None:
    subprocess.run(
        [_barnabas(), "storage", "format", "-t", cluster_id, "-c", str(properties), *options],
        check=True,
        capture_output=True,
        timeout=60,
    )


def _barnabas() -> str:
    return str(Path(sys.executable).parent / "barnabas")
