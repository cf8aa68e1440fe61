"""``barnabas access mine`` and ``--authorized-operations``: the operations that the cluster grants the caller."""

from __future__ import annotations

import json

import pytest

from barnabas.cli.access.command import main as access
from barnabas.cli.cluster.command import main as cluster
from barnabas.cli.groups.command import main as groups
from barnabas.cli.topics.command import main as topics
from barnabas.clients.admin import ClusterDescription, GroupDescription, Results, TopicDescription
from barnabas.clients.admin.errors import admin_error
from barnabas.common.acl import AclOperation
from barnabas.common.error_code import ErrorCode
from barnabas.common.uuid import Uuid
from tests.unit.cli.conftest import FakeAdmin

SOME = frozenset({AclOperation.DESCRIBE, AclOperation.READ})


def described_cluster(operations: frozenset[AclOperation] | None) -> ClusterDescription:
    return ClusterDescription(cluster_id="c", controller=None, nodes=(), authorized_operations=operations)


def described_topic(name: str) -> TopicDescription:
    return TopicDescription(name, Uuid.from_int(1), False, (), authorized_operations=SOME)


@pytest.fixture
def caller(admin: FakeAdmin) -> FakeAdmin:
    admin.describe_cluster.return_value = described_cluster(frozenset())
    admin.topics = ["orders"]
    admin.describe_topics.side_effect = lambda names, **_: Results({name: described_topic(name) for name in names}, {})
    admin.list_groups.return_value.groups = ()
    admin.describe_groups.return_value = Results({}, {})
    return admin


def test_everything_that_the_caller_may_describe_is_shown(
    caller: FakeAdmin, capsys: pytest.CaptureFixture[str]
) -> None:
    assert access(["mine"]) == 0
    captured = capsys.readouterr()
    rows = [line.split(maxsplit=1) for line in captured.out.splitlines()[1:]]
    assert rows == [["Cluster:kafka-cluster", "unknown"], ["Topic:orders", "Read, Describe"]]
    assert "needs DESCRIBE on Cluster" in captured.err
    assert caller.describe_cluster.call_args.kwargs["include_authorized_operations"] is True


def test_access_mine_writes_json(caller: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    assert access(["mine", "--topic", "orders", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "cluster": None,
        "topics": [{"topic": "orders", "operations": ["Read", "Describe"]}],
        "groups": [],
        "errors": [],
    }
    caller.list_groups.assert_not_called()


def test_a_resource_that_may_not_be_described_is_an_error_with_its_name(
    caller: FakeAdmin, capsys: pytest.CaptureFixture[str]
) -> None:
    denied = admin_error(ErrorCode.TOPIC_AUTHORIZATION_FAILED, None, "secret")
    caller.describe_topics.side_effect = lambda names, **_: Results({}, {"secret": denied})
    assert access(["mine", "--topic", "secret"]) == 1
    assert "secret" in capsys.readouterr().err


def test_describe_shows_operations_on_request(caller: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    caller.describe_configs.return_value = Results({}, {})
    assert topics(["describe", "orders", "--authorized-operations"]) == 0
    assert "Topic:orders  Read, Describe" in capsys.readouterr().out
    assert topics(["describe", "orders", "--authorized-operations", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["topics"][0]["authorized_operations"] == ["Read", "Describe"]
    assert topics(["describe", "orders", "-o", "json"]) == 0
    assert "authorized_operations" not in json.loads(capsys.readouterr().out)["topics"][0]
    assert cluster(["describe", "--authorized-operations"]) == 0
    assert "Cluster:kafka-cluster  nothing" in capsys.readouterr().out


def test_missing_authorized_operations_are_not_shown_as_a_denial(
    caller: FakeAdmin, capsys: pytest.CaptureFixture[str]
) -> None:
    caller.describe_cluster.return_value = described_cluster(None)
    assert cluster(["describe", "--authorized-operations", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["authorized_operations"] is None


def test_groups_have_the_option_too(caller: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    group = GroupDescription("g", "classic", "consumer", "Empty", "", (), SOME)
    caller.describe_groups.return_value = Results({"g": group}, {})
    caller.list_group_offsets.return_value = Results({}, {})
    assert groups(["describe", "g", "--state", "--authorized-operations"]) == 0
    assert "Group:g   Read, Describe" in capsys.readouterr().out
    assert caller.describe_groups.call_args.kwargs["include_authorized_operations"] is True
