"""Exactly-once sources (KIP-618) with a Kafka worker and one of ours in one group, each as leader and as follower."""

from __future__ import annotations

import asyncio
import json
import time
import urllib.error
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka import Consumer, TopicPartition

from barnabas.testing import Node
from tests.peers.barnabas_worker import BarnabasWorker
from tests.peers.connect_worker import ConnectWorker, worker_settings
from tests.peers.in_process_workers import InProcessWorker, TaskLedger, eventually, in_process_worker

pytestmark = [pytest.mark.interop, pytest.mark.timeout(400)]

ENABLED = {"exactly.once.source.support": "enabled"}
LINES = ["one", "two", "three"]


@pytest.fixture(params=["ours-leads", "java-leads"])
def group_id(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def java_worker(barnabas_node: Node, tmp_path: Path, kafka_peer: Path, group_id: str) -> Iterator[ConnectWorker]:
    settings = {**worker_settings(barnabas_node.bootstrap_servers, group_id), **ENABLED}
    worker = ConnectWorker(tmp_path / "java", settings)
    yield worker
    worker.stop()


def _config(folder: Path, group_id: str, number: int) -> dict[str, str]:
    source = folder / f"in{number}.txt"
    source.write_text("".join(f"{line}\n" for line in LINES))
    return {
        "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
        "tasks.max": "1",
        "file": str(source),
        "topic": f"{group_id}-{number}",
        "exactly.once.support": "required",
        "tasks.max.enforce": "false",
    }


def _all_run(count: int) -> Any:
    def condition(status: dict[str, Any]) -> bool:
        parts = [status["connector"], *status["tasks"]]
        return len(status["tasks"]) == count and all(part["state"] == "RUNNING" for part in parts)

    return condition


async def _create(worker: InProcessWorker, name: str, config: dict[str, str]) -> None:
    for _ in range(60):
        created = await worker.request("POST", "/connectors", {"name": name, "config": config})
        if created.status_code != 409:
            break
        await asyncio.sleep(0.3)
    assert created.status_code == 201, created.text


async def _create_at_java(worker: ConnectWorker, name: str, config: dict[str, str]) -> None:
    for _ in range(200):
        try:
            await asyncio.to_thread(worker.request, "POST", "/connectors", {"name": name, "config": config})
            return
        except urllib.error.HTTPError as error:
            text = error.read()
            assert error.code in (409, 500), text
            await asyncio.sleep(0.3)
    raise AssertionError(text)


def test_tasks_of_both_workers_start_after_the_leader_has_fenced_earlier_ones(
    java_worker: ConnectWorker, barnabas_node: Node, tmp_path: Path, group_id: str
) -> None:
    ours_leads = group_id == "ours-leads"

    async def story() -> None:
        ledger = TaskLedger()
        servers = barnabas_node.bootstrap_servers
        for number in range(3):
            barnabas_node.create_topic(f"{group_id}-{number}")
        if not ours_leads:
            await asyncio.to_thread(java_worker.start)
        async with in_process_worker(servers, group_id, ledger, exactly_once_source_support="enabled") as ours:
            if ours_leads:
                await asyncio.to_thread(java_worker.start)
            herder = ours.running.herder
            group = herder.context.group
            await eventually(lambda: group.is_up_to_date and (group.generation > 1 or ours_leads))
            for number in range(2):
                await _create(ours, f"f{number}", _config(tmp_path, group_id, number))
            owners = {}
            for name in ("f0", "f1"):
                status = await ours.until(f"/connectors/{name}/status", _all_run(1), timeout_s=120)
                owners[name] = status["tasks"][0]["worker_id"]
            assert len(set(owners.values())) == 2, owners  # One for each worker.
            assert group.is_leader is ours_leads
            assert herder.config.task_count_records == {"f0": 1, "f1": 1}

            # Our task has the transactional id of Kafka's workers, and its configs are the newest.
            (start,) = (start for _, start in ledger.starts[-1:])
            assert start.transactional_id == f"{group_id}-{start.task}"
            assert start.confirm is not None
            await start.confirm()

            # The task of the Kafka worker writes in transactions; ours records only that it runs.
            java_name = next(name for name, owner in owners.items() if owner != ours.worker_id)
            topic = f"{group_id}-{java_name.removeprefix('f')}"
            records = await asyncio.to_thread(barnabas_node.consume, topic, len(LINES))
            assert [record.value.decode() for record in records] == LINES
            async with barnabas_node.async_admin() as admin:
                ids = {found.transactional_id for found in (await admin.list_transactions()).transactions}
                assert {f"connect-cluster-{group_id}", f"{group_id}-{java_name}-0"} <= ids

                # Three tasks, then two: the leader fences the producers of all three.
                leader_url = group.leader_url
                assert leader_url is not None
                task_config = dict(herder.config.task_configs[start.task])
                for count, expected in (
                    (3, {}),
                    (2, {f"{group_id}-{start.task.connector}-{task}" for task in range(3)}),
                ):
                    configs = [{**task_config, "number": str(number)} for number in range(count)]
                    await ours.running.outside.send_task_configs(leader_url, start.task.connector, configs)
                    path = f"/connectors/{start.task.connector}/status"
                    await ours.until(path, _all_run(count), timeout_s=120)
                    name = start.task.connector
                    await eventually(lambda: herder.config.task_count_records[name] == count)  # noqa: B023
                    ids = {found.transactional_id for found in (await admin.list_transactions()).transactions}
                    assert ids >= set(expected)

            if not ours_leads:
                await asyncio.to_thread(java_worker.stop)
                await eventually(lambda: group.is_leader)
                await _create(ours, "f2", _config(tmp_path, group_id, 2))
                await ours.until("/connectors/f2/status", _all_run(1), timeout_s=120)
        if ours_leads:  # The Kafka worker takes the lead, and fences our writes.
            await _create_at_java(java_worker, "f2", _config(tmp_path, group_id, 2))
            await asyncio.to_thread(java_worker.until, "GET", "/connectors/f2/status", _all_run(1), timeout_s=120)

    asyncio.run(asyncio.wait_for(story(), 390))


def test_an_unsigned_fence_is_refused(barnabas_node: Node) -> None:
    async def story() -> None:
        ledger = TaskLedger()
        servers = barnabas_node.bootstrap_servers
        async with in_process_worker(servers, "unsigned", ledger, exactly_once_source_support="enabled") as ours:
            await _create(ours, "g", {"connector.class": "Generator", "topic": "t", "exactly.once.support": "required"})
            await ours.until("/connectors/g/status", _all_run(1))
            refused = await ours.request("PUT", "/connectors/g/fence")
            assert refused.status_code == 400, refused.text
            assert "missing required signature" in refused.text

    asyncio.run(story())


def test_a_leader_is_fenced_by_the_next_one(barnabas_node: Node) -> None:
    """A write of a former leader is refused by the cluster; the present leader continues."""

    async def story() -> None:
        ledger = TaskLedger()
        servers = barnabas_node.bootstrap_servers
        async with in_process_worker(servers, "leaders", ledger, exactly_once_source_support="preparing") as first:
            await eventually(lambda: first.running.herder.context.group.is_leader)
            config = {"connector.class": "Generator", "topic": "t"}
            await _create(first, "g", config)
            async with in_process_worker(servers, "leaders", ledger, exactly_once_source_support="preparing") as second:
                await second.running.outside.claim_config_topic()  # As a worker that believes to lead.
                fenced = await first.request("PUT", "/connectors/g/config", {**config, "topic": "u"})
                assert fenced.status_code == 500, fenced.text
                assert "was not written in a transaction" in fenced.text
                again = await first.request("PUT", "/connectors/g/config", {**config, "topic": "v"})
                assert again.status_code == 200, again.text
                await second.until("/connectors/g/config", lambda found: found["topic"] == "v")

    asyncio.run(story())


RECORDS = 1_500


def _numbers(node: Node, topic: str) -> list[int]:
    """Read the committed records to their end, with librdkafka."""
    settings = {"bootstrap.servers": node.bootstrap_servers, "group.id": "reader", "isolation.level": "read_committed"}
    consumer = Consumer({**settings, "enable.partition.eof": True, "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[int] = []
    try:
        while True:
            message = consumer.poll(30)
            assert message is not None
            if message.error() is not None:
                return found
            found.append(json.loads(message.value())["number"])
    finally:
        consumer.close()


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_worker_that_is_killed_repeats_and_misses_no_record(barnabas_node: Node, tmp_path: Path) -> None:
    """A whole worker with its tasks on Spark, killed three times at any moment while its task writes."""
    topic = "generated-once"
    barnabas_node.create_topic(topic)
    settings = {
        **worker_settings(barnabas_node.bootstrap_servers, "whole"),
        **ENABLED,
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
    }
    worker = BarnabasWorker(tmp_path / "worker", settings)
    config = {
        "connector.class": "Generator",
        "topic": topic,
        "records.per.second": "100",
        "records.max": str(RECORDS),
        "barnabas.trigger.interval.ms": "200",
        "exactly.once.support": "required",
    }
    worker.start()
    try:
        created = httpx.put(f"{worker.url}/connectors/g/config", json=config, timeout=60, trust_env=False)
        assert created.status_code == 201, created.text
        for kills in range(3):
            before = len(_numbers(barnabas_node, topic))
            while len(_numbers(barnabas_node, topic)) <= before + 100 * (kills + 1):
                time.sleep(0.3)
            worker.kill()
            worker.start()
        while len(found := _numbers(barnabas_node, topic)) < RECORDS:
            time.sleep(0.5)
    finally:
        worker.stop()
    assert sorted(found) == list(range(RECORDS))
