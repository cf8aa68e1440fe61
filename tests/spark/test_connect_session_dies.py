"""Spark's JVM is killed under a worker: its tasks fail with the reason, and start again on another JVM."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Producer

from barnabas.clients.admin import AdminClient
from barnabas.clients.admin.topics import NewTopic
from barnabas.testing import Node

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]


def test_tasks_of_a_killed_jvm_fail_with_the_reason_and_start_again(java: None, tmp_path: Path) -> None:
    with Node() as node:
        with AdminClient.sync(node.bootstrap_servers) as admin:
            admin.create_topics([NewTopic("dying", 1, 1)], wait=True).raise_for_errors()
        producer = Producer({"bootstrap.servers": node.bootstrap_servers})
        for value in ("one", "two"):
            producer.produce("dying", value.encode(), partition=0)
        assert producer.flush(60) == 0
        command = [sys.executable, "-m", "tests.spark.session_death", node.bootstrap_servers, str(tmp_path)]
        answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=540, check=False)
    assert answer.returncode == 0, answer.stderr
    assert [line.split(";")[0] for line in answer.stdout.splitlines()] == [
        "TaskRunning",
        "TaskFailed Spark's JVM was killed by signal 9",
        "TaskRunning",
        "TaskStopped",
    ]
    assert (tmp_path / "out.txt").read_text() == "one\ntwo\n"
