"""Kafka's own verifiable producer and consumer, whose lines are turned into histories."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

from tests.history.clients import Client
from tests.history.payload import RecordId, Spoilt
from tests.history.records_check import RecordsCheck
from tests.peers import HERE, kafka_command, require_peer

__all__ = ["JavaConsumer", "JavaCopier", "JavaProducer", "compiled", "decode_java", "has_java"]

_PRODUCER = "org.apache.kafka.tools.VerifiableProducer"
_CONSUMER = "org.apache.kafka.tools.VerifiableConsumer"
_COPIER = "org.apache.kafka.tools.TransactionalMessageCopier"
_PREFIX = 7
_COPIES_IN_A_TRANSACTION = 10
_ENDS_WITHIN_S = 20.0


def has_java() -> bool:
    """Return whether this machine can run Java clients: Maven fetches them."""
    return all(map(shutil.which, ("java", "mvn")))


def decode_java(value: bytes) -> tuple[RecordId, int]:
    """A producer's value is a prefix and a number; the partition is chosen by the client."""
    prefix, _, number = value.partition(b".")
    if prefix != b"%d" % _PREFIX or not number.isdigit():
        raise Spoilt(f"{value[:80]!r}")
    return RecordId("java", int(number)), -1


def compiled(name: str, lib: Path, folder: Path) -> list[str]:
    """Compile ``name``.java of ``tests/peers/java`` with the jars in ``lib``. Return the command that runs it.

    Clients that are killed start often, and Java would compile a source each time.
    """
    classes = folder / f"{name}-classes"
    source = HERE / "java" / f"{name}.java"
    subprocess.run(["javac", "-d", str(classes), "-cp", f"{lib}/*", str(source)], check=True, timeout=300)
    log4j = f"-Dlog4j2.configurationFile={HERE / 'log4j2.properties'}"
    jvm = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", log4j]
    return ["java", *jvm, "-cp", f"{classes}:{lib}/*", name]


class _JavaClient(Client):
    """A process that prints a line of JSON for each event. ``errors`` are those that it received."""

    def __init__(self, name: str, folder: Path, command: list[str]) -> None:
        super().__init__(name)
        require_peer()
        self.errors: list[str] = []
        self._log = (folder / f"{name}.log").open("wb")
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self._log)

    def ask_to_stop(self) -> None:
        super().ask_to_stop()
        self._process.terminate()

    def kill(self) -> None:
        """Stop the process if it still runs."""
        self._process.kill()

    def _run(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(b"{"):
                self._handle_event(json.loads(line))
        self._process.wait()
        self._process.stdout.close()
        self._log.close()

    def _handle_event(self, event: dict[str, Any]) -> None:
        raise NotImplementedError


class JavaProducer(_JavaClient):
    """Idempotent, acks=all, unlimited retries: the defaults of Kafka's producer."""

    def __init__(self, bootstrap: str, topic: str, check: RecordsCheck, folder: Path, *, rate: int) -> None:
        settings = folder / "producer.properties"
        settings.write_text("enable.idempotence=true\nretries=2147483647\n")  # The tool itself would not retry.
        arguments = ["--bootstrap-server", bootstrap, "--topic", topic, "--throughput", str(rate)]
        arguments += ["--value-prefix", str(_PREFIX), "--command-config", str(settings)]
        super().__init__("java-producer", folder, kafka_command(_PRODUCER, *arguments))
        self._check = check

    def _handle_event(self, event: dict[str, Any]) -> None:
        self.counts[event["name"]] += 1
        if event["name"] == "producer_send_success":
            record, _ = decode_java(event["value"].encode())
            self._check.sent(record, event["partition"])
            self._check.acknowledged(record, event["partition"], event["offset"])
        elif event["name"] == "producer_send_error":
            self.errors.append(str(event))


class JavaConsumer(_JavaClient):
    """A member of a group of either protocol, which commits what it received."""

    def __init__(
        self, bootstrap: str, topic: str, check: RecordsCheck, folder: Path, *, group: str, protocol: str
    ) -> None:
        arguments = ["--bootstrap-server", bootstrap, "--topic", topic, "--group-id", group, "--verbose"]
        arguments += ["--group-protocol", protocol, "--reset-policy", "earliest"]
        super().__init__(f"java-{group}", folder, kafka_command(_CONSUMER, *arguments))
        self._check = check

    def _handle_event(self, event: dict[str, Any]) -> None:
        self.counts[event["name"]] += 1
        if event["name"] == "record_data":
            record, _ = decode_java(event["value"].encode())
            self._check.seen(self.name, event["partition"], event["offset"], record)
        elif event["name"] == "partitions_assigned":
            for partition in event["partitions"]:
                self._check.reader_begins(self.name, partition["partition"], None)
        elif event["name"] == "offsets_committed" and not event["success"]:
            self.errors.append(str(event))


class JavaCopier(Client):
    """Kafka's own tool that copies a topic with its offsets in transactions, and aborts some at random. It ends when
    its producer can't continue, and is then started again."""

    def __init__(
        self, bootstrap: str, source: str, target: str, folder: Path, *, group: str, transaction_timeout_ms: int
    ) -> None:
        super().__init__("java-copier")
        require_peer()
        arguments = ["--broker-list", bootstrap, "--input-topic", source, "--input-partition", "-1"]
        arguments += ["--output-topic", target, "--consumer-group", group, "--transactional-id", group]
        arguments += ["--transaction-size", str(_COPIES_IN_A_TRANSACTION), "--group-mode", "--use-group-metadata"]
        arguments += ["--transaction-timeout", str(transaction_timeout_ms), "--enable-random-aborts"]
        self._command = kafka_command(_COPIER, *arguments)
        self._log_path = folder / f"{self.name}.log"
        self._process: subprocess.Popen[bytes] | None = None

    def ask_to_stop(self) -> None:
        super().ask_to_stop()
        if self._process is not None:
            self._process.terminate()  # It leaves its group. An open transaction ends by its time-out.

    def stop(self, *, timeout_s: float = 90) -> None:
        if self._process is not None:
            try:
                self._process.wait(_ENDS_WITHIN_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
        super().stop(timeout_s=timeout_s)

    def _run(self) -> None:
        with self._log_path.open("ab") as log:
            while not self._ends.is_set():
                self.counts["transactions: lives of the Java copier"] += 1
                self._process = subprocess.Popen(
                    self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
                )
                if self._ends.is_set():
                    self._process.kill()
                self._process.wait()
                self._ends.wait(1.0)
