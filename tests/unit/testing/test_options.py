"""Options of test nodes are checked before anything is started, and refused by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.testing import Cluster, Node, NotPossible, allow


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"brokers": 0}, "brokers=0: a cluster has at least 1"),
        ({"controllers": 0}, "controllers=0: use 1 or more"),
        ({"brokers": 2, "replication": 3}, "replication=3: each copy needs a broker of its own, so use 1 to 2"),
        ({"topics": "orders"}, "write topics=['orders']"),
        ({"topics": {"orders": 0}}, "'orders' has 0 partitions; use a number from 1 on"),
        ({"topics": {"orders": "3"}}, "'orders' has '3' partitions; use a number from 1 on"),
        ({"timeout_s": 0}, "timeout_s=0: use more than 0 seconds"),
        ({"records": {"orders": "text"}}, "write ['text']"),
        ({"users": {"a b": "secret"}}, "'a b' is not a usable name"),
        ({"users": {"node": "secret"}}, "'node' is the name with which nodes log in to each other"),
        ({"users": {"alice": ""}}, "the password of 'alice' is empty"),
        ({"users": {"alice": 'a"b'}}, "contains a quotation mark"),
        ({"acls": allow("alice", "read", topic="orders")}, "acls=... needs users={...}"),
        ({"client_certificates": True}, "client_certificates=True needs tls=True"),
        ({"settings": {"log.dirs": "/data"}}, "log.dirs is determined by the layout of the nodes; use folder=..."),
        ({"settings": {"listeners": "X://:1"}}, "listeners is determined by the layout"),
    ],
)
def test_an_impossible_option_is_refused_by_name(options: dict, text: str) -> None:
    with pytest.raises(NotPossible) as refused:
        Cluster(**options)
    assert text in str(refused.value)


def test_a_folder_with_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes").touch()
    with pytest.raises(NotPossible, match="is not an empty folder"):
        Node(folder=tmp_path)


def test_an_unknown_option_is_a_type_error() -> None:
    with pytest.raises(TypeError, match=r"timout_s=... is not an option of a node: did you mean timeout_s\?"):
        Node(timout_s=3)  # type: ignore[call-arg]


def test_a_password_never_appears_in_a_message() -> None:
    with pytest.raises(NotPossible) as refused:
        Node(users={"alice": 'hidden"word'})
    assert "hidden" not in str(refused.value)


def test_nothing_can_be_asked_of_a_node_that_is_not_started() -> None:
    with pytest.raises(NotPossible, match="the node is not started: use it in a with block"):
        _ = Node().bootstrap_servers
    with pytest.raises(NotPossible, match="the cluster is not started"):
        _ = Cluster().brokers
