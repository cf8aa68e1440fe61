"""The two sides of a comparison: how each node is started, and what the operating system says of it."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, Protocol

from tests.peers import KafkaNode
from tests.peers.command_node import CommandNode

__all__ = ["KAFKA_JVM", "SIDES", "Node", "Usage", "make_node", "new_node", "usage_of"]

SIDES = ("kafka", "barnabas")
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")

# What Kafka's own start script gives its JVM, beside a heap of 1 GiB.
KAFKA_JVM = (
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
)
_SETTINGS: Mapping[str, str] = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "50",
    "log.segment.bytes": "1073741824",
}


class Usage(NamedTuple):
    cpu_s: float
    resident_mib: float


class Node(Protocol):
    port: int

    @property
    def bootstrap_servers(self) -> str: ...

    @property
    def pid(self) -> int: ...

    def start(self) -> None: ...

    def stop(self) -> int: ...


def new_node(
    side: str, folder: Path, *, heap: str = "1g", settings: Mapping[str, str] | None = None
) -> KafkaNode | CommandNode:
    """Neither formatted nor started. ``heap`` is of Kafka's JVM."""
    all_settings = {**_SETTINGS, **(settings or {})}
    if side == "kafka":
        return KafkaNode(folder, settings=all_settings, jvm=(f"-Xms{heap}", f"-Xmx{heap}", *KAFKA_JVM))
    return CommandNode(folder, settings=all_settings)


def make_node(side: str, folder: Path, *, settings: Mapping[str, str] | None = None) -> KafkaNode | CommandNode:
    """A node that is formatted and not started, so that only its start is measured."""
    node = new_node(side, folder, settings=settings)
    if isinstance(node, KafkaNode):
        node.format()
        return node
    node.start()  # The first start formats; a later one is what Kafka's is compared with.
    node.stop()
    return node


def start_measured(node: KafkaNode | CommandNode) -> tuple[float, Usage]:
    """Seconds from the command to an ApiVersions answer, and what the process has used by then."""
    from barnabas.protocol.messages.api_versions import ApiVersionsRequest
    from tests.interop.raw_client import RawClient

    began = time.perf_counter()
    node.start()
    while True:
        try:
            client = RawClient(node.port, timeout_s=5)
            client.call(ApiVersionsRequest(client_software_name="bench", client_software_version="1"))
            client.close()
            break
        except OSError:
            time.sleep(0.01)
    elapsed = time.perf_counter() - began
    return elapsed, usage_of(node.pid)


def usage_of(pid: int) -> Usage:
    """CPU seconds of a process so far, and its resident memory in MiB."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    resident = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
    return Usage((int(fields[11]) + int(fields[12])) / _TICKS, resident / 2**20)
