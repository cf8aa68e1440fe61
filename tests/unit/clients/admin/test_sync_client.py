"""The client without asyncio: every operation of the async client, with its arguments, on a thread that ends."""

from __future__ import annotations

import inspect
import threading

import pytest

from barnabas.clients.admin import AdminClient, SyncAdminClient
from barnabas.clients.client_config import client_config
from barnabas.clients.errors import InvalidClientConfig
from tests.unit.clients.admin.scripted import ScriptedCluster

NO_OPERATIONS = {"close", "sync", "from_file", "config"}


def operations(kind: type) -> dict[str, inspect.Signature]:
    return {
        name: inspect.signature(member)
        for name, member in inspect.getmembers(kind, callable)
        if not name.startswith("_") and name not in NO_OPERATIONS
    }


def test_both_clients_have_the_same_operations() -> None:
    assert operations(SyncAdminClient) == operations(AdminClient)


def test_an_operation_runs_and_the_thread_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = ScriptedCluster(2)
    monkeypatch.setattr("barnabas.clients.admin.async_client.NetworkClient", lambda config: cluster)
    with AdminClient.sync("bootstrap:9092") as admin:
        assert [node.id for node in admin.describe_cluster().nodes] == [1, 2]
    admin.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "barnabas-admin"]
    with pytest.raises(RuntimeError, match="closed"):
        admin.describe_cluster()


def test_unusable_settings_are_refused_immediately() -> None:
    with pytest.raises(InvalidClientConfig, match=r"request\.timeout\.ms"):
        AdminClient.sync("localhost:9092", {"request.timeout.ms": "soon"})


@pytest.mark.parametrize(
    ("properties", "bootstrap", "expected"),
    [
        ({"bootstrap.controllers": "c:9093"}, None, True),
        ({"bootstrap.servers": "b:9092"}, None, False),
        ({"bootstrap.controllers": "c:9093"}, "b:9092", False),
    ],
)
def test_bootstrap_settings_decide_between_brokers_and_controllers(
    properties: dict[str, str], bootstrap: str | None, expected: bool
) -> None:
    assert client_config(properties, bootstrap=bootstrap).asks_controllers is expected
