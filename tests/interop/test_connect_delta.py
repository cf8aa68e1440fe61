"""Workers that write a Delta table together and are killed during batches: each record is stored once.

Their folders are separate, so the next worker has no checkpoint of the previous one, and numbers its batches from the
start.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from operator import le
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import httpx
import pyarrow.parquet as pq
import pytest

from barnabas.clients.admin import AdminClient
from barnabas.clients.admin.partitions import OffsetSpec
from barnabas.clients.admin.topics import NewTopic
from barnabas.common.topic_partition import TopicPartition
from barnabas.testing import Node
from tests.peers.barnabas_worker import BarnabasWorker
from tests.peers.connect_worker import worker_settings

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(900)]

TOPIC, PARTITIONS = "numbers", 4
SOURCE = {
    "connector.class": "Generator",
    "topic": TOPIC,
    "records.per.second": "150",
    "key.converter": "StringConverter",
    "value.converter": "JsonConverter",
    "value.converter.schemas.enable": "false",
}


def sink(path: Path) -> dict[str, str]:
    return {
        "connector.class": "TopicToDelta",
        "tasks.max": "2",
        "topics": TOPIC,
        "path": str(path),
        "record.columns": "partition,offset",
        "key.converter": "StringConverter",
        "value.converter": "JsonConverter",
        "value.converter.schemas.enable": "false",
    }


def rows(path: Path) -> Counter[tuple[int, int]]:
    """Return how often each record is in the table, from its log and files alone."""
    files: set[str] = set()
    for commit in sorted(path.glob("_delta_log/*[0-9].json")):
        for action in map(json.loads, commit.read_text().splitlines()):
            files |= {action["add"]["path"]} if "add" in action else set()
            files -= {action["remove"]["path"]} if "remove" in action else set()
    found: Counter[tuple[int, int]] = Counter()
    for file in files:
        table = pq.read_table(path / unquote(file), columns=["_partition", "_offset"])
        found.update(zip(*(column.to_pylist() for column in table.columns), strict=True))
    return found


def ends(node: Node) -> dict[int, int]:
    partitions = {TopicPartition(TOPIC, partition): OffsetSpec.latest() for partition in range(PARTITIONS)}
    with AdminClient.sync(node.bootstrap_servers) as admin:
        return {partition.partition: at.offset for partition, at in admin.list_offsets(partitions).values.items()}


def until(ask: Callable[[], Any], wanted: Callable[[Any], bool], *, within_s: float = 240) -> Any:
    deadline = time.monotonic() + within_s
    while not wanted(found := ask()):
        assert time.monotonic() < deadline, f"the last value was {found}"
        time.sleep(0.5)
    return found


def test_killed_workers_double_and_lose_no_row(tmp_path: Path) -> None:
    table = tmp_path / "table"
    with Node(settings={"group.min.session.timeout.ms": "1000"}) as node, ExitStack() as stack:
        with AdminClient.sync(node.bootstrap_servers) as admin:
            admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)], wait=True).raise_for_errors()
        settings = {
            **worker_settings(node.bootstrap_servers, "lake"),
            "barnabas.connect.spark.delta": "true",
            "session.timeout.ms": "10000",
            "heartbeat.interval.ms": "1000",
            "task.shutdown.graceful.timeout.ms": "2000",
        }
        workers = [BarnabasWorker(tmp_path / f"worker{number}", settings) for number in range(2)]
        for worker in workers:
            stack.callback(worker.stop)
        with ThreadPoolExecutor() as threads:
            list(threads.map(lambda worker: worker.start(timeout_s=120), workers))
        for name, config in (("source", SOURCE), ("lake", sink(table))):
            answer = httpx.put(f"{workers[0].url}/connectors/{name}/config", json=config, timeout=90, trust_env=False)
            assert answer.status_code == 201, answer.text
        seen = 0
        for victim in workers:
            seen = until(lambda: rows(table).total(), partial(le, seen + 300))
            victim.kill()
            seen = until(lambda: rows(table).total(), partial(le, seen + 300))
            victim.start(timeout_s=120)
        httpx.put(f"{workers[0].url}/connectors/source/stop", timeout=90, trust_env=False).raise_for_status()
        source = f"{workers[0].url}/connectors/source/status"
        until(lambda: httpx.get(source, timeout=90, trust_env=False).json()["tasks"], lambda found: not found)
        wanted = {(partition, at) for partition, end in ends(node).items() for at in range(end)}
        found = until(lambda: rows(table), lambda found: found.keys() >= wanted)
        assert found == Counter(wanted)
        status = httpx.get(f"{workers[0].url}/connectors/lake/status", timeout=60, trust_env=False).json()
        assert [task["state"] for task in status["tasks"]] == ["RUNNING", "RUNNING"]
