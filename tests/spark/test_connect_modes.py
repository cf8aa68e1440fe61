"""The permissions of a worker's files: a process as a user starts it, with Spark in it."""

from __future__ import annotations

import stat
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from barnabas.testing import Node
from tests.peers.barnabas_worker import BarnabasWorker
from tests.peers.connect_worker import worker_settings

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(600)]

JSON = {"value.converter": "JsonConverter", "value.converter.schemas.enable": "false"}


def too_open(folder: Path) -> Iterator[str]:
    for path in (folder, *sorted(folder.rglob("*"))):
        if path.suffix == ".jar":
            continue  # Spark gives copies of its jars, which are public, its own mode.
        try:
            found = path.lstat().st_mode
        except FileNotFoundError:
            continue  # Spark deletes temporary files.
        allowed = 0o750 if stat.S_ISDIR(found) else 0o640
        if not stat.S_ISLNK(found) and stat.S_IMODE(found) & ~allowed:
            yield f"{path.relative_to(folder)}: {stat.S_IMODE(found):o}"


def test_only_the_user_and_the_group_can_read_checkpoints_logs_and_data(java: None, tmp_path: Path) -> None:
    data, spark = tmp_path / "data", tmp_path / "worker" / "spark"
    (tmp_path / "worker").mkdir()
    with Node() as node:
        worker = BarnabasWorker(tmp_path / "worker", worker_settings(node.bootstrap_servers, "modes"))
        try:
            worker.start(timeout_s=120)
            created = {"topic.creation.default.partitions": "1", "topic.creation.default.replication.factor": "1"}
            numbers = {"connector.class": "Generator", "topic": "numbers", "records.max": "50", **created, **JSON}
            files = {"connector.class": "TopicToFiles", "topics": "numbers", "directory": str(data), **JSON}
            for name, config in (("numbers", numbers), ("files", {**files, "partition.by": "date"})):
                answer = httpx.put(f"{worker.url}/connectors/{name}/config", json=config, timeout=60, trust_env=False)
                assert answer.status_code == 201, answer.text
            deadline = time.monotonic() + 300
            while not list(data.glob("date=*/*.parquet")):
                assert time.monotonic() < deadline, worker.printed()
                time.sleep(0.5)
            assert [*too_open(spark), *too_open(data)] == []
            assert list(spark.rglob("checkpoint/offsets/*"))
            assert worker.stop(timeout_s=90) == 0
        finally:
            worker.kill()
