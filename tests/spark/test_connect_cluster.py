"""A complete worker with a standalone cluster: the driver is in the worker, executors do the work."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest

from barnabas.testing import Node
from tests.peers.spark_servers import SparkMaster, running_cluster
from tests.spark.spark_servers_scene import CREATED, JSON, RemoteWorker, committed_values, json_rows, until

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(1200)]

_EXECUTOR = "barnabas.connect.spark.conf.spark.executor.memory"


def _applications(master: SparkMaster) -> list[str]:
    answer = httpx.get(f"http://127.0.0.1:{master.controller_port}/json/", trust_env=False, timeout=30)
    return [app["name"] for app in answer.json()["activeapps"]]


def test_executors_of_a_cluster_do_the_work_and_its_end_is_reported(java: None, tmp_path: Path) -> None:
    with Node() as node:
        with running_cluster(tmp_path / "cluster") as master:
            worker = RemoteWorker(
                tmp_path / "worker", node.bootstrap_servers, "cluster", master.url, **{_EXECUTOR: "512m"}
            )
            try:
                worker.start(timeout_s=120)
                generator = {"connector.class": "Generator", "topic": "numbers", "records.per.second": "1000"}
                worker.configure("numbers", {**generator, "records.max": "300", **CREATED, **JSON})
                files = {"connector.class": "TopicToFiles", "topics": "numbers", "directory": str(tmp_path / "data")}
                worker.configure("files", {**files, "format": "json", **JSON})
                until(lambda: len(json_rows(tmp_path / "data")) >= 300, worker.printed)
                assert sorted(row["number"] for row in json_rows(tmp_path / "data")) == list(range(300))
                assert _applications(master) == ["barnabas-connect"]
                assert worker.stop(timeout_s=90) == 0
                until(lambda: not _applications(master), lambda: _applications(master))
            finally:
                worker.kill()
        try:
            worker.start(timeout_s=120)
            trace = worker.trace("numbers")
            assert trace.startswith(f"Spark did not start on {master.url}: ")
            assert "All masters are unresponsive" in trace.splitlines()[0]
            assert "out of its group" not in worker.printed()
        finally:
            worker.kill()


def test_a_killed_worker_writes_each_record_once(java: None, tmp_path: Path) -> None:
    """The records that executors compute, with exactly-once delivery: the worker is killed while it writes."""
    total = 2_000
    with Node() as node, running_cluster(tmp_path / "cluster") as master:
        once = {"exactly.once.source.support": "enabled", _EXECUTOR: "512m"}
        worker = RemoteWorker(tmp_path / "worker", node.bootstrap_servers, "once", master.url, **once)

        def numbers() -> list[int]:
            return [json.loads(value)["number"] for value in committed_values(node.bootstrap_servers, "numbers")]

        node.create_topic("numbers")
        generator = {"connector.class": "Generator", "topic": "numbers", "records.per.second": "200"}
        try:
            worker.start(timeout_s=120)
            required = {"exactly.once.support": "required"}
            worker.configure("numbers", {**generator, **required, "records.max": str(total), **JSON})
            until(lambda: len(numbers()) >= 300, worker.printed)
            worker.kill()
            before = len(numbers())
            worker.start(timeout_s=120)
            until(lambda: len(numbers()) >= max(total, before), worker.printed)
            assert sorted(numbers()) == list(range(total))
            assert worker.stop(timeout_s=90) == 0
        finally:
            worker.kill()
