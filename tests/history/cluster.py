"""Three brokers and three controllers, each a process: ours, Kafka's, or both kinds in one cluster.

Every address leads through a proxy that can delay the bytes from one node to another. Where the machine allows it, a
broker may have its own small disk, and every node its own clock.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from barnabas.testing.link_proxy import LinkProxy
from tests.history.clocks import Clock, ClockShim
from tests.history.small_disk import SmallDisk
from tests.peers import kafka_command, require_peer
from tests.peers.node_process import NodeProcess, free_ports
from tests.peers.quorums import barnabas

__all__ = ["KINDS", "Cluster", "ClusterNode", "Kind", "Kinds", "TooLittleMemory", "running_cluster"]

Kind = Literal["ours", "kafka"]
Kinds = tuple[Sequence[Kind], Sequence[Kind]]
"""The kinds of the brokers and of the controllers."""
KINDS: Mapping[str, Kinds] = {
    "ours": (("ours",) * 3, ("ours",) * 3),
    "kafka": (("kafka",) * 3, ("kafka",) * 3),
    "mixed": (("ours", "kafka", "ours"), ("kafka", "ours", "ours")),
    "our-brokers": (("ours",) * 3, ("kafka",) * 3),
    "our-controllers": (("kafka",) * 3, ("ours",) * 3),
}
DISK_MEGABYTES = 192
"""The heap of a broker that receives few writes."""
READY = {"ours": " is ready in ", "kafka": "Kafka Server started"}
SETTINGS = {
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
}
GROUP_SETTINGS = {
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.session.timeout.ms": "6000",
    "group.consumer.heartbeat.interval.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "1000",
    "group.share.session.timeout.ms": "6000",
    "group.share.min.session.timeout.ms": "6000",
    "group.share.heartbeat.interval.ms": "1000",
    "group.share.min.heartbeat.interval.ms": "1000",
    "group.share.initialize.retry.interval.ms": "1000",
    "group.share.record.lock.duration.ms": "4000",
    "group.share.min.record.lock.duration.ms": "4000",
    "group.share.delivery.count.limit": "10",
    "group.streams.session.timeout.ms": "6000",
    "group.streams.min.session.timeout.ms": "6000",
    "group.streams.heartbeat.interval.ms": "1000",
    "group.streams.min.heartbeat.interval.ms": "1000",
    "group.streams.initial.rebalance.delay.ms": "500",
}
"""Members that died are replaced within seconds, and locks of records expire in runs of a minute."""
BROKER_SETTINGS = {
    "replica.lag.time.max.ms": "4000",
    "initial.broker.registration.timeout.ms": "300000",
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.min.isr": "2",
    "share.coordinator.state.topic.num.partitions": "4",
    **GROUP_SETTINGS,
    "group.initial.rebalance.delay.ms": "0",
    "log.segment.bytes": "1048576",
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
}


class ClusterNode(NodeProcess):
    """A broker or a controller of either kind, reached through the proxy at ``address``."""

    def __init__(
        self, folder: Path, *, role: str, node_id: int, kind: Kind, proxy: LinkProxy, settings: Mapping[str, str]
    ) -> None:
        super().__init__(folder)
        self.role, self.node_id, self.kind = role, node_id, kind
        self.name = f"{role}-{node_id}"
        self.clock: Clock | None = None
        self.disk: SmallDisk | None = None
        self._proxy = proxy
        (self._own_port,) = free_ports(1)
        proxy.add(self.name, port=self.port, target_port=self._own_port)
        listener = "CONTROLLER" if role == "controller" else "PLAINTEXT"
        self._settings = {
            "process.roles": role,
            "node.id": str(node_id),
            "listeners": f"{listener}://127.0.0.1:{self._own_port}",
            "advertised.listeners": f"{listener}://{self.address}",
            "log.dirs": str(folder / "disk" / "data"),
            **SETTINGS,
            **(BROKER_SETTINGS | {"broker.rack": self.name} if role == "broker" else {}),
            **settings,
        }

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def properties(self) -> Path:
        return self.folder / "server.properties"

    @property
    def data(self) -> Path:
        """Its log directory, as this process sees it."""
        return (self.disk.path if self.disk else self.folder / "disk") / "data"

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def format(self, cluster_id: str, *options: str) -> None:
        """Format the folder with our own tool, whose files equal those of Kafka's tool."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.properties.write_text("".join(f"{key}={value}\n" for key, value in self._settings.items()))
        formats = ["storage", "format", "-t", cluster_id, "-c", str(self.properties), *options]
        if self.disk is None:
            barnabas(*formats)
        else:
            subprocess.run([*self.disk.command_prefix, _barnabas(), *formats], check=True, capture_output=True)

    def command(self) -> list[str]:
        prefix = self.disk.command_prefix if self.disk else []
        if self.kind == "ours":
            return [*prefix, _barnabas(), "node", str(self.properties)]
        jvm = ("-Xmx320m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")
        return [*prefix, *kafka_command("node", str(self.properties), jvm=jvm)]

    def launch(self) -> None:
        """Start, without waiting until it serves."""
        environment = {**os.environ, **(self.clock.environment if self.clock else {})}
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, env=environment
            )
        self._printed_before = self.log_path.stat().st_size
        self._proxy.node_is_up(self.name, self._process.pid)

    def is_ready(self, printed: str) -> bool:
        return READY[self.kind] in printed

    def wait_until_ready(self, *, timeout_s: float = 90) -> None:
        deadline = time.monotonic() + timeout_s
        while not self.is_ready(self.printed(self._printed_before)):
            if not self.is_running or time.monotonic() > deadline:
                raise AssertionError(f"{self.name} is not up after {timeout_s} s:\n{self.printed()[-4000:]}")
            time.sleep(0.05)

    def start(self, *, timeout_s: float = 90, on_spawned: Callable[[int], None] | None = None) -> None:
        self.launch()
        if on_spawned is not None:
            on_spawned(self.pid)
        self.wait_until_ready(timeout_s=timeout_s)

    def kill(self) -> None:
        super().kill()
        self._proxy.node_is_down(self.name)

    def stop(self, *, timeout_s: float = 60) -> int:
        try:
            return super().stop(timeout_s=timeout_s)
        finally:
            self._proxy.node_is_down(self.name)


class Cluster:
    """Formatted, not started."""

    def __init__(
        self, folder: Path, kinds: Kinds = KINDS["ours"], *, settings: Mapping[str, str] | None = None
    ) -> None:
        broker_kinds, controller_kinds = kinds
        if "kafka" in (*broker_kinds, *controller_kinds):
            require_peer()
        self.folder = folder
        self.proxy = LinkProxy()
        settings = settings or {}
        self.controllers = [
            ClusterNode(folder / f"controller-{node_id}", role="controller", node_id=node_id, kind=kind,
                        proxy=self.proxy, settings=settings)
            for node_id, kind in enumerate(controller_kinds, 3001)
        ]  # fmt: skip
        self.brokers = [
            ClusterNode(folder / f"broker-{node_id}", role="broker", node_id=node_id, kind=kind,
                        proxy=self.proxy, settings=settings)
            for node_id, kind in enumerate(broker_kinds, 1)
        ]  # fmt: skip

    @property
    def nodes(self) -> list[ClusterNode]:
        return [*self.controllers, *self.brokers]

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(broker.address for broker in self.brokers)

    def node(self, name: str) -> ClusterNode:
        return next(node for node in self.nodes if node.name == name)

    def give_clocks(self) -> bool:
        """Give every node its own clock. Call it before the first start. Return whether this machine can."""
        shim = ClockShim.build(self.folder)
        if shim is not None:
            for node in self.nodes:
                node.clock = shim.clock(node.folder)
        return shim is not None

    def give_small_disks(self, written_megabytes: int) -> bool:
        """Give each broker a small disk in memory, with room for what will be written to it. Call it before the brokers
        are formatted. Return whether this machine can. Raise TooLittleMemory."""
        megabytes = DISK_MEGABYTES + written_megabytes
        _ensure_memory(megabytes * len(self.brokers))
        for broker in self.brokers:
            broker.disk = SmallDisk.mount(broker.folder / "disk", megabytes)
        return all(broker.disk for broker in self.brokers)

    def format(self) -> None:
        from barnabas.cli.storage.command import random_uuid

        cluster_id = str(random_uuid())
        voters = ",".join(
            f"{controller.node_id}@{controller.address}:{random_uuid()}" for controller in self.controllers
        )
        servers = ",".join(controller.address for controller in self.controllers)
        for node in self.nodes:
            node.change_settings({"controller.quorum.bootstrap.servers": servers})
            node.format(cluster_id, *(("--initial-controllers", voters) if node.role == "controller" else ()))

    def start(self) -> None:
        for node in self.nodes:
            node.launch()
        for node in self.nodes:
            node.wait_until_ready(timeout_s=240)

    def end(self) -> None:
        """End the node, in any state."""
        for node in self.nodes:
            node.thaw()
            node.kill()
            if node.disk is not None:
                node.disk.unmount()
        self.proxy.close()


@contextmanager
def running_cluster(
    folder: Path, kinds: Kinds = KINDS["ours"], *, settings: Mapping[str, str] | None = None
) -> Iterator[Cluster]:
    """For the length of a ``with`` block."""
    cluster = Cluster(folder, kinds, settings=settings)
    try:
        cluster.format()
        cluster.start()
        yield cluster
    finally:
        cluster.end()


def _barnabas() -> str:
    return str(Path(sys.executable).parent / "barnabas")


class TooLittleMemory(RuntimeError):
    """The memory is too small for the disks of the brokers."""


def _ensure_memory(megabytes: int) -> None:
    [line] = [line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemAvailable:")]
    available = int(line.split()[1]) // 1024
    if megabytes > available:
        raise TooLittleMemory(
            f"the brokers' disks may need {megabytes} MB of memory and {available} MB are available: give fewer"
            " seconds, a lower --rate, or --no-disks"
        )
