"""Every recorded REST exchange of real Connect workers, replayed against two workers of ours on a cluster of ours.
Their tasks run on one Spark session for each worker.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import httpx
import pytest

from barnabas.testing import Node
from tests.peers.barnabas_worker import BarnabasWorker
from tests.peers.connect_captures import Replayed, replay, session_key_of
from tests.peers.connect_worker import worker_settings

pytestmark = [
    pytest.mark.interop,
    pytest.mark.long,
    pytest.mark.timeout(600),
    # Logs of kafka-python, which reads the session key.
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]

_GROUP = "captures"


@contextlib.contextmanager
def _two_workers(folder: Path, node: Node) -> Iterator[tuple[BarnabasWorker, BarnabasWorker]]:
    """The first worker leads: it was alone."""
    settings = worker_settings(node.bootstrap_servers, _GROUP)
    # Recorded requests are signed as Java's workers sign, without the header that ours add.
    settings["barnabas.connect.require.fresh.signatures"] = "false"
    first, second = BarnabasWorker(folder / "A", settings), BarnabasWorker(folder / "B", settings)
    with contextlib.ExitStack() as stack:
        for worker in (first, second):
            worker.start(timeout_s=90)
            stack.callback(worker.stop)
        yield first, second


def _start_spark(url: str) -> None:
    """Start Spark on both workers with a task on each: this may take longer than any wait of the replay."""
    names = ("warm-up-0", "warm-up-1")
    with httpx.Client(base_url=url, timeout=60, trust_env=False) as client:
        for name in names:
            config = {"connector.class": "FileStreamSource", "file": "/nonexistent", "topic": name}
            client.put(f"/connectors/{name}/config", json=config).raise_for_status()
        deadline = time.monotonic() + 240
        while not all(_runs(client.get(f"/connectors/{name}/status")) for name in names):
            assert time.monotonic() < deadline, [client.get(f"/connectors/{name}/status").text for name in names]
            time.sleep(0.5)
        for name in names:
            client.delete(f"/connectors/{name}").raise_for_status()


def _runs(status: httpx.Response) -> bool:
    return status.status_code == 200 and [task["state"] for task in status.json()["tasks"]] == ["RUNNING"]


async def _replayed(urls: Mapping[str, str], key: bytes, data: Path) -> list[Replayed]:
    async with httpx.AsyncClient(timeout=120, trust_env=False) as client:

        async def send(
            worker: str, method: str, path: str, headers: Mapping[str, str], body: bytes | None
        ) -> httpx.Response:
            return await client.request(method, urls[worker] + path, headers=dict(headers), content=body)

        return await replay(send, session_key=key, data=str(data), patience_s=20)


def test_workers_of_ours_answer_as_recorded(tmp_path: Path) -> None:
    from kafka.admin import KafkaAdminClient, NewTopic

    (tmp_path / "in.txt").write_text("one\ntwo\nthree\n")
    with Node() as node:
        admin = KafkaAdminClient(bootstrap_servers=node.bootstrap_servers)
        admin.create_topics([NewTopic(f"t{number}", 1, 1) for number in range(1, 6)])
        admin.close()
        with _two_workers(tmp_path, node) as (first, second):
            _start_spark(first.url)
            key = session_key_of(node.bootstrap_servers, f"{_GROUP}-configs")
            results = asyncio.run(_replayed({"A": first.url, "B": second.url}, key, tmp_path))
    wrong = {
        result.capture.name: result.differences
        for result in results
        if bool(result.differences) != bool(result.expected)
    }
    assert not wrong
    assert len(results) > 195
