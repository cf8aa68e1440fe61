"""A worker of Kafka's Connect in distributed mode, as a process, with the file connectors."""

from __future__ import annotations

import fcntl
import json
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.peers import HERE, KAFKA_VERSION, kafka_command, peer_lib, require_maven, require_peer
from tests.peers.node_process import NodeProcess

__all__ = ["ConnectWorker", "connect_plugins", "worker_settings"]


def connect_plugins(version: str = KAFKA_VERSION) -> Path:
    """Return the folder with Kafka's file connectors; the first call on a machine fetches it."""
    folder = peer_lib(version).parent / f"connect-plugins-{version}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            require_maven()
            part = folder.with_suffix(".part")
            shutil.rmtree(part, ignore_errors=True)
            artifact = f"org.apache.kafka:connect-file:{version}"
            command = ["mvn", "--batch-mode", "--quiet", "-f", str(HERE / "pom.xml"), "dependency:copy"]
            options = [f"-Dartifact={artifact}", f"-DoutputDirectory={part}"]
            subprocess.run([*command, *options], check=True, timeout=300)
            part.rename(folder)
    return folder


def worker_settings(bootstrap: str, group: str) -> dict[str, str]:
    """Return the settings of a group of workers, without those of a single worker."""
    return {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
        "config.storage.topic": f"{group}-configs",
        "config.storage.replication.factor": "1",
        "offset.storage.topic": f"{group}-offsets",
        "offset.storage.replication.factor": "1",
        "offset.storage.partitions": "5",
        "offset.flush.interval.ms": "1000",
        "status.storage.topic": f"{group}-statuses",
        "status.storage.replication.factor": "1",
        "scheduled.rebalance.max.delay.ms": "1000",
    }


class ConnectWorker(NodeProcess):
    """``settings`` are those of ``worker_settings``, and more. ``port`` is that of its REST API."""

    def __init__(self, folder: Path, settings: Mapping[str, str]) -> None:
        super().__init__(folder)
        self._settings = {
            "listeners": f"http://127.0.0.1:{self.port}",
            "plugin.path": str(connect_plugins()),
            "plugin.discovery": "only_scan",
            **settings,
        }

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self, *, timeout_s: float = 120, on_spawned: Callable[[int], None] | None = None) -> None:
        require_peer()
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "worker.properties").write_text("".join(f"{k}={v}\n" for k, v in self._settings.items()))
        super().start(timeout_s=timeout_s, on_spawned=on_spawned)

    def command(self) -> list[str]:
        jvm = ("-Xmx384m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")
        name = "org.apache.kafka.connect.cli.ConnectDistributed"
        return kafka_command(name, str(self.folder / "worker.properties"), jvm=jvm)

    def is_ready(self, printed: str) -> bool:
        try:
            self.request("GET", "/connectors", timeout_s=1)
        except (OSError, ValueError):
            return False
        return True

    def request(self, method: str, path: str, body: object = None, *, timeout_s: float = 30) -> Any:
        """Return the answer's JSON. Raise urllib's HTTPError for any status except success."""
        data = None if body is None else json.dumps(body).encode()
        headers = {} if body is None else {"Content-Type": "application/json"}
        request = urllib.request.Request(self.url + path, data=data, method=method, headers=headers)
        with urllib.request.urlopen(request, timeout=timeout_s) as response:
            answer = response.read()
        return json.loads(answer) if answer else None

    def until(self, method: str, path: str, wanted: Any, *, timeout_s: float = 60) -> Any:
        """Return the first answer for which ``wanted(answer)`` is true. Refused requests are repeated."""
        deadline = time.monotonic() + timeout_s
        answer: Any = None
        while time.monotonic() < deadline:
            try:
                answer = self.request(method, path)
            except urllib.error.HTTPError as error:
                answer = error.read()
            else:
                if wanted(answer):
                    return answer
            time.sleep(0.2)
        raise AssertionError(f"{method} {path} gave {answer!r} in the end\n{self.printed()[-3000:]}")
