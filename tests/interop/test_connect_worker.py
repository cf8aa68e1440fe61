"""Complete workers of ours on a node of ours: they share connectors, take over from each other, and report it.
Everything except Spark is real. The task runner only records runs and checks that no task runs twice (``TaskLedger``).
"""

from __future__ import annotations

import asyncio
import logging
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from barnabas.clients.admin.client import AdminClient
from barnabas.clients.admin.topics import NewTopic
from barnabas.connect.run import worker as worker_module
from barnabas.connect.run.worker import Worker, WorkerFailed
from barnabas.connect.settings.plugin_config_def import ConfigException
from barnabas.connect.settings.worker_config import InvalidWorkerConfig, worker_config_of
from barnabas.connect_spark.runtime_factory import make_spark_runtime
from barnabas.testing import Node
from tests.peers import connect_captures
from tests.peers.connect_worker import worker_settings
from tests.peers.in_process_workers import InProcessWorker, TaskLedger, eventually, in_process_worker

pytestmark = pytest.mark.interop

MOCK = {"connector.class": "MockSource", "tasks.max": "3"}


def _runs_on(count: int, *workers: InProcessWorker):  # type: ignore[no-untyped-def]
    """Return whether the connector and this many tasks run on one of these workers."""
    ids = {worker.worker_id for worker in workers}

    def wanted(status: dict) -> bool:
        everything = [status["connector"], *status["tasks"]]
        return len(status["tasks"]) == count and all(
            part["state"] == "RUNNING" and part["worker_id"] in ids for part in everything
        )

    return wanted


async def _leader_first(*workers: InProcessWorker) -> list[InProcessWorker]:
    """Wait until all are in the group and agree on the leader. Return the workers, the leader first."""
    groups = [worker.running.herder.context.group for worker in workers]
    await eventually(
        lambda: all(group.is_up_to_date for group in groups) and len({group.leader_url for group in groups}) == 1
    )
    leader = next(worker for worker in workers if worker.worker.rest.advertised_url == groups[0].leader_url)
    return [leader, *(worker for worker in workers if worker is not leader)]


def test_two_workers_share_a_connector_and_one_takes_over_from_the_other(
    barnabas_node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "barnabas")

    async def story() -> None:
        ledger = TaskLedger()
        options: dict[str, Any] = {"session.timeout.ms": "6000", "heartbeat.interval.ms": "1000"}
        async with (
            in_process_worker(barnabas_node.bootstrap_servers, "two-workers", ledger, **options) as first,
            in_process_worker(barnabas_node.bootstrap_servers, "two-workers", ledger, **options) as second,
        ):
            leader, follower = await _leader_first(first, second)
            assert leader.running.herder.context.group.are_all_members_ours
            created = await follower.request("POST", "/connectors", {"name": "m", "config": MOCK})
            assert (created.status_code, created.json()["tasks"]) == (201, [])
            assert created.headers["Location"].startswith(follower.url)
            status = await leader.until("/connectors/m/status", _runs_on(3, first, second))
            assert {task["worker_id"] for task in status["tasks"]} == {first.worker_id, second.worker_id}

            paused = await follower.request("PUT", "/connectors/m/pause")
            assert paused.status_code == 202
            await leader.until("/connectors/m/status", lambda found: {t["state"] for t in found["tasks"]} == {"PAUSED"})
            await leader.request("PUT", "/connectors/m/resume")
            await follower.until("/connectors/m/status", _runs_on(3, first, second))
            restarted = await follower.request("POST", "/connectors/m/restart?includeTasks=true")
            assert restarted.status_code == 202
            assert {task["state"] for task in restarted.json()["tasks"]} == {"RESTARTING"}
            await follower.until("/connectors/m/status", _runs_on(3, first, second))

            metrics = (await leader.request("GET", "/metrics")).text
            assert 'connect_protocol{connect_protocol="SESSIONED"} 1.0' in metrics
            caplog.clear()
            await leader.die()
            await follower.until("/connectors/m/status", _runs_on(3, follower))
            lost = f"worker {leader.worker_id} is lost to group two-workers: {follower.url}/ receives "
            assert [text for text in caplog.messages if text.startswith(lost)]
            assert [text for text in caplog.messages if text.startswith("taking over task m-")]
            assert set(ledger.owners.values()) == {follower.worker_id}
            assert (await follower.request("DELETE", "/connectors/m")).status_code == 204
            await follower.until("/connectors", lambda found: found == [])
            await eventually(lambda: not ledger.owners)

    asyncio.run(asyncio.wait_for(story(), 90))


def test_the_work_of_a_leaving_worker_moves_immediately(barnabas_node: Node) -> None:
    async def story() -> float:
        ledger = TaskLedger()
        async with in_process_worker(barnabas_node.bootstrap_servers, "leaving", ledger) as stays:
            async with in_process_worker(barnabas_node.bootstrap_servers, "leaving", ledger) as leaves:
                leader, _ = await _leader_first(stays, leaves)
                await leader.request("PUT", "/connectors/m/config", MOCK)
                await stays.until("/connectors/m/status", _runs_on(3, stays, leaves))
                began = time.monotonic()
            await stays.until("/connectors/m/status", _runs_on(3, stays))
            return time.monotonic() - began

    took_s = asyncio.run(asyncio.wait_for(story(), 90))
    assert took_s < 15  # On an idle machine 1; the machine of the tests may be busy.


def test_a_failing_task_is_restarted_and_its_status_says_so_without_secrets(
    barnabas_node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOCK_SECRET", "hunter2000")

    async def story() -> None:
        ledger = TaskLedger()
        ledger.failing.add("m")
        options: dict[str, Any] = {
            "barnabas.connect.task.restart.backoff.ms": "300",
            "config.providers": "env",
            "config.providers.env.class": "org.apache.kafka.common.config.provider.EnvVarConfigProvider",
        }
        config = {**MOCK, "tasks.max": "1", "url": "db://u:${env:MOCK_SECRET}@host"}
        async with in_process_worker(barnabas_node.bootstrap_servers, "failing", ledger, **options) as worker:
            await _leader_first(worker)
            await worker.request("PUT", "/connectors/m/config", config)
            status = await worker.until(
                "/connectors/m/status", lambda found: any(task["state"] == "FAILED" for task in found["tasks"])
            )
            trace = status["tasks"][0]["trace"]
            assert trace.startswith("it broke\n")
            assert "\nRestart " in trace
            assert "hunter2000" not in trace
            assert "[hidden]" in trace
            ledger.failing.clear()
            await worker.until("/connectors/m/status", _runs_on(1, worker))

    asyncio.run(asyncio.wait_for(story(), 60))


def test_a_worker_that_waits_for_its_topics_names_the_cause_and_stops_at_once(
    barnabas_node: Node, tmp_path: Path
) -> None:
    settings = worker_settings(barnabas_node.bootstrap_servers, "impossible") | {
        "listeners": "http://127.0.0.1:0",
        "status.storage.replication.factor": "3",
    }
    file, log = tmp_path / "worker.properties", tmp_path / "log"
    file.write_text("".join(f"{name}={text}\n" for name, text in settings.items()))
    with log.open("w") as stderr:
        process = subprocess.Popen([sys.executable, "-m", "barnabas", "worker", str(file)], stderr=stderr)
    try:
        asyncio.run(eventually(lambda: "INVALID_REPLICATION_FACTOR" in log.read_text()))
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0  # Without the signal it waits for a minute, and fails.
    finally:
        process.kill()
        process.wait()
    assert log.read_text().count("INVALID_REPLICATION_FACTOR") == 1
    assert "lower status.storage.replication.factor (it is 3)" in log.read_text()


@pytest.mark.long
def test_the_captures_of_the_rest_api_fit_two_whole_workers(barnabas_node: Node, tmp_path: Path) -> None:
    async def story() -> list[str]:
        ledger, lines = TaskLedger(), []
        recorded: dict[str, Any] = {
            "barnabas.connect.require.fresh.signatures": "false"
        }  # Requests of Java workers, without our header.
        async with (
            AdminClient(barnabas_node.bootstrap_servers) as admin,
            in_process_worker(barnabas_node.bootstrap_servers, "captures", ledger, **recorded) as first,
            in_process_worker(barnabas_node.bootstrap_servers, "captures", ledger, **recorded) as second,
        ):
            (await admin.create_topics([NewTopic("t1", 1), NewTopic("t2", 1)], wait=True)).raise_for_errors()
            leader, follower = await _leader_first(first, second)
            herder = leader.running.herder
            await eventually(lambda: herder.keys.key is not None)
            workers = {"A": leader, "B": follower}

            async def send(worker, method, path, headers, body):  # type: ignore[no-untyped-def]
                url = workers[worker].url + path
                return await leader.client.request(method, url, headers=dict(headers), content=body)

            results = await connect_captures.replay(send, session_key=herder.keys.key.key, data=str(tmp_path))
            connect_captures.report(
                [result for result in results if result.capture.name not in _NEED_SPARK], lines.append
            )
        return lines

    lines = asyncio.run(asyncio.wait_for(story(), 500))
    assert lines[-1].endswith(" 0 not as they should be"), "\n".join(lines)


_NEED_SPARK = {"get-topics", "get-topics-2", "logger-cluster-B"}
"""A source's used topics are known to its task. Loggers belong to a process, here to both workers."""


@pytest.mark.parametrize(
    ("setting", "text", "error", "message"),
    [
        ("key.converter", "com.example.Mine", InvalidWorkerConfig, "available converters are"),
        ("barnabas.connect.spark.master", "yarn", ConfigException, "spark://host:port"),
    ],
)
def test_invalid_settings_are_refused_without_contacting_the_cluster(
    setting: str, text: str, error: type[Exception], message: str
) -> None:
    async def story() -> None:
        settings = worker_settings("127.0.0.1:1", "refused") | {"listeners": "http://127.0.0.1:0", setting: text}
        worker = Worker(worker_config_of(settings), make_spark_runtime)
        with pytest.raises(error, match=message):
            await worker.start()

    asyncio.run(asyncio.wait_for(story(), 30))


def test_a_worker_logs_that_it_waits_for_the_cluster_and_gives_up_in_time(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(worker_module, "_START_TIMEOUT_S", 0.4)
    monkeypatch.setattr(worker_module, "_ATTEMPT_S", 0.2)

    async def story() -> None:
        settings = worker_settings("127.0.0.1:1", "alone") | {"listeners": "http://127.0.0.1:0"}
        worker = Worker(worker_config_of(settings), make_spark_runtime)
        with caplog.at_level(logging.WARNING), pytest.raises(WorkerFailed, match="Start the cluster"):
            await worker.start()

    asyncio.run(asyncio.wait_for(story(), 30))
    assert "waiting for a broker of bootstrap.servers=127.0.0.1:1" in caplog.text
