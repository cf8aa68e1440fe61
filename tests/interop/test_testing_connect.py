"""A Connect worker of ``barnabas.testing``: its REST API serves, and it ends with the test."""

from __future__ import annotations

import json
import os
import urllib.request
from collections.abc import Iterator

import pytest

from barnabas.connect.rest.connect_client import ConnectClient, RequestRefused
from barnabas.testing import ConnectWorker, Node, NodeFailed, NotPossible, connect_worker

pytestmark = pytest.mark.interop


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with Node(users={"alice": "secret"}, acls=[], tls=True) as node:
        yield node


def test_a_worker_on_a_secured_node_serves_its_rest_api_and_ends(node: Node) -> None:
    with ConnectWorker(node, settings={"group.id": "first"}) as worker:
        with urllib.request.urlopen(f"{worker.url}/") as answer:
            found = json.load(answer)
        with node.admin() as admin:
            assert found["kafka_cluster_id"] == admin.describe_cluster().cluster_id
        with ConnectClient(worker.url) as client, pytest.raises(RequestRefused, match="contains no connector type"):
            client.put_config("wrong", {})
        pid = worker.pid
        url = worker.url
        worker.kill()
        assert not worker.is_running
        worker.start()
        assert (worker.url, worker.pid != pid) == (url, True)
        pid = worker.pid
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_worker_with_a_wrong_setting_says_why(node: Node) -> None:
    with pytest.raises(NodeFailed, match=r"key.converter"):
        ConnectWorker(node, settings={"key.converter": "nothing"}).start()


def test_without_the_extra_the_command_that_installs_it_is_named(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect_worker, "find_spec", lambda name: None if name == "httpx" else name)
    with pytest.raises(NotPossible, match=r"needs httpx: pip install 'barnabas\[connect\]'"):
        ConnectWorker(node)


def test_before_the_start_the_worker_has_no_address(node: Node) -> None:
    with pytest.raises(NotPossible, match="the worker is not started"):
        _ = ConnectWorker(node).url
