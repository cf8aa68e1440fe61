"""Command-line clients that do the same: those of barnabas, Kafka's console tools, and kcat if it is installed."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from bench.sides import KAFKA_JVM
from tests.peers import kafka_command

__all__ = ["Client", "clients"]

_TOOL_JVM = ("-Xmx256M", "-server", *KAFKA_JVM)
_CONSOLE_JVM = ("-Xmx512M", "-server", *KAFKA_JVM)
"""What Kafka's own scripts pass to the JVM of a tool, and of the console producer and consumer."""


class Client(Protocol):
    """Command lines for the server ``server`` (host:port). Records are lines."""

    @property
    def side(self) -> str: ...

    def list_topics(self, server: str) -> Sequence[str]: ...

    def produce(self, server: str, topic: str) -> Sequence[str]: ...

    def consume(self, server: str, topic: str, records: int) -> Sequence[str]: ...


def clients(missing: dict[str, str]) -> list[Client]:
    """Return the clients of this machine. ``missing`` receives the reason for one that is left out."""
    found: list[Client] = [_KafkaTools(), _Barnabas(str(Path(sys.executable).parent / "barnabas"))]
    kcat = shutil.which("kcat")
    if kcat is None:
        missing["kcat"] = "was left out: it is not on the PATH (`apt-get install kcat`)"
    else:
        found.insert(1, _Kcat(kcat))
    return found


class _KafkaTools:
    side = "kafka"

    def list_topics(self, server: str) -> Sequence[str]:
        return kafka_command("topics", "--bootstrap-server", server, "--list", jvm=_TOOL_JVM)

    def produce(self, server: str, topic: str) -> Sequence[str]:
        return kafka_command("console-producer", "--bootstrap-server", server, "--topic", topic, jvm=_CONSOLE_JVM)

    def consume(self, server: str, topic: str, records: int) -> Sequence[str]:
        limits = ("--from-beginning", "--max-messages", str(records))
        return kafka_command(
            "console-consumer", "--bootstrap-server", server, "--topic", topic, *limits, jvm=_CONSOLE_JVM
        )


class _Kcat(NamedTuple):
    program: str
    side: str = "kcat"

    def list_topics(self, server: str) -> Sequence[str]:
        return [self.program, "-L", "-b", server]

    def produce(self, server: str, topic: str) -> Sequence[str]:
        return [self.program, "-P", "-b", server, "-t", topic]

    def consume(self, server: str, topic: str, records: int) -> Sequence[str]:
        return [self.program, "-C", "-b", server, "-t", topic, "-o", "beginning", "-c", str(records), "-q"]


class _Barnabas(NamedTuple):
    program: str
    side: str = "barnabas"

    def list_topics(self, server: str) -> Sequence[str]:
        return [self.program, "topics", "list", "--bootstrap-server", server]

    def produce(self, server: str, topic: str) -> Sequence[str]:
        return [self.program, "produce", topic, "--bootstrap-server", server, "--quiet"]

    def consume(self, server: str, topic: str, records: int) -> Sequence[str]:
        limits = ("--from-beginning", "--max-messages", str(records))
        return [self.program, "consume", topic, "--bootstrap-server", server, *limits, "--quiet"]
