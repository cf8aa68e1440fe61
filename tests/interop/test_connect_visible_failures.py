"""What must not look healthy, on workers of ours in which everything except Spark is real."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from barnabas.cli.connect.command import main
from barnabas.clients.admin.client import AdminClient
from barnabas.clients.admin.topics import NewTopic
from barnabas.connect.decide.tasks.task_runtime import BatchSucceeded, RecordsSkipped
from barnabas.connect.identifiers import ConnectorTaskId
from barnabas.testing import Node
from tests.peers.in_process_workers import InProcessWorker, TaskLedger, in_process_worker

pytestmark = pytest.mark.interop

SINK = {
    "connector.class": "FileStreamSink",
    "topics": "late-orders",
    "file": "/tmp/barnabas-no-such-file",
    "errors.tolerance": "all",
    "errors.deadletterqueue.topic.name": "bad-orders",
    "errors.deadletterqueue.topic.replication.factor": "1",
}
TASK = ConnectorTaskId("orders", 0)
STATUS = "/connectors/orders/status"
FAST: dict[str, Any] = {"barnabas.connect.task.restart.backoff.ms": "300"}


def _first_task(status: Any, state: str) -> Any:
    return next((task for task in status["tasks"] if task["state"] == state), None)


async def _wait(worker: InProcessWorker, text: str) -> Any:
    """Return the status with details once a task runs on this worker and has the text in its trace."""

    def is_shown(found: Any) -> bool:
        task = _first_task(found, "RUNNING")
        return task is not None and task["worker_id"] == worker.worker_id and text in task.get("trace", "")

    return await worker.until(f"{STATUS}?details=true", is_shown)


def test_a_sink_waits_for_its_topic_and_says_so(barnabas_node: Node) -> None:
    async def story() -> None:
        servers = barnabas_node.bootstrap_servers
        async with AdminClient(servers) as admin, in_process_worker(servers, "waiting", TaskLedger()) as worker:
            await worker.request("PUT", "/connectors/orders/config", SINK)
            status = await worker.until(STATUS, lambda found: "trace" in found["connector"])
            assert status["connector"]["state"] == "RUNNING"
            assert status["connector"]["trace"].startswith("It waits for topics: topic late-orders does not exist")
            assert status["tasks"] == []
            assert set(status["connector"]) == {"state", "worker_id", "version", "trace"}  # Kafka's fields only.
            details = (await worker.request("GET", f"{STATUS}?details=true")).json()
            assert details["connector"]["waits_for"] == ["late-orders"]
            page = (await worker.client.get(f"{worker.url}/console/connectors/orders")).text
            assert "It waits for topics" in page

            (await admin.create_topics([NewTopic("late-orders", 2)], wait=True)).raise_for_errors()
            await worker.until(STATUS, lambda found: _first_task(found, "RUNNING") is not None)
            await worker.until(STATUS, lambda found: "trace" not in found["connector"])

    asyncio.run(asyncio.wait_for(story(), 60))


def test_a_failure_outlasts_the_worker_until_a_batch_succeeds(barnabas_node: Node) -> None:
    async def story() -> None:
        servers, ledger = barnabas_node.bootstrap_servers, TaskLedger()
        ledger.failing.add("orders")
        config = {"connector.class": "MockSource", "tasks.max": "1"}
        async with in_process_worker(servers, "outlasting", ledger, **FAST) as worker:
            await worker.request("PUT", "/connectors/orders/config", config)
            await worker.until(STATUS, lambda found: _first_task(found, "FAILED") is not None)
            ledger.failing.clear()
            await _wait(worker, "but no batch has succeeded since")
            ledger.listeners[TASK](RecordsSkipped(TASK, 5, 4))
        async with in_process_worker(servers, "outlasting", ledger, **FAST) as worker:
            status = await _wait(worker, "it broke")
            task = _first_task(status, "RUNNING")
            assert task["last_failure"]["reason"] == "it broke"
            assert task["last_failure"]["restarts"] >= 1
            assert (task["skipped_records"], task["dead_letters"]) == (5, 4)
            metrics = (await worker.client.get(f"{worker.url}/metrics")).text
            assert 'barnabas_connect_task_dead_letters_total{connector="orders",task="0"} 4.0' in metrics
            ledger.listeners[TASK](BatchSucceeded(TASK))
            await worker.until(STATUS, lambda found: found["tasks"] and "trace" not in found["tasks"][0])

    asyncio.run(asyncio.wait_for(story(), 60))


def test_dead_letters_are_read_from_their_topic(barnabas_node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    from confluent_kafka import Producer

    async def story() -> None:
        servers = barnabas_node.bootstrap_servers
        async with AdminClient(servers) as admin, in_process_worker(servers, "letters", TaskLedger()) as worker:
            await worker.request("PUT", "/connectors/orders/config", SINK)

            async def run(*arguments: str) -> Any:
                assert await asyncio.to_thread(main, [*arguments, "--worker", worker.url, "-o", "json"]) == 0
                return json.loads(capsys.readouterr().out)

            assert (await run("dead-letters", "orders"))["exists"] is False
            (await admin.create_topics([NewTopic("bad-orders", 2)], wait=True)).raise_for_errors()
            assert (await run("dead-letters", "orders"))["letters"] == []
            await asyncio.to_thread(_produce, Producer({"bootstrap.servers": servers}))
            found = await run("dead-letters", "orders", "--count", "3")
            assert (found["topic"], found["total"]) == ("bad-orders", 1500)
            assert found["examined"] == 1000
            assert [letter["error"]["offset"] for letter in found["letters"]] == ["1498", "1496", "1494"]
            assert found["letters"][0]["value"] == "{ 1498"
            page = (await worker.client.get(f"{worker.url}/console/connectors/orders/dead-letters")).text
            assert "VALUE_CONVERTER" in page
            assert (await worker.request("GET", "/connectors/none/dead-letters")).status_code == 404
            assert (await worker.request("GET", "/connectors/orders/dead-letters?count=101")).status_code == 400

    asyncio.run(asyncio.wait_for(story(), 60))


def _produce(producer: Any) -> None:
    """Write dead letters of this connector and of another one in turn."""
    for number in range(1500):
        owner = "orders" if number % 2 == 0 else "another"
        fields = {"connector.name": owner, "offset": str(number), "stage": "VALUE_CONVERTER"}
        headers = [(f"__connect.errors.{name}", text.encode()) for name, text in fields.items()]
        producer.produce(
            "bad-orders", f"{{ {number}".encode(), partition=number // 2 % 2, headers=headers, timestamp=10**12 + number
        )
    producer.flush(30)
