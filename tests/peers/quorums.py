"""Quorums of controllers, ours and Kafka's mixed, each in a separate process."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from barnabas.common.uuid import Uuid
from tests.peers import kafka_command, require_peer
from tests.peers.node_process import NodeProcess, free_ports

__all__ = [
    "ControllerNode",
    "OurBroker",
    "OurCombined",
    "OurController",
    "Quorum",
    "RealController",
    "barnabas",
    "new_quorum",
    "running_quorum",
    "wait_until",
]

FIRST_ID = 3000


class ControllerNode(NodeProcess):
    """A controller without a broker."""

    def __init__(self, folder: Path, node_id: int, port: int, settings: Mapping[str, str]) -> None:
        super().__init__(folder)
        self.node_id, self.controller_port = node_id, port
        self.directory_id = Uuid.from_string(_random_uuid())
        self._settings = {
            "process.roles": "controller",
            "node.id": str(node_id),
            "listeners": f"CONTROLLER://127.0.0.1:{port}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "log.dirs": str(folder / "data"),
            **settings,
        }

    @property
    def properties(self) -> Path:
        return self.folder / "server.properties"

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.controller_port}"

    @property
    def is_running(self) -> bool:
        return self._process is not None

    def write_properties(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.properties.write_text("".join(f"{key}={value}\n" for key, value in self._settings.items()))

    def format(self, cluster_id: str, *options: str) -> None:
        """Format the folder with our own tool, whose files equal those of Kafka's tool."""
        self.write_properties()
        barnabas("storage", "format", "-t", cluster_id, "-c", str(self.properties), *options)

    def launch(self) -> None:
        """Start without waiting: a controller is ready when a majority runs."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, cwd=self.folder
            )


class OurController(ControllerNode):
    def command(self) -> list[str]:
        return [_barnabas(), "node", str(self.properties)]

    def is_ready(self, printed: str) -> bool:
        return " is ready in " in printed


class OurCombined(OurController):
    """A controller with a broker in the same process."""

    def __init__(self, folder: Path, node_id: int, port: int, settings: Mapping[str, str]) -> None:
        super().__init__(folder, node_id, port, settings)
        self._settings |= {
            "process.roles": "broker,controller",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{port}",
            "offsets.topic.replication.factor": "1",
        }


class RealController(ControllerNode):
    def command(self) -> list[str]:
        jvm = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")
        return kafka_command("node", str(self.properties), jvm=jvm)

    def launch(self) -> None:
        require_peer()
        super().launch()

    def is_ready(self, printed: str) -> bool:
        return "Kafka Server started" in printed


class OurBroker(NodeProcess):
    """A broker of ours without a controller, for the cluster of a quorum."""

    def __init__(self, folder: Path, quorum: Quorum, *, node_id: int = 1, settings: Mapping[str, str] | None = None):
        super().__init__(folder)
        self._cluster_id = quorum.cluster_id
        self._settings = {
            "process.roles": "broker",
            "node.id": str(node_id),
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "controller.quorum.bootstrap.servers": quorum.servers,
            "log.dirs": str(folder / "data"),
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "4",
            "group.initial.rebalance.delay.ms": "0",
            **(settings or {}),
        }

    def start(self, *, timeout_s: float = 60, on_spawned: Callable[[int], None] | None = None) -> None:
        """The first start formats the folder."""
        properties = self.folder / "server.properties"
        if not properties.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            properties.write_text("".join(f"{key}={value}\n" for key, value in self._settings.items()))
            barnabas("storage", "format", "-t", self._cluster_id, "-c", str(properties))
        super().start(timeout_s=timeout_s, on_spawned=on_spawned)

    def command(self) -> list[str]:
        return [_barnabas(), "node", str(self.folder / "server.properties")]

    def is_ready(self, printed: str) -> bool:
        return " is ready in " in printed


class Quorum:
    """Controllers that were formatted as the voters of one cluster."""

    def __init__(
        self,
        controllers: Sequence[ControllerNode],
        cluster_id: str,
        *,
        is_static: bool = False,
        options: Sequence[str] = (),
    ) -> None:
        self.controllers = list(controllers)
        self.cluster_id = cluster_id
        self._is_static = is_static
        self._options = options

    def format(self, controller: ControllerNode) -> None:
        initial = ",".join(f"{node.node_id}@{node.address}:{node.directory_id}" for node in self.controllers)
        voters = () if self._is_static else ("--initial-controllers", initial)
        controller.format(self.cluster_id, *voters, *self._options)

    def wipe(self, controller: ControllerNode) -> None:
        """Replace the disk of a controller with an empty one."""
        shutil.rmtree(controller.folder / "data")
        self.format(controller)

    @property
    def servers(self) -> str:
        return ",".join(controller.address for controller in self.controllers)

    def start(self, *, timeout_s: float = 60) -> None:
        for controller in self.controllers:
            controller.launch()
        deadline = time.monotonic() + timeout_s
        for controller in self.controllers:
            while not controller.is_ready(controller.printed()):
                if time.monotonic() > deadline:
                    raise AssertionError(f"not up after {timeout_s} s:\n{controller.printed()[-4000:]}")
                time.sleep(0.02)

    def kill(self) -> None:
        for controller in self.controllers:
            controller.kill()


def new_quorum(
    folder: Path,
    kinds: Sequence[type[ControllerNode]],
    *,
    is_static: bool = False,
    settings: Mapping[str, str] | None = None,
    options: Sequence[str] = (),
) -> Quorum:
    """One formatted controller for each kind, none started. ``is_static``: voters in the settings, kraft.version 0.

    ``options`` are further ones for formatting.
    """
    ports = free_ports(len(kinds))
    addresses = [f"127.0.0.1:{port}" for port in ports]
    if is_static:
        voters = {
            "controller.quorum.voters": ",".join(f"{FIRST_ID + i}@{address}" for i, address in enumerate(addresses))
        }
    else:
        voters = {"controller.quorum.bootstrap.servers": ",".join(addresses)}
    controllers = [
        kind(folder / str(FIRST_ID + i), FIRST_ID + i, ports[i], {**voters, **(settings or {})})
        for i, kind in enumerate(kinds)
    ]
    quorum = Quorum(controllers, _random_uuid(), is_static=is_static, options=options)
    for controller in controllers:
        quorum.format(controller)
    return quorum


@contextmanager
def running_quorum(
    folder: Path,
    kinds: Sequence[type[ControllerNode]],
    *,
    is_static: bool = False,
    settings: Mapping[str, str] | None = None,
) -> Iterator[Quorum]:
    """Run ``new_quorum`` for the duration of a ``with`` block."""
    quorum = new_quorum(folder, kinds, is_static=is_static, settings=settings)
    try:
        quorum.start()
        yield quorum
    finally:
        quorum.kill()


def wait_until(is_true: Callable[[], bool], *, what: str, timeout_s: float = 20) -> float:
    """Wait for the condition. Return the duration in seconds."""
    began = time.monotonic()
    while not is_true():
        if time.monotonic() - began > timeout_s:
            raise AssertionError(f"{what} did not happen in {timeout_s} s")
        time.sleep(0.01)
    return time.monotonic() - began


def barnabas(*arguments: str) -> str:
    """Run a command of ours to its end. Return its output."""
    done = subprocess.run([_barnabas(), *arguments], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _barnabas() -> str:
    return str(Path(sys.executable).parent / "barnabas")


def _random_uuid() -> str:
    from barnabas.cli.storage.command import random_uuid

    return str(random_uuid())
