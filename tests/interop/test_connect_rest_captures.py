"""Every recorded REST exchange of real Connect workers, replayed against two workers of ours on a cluster of ours.

The workers have no Java here, so no task of a connector ever runs; what the recordings show of the API needs none, but
for the topics that tasks have used.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import httpx
import pytest

from tests.peers.barnabas_node import BarnabasNode, running_barnabas
from tests.peers.connect_captures import Replayed, replay, session_key_of
from tests.peers.connect_worker import worker_settings
from tests.peers.node_process import NodeProcess

pytestmark = [
    pytest.mark.interop,
    pytest.mark.long,
    pytest.mark.timeout(400),
    # Of kafka-python, which is asked for the session key.
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]

_NEEDS_TASKS_THAT_RUN = {"get-topics", "get-topics-2"}
_GROUP = "captures"


class _Worker(NodeProcess):
    """Of ours, without Java."""

    def __init__(self, folder: Path, node: BarnabasNode) -> None:
        super().__init__(folder)
        self.url = f"http://127.0.0.1:{self.port}"
        self._settings = {**worker_settings(node.bootstrap, _GROUP), "listeners": self.url}

    def command(self) -> list[str]:
        properties = self.folder / "worker.properties"
        properties.write_text("".join(f"{name}={value}\n" for name, value in self._settings.items()))
        barnabas = str(Path(sys.executable).parent / "barnabas")
        return ["env", "JAVA_HOME=/nonexistent", barnabas, "worker", str(properties)]

    def is_ready(self, printed: str) -> bool:
        time.sleep(0.2)
        with contextlib.suppress(httpx.HTTPError):
            return httpx.get(f"{self.url}/health", timeout=15).status_code == 200
        return False


@contextlib.contextmanager
def _two_workers(folder: Path, node: BarnabasNode) -> Iterator[tuple[_Worker, _Worker]]:
    """The first one leads: it was alone."""
    first, second = _Worker(folder / "A", node), _Worker(folder / "B", node)
    with contextlib.ExitStack() as stack:
        for worker in (first, second):
            worker.start(timeout_s=90)
            stack.callback(worker.stop)
        yield first, second


async def _replayed(urls: Mapping[str, str], key: bytes, data: Path) -> list[Replayed]:
    async with httpx.AsyncClient(timeout=120, trust_env=False) as client:

        async def send(
            worker: str, method: str, path: str, headers: Mapping[str, str], body: bytes | None
        ) -> httpx.Response:
            return await client.request(method, urls[worker] + path, headers=dict(headers), content=body)

        return await replay(send, session_key=key, data=str(data), patience_s=8)


def test_workers_of_ours_answer_as_recorded(tmp_path: Path) -> None:
    from kafka.admin import KafkaAdminClient, NewTopic

    (tmp_path / "in.txt").write_text("one\ntwo\nthree\n")
    with running_barnabas(tmp_path / "node") as node:
        admin = KafkaAdminClient(bootstrap_servers=node.bootstrap)
        admin.create_topics([NewTopic(f"t{number}", 1, 1) for number in range(1, 6)])
        admin.close()
        with _two_workers(tmp_path, node) as (first, second):
            key = session_key_of(node.bootstrap, f"{_GROUP}-configs")
            results = asyncio.run(_replayed({"A": first.url, "B": second.url}, key, tmp_path))
    wrong = {each.capture.name: each.differences for each in results if bool(each.differences) != bool(each.expected)}
    assert wrong.keys() <= _NEEDS_TASKS_THAT_RUN, wrong
    assert len(results) > 195
