"""A worker with a TopicToHttp is killed with SIGKILL again and again, in any phase of a request, and each time another
one goes on, every second time without its folder. The server that honours keys has each record once, in order."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from barnabas.clients.admin import AdminClient
from barnabas.clients.admin.topics import NewTopic
from barnabas.testing import Node
from tests.docs.tracked import PROJECT
from tests.peers.http_receiver import LOST_AFTER, HttpReceiver, ReceivedRequest, running_receiver

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(3000)]

KILLS = max(int(os.environ.get("BARNABAS_KILLS", "4")) // 5, 4)
TOPIC = "http-killed"
PARTITIONS = 2
ROUND = 400


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with Node() as started:
        yield started


@pytest.fixture
def receiver() -> Iterator[HttpReceiver]:
    with running_receiver() as running:
        yield running


def worker(node: Node, folder: Path, receiver: HttpReceiver, log: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.spark.http_sink_run", node.bootstrap_servers, str(folder), receiver.url]
    environment = {**os.environ, "PYTHONPATH": f"{PROJECT / 'src'}:{PROJECT}"}
    with log.open("ab") as output:
        return subprocess.Popen(
            [*command, TOPIC], env=environment, cwd=PROJECT, stdout=output, stderr=output, start_new_session=True
        )


def kill(process: subprocess.Popen[bytes]) -> None:
    os.killpg(process.pid, signal.SIGKILL)  # Its JVM, too.
    process.wait(30)


def produce(node: Node, first: int) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": node.bootstrap_servers})
    for at in range(first, first + ROUND):
        producer.produce(TOPIC, str(at).encode(), partition=at % PARTITIONS)
    assert producer.flush(60) == 0


def until(condition: Callable[[], bool], log: Path, timeout_s: float = 600) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, log.read_text(errors="replace")[-3000:]
        time.sleep(0.05)


def until_requests(receiver: HttpReceiver, count: int, log: Path) -> None:
    until(lambda: len(receiver.requests) >= count, log)


def test_a_killed_worker_loses_and_repeats_nothing_at_a_server_that_honours_keys(
    node: Node, receiver: HttpReceiver, tmp_path: Path, java: None
) -> None:
    with AdminClient.sync(node.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)], wait=True).raise_for_errors()
    drawn = random.Random(20)

    def slow(request: ReceivedRequest) -> int:
        time.sleep(0.02)
        return LOST_AFTER if drawn.random() < 0.1 else 200

    receiver.decide = slow
    log = tmp_path / "log"
    for at in range(KILLS):
        produce(node, at * ROUND)
        before = len(receiver.requests)
        process = worker(node, tmp_path / f"worker-{at // 2}", receiver, log)
        try:
            until_requests(receiver, before + drawn.randrange(1, 40), log)
            time.sleep(drawn.random() * 0.05)
        finally:
            kill(process)
    receiver.decide = lambda request: 200
    process = worker(node, tmp_path / "last", receiver, log)
    wanted = KILLS * ROUND
    try:
        until(lambda: len(receiver.records) >= wanted, log)
        time.sleep(1)
    finally:
        kill(process)
    records = receiver.records
    assert sorted(records) == list(range(wanted))
    for partition in range(PARTITIONS):
        mine = [record for record in records if record % PARTITIONS == partition]
        assert mine == sorted(mine)
    assert len(receiver.requests) > len(receiver.taken), "no request was repeated, so the kills proved nothing"
