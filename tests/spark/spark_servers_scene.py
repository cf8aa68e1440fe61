"""A worker in a separate process with Spark elsewhere, and the requests of its users."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
from confluent_kafka import Consumer, TopicPartition

from tests.peers.barnabas_worker import BarnabasWorker
from tests.peers.connect_worker import worker_settings

__all__ = ["BYTES", "CREATED", "JSON", "RemoteWorker", "committed_values", "json_rows", "lines_of", "until"]

JSON = {
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
}
BYTES = dict.fromkeys(
    ("key.converter", "value.converter", "header.converter"),
    "org.apache.kafka.connect.converters.ByteArrayConverter",
)
CREATED = {"topic.creation.default.partitions": "1", "topic.creation.default.replication.factor": "1"}

_TIMEOUT_S = 400


def until(condition: Callable[[], bool], state: Callable[[], object], *, timeout_s: float = _TIMEOUT_S) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"the condition did not become true: {state()}"
        time.sleep(0.25)


class RemoteWorker(BarnabasWorker):
    def __init__(self, folder: Path, bootstrap: str, group: str, master: str, **settings: str) -> None:
        given = {"barnabas.connect.spark.master": master, **settings}
        super().__init__(folder, {**worker_settings(bootstrap, group), **given})
        if master.startswith("sc://"):  # This setting belongs to the start of the server.
            del self._settings["barnabas.connect.spark.conf.spark.driver.memory"]

    def request(self, method: str, path: str, body: object = None) -> httpx.Response:
        return httpx.request(method, self.url + path, json=body, timeout=60, trust_env=False)

    def configure(self, name: str, config: Mapping[str, str]) -> None:
        answer = self.request("PUT", f"/connectors/{name}/config", {"barnabas.trigger.interval.ms": "200", **config})
        assert answer.status_code in (200, 201), answer.text

    def status(self, name: str) -> dict[str, Any]:
        with suppress(httpx.HTTPError):
            answer = self.request("GET", f"/connectors/{name}/status")
            if answer.status_code == 200:
                found: dict[str, Any] = answer.json()
                return found
        return {"tasks": []}

    def states(self, name: str) -> list[str]:
        return [task["state"] for task in self.status(name)["tasks"]]

    def until_state(self, name: str, state: str) -> dict[str, Any]:
        """Return the status when all its tasks are in this state."""
        until(lambda: set(self.states(name)) == {state}, lambda: self._described(name))
        return self.status(name)

    def trace(self, name: str) -> str:
        """Return the error of its task, as soon as it has failed."""
        found: list[str] = []

        def has_failed() -> bool:
            found[:] = [task["trace"] for task in self.status(name)["tasks"] if task.get("trace")]
            return bool(found)

        until(has_failed, lambda: self._described(name))
        return found[0]

    def _described(self, name: str) -> str:
        return f"{self.status(name)}\n{self.printed()[-6000:]}"


def lines_of(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []


def json_rows(folder: Path) -> Sequence[Any]:
    """Return the rows of the data files of TopicToFiles."""
    return [json.loads(line) for file in sorted(folder.glob("*.json")) for line in file.read_text().splitlines()]


def committed_values(bootstrap: str, topic: str) -> list[bytes]:
    """Return the values of the committed records of a topic with one partition."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "reader", "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings, "isolation.level": "read_committed", "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[bytes] = []
    try:
        while True:
            message = consumer.poll(60)
            assert message is not None, f"{topic} has no end"
            if message.error() is not None:
                return found
            found.append(message.value())
    finally:
        consumer.close()
