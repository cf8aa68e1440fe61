"""Unmodified third-party clients receive the same answers from our worker as from Kafka's: the same calls run against
both. Each worker has its own group on one node of ours. The allowed differences are listed here: the identity of a
worker, versions, error texts, and extras of one of them (plugins, settings of ours that Kafka does not know).
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from barnabas.testing import Node
from tests.peers.barnabas_worker import BarnabasWorker
from tests.peers.connect_clients import Answer, JavaClient, PythonClient
from tests.peers.connect_worker import ConnectWorker, worker_settings

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(600)]

SIDES = ("kafka", "barnabas")
FILE_SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"
_OF_A_WORKER = {"worker_id", "workerId", "version", "commit"}
_LISTS_OF_PLUGINS = {"plugins", "list-plugins"}
_ON_THE_WAY = {"RESTARTING", "UNASSIGNED"}
"""The visible state of a restart depends on when it is requested."""
_HTTP_ERROR = re.compile(r"(\d{3}) \w+ Error: ")


@pytest.fixture(scope="module")
def workers(
    barnabas_node: Node, kafka_peer: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, str]]:
    """The URLs of the workers by side."""
    folder = tmp_path_factory.mktemp("clients")
    real = ConnectWorker(folder / "kafka", worker_settings(barnabas_node.bootstrap_servers, "clients-kafka"))
    ours = BarnabasWorker(folder / "barnabas", worker_settings(barnabas_node.bootstrap_servers, "clients-barnabas"))
    try:
        real.start()
        ours.start(timeout_s=90)
        yield {"kafka": real.url, "barnabas": ours.url}
    finally:
        for worker in (ours, real):
            worker.stop(timeout_s=60)


def test_the_java_client_receives_the_same_from_both_workers(workers: Mapping[str, str], tmp_path: Path) -> None:
    client = JavaClient()
    answers = {side: client.run(workers[side], _file(tmp_path, side), f"java-client-{side}") for side in SIDES}
    assert len(answers["kafka"]) > 30
    _assert_same(answers)


def test_the_python_client_receives_the_same_from_both_workers(workers: Mapping[str, str], tmp_path: Path) -> None:
    client = PythonClient()

    def run_story(side: str) -> dict[str, Answer]:
        return _story(lambda *arguments: client.call(workers[side], *arguments), _file(tmp_path, side), side)

    with ThreadPoolExecutor(2) as pool:
        answers = dict(zip(SIDES, pool.map(run_story, SIDES), strict=True))
    assert len(answers["kafka"]) > 25
    _assert_same(answers)


def _story(call: Callable[..., Answer], file: Path, side: str) -> dict[str, Answer]:
    """Run every command of ``kc`` on a connector that is created and deleted."""
    topic = f"python-client-{side}"
    config = {"connector.class": FILE_SOURCE, "tasks.max": "1", "file": str(file), "topic": topic}
    wrong = {**config, "tasks.max": "many"}
    answers: dict[str, Answer] = {}

    def record(*arguments: str, name: str | None = None) -> None:
        answers[name or " ".join(arguments)] = call(*arguments)

    def wait(wanted: str, *arguments: str) -> None:
        deadline = time.monotonic() + 90
        while True:
            answers[f"{' '.join(arguments)} until {wanted.removesuffix(side)}"] = found = call(*arguments)
            if wanted in json.dumps(found.content) or time.monotonic() > deadline:
                return
            time.sleep(0.2)

    record("info")
    record("list-plugins")
    record("list", name="list without connectors")
    record("get", "missing")
    record("validate-config", "FileStreamSourceConnector", "-d", json.dumps(config), name="validate")
    record("validate-config", "FileStreamSourceConnector", "-d", json.dumps(wrong), name="validate invalid settings")
    record("create", "-d", json.dumps({"name": "wrong", "config": wrong}), name="create with invalid settings")
    record("create", "-d", json.dumps({"name": "file", "config": config}), name="create")
    wait("RUNNING", "task-status", "file", "0")
    record("create", "-d", json.dumps({"name": "file", "config": config}), name="create again")
    record("list")
    record("list", "--expand=status")
    record("list", "--expand=info")
    for command in ("get", "status", "config", "list-tasks"):
        record(command, "file")
    record("task-status", "file", "7")
    wait(topic, "list-topics", "file")
    record("reset-topics", "file")
    record("pause", "file")
    wait("PAUSED", "task-status", "file", "0")
    record("resume", "file")
    wait("RUNNING", "task-status", "file", "0")
    record("restart", "file")
    record("restart", "file", "--include-tasks")
    wait("RUNNING", "task-status", "file", "0")
    record("restart-task", "file", "0")
    record("restart-task", "file", "7")
    record("update", "file", "-d", json.dumps({**config, "batch.size": "1000"}), name="update")
    wait("batch.size", "config", "file")
    record("delete", "file")
    record("delete", "file", name="delete a deleted connector")
    record("list", name="final list")
    return answers


def _file(folder: Path, side: str) -> Path:
    """Write the input file of a connector. Return its path."""
    file = folder / f"{side}.txt"
    file.write_text("one\ntwo\nthree\n")
    return file


def _assert_same(answers: Mapping[str, Mapping[str, Answer]]) -> None:
    kafka, ours = answers["kafka"], answers["barnabas"]
    assert list(kafka) == list(ours)
    failed = {name for name, answer in kafka.items() if not answer.is_success}
    assert failed == {name for name, answer in ours.items() if not answer.is_success}
    differences = {}
    for name in kafka:
        both = _comparable(kafka[name], "kafka"), _comparable(ours[name], "barnabas")
        if name in _LISTS_OF_PLUGINS:
            both = _kinds(both[0]), _kinds(both[1])
        if both[0] != both[1]:
            differences[name] = both
    assert not differences, json.dumps(differences, indent=1)[:6000]


def _comparable(answer: Answer, side: str) -> Any:
    """Remove the identity of a worker, and from an HTTP error the URL and the reason phrase."""
    text = json.dumps(answer.content)
    for name in (f"{side}.txt", f"client-{side}"):
        text = text.replace(name, name.replace(side, "side"))
    content = json.loads(text)
    if isinstance(content, str) and (error := _HTTP_ERROR.match(content)):
        return f"HTTP status {error[1]}"
    return _common(content)


def _common(value: Any) -> Any:
    if isinstance(value, Mapping):
        if "definition" in value and "value" in value:
            return _common_setting(value)
        found = {key: _common(member) for key, member in value.items() if key not in _OF_A_WORKER}
        return found | ({"state": "RUNNING"} if found.get("state") in _ON_THE_WAY else {})
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_common(item) for item in value]
    return value


def _common_setting(setting: Mapping[str, Mapping[str, Any]]) -> Any:
    """Normalize a validation. Our descriptions differ, we have our own converters, and classes have other versions."""
    definition, value = dict(setting["definition"]), dict(setting["value"])
    del definition["documentation"]
    for name in ("recommendedValues", "recommended_values"):
        value.pop(name, None)
    if definition["name"].endswith("plugin.version"):
        del value["value"]
        for name in ("defaultValue", "default_value"):
            definition.pop(name, None)
    if definition["name"] == "file":
        del definition["required"]  # Without a file, Kafka's source reads its standard input; ours reads only files.
    return definition, value


def _kinds(plugins: Sequence[Mapping[str, str]]) -> Any:
    """Class names differ: compare the kinds and their descriptions."""
    return sorted({(plugin["type"], *sorted(plugin)) for plugin in plugins})
