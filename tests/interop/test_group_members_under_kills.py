"""Members of ours read every record and commit it, while each broker of a cluster is killed and restarted."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer

from barnabas.cli.main import main
from barnabas.testing import Cluster

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

BARNABAS = str(Path(sys.executable).parent / "barnabas")
TOPIC = "orders"


class Load:
    """Writes numbers until it is stopped; ``written`` are those that the cluster has acknowledged."""

    def __init__(self, bootstrap: str) -> None:
        settings = {"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0}
        self._producer = Producer(settings)
        self.written: set[str] = set()
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._ends.set()
        self._thread.join()
        assert self._producer.flush(60) == 0

    def _run(self) -> None:
        number = 0
        while not self._ends.wait(0.02):
            self._producer.produce(TOPIC, str(number), on_delivery=self._delivered)
            self._producer.poll(0)
            number += 1

    def _delivered(self, error: object, message: object) -> None:
        if error is None:
            self.written.add(message.value().decode())  # type: ignore[attr-defined]


@contextmanager
def started(command: list[str], output: Path) -> Iterator[subprocess.Popen[bytes]]:
    with output.open("wb") as file, subprocess.Popen(command, stdout=file, stderr=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_every_record_is_read_and_committed_although_each_broker_is_killed(
    protocol: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Cluster(brokers=3, topics={TOPIC: 6}) as cluster, ExitStack() as stack:
        command = [
            BARNABAS, "consume", TOPIC, "--group", "readers", "--group-protocol", protocol, "--from-beginning", "-q",
            "--bootstrap-server", cluster.bootstrap_servers,
        ]  # fmt: skip
        files = [tmp_path / "first", tmp_path / "second"]
        members = [stack.enter_context(started(command, file)) for file in files]
        load = Load(cluster.bootstrap_servers)

        def seen() -> set[str]:
            return {line for file in files for line in file.read_text().split()}

        def wait_for_everything() -> None:
            deadline = time.monotonic() + 60
            wanted = set(load.written)
            while not seen() >= wanted:
                assert time.monotonic() < deadline, sorted(wanted - seen(), key=int)[:10]
                assert [member.poll() for member in members] == [None, None]
                time.sleep(0.2)

        try:
            wait_for_everything()
            while not all(file.stat().st_size for file in files):  # Both members have partitions.
                time.sleep(0.2)
            for node_id in (1, 2, 3):
                cluster.node(node_id).kill()
                wait_for_everything()
                cluster.node(node_id).start()
                wait_for_everything()
            load.stop()
            wait_for_everything()
        finally:
            for member in members:
                member.send_signal(signal.SIGINT)
            errors = [member.communicate(timeout=30)[1] for member in members]
        assert [member.returncode for member in members] == [130, 130], errors
        assert main([*command[1:], "-e"]) == 0
        assert capsys.readouterr().out == ""
