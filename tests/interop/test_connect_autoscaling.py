"""Autoscaling on a worker of ours in which everything except Spark is real: the test commits what tasks would write."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from barnabas.cli.connect.command import main
from barnabas.clients.admin.client import AdminClient
from barnabas.clients.admin.topics import NewTopic
from barnabas.common.topic_partition import TopicPartition
from barnabas.testing import Node
from tests.peers.in_process_workers import InProcessWorker, TaskLedger, in_process_worker

pytestmark = pytest.mark.interop

PARTITIONS = [TopicPartition("busy-orders", number) for number in range(4)]
RECORDS = 5_000
SINK = {
    "connector.class": "MockSinkConnector",
    "topics": "busy-orders",
    "tasks.max": "8",
    "barnabas.tasks.autoscale.enable": "true",
    "barnabas.tasks.autoscale.catch.up.ms": "1000",
    "barnabas.tasks.autoscale.cool.down.ms": "1000",
}
STATUS = "/connectors/orders/status?details=true"


def _produce(servers: str) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": servers})
    for number in range(RECORDS * len(PARTITIONS)):
        producer.produce("busy-orders", b"x", partition=number % len(PARTITIONS))
    producer.flush(30)


class _Tasks:
    """Commits in place of the tasks, as fast as they are many."""

    def __init__(self, admin: AdminClient, worker: InProcessWorker) -> None:
        self._admin = admin
        self._worker = worker
        self._position = 0

    async def work(self) -> None:
        while True:
            tasks = self._worker.running.herder.config.task_count("orders")
            self._position = min(self._position + 4 * tasks, RECORDS)
            await self.commit()
            await asyncio.sleep(0.1)

    async def finish(self) -> None:
        self._position = RECORDS
        await self.commit()

    async def commit(self) -> None:
        offsets = dict.fromkeys(PARTITIONS, self._position)
        (await self._admin.alter_group_offsets("connect-orders", offsets)).raise_for_errors()


def _has_tasks(count: int) -> Any:
    def has(status: Any) -> bool:
        states = [task["state"] for task in status["tasks"]]
        return states == ["RUNNING"] * count

    return has


def test_a_sink_that_is_behind_grows_to_its_partitions_and_shrinks_when_it_has_caught_up(
    barnabas_node: Node, capsys: pytest.CaptureFixture[str]
) -> None:
    async def story() -> None:
        servers = barnabas_node.bootstrap_servers
        async with AdminClient(servers) as admin, in_process_worker(servers, "scaling", TaskLedger()) as worker:
            (await admin.create_topics([NewTopic("busy-orders", 4)], wait=True)).raise_for_errors()
            await asyncio.to_thread(_produce, servers)
            tasks = _Tasks(admin, worker)
            await tasks.commit()
            (await worker.request("PUT", "/connectors/orders/config", SINK)).raise_for_status()
            await worker.until(STATUS, _has_tasks(1))
            working = asyncio.create_task(tasks.work())
            status = await worker.until(STATUS, _has_tasks(4))  # Of the eight that tasks.max allows.
            assert status["connector"]["autoscaling"]["reason"].startswith("from 2 to 4 tasks: ")
            metrics = (await worker.client.get(f"{worker.url}/metrics")).text
            assert 'barnabas_connect_connector_autoscale_tasks{connector="orders"} 4.0' in metrics
            assert 'barnabas_connect_sink_lag_records{connector="orders"}' in metrics
            await worker.until(STATUS, lambda found: "allows no more" in found["connector"]["autoscaling"]["reason"])
            assert await asyncio.to_thread(main, ["status", "orders", "--worker", worker.url, "-o", "json"]) == 0
            shown = json.loads(capsys.readouterr().out)
            assert "the number of partitions allows no more than 4 tasks" in str(shown)

            working.cancel()
            await asyncio.gather(working, return_exceptions=True)
            await tasks.finish()
            await worker.until(STATUS, _has_tasks(1))

    asyncio.run(asyncio.wait_for(story(), 90))


def test_connectors_that_can_not_have_it_are_refused_by_name(barnabas_node: Node) -> None:
    async def story() -> None:
        servers = barnabas_node.bootstrap_servers
        async with in_process_worker(servers, "refusing", TaskLedger()) as worker:
            for changes, text in (
                ({"connector.class": "MockSourceConnector"}, "MockSourceConnector is a source"),
                ({"barnabas.tasks.autoscale.min": "9"}, "it is more than tasks.max (8)"),
                ({"barnabas.tasks.autoscale.min": "none"}, "Not a number of type INT"),
                ({"consumer.override.bootstrap.servers": "other:9092"}, "names another"),
            ):
                answer = await worker.request("PUT", "/connectors/orders/config", {**SINK, **changes})
                assert answer.status_code == 400
                assert text in answer.json()["message"]

    asyncio.run(asyncio.wait_for(story(), 60))
