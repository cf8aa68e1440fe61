"""Brokers apart from their controllers: a real Kafka's, which joins a cluster whose controllers may be ours."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.peers import KafkaNode

__all__ = ["SCRAM_LISTENER", "RealBroker"]

SCRAM_LISTENER = "SASLP"


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
        jvm: Sequence[str] = ("-Xmx384m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto"),
    ) -> None:
        super().__init__(folder, jvm=jvm)
        self.node_id = node_id
        self.scram_port = self.controller_port
        self._cluster_id = cluster_id
        self.change_settings(
            {
                "process.roles": "broker",
                "node.id": str(node_id),
                "controller.quorum.bootstrap.servers": controllers,
                "listeners": f"PLAINTEXT://127.0.0.1:{self.port},{SCRAM_LISTENER}://127.0.0.1:{self.scram_port}",
                "listener.security.protocol.map": (
                    f"CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,{SCRAM_LISTENER}:SASL_PLAINTEXT"
                ),
                "sasl.enabled.mechanisms": "SCRAM-SHA-256",
                "listener.name.saslp.scram-sha-256.sasl.jaas.config": (
                    "org.apache.kafka.common.security.scram.ScramLoginModule required;"
                ),
                "log.dirs": f"{folder / 'data-0'},{folder / 'data-1'}",
                **(settings or {}),
            }
        )

    @property
    def scram_bootstrap(self) -> str:
        return f"127.0.0.1:{self.scram_port}"

    def format(self, *options: str) -> None:
        """With our own tool, whose files are those of Kafka's."""
        self.write_properties()
        subprocess.run(
            [
                str(Path(sys.executable).parent / "barnabas"),
                *("storage", "format", "-t", self._cluster_id, "-c", str(self.properties), *options),
            ],
            check=True,
            capture_output=True,
            timeout=60,
        )
