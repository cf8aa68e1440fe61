"""``barnabas access mine`` on our node and on a real Kafka: a user without any right on the cluster sees its own
rights."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.cli.access.command import main as access
from barnabas.cli.acls.command import main as acls
from barnabas.cli.topics.command import main as topics
from tests.peers.kinds import run_on_each_kind
from tests.peers.secure import SecureNode
from tests.peers.secure_kinds import running_kind, sasl_properties, write_properties

pytestmark = [pytest.mark.interop, pytest.mark.timeout(240)]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    run_on_each_kind(metafunc, "node")


@pytest.fixture(scope="module")
def node(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, kafka_peer: Path
) -> Iterator[SecureNode]:
    with running_kind(request.param, tmp_path_factory.mktemp(request.param)) as running:
        yield running


def test_a_user_sees_only_its_own_rights(node: SecureNode, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    admin = ["--bootstrap-server", node.bootstrap("PLAINTEXT")]
    assert topics(["create", "orders", "secret", "--partitions", "1", *admin, "--wait"]) == 0
    for rule in (
        ["--operation", "read", "--topic", "orders"],
        ["--operation", "delete", "--group", "billing"],
        ["--operation", "create", "--cluster"],
    ):
        assert acls(["add", "--allow-principal", "User:alice", *rule, *admin]) == 0
    capsys.readouterr()
    properties = write_properties(tmp_path / "alice.properties", sasl_properties(node, "alice"))
    alice = ["--bootstrap-server", node.bootstrap("SASL_SSL"), "--command-config", properties, "-o", "json"]
    assert access(["mine", *alice]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["topics"] == [{"topic": "orders", "operations": ["Read", "Describe"]}]
    assert document["cluster"] is None
    assert access(["mine", "--group", "billing", "--topic", "secret", *alice]) == 1
    document = json.loads(capsys.readouterr().out)
    assert [error["item"] for error in document["errors"] if "secret" in error["item"]] == ["secret"]
    assert topics(["describe", "orders", "--authorized-operations", *alice]) == 0
    assert json.loads(capsys.readouterr().out)["topics"][0]["authorized_operations"] == ["Read", "Describe"]
