"""A Kafka worker and one of ours in one group, each as leader and as follower."""

from __future__ import annotations

import asyncio
import time
import urllib.error
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.connect.decide.registry.plugin_registry import PluginRegistry
from barnabas.connect.decide.tasks.task_runtime import BatchSucceeded
from barnabas.connect.plugins.discovery import discover
from barnabas.testing import Node
from tests.peers.barnabas_worker import BarnabasWorker
from tests.peers.connect_worker import ConnectWorker, worker_settings
from tests.peers.in_process_workers import InProcessWorker, TaskLedger, eventually, in_process_worker

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(400)]


@pytest.fixture
def java_worker(barnabas_node: Node, tmp_path: Path, kafka_peer: Path) -> Iterator[ConnectWorker]:
    worker = ConnectWorker(tmp_path / "java", worker_settings(barnabas_node.bootstrap_servers, "mixed"))
    yield worker
    worker.stop()


def _config(folder: Path, number: int) -> dict[str, str]:
    """A connector that both kinds of worker can run."""
    source = folder / f"in{number}.txt"
    source.write_text("one\ntwo\n")
    return {
        "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
        "tasks.max": "1",
        "file": str(source),
        "topic": f"mixed-{number}",
    }


async def _status(worker: InProcessWorker, name: str, wanted: Any) -> dict[str, Any]:
    found: dict[str, Any] = await worker.until(f"/connectors/{name}/status", wanted, timeout_s=120)
    return found


def _all_run(status: dict[str, Any]) -> bool:
    everything = [status["connector"], *status["tasks"]]
    return bool(status["tasks"]) and all(part["state"] == "RUNNING" for part in everything)


async def _ask_java(worker: ConnectWorker, method: str, path: str, body: object = None) -> Any:
    """Repeat the request during a rebalance, which a Kafka worker answers with 409 or 500."""
    for _ in range(100):
        try:
            return await asyncio.to_thread(worker.request, method, path, body)
        except urllib.error.HTTPError as error:
            text = error.read()
            if error.code not in (409, 500):
                raise AssertionError(f"{method} {path}: {error.code} {text!r}") from None
            await asyncio.sleep(0.3)
    raise AssertionError(f"{method} {path}: {text!r}")


@pytest.mark.parametrize("ours_leads", [True, False], ids=["ours leads", "java leads"])
def test_a_java_worker_and_ours_share_connectors(
    java_worker: ConnectWorker, barnabas_node: Node, tmp_path: Path, ours_leads: bool
) -> None:
    async def story() -> None:
        ledger = TaskLedger()
        if not ours_leads:
            await asyncio.to_thread(java_worker.start)
        async with in_process_worker(barnabas_node.bootstrap_servers, "mixed", ledger) as ours:
            if ours_leads:
                await asyncio.to_thread(java_worker.start)
            group = ours.running.herder.context.group
            await eventually(lambda: group.is_up_to_date and (group.generation > 1 or ours_leads))
            for number in range(2):
                body = {"name": f"f{number}", "config": _config(tmp_path, number)}
                created = await ours.request("POST", "/connectors", body)
                assert created.status_code == 201, created.text
            for name in ("f0", "f1"):
                await _status(ours, name, _all_run)
            owners = {(await _status(ours, name, _all_run))["tasks"][0]["worker_id"] for name in ("f0", "f1")}
            assert len(owners) == 2, owners  # One for each worker.
            assert group.is_leader is ours_leads
            assert group.protocol_version.name == "SESSIONED"
            assert not group.are_all_members_ours
            leader = ours.url if ours_leads else java_worker.url
            unsigned = await ours.client.post(f"{leader}/connectors/f0/tasks", json=[])
            assert unsigned.status_code == 400, unsigned.text

            # A request to either of them takes effect on both.
            java_sees = await _ask_java(java_worker, "GET", "/connectors?expand=status")
            ours_sees = (await ours.request("GET", "/connectors?expand=status")).json()
            assert java_sees == ours_sees
            # A failure on ours stays in the status, whichever worker is contacted, until a batch succeeds.
            (task,) = ledger.owners
            path = f"/connectors/{task.connector}/tasks/{task.task}/status"
            ledger.fail(task, "it broke")
            failing = await ours.until(
                path, lambda found: found["state"] == "RUNNING" and "no batch has succeeded" in found.get("trace", "")
            )
            await _java_sees(java_worker, path, failing)
            ledger.listeners[task](BatchSucceeded(task))
            await _java_sees(java_worker, path, await ours.until(path, lambda found: "trace" not in found))

            await _ask_java(java_worker, "PUT", "/connectors/f0/stop")
            await _status(ours, "f0", lambda found: found["connector"]["state"] == "STOPPED" and not found["tasks"])
            await ours.request("PUT", "/connectors/f0/resume")
            await _status(ours, "f0", _all_run)
            await _ask_java(java_worker, "POST", "/connectors/f1/restart?includeTasks=true")
            await _status(ours, "f1", _all_run)

            await _ask_java(java_worker, "DELETE", "/connectors/f0")
            await _ask_java(java_worker, "DELETE", "/connectors/f1")
            await ours.until("/connectors", lambda found: found == [])
            await eventually(lambda: not ledger.owners)

    asyncio.run(asyncio.wait_for(story(), 400))


async def _java_sees(worker: ConnectWorker, path: str, wanted: Any) -> None:
    """Wait until the other worker has read the status."""
    while (await _ask_java(worker, "GET", path)) != wanted:  # noqa: ASYNC110 - what is watched has no event.
        await asyncio.sleep(0.1)


async def _quiet(state: Callable[[], object], *, for_s: float = 6, tries: int = 5) -> None:
    """A rebalance may still follow the last status, or a slow machine may cause one; a cycle does not end."""
    for _ in range(tries):
        before = state()
        await asyncio.sleep(for_s)
        if state() == before:
            return
    raise AssertionError(f"still not quiet after {tries * for_s:g} s: {before}, {state()}")


@pytest.mark.parametrize("ours_has_it", [True, False], ids=["ours has it", "java has it"])
def test_a_connector_with_a_missing_class_fails_without_endless_rebalances(
    java_worker: ConnectWorker,
    barnabas_node: Node,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    ours_has_it: bool,
) -> None:
    names = [f"{'ours' if ours_has_it else 'java'}-only-{number}" for number in range(3)]
    if not ours_has_it:
        fewer = PluginRegistry(plugin for plugin in discover() if "FileStream" not in plugin.name)
        monkeypatch.setattr("barnabas.connect.run.worker.discover", lambda **_: fewer)

    def config(number: int) -> dict[str, str]:
        generator = {"connector.class": "Generator", "topic": "generated"}
        return generator if ours_has_it else _config(tmp_path, number)

    def is_settled(status: dict[str, Any]) -> bool:
        """It runs where the class exists; elsewhere it has failed."""
        for part in [status["connector"], *status["tasks"]]:
            runs_on_ours = part["worker_id"] == ours_id[0]
            if part["state"] != ("RUNNING" if runs_on_ours == ours_has_it else "FAILED"):
                return False
        return bool(status["tasks"]) or status["connector"]["state"] == "FAILED"

    ours_id: list[str] = []

    async def story() -> None:
        if not ours_has_it:
            await asyncio.to_thread(java_worker.start)
        async with in_process_worker(barnabas_node.bootstrap_servers, "mixed", TaskLedger()) as ours:
            ours_id.append(ours.worker_id)
            if ours_has_it:
                await asyncio.to_thread(java_worker.start)
            herder = ours.running.herder
            group = herder.context.group
            await eventually(lambda: group.is_up_to_date)
            for number, name in enumerate(names):
                body = {"name": name, "config": {**config(number), "tasks.max": "1"}}
                if ours_has_it:
                    assert (await ours.request("POST", "/connectors", body)).status_code == 201
                else:
                    await _ask_java(java_worker, "POST", "/connectors", body)
            statuses = [await _status(ours, name, is_settled) for name in names]
            failed = [part for status in statuses for part in (status["connector"], *status["tasks"])]
            failed = [part for part in failed if part["state"] == "FAILED"]
            assert failed
            for part in failed:
                # Kafka's worker names the class of a connector; for a task it reports an unknown type.
                wanted = ("Generator", "not a recognizable type") if ours_has_it else ("FileStreamSource",)
                assert any(text in part["trace"] for text in wanted), part
            await _quiet(lambda: (group.generation, herder.config.offset))
            assert [await _status(ours, name, is_settled) for name in names] == statuses
            for name in names:
                assert (await ours.request("DELETE", f"/connectors/{name}")).status_code == 204

    asyncio.run(asyncio.wait_for(story(), 300))


@pytest.mark.parametrize("ours_leads", [True, False], ids=["ours leads", "java leads"])
def test_file_sources_and_sinks_run_on_either_kind_of_worker(
    java_worker: ConnectWorker, barnabas_node: Node, tmp_path: Path, ours_leads: bool
) -> None:
    """Ours is `barnabas worker`, with Spark."""
    ours = BarnabasWorker(tmp_path / "ours", worker_settings(barnabas_node.bootstrap_servers, "mixed"))
    stream = "org.apache.kafka.connect.file.FileStream"
    lines = [f"line {number}" for number in range(50)]
    try:
        for worker in (ours, java_worker) if ours_leads else (java_worker, ours):
            worker.start()
        for number in range(3):
            source, sink = tmp_path / f"from{number}.txt", tmp_path / f"to{number}.txt"
            source.write_text("".join(f"{number} {line}\n" for line in lines))
            topic = f"files-{number}-{ours_leads}".lower()
            for name, config in (
                (
                    f"source{number}",
                    {"connector.class": f"{stream}SourceConnector", "file": str(source), "topic": topic},
                ),
                (f"sink{number}", {"connector.class": f"{stream}SinkConnector", "file": str(sink), "topics": topic}),
            ):
                path = f"/connectors/{name}/config"
                asyncio.run(_ask_java(java_worker, "PUT", path, {**config, "tasks.max": "1"}))
        names = [f"{kind}{number}" for kind in ("source", "sink") for number in range(3)]
        statuses = [java_worker.until("GET", f"/connectors/{name}/status", _all_run, timeout_s=150) for name in names]
        for number in range(3):
            _until_has(tmp_path / f"to{number}.txt", [f"{number} {line}" for line in lines])
        assert {status["tasks"][0]["worker_id"] for status in statuses} == {
            f"127.0.0.1:{worker.port}" for worker in (ours, java_worker)
        }
        for name in names:
            asyncio.run(_ask_java(java_worker, "DELETE", f"/connectors/{name}"))
    finally:
        ours.stop()


def _until_has(file: Path, lines: list[str]) -> None:
    deadline = time.monotonic() + 90
    found: list[str] = []
    while found != lines:
        assert time.monotonic() < deadline, f"{file.name} has {found[-5:]}, {len(found)} lines"
        time.sleep(0.3)
        found = file.read_text().splitlines() if file.exists() else []
