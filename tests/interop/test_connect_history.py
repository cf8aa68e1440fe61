"""The history of a group, the loads of its workers and the preview of offsets, on workers of ours in which everything
except Spark is real."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from barnabas.clients.admin.client import AdminClient
from barnabas.clients.admin.topics import NewTopic
from barnabas.common.topic_partition import TopicPartition
from barnabas.connect.decide.tasks.task_runtime import RecordsSkipped
from barnabas.connect.identifiers import ConnectorTaskId
from barnabas.testing import Node
from tests.peers.in_process_workers import InProcessWorker, TaskLedger, in_process_worker

pytestmark = pytest.mark.interop

TOPIC = "past-orders"
SINK = {"connector.class": "FileStreamSink", "topics": TOPIC, "file": "/tmp/barnabas-no-such-file", "tasks.max": "2"}
PATH = "/connectors/orders"
TASK = ConnectorTaskId("orders", 0)


def _known(found: Any, figure: str) -> list[int]:
    return [value for value in found[figure] if value]


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


async def _sample(*workers: InProcessWorker) -> None:
    """Have each worker sample as if half a minute ago, in an interval that is complete."""
    for worker in workers:
        assert worker.running.history_sampler is not None
        await worker.running.history_sampler.note_lags(_now_ms() - 30_000)


def test_a_group_has_one_history_and_shows_what_offsets_would_change(barnabas_node: Node) -> None:
    from confluent_kafka import Producer

    servers = barnabas_node.bootstrap_servers

    def produce() -> None:
        producer = Producer({"bootstrap.servers": servers})
        for number in range(100):
            producer.produce(TOPIC, b"x", partition=number % 2)
        producer.flush(30)

    async def story() -> None:
        ledger = TaskLedger()
        async with AdminClient(servers) as admin, in_process_worker(servers, "past", ledger) as first:
            (await admin.create_topics([NewTopic(TOPIC, 2)], wait=True)).raise_for_errors()
            await asyncio.to_thread(produce)
            async with in_process_worker(servers, "past", ledger) as second:
                await first.request("PUT", f"{PATH}/config", SINK)
                await first.until(f"{PATH}/status", lambda found: len(found["tasks"]) == 2)
                both = sorted((first.worker_id, second.worker_id))
                await second.until("/workers", lambda found: len(found["workers"]) == 2 and not found["missing"])
                await _compare_workers(first, second)
                await first.until("/workers", lambda found: sum(load["tasks"] for load in found["workers"]) == 2)

                # Nothing is committed yet, so the lag counts from the first record.
                await _sample(first, second)
                ledger.listeners[TASK](RecordsSkipped(TASK, 5, 4))
                ledger.fail(ConnectorTaskId("orders", 1), "the disk is full\n  at write")
                for worker in (first, second):
                    found = (await worker.request("GET", f"{PATH}/history")).json()
                    assert found["workers"] == both
                    assert set(_known(found, "lag")) == {100}  # The worker may have sampled, too.
                    assert [past["reason"] for past in found["last_failures"]] == ["the disk is full"]
                    page = (await worker.client.get(f"{worker.url}/console{PATH}/history?hours=6")).text
                    assert "the disk is full" in page
                    assert "100" in page
                    assert first.worker_id in (await worker.client.get(f"{worker.url}/console/workers")).text
            await first.until("/workers", lambda found: len(found["workers"]) == 1)
            await _change_offsets(first, admin)

    asyncio.run(asyncio.wait_for(story(), 90))


async def _compare_workers(first: InProcessWorker, second: InProcessWorker) -> None:
    loads = [(await worker.request("GET", "/workers")).json()["workers"] for worker in (first, second)]
    ids = [[load["worker_id"] for load in found] for found in loads]
    assert ids[0] == ids[1]
    assert [load["is_leader"] for load in loads[0]] == [True, False]
    assert all(0 <= _now_ms() - load["started"] < 90_000 for load in loads[0])


async def _change_offsets(worker: InProcessWorker, admin: AdminClient) -> None:
    (await admin.alter_group_offsets("connect-orders", {TopicPartition(TOPIC, 0): 40})).raise_for_errors()
    rows = [_row(0, 10), _row(1, 20), _row(1, 60), _row(7, 0)]
    found = (await worker.request("POST", f"{PATH}/offsets/preview", {"offsets": rows})).json()
    assert (found["is_refused"], found["is_stopped"]) == (True, False)
    problems = [change.get("problem", "") for change in found["changes"]]
    assert problems[0] == ""
    assert problems[1] == "A later row has this partition."
    assert problems[2] == "Offset 60 is after the end, which is 50."
    assert "has no partition 7" in problems[3]

    wanted = {"offsets": [_row(0, 10), _row(1, 20)]}
    found = (await worker.request("POST", f"{PATH}/offsets/preview", wanted)).json()
    assert [(change["again"], change["skipped"], change["end"]) for change in found["changes"]] == [
        (30, 0, 50),
        (0, 20, 50),
    ]
    assert (await worker.request("PATCH", f"{PATH}/offsets", wanted)).status_code == 400
    await worker.request("PUT", f"{PATH}/stop")
    await worker.until(
        f"{PATH}/status", lambda status: status["connector"]["state"] == "STOPPED" and not status["tasks"]
    )
    assert (await worker.request("POST", f"{PATH}/offsets/preview", wanted)).json()["is_stopped"]
    assert (await worker.request("PATCH", f"{PATH}/offsets", wanted)).status_code == 200
    offsets = (await worker.request("GET", f"{PATH}/offsets")).json()["offsets"]
    assert [entry["offset"]["kafka_offset"] for entry in offsets] == [10, 20]
    page = (await worker.client.get(f"{worker.url}/console{PATH}/offsets")).text
    assert 'value="10"' in page
    assert (await worker.request("POST", "/connectors/none/offsets/preview", wanted)).status_code == 404


def test_a_worker_without_history_asks_for_no_lag(barnabas_node: Node) -> None:
    async def story() -> None:
        settings: dict[str, Any] = {"barnabas.connect.history.enable": "false"}
        async with in_process_worker(barnabas_node.bootstrap_servers, "forgetful", TaskLedger(), **settings) as worker:
            assert worker.running.history_sampler is None
            await worker.request("PUT", f"{PATH}/config", {"connector.class": "MockSource"})
            await worker.until(f"{PATH}/status", lambda found: found["tasks"])
            answer = await worker.request("GET", f"{PATH}/history")
            assert (answer.status_code, "history.enable is false" in answer.json()["message"]) == (404, True)
            loads = (await worker.request("GET", "/workers")).json()["workers"]
            assert [load["records_per_second"] for load in loads] == [None]
            assert "keeps no history" in (await worker.client.get(f"{worker.url}/console{PATH}")).text

    asyncio.run(asyncio.wait_for(story(), 60))


def _row(partition: int, offset: int) -> dict[str, Any]:
    return {"partition": {"kafka_topic": TOPIC, "kafka_partition": partition}, "offset": {"kafka_offset": offset}}
