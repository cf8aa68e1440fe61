"""A Connect worker for a test: ``with Node() as node, ConnectWorker(node) as worker``.

It needs ``pip install 'barnabas[connect]'``, and for tasks that run ``barnabas[spark]`` and Java 17 or later.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Self

from barnabas.testing.cluster import Cluster
from barnabas.testing.errors import NodeFailed, NotPossible
from barnabas.testing.launch import Launch
from barnabas.testing.node_log import NodeLog
from barnabas.testing.options import SettingValue, setting_text
from barnabas.testing.ports import HeldPort
from barnabas.testing.process_runner import ProcessRunner
from barnabas.testing.shown_logs import node_ended, node_started

__all__ = ["ConnectWorker"]

_LIBRARIES = ("httpx", "jinja2", "starlette", "uvicorn")
_STRING_CONVERTER = "org.apache.kafka.connect.storage.StringConverter"
_OWNERS = ("", "producer.", "consumer.", "admin.")
_STOP_TIMEOUT_S = 30.0
_LOOK_EVERY_S = 0.2
_numbers = itertools.count(1)


class ConnectWorker:
    """Use it in a ``with`` block inside that of the cluster, or call ``start`` and ``close``.

    Requests go through ``barnabas.connect.rest.connect_client.ConnectClient(worker.url)``, or any HTTP client.
    """

    def __init__(
        self, cluster: Cluster, *, settings: Mapping[str, SettingValue] | None = None, timeout_s: float = 120
    ) -> None:
        """``settings`` are those of the worker, with Kafka's names. Workers with the same ``group.id`` share their
        connectors. Raise NotPossible if a library of the extra ``connect`` is missing."""
        missing = [library for library in _LIBRARIES if find_spec(library) is None]
        if missing:
            raise NotPossible(f"a Connect worker needs {', '.join(missing)}: pip install 'barnabas[connect]'")
        self._cluster = cluster
        self._settings = {name: setting_text(value) for name, value in (settings or {}).items()}
        self._timeout_s = timeout_s
        self._name = f"worker-{next(_numbers)}"
        self._port: HeldPort | None = None
        self._runner: ProcessRunner | None = None
        self._log: NodeLog | None = None

    @property
    def url(self) -> str:
        """The address of the REST API. Raise NotPossible before the start."""
        if self._port is None:
            raise NotPossible("the worker is not started: use it in a with block, or call start()")
        return f"http://{self._port.address}"

    @property
    def is_running(self) -> bool:
        return self._runner is not None and self._runner.is_running

    @property
    def pid(self) -> int:
        """The id of the worker's process. Raise NotPossible if it does not run."""
        if self._runner is None or not self._runner.is_running:
            raise NotPossible(f"{self._name} does not run: start it with start()")
        return self._runner.pid

    @property
    def log(self) -> str:
        """The log of all starts."""
        return "" if self._log is None else self._log.text()

    def start(self) -> None:
        """Start the worker, and return when it is a healthy member of its group. Raise NodeFailed."""
        if self.is_running:
            return
        folder = self._cluster.folder / self._name
        folder.mkdir(exist_ok=True)
        self._port = self._port or HeldPort()
        self._port.give_to_server()
        self._log = NodeLog(folder / "worker.log", f"{self._name} at {self._port.address}")
        self._runner = ProcessRunner(self._log, "barnabas.testing.worker_child")
        launch = Launch(
            name=self._name,
            settings={**self._defaults(folder), **self._settings, "listeners": self.url},
            cluster_id="",
            folder=str(folder),
        )
        node_started(self._log)
        self._runner.launch(launch)
        try:
            self._runner.await_ready(self._timeout_s)
        except BaseException:
            self.close()
            raise

    def create(self, name: str, config: Mapping[str, str], *, timeout_s: float = 120) -> None:
        """Create or change a connector, and return when all its tasks run.

        Raise RequestRefused for a configuration that the worker refuses, NodeFailed if a task fails or does not run in
        time.
        """
        from barnabas.connect.rest.connect_client import ConnectClient

        deadline = time.monotonic() + timeout_s
        with ConnectClient(self.url) as client:
            client.put_config(name, config)
            while True:
                status = client.connectors().get(name, {}).get("status", {"connector": {"state": "NEW"}, "tasks": []})
                parts = [status["connector"], *status["tasks"]]
                if len(parts) > 1 and all(part["state"] == "RUNNING" for part in parts):
                    return
                failed = next((part for part in parts if part["state"] == "FAILED"), None)
                if failed is not None:
                    raise NodeFailed(f"connector {name} failed: {failed.get('trace', '')}")
                if time.monotonic() > deadline:
                    states = ", ".join(part["state"] for part in parts)
                    raise NodeFailed(f"connector {name} did not run after {timeout_s:g} s; its parts are: {states}")
                time.sleep(_LOOK_EVERY_S)

    def kill(self) -> None:
        """End the worker like ``kill -9``; ``start`` starts it again at the same address."""
        if self._runner is not None:
            self._runner.kill()

    def stop(self) -> None:
        """Stop the worker in order: it leaves the group, and others take over its tasks.

        Raise NodeFailed if it does not end in time, or ends with an error.
        """
        if self._runner is not None:
            self._runner.stop(_STOP_TIMEOUT_S)

    def close(self) -> None:
        """End the worker. A second call does nothing."""
        if self._log is not None:
            node_ended(self._log)
        with suppress(NodeFailed):
            self.stop()
        self._runner = None
        if self._port is not None:
            self._port.close()
            self._port = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _defaults(self, folder: Path) -> dict[str, str]:
        login = self._cluster.client_properties()
        servers = login.pop("bootstrap.servers")
        found = {
            "bootstrap.servers": servers,
            # The worker's own clients, and as in Kafka those of its connectors.
            **{f"{owner}{name}": text for owner in _OWNERS for name, text in login.items()},
            "group.id": "connect",
            "key.converter": _STRING_CONVERTER,
            "value.converter": _STRING_CONVERTER,
            "offset.storage.partitions": "5",
            "scheduled.rebalance.max.delay.ms": "1000",
            "barnabas.connect.spark.directory": str(folder / "spark"),
            "barnabas.connect.spark.conf.spark.driver.memory": "1g",
            "barnabas.connect.spark.conf.spark.ui.enabled": "false",
        }
        for kind in ("config", "offset", "status"):
            found[f"{kind}.storage.topic"] = f"connect-{kind}"
            found[f"{kind}.storage.replication.factor"] = str(min(3, len(self._cluster.brokers)))
        return found
