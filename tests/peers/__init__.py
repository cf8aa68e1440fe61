"""A real Apache Kafka 4.3.1 beside ours: run one of its classes or a complete node, also of the last 3.x.

Maven fetches the jars on first use (see ``kafka-run``). A test declares its needs with ``require_java`` and
``require_maven``: without them it is skipped, with the reason. With ``CI`` set it fails instead, because no test may be
skipped silently there.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import NoReturn

import pytest

from barnabas.cli.storage.command import random_uuid
from tests.peers.java_programs import JVM as SHARED_JVM
from tests.peers.java_programs import JavaProgram, JavaPrograms, programs_of
from tests.peers.node_process import NodeProcess, free_ports

__all__ = [
    "CLASSES",
    "KAFKA_VERSION",
    "LAST_3_X",
    "KafkaNode",
    "free_ports",
    "kafka_command",
    "lacking",
    "metadata_shell",
    "peer_lib",
    "require_java",
    "require_maven",
    "require_peer",
    "run_class",
    "running_kafka",
    "shared_jvm",
]

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parent.parent
KAFKA_VERSION = "4.3.1"
LAST_3_X = "3.9.1"
"""The last 3.x: only its node and its formatting tool, without the other tools."""
OLDEST_JAVA = 17
READY_LINE = "Kafka Server started"

CLASSES: Mapping[str, str] = {
    "node": "kafka.Kafka",
    "storage": "kafka.tools.StorageTool",
    "topics": "org.apache.kafka.tools.TopicCommand",
    "configs": "kafka.admin.ConfigCommand",
    "all-groups": "org.apache.kafka.tools.GroupsCommand",
    "groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "features": "org.apache.kafka.tools.FeatureCommand",
    "quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "producer-perf": "org.apache.kafka.tools.ProducerPerformance",
    "consumer-perf": "org.apache.kafka.tools.ConsumerPerformance",
    "share-consumer-perf": "org.apache.kafka.tools.ShareConsumerPerformance",
    "console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "dump-log": "org.apache.kafka.tools.DumpLogSegments",
    "metadata-shell": "org.apache.kafka.shell.MetadataShell",
    "leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "cluster": "org.apache.kafka.tools.ClusterTool",
    "transactions": "org.apache.kafka.tools.TransactionsCommand",
    "groups-share": "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
    "streams-groups": "org.apache.kafka.tools.streams.StreamsGroupCommand",
}
"""The names of its own scripts (``kafka-topics.sh`` ...), without prefix and suffix."""
NEEDS_OWN_PROCESS = frozenset({"metadata-shell"})
"""It reads the terminal, and not the stream that Java calls standard input."""


def lacking(what: str) -> NoReturn:
    """Skip the test, or fail it in CI."""
    if os.environ.get("CI"):
        pytest.fail(f"{what}; in CI this is an error", pytrace=False)
    pytest.skip(what)


@cache
def _java_version() -> int | None:
    java = shutil.which("java")
    if java is None:
        return None
    answer = subprocess.run([java, "-version"], capture_output=True, text=True, check=False, timeout=60).stderr
    _, _, rest = answer.partition('version "')
    major = rest.split(".", 1)[0].split('"', 1)[0].split("-", 1)[0]
    return int(major) if major.isdigit() else None


def require_java() -> None:
    """Skip the test unless Java 17 or later is installed."""
    version = _java_version()
    if version is None:
        lacking("needs Java, and `java` is not on the PATH")
    if version < OLDEST_JAVA:
        lacking(f"needs Java {OLDEST_JAVA} or later, and `java` is {version}")


def require_maven() -> None:
    """Skip the test unless Maven is installed."""
    if shutil.which("mvn") is None:
        lacking("needs Maven, and `mvn` is not on the PATH")


def require_peer(version: str = KAFKA_VERSION) -> Path:
    """Skip the test unless a real Kafka can run; return the folder of its jars, fetched if necessary."""
    require_java()
    if not (_lib(version) / ".complete").exists():
        require_maven()
    return peer_lib(version)


def _lib(version: str) -> Path:
    named = os.environ.get("BARNABAS_PEER_LIB")
    if named and version == KAFKA_VERSION:
        return Path(named)
    folder = Path(named).parent if named else PROJECT / ".cache" / "peers"
    return folder / f"kafka-{version}"


def peer_lib(version: str = KAFKA_VERSION) -> Path:
    """Return the folder of Kafka's jars; the first call on a machine fetches them (about a minute)."""
    lib = _lib(version)
    if not (lib / ".complete").exists():
        subprocess.run([str(HERE / "kafka-run"), f"--kafka={version}"], check=True, timeout=600)
    return lib


def kafka_command(name: str, *args: str, jvm: Sequence[str] = (), version: str = KAFKA_VERSION) -> list[str]:
    """Return the command line that runs a class of Kafka, given by its short name in ``CLASSES`` or its full name."""
    options = [*jvm, "--"] if jvm else []
    return [str(HERE / "kafka-run"), f"--kafka={version}", *options, CLASSES.get(name, name), *args]


def shared_jvm(version: str = KAFKA_VERSION) -> JavaPrograms | None:
    """Return the JVM that Kafka's programs share, or None outside a run of pytest."""
    return programs_of(version, lambda source: kafka_command(source, jvm=SHARED_JVM, version=version))


def run_class(
    name: str,
    *args: str,
    jvm: Sequence[str] = (),
    properties: Mapping[str, str] | None = None,
    stdin: str = "",
    check: bool = True,
    timeout_s: float = 60,
    cwd: Path | None = None,
    version: str = KAFKA_VERSION,
) -> subprocess.CompletedProcess[str]:
    """Run a Kafka tool to its end. With ``check``, a failure shows its complete output.

    During a run of pytest the tool shares a JVM (``java_programs.py``), unless it gets ``jvm`` options or ``cwd``, or
    reads the terminal. ``properties`` are Java's, each a list.
    """
    require_peer(version)
    programs = None if jvm or cwd or name in NEEDS_OWN_PROCESS else shared_jvm(version)
    if programs is not None:
        main = CLASSES.get(name, name)
        done = programs.run(main, args, stdin=stdin, properties=properties or {}, timeout_s=timeout_s)
    else:
        options = [*jvm, *(f"-D{key}={value}" for key, value in (properties or {}).items())]
        done = subprocess.run(
            kafka_command(name, *args, jvm=options, version=version),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
            cwd=cwd,
        )
    if check and done.returncode != 0:
        raise AssertionError(
            f"{name} {' '.join(args)} ended with {done.returncode}\n--- out\n{done.stdout}\n--- err\n{done.stderr}"
        )
    return done


def metadata_shell(path: Path, *commands: str, tries: int = 6) -> list[str]:
    """Return what Kafka's metadata shell prints for each command on a log or a snapshot.

    The shell reads commands while another of its threads still publishes the loaded data, so on a busy machine it may
    see nothing yet; it then runs again.
    """
    for _ in range(tries):
        stdin = "\n".join(["tree image/provenance", *commands, "exit", ""])
        printed = run_class("metadata-shell", "--snapshot", str(path), stdin=stdin).stdout
        provenance, *sections = [section.strip("\n") for section in printed.split(">> ")[1:]]
        if provenance and not provenance.startswith("offset -1,"):
            return sections[: len(commands)]
    raise AssertionError(f"the metadata shell saw nothing in {path}, {tries} times:\n{printed}")


class KafkaNode(NodeProcess):
    """A node of the real Kafka. The first start formats its folder.

    During a run of pytest it shares a JVM with others (``java_programs.py``), unless it is to be killed
    (``own_process``) or ``jvm`` has options. ``properties`` are Java's, each a list.
    """

    def __init__(
        self,
        folder: Path,
        *,
        settings: Mapping[str, str] | None = None,
        jvm: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        own_process: bool = False,
        version: str = KAFKA_VERSION,
    ) -> None:
        super().__init__(folder)
        self._version = version
        self._has_own_process = own_process or bool(jvm)
        self._jvm = tuple(jvm) or ("-Xmx768m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")
        self._java_properties = dict(properties or {})
        self._settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{self.controller_port}",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{self.controller_port}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "log.dirs": str(folder / "data"),
            "num.partitions": "1",
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "4",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "4",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            **(settings or {}),
        }

    @property
    def properties(self) -> Path:
        return self.folder / "server.properties"

    def write_properties(self) -> None:
        """Without ``format``: for a data folder that is already formatted."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.properties.write_text("".join(f"{key}={value}\n" for key, value in self._settings.items()))

    def format(self, *options: str) -> None:
        """Write the settings and format the data folder with Kafka's own tool."""
        self.write_properties()
        format_ = ("format", "--standalone", "-t", str(random_uuid()), "-c", str(self.properties), *options)
        run_class("storage", *format_, timeout_s=120, version=self._version)

    def start(self, *, timeout_s: float = 60, on_spawned: Callable[[int], None] | None = None) -> None:
        require_peer(self._version)
        if not self.properties.exists():
            self.format()
        super().start(timeout_s=timeout_s, on_spawned=on_spawned)

    def command(self) -> list[str]:
        options = [*self._jvm, *(f"-D{key}={value}" for key, value in self._java_properties.items())]
        return kafka_command("node", str(self.properties), jvm=options, version=self._version)

    def _launched(self) -> subprocess.Popen[bytes] | JavaProgram:
        programs = None if self._has_own_process else shared_jvm(self._version)
        if programs is None:
            return super()._launched()
        return programs.start(
            CLASSES["node"],
            [str(self.properties)],
            stdin=Path(os.devnull),
            out=self.log_path,
            err=self.log_path,
            properties=self._java_properties,
        )

    def end(self) -> None:
        if isinstance(self._process, JavaProgram):
            self.stop()
        else:
            self.kill()

    def is_ready(self, printed: str) -> bool:
        return READY_LINE in printed


@contextmanager
def running_kafka(folder: Path, *, settings: Mapping[str, str] | None = None) -> Iterator[KafkaNode]:
    """Run a real Kafka for the duration of a ``with`` block."""
    node = KafkaNode(folder, settings=settings)
    node.start()
    try:
        yield node
    finally:
        node.stop()
