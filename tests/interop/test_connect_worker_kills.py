"""Workers of ours are killed, cut off and started again; the records of their tasks are checked. Every record names the
run and the task that wrote it (``counting_worker``). The guarantees: no record is missing, a batch is repeated at most
once for each time that its task lost its worker, and each task has one run at a time.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any

import httpx
import pytest

from barnabas.clients.admin.client import AdminClient
from barnabas.clients.admin.partitions import OffsetSpec
from barnabas.clients.admin.topics import NewTopic
from barnabas.clients.client_config import client_config
from barnabas.clients.consumer.topic_consumer import TopicConsumer
from barnabas.clients.network_client import NetworkClient
from barnabas.clients.topic_metadata import TopicMetadataSource
from barnabas.common.topic_partition import TopicPartition
from barnabas.testing.link_proxy import LinkProxy
from tests.peers.command_node import CommandNode
from tests.peers.connect_worker import worker_settings
from tests.peers.counting_worker import BATCH, CountingWorker
from tests.peers.node_process import free_ports

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

TASKS = 4
TOPIC = "counted"
CONFIG = {"connector.class": "MockSource", "tasks.max": str(TASKS), "topic": TOPIC}


class Scene:
    """A node behind a proxy, and workers that reach it only through that."""

    def __init__(self, folder: Path, workers: int) -> None:
        self.proxy = LinkProxy()
        advertised, *unused = free_ports(1 + workers)
        self.bootstrap_servers = f"127.0.0.1:{advertised}"
        self.node = CommandNode(folder / "node", settings={"group.min.session.timeout.ms": "1000"})
        self.node.change_settings({"advertised.listeners": f"PLAINTEXT://{self.bootstrap_servers}"})
        self.proxy.add("node", port=advertised, target_port=self.node.port)
        settings = {
            **worker_settings(self.bootstrap_servers, "counting"),
            "session.timeout.ms": "4000",
            "heartbeat.interval.ms": "1000",
            "task.shutdown.graceful.timeout.ms": "1000",
        }
        self.workers = [CountingWorker(folder / f"worker{number}", settings) for number in range(workers)]
        for number, port in enumerate(unused):
            self.proxy.add(f"worker{number}", port=port, target_port=port)

    def start(self) -> None:
        self.node.start()
        self.proxy.node_is_up("node", self.node.pid)
        asyncio.run(self._make_topic())
        with ThreadPoolExecutor() as threads:
            list(threads.map(self.start_worker, range(len(self.workers))))
        httpx.put(f"{self.workers[0].url}/connectors/c/config", json=CONFIG, timeout=60, trust_env=False)

    def start_worker(self, number: int) -> None:
        # A worker that connects before the proxy knows it can't be cut off.
        self.workers[number].start(on_spawned=lambda pid: self.proxy.node_is_up(f"worker{number}", pid))

    def kill_worker(self, number: int) -> None:
        self.proxy.node_is_down(f"worker{number}")
        self.workers[number].kill()

    def cut_off(self, number: int) -> None:
        self.proxy.cut(f"worker{number}", "node")
        self.proxy.cut("node", f"worker{number}")

    def heal(self, number: int) -> None:
        """Delayed bytes never arrive: the connections are closed."""
        self.proxy.heal(f"worker{number}", "node", resets=True)
        self.proxy.heal("node", f"worker{number}", resets=True)

    def until_all_run(self, *workers: int) -> None:
        """Wait until all tasks run, on exactly these workers."""
        ids = {f"127.0.0.1:{self.workers[number].port}" for number in workers}
        url = f"{self.workers[workers[0]].url}/connectors/c/status"

        def wanted(status: dict[str, Any]) -> bool:
            tasks = status.get("tasks", [])
            return (
                len(tasks) == TASKS
                and all(task["state"] == "RUNNING" for task in tasks)
                and {task["worker_id"] for task in tasks} == ids
            )

        _until(lambda: httpx.get(url, timeout=30, trust_env=False).json(), wanted)

    def until_all_go_on(self) -> None:
        """Wait until every task writes further numbers."""
        before = _positions(self.records())

        def wanted(now: dict[int, int]) -> bool:
            return all(now.get(task, -1) > before.get(task, -1) for task in range(TASKS))

        _until(lambda: _positions(self.records()), wanted)

    def records(self) -> list[dict[str, Any]]:
        return asyncio.run(_read(self.node.bootstrap_servers))

    async def _make_topic(self) -> None:
        async with AdminClient(self.bootstrap_servers) as admin:
            (await admin.create_topics([NewTopic(TOPIC, 1)], wait=True)).raise_for_errors()

    def close(self) -> None:
        self.proxy.heal_all()
        with ThreadPoolExecutor() as threads:
            list(threads.map(lambda worker: worker.stop(), self.workers))
        self.node.stop()
        self.proxy.close()


@contextmanager
def scene(folder: Path, workers: int) -> Iterator[Scene]:
    with ExitStack() as stack:
        made = Scene(folder, workers)
        stack.callback(made.close)
        made.start()
        yield made


def _until(ask: Callable[[], Any], wanted: Callable[[Any], bool], *, within_s: float = 60) -> None:
    deadline = time.monotonic() + within_s
    while not wanted(found := ask()):
        assert time.monotonic() < deadline, f"the last value was {found}"
        time.sleep(0.1)


async def _read(bootstrap: str) -> list[dict[str, Any]]:
    values: list[dict[str, Any]] = []
    config = client_config({"bootstrap.servers": bootstrap})
    async with AdminClient(config=config) as admin, NetworkClient(config) as network:
        end = (
            (await admin.list_offsets({TopicPartition(TOPIC, 0): OffsetSpec.latest()}))
            .values[TopicPartition(TOPIC, 0)]
            .offset
        )
        source = TopicMetadataSource(network, TOPIC)
        reader = TopicConsumer(network, source, lambda record: values.append(json.loads(record.value or b"{}")))
        reader.start(await source.load(), {0: 0})
        async with asyncio.timeout(60):
            await reader.reach({0: end})
        await reader.close()
    return values


def _positions(records: list[dict[str, Any]]) -> dict[int, int]:
    return {record["task"]: record["number"] for record in records}


def check(records: list[dict[str, Any]]) -> int:
    """Check the records and return the number of runs."""
    runs = 0
    for task in range(TASKS):
        of_task = [record for record in records if record["task"] == task]
        owners = [run for run, _ in groupby(of_task, key=lambda record: record["run"])]
        assert len(owners) == len(set(owners)), f"runs of task {task} took turns: {owners}"
        numbers = [record["number"] for record in of_task]
        assert set(numbers) == set(range(max(numbers) + 1)), f"task {task} lost records"
        spans = []
        for run, group in groupby(of_task, key=lambda record: record["run"]):
            of_run = [record["number"] for record in group]
            assert of_run == list(range(of_run[0], of_run[0] + len(of_run))), f"run {run} of task {task} has a gap"
            spans.append((run, of_run[0], of_run[-1]))
        repeated = len(numbers) - len(set(numbers))
        assert repeated <= BATCH * (len(owners) - 1), f"task {task} repeated more than a batch: {spans}"
        runs += len(owners)
    return runs


def test_another_worker_continues_the_work_of_a_killed_worker(tmp_path: Path) -> None:
    with scene(tmp_path, 2) as two:
        two.until_all_run(0, 1)
        two.until_all_go_on()
        two.kill_worker(1)
        two.until_all_run(0)
        two.until_all_go_on()
        assert check(two.records()) > TASKS


@pytest.mark.long
def test_three_workers_lose_no_record_under_kills_cuts_and_stops(tmp_path: Path) -> None:
    chosen = random.Random(8)
    with scene(tmp_path, 3) as three:
        three.until_all_run(0, 1, 2)
        for round_ in range(6):
            victim = chosen.randrange(3)
            others = [number for number in range(3) if number != victim]
            if round_ % 3 == 0:
                three.kill_worker(victim)
            elif round_ % 3 == 1:
                three.cut_off(victim)
            else:
                three.workers[victim].stop()
            three.until_all_run(*others)
            three.until_all_go_on()
            if round_ % 3 == 1:
                three.heal(victim)
            else:
                three.start_worker(victim)
            three.until_all_run(0, 1, 2)
            three.until_all_go_on()
        assert check(three.records()) > TASKS
