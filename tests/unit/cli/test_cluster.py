"""``barnabas cluster|quorum|features|log-dirs``: the cluster as a whole."""

from __future__ import annotations

import json

import pytest

from barnabas.cli.cluster.command import main as cluster
from barnabas.cli.features import main as features
from barnabas.cli.log_dirs.command import main as log_dirs
from barnabas.cli.quorum.command import main as quorum
from barnabas.clients.admin import (
    ClusterDescription,
    FeatureMetadata,
    FeatureUpdate,
    LogDirDescription,
    Node,
    QuorumInfo,
    QuorumNode,
    RaftVoterEndpoint,
    ReplicaInfo,
    ReplicaState,
    Results,
    TopicPartition,
    UpgradeType,
    Uuid,
    VersionRange,
)
from barnabas.clients.admin.errors import admin_error
from barnabas.common.error_code import ErrorCode
from tests.unit.cli.conftest import FakeAdmin

NODES = (Node(1, "a", 9092), Node(2, "b", 9092, "r1"), Node(3, "c", 9092, None, True))


@pytest.fixture
def two_brokers(admin: FakeAdmin) -> FakeAdmin:
    admin.describe_cluster.return_value = ClusterDescription("cid", NODES, NODES[0])
    return admin


def test_the_nodes_are_shown(two_brokers: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    assert cluster(["describe", "--include-fenced-brokers"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0] == "cluster cid"
    assert out[-1].split() == ["3", "c", "9092", "fenced"]
    assert two_brokers.describe_cluster.call_args.kwargs["include_fenced_brokers"] is True
    assert cluster(["cluster-id"]) == 0
    assert capsys.readouterr().out == "cid\n"


def test_a_broker_is_unregistered_unless_it_is_a_dry_run(
    two_brokers: FakeAdmin, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cluster(["unregister", "3", "--dry-run"]) == 0
    assert capsys.readouterr().out == "broker 3  would be unregistered\n"
    assert cluster(["unregister", "2", "--dry-run"]) == 0
    assert "is alive" in capsys.readouterr().err
    assert cluster(["unregister", "9", "--dry-run"]) == 1
    assert "registered brokers: 1, 2, 3" in capsys.readouterr().err
    two_brokers.unregister_broker.assert_not_called()
    assert cluster(["unregister", "--broker-id", "3"]) == 0
    two_brokers.unregister_broker.assert_awaited_once_with(3)


def test_the_quorum_is_described(admin: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    voters = (ReplicaState(1, Uuid.from_int(7), 100, 5, 5), ReplicaState(2, Uuid.from_int(8), 90, 0, None))
    nodes = (QuorumNode(1, (RaftVoterEndpoint("CONTROLLER", "a", 9093),)),)
    admin.describe_quorum.return_value = QuorumInfo(1, 3, 99, voters, (), nodes)
    assert quorum(["describe", "--status"]) == 0
    assert "maximum voter lag  10" in capsys.readouterr().out
    assert quorum(["describe", "--replication", "--human-readable"]) == 0
    first, second = capsys.readouterr().out.splitlines()[1:]
    assert first.split()[:2] == ["1", "leader"]
    assert second.split()[3:] == ["90", "10", "1970-01-01", "00:00:00.000Z", "unknown"]
    assert quorum(["describe", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["voters"][1]["lag"] == 10


def test_features_are_described(admin: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    version_1 = VersionRange(1, 1)
    admin.describe_features.return_value = FeatureMetadata(
        {"a": version_1}, 5, {"a": VersionRange(0, 2), "b": version_1}
    )
    assert features(["describe"]) == 0
    assert [line.split() for line in capsys.readouterr().out.splitlines()[1:]] == [
        ["a", "0", "2", "1"],
        ["b", "1", "1", "0"],
    ]


def test_features_are_upgraded_and_downgraded(admin: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    admin.update_features.return_value = Results({"a": None}, {})
    assert features(["upgrade", "--feature", "a=2", "--dry-run"]) == 0
    assert capsys.readouterr().out == "feature a  would be upgraded (to level 2)\n"
    assert admin.update_features.call_args.args[0] == {"a": FeatureUpdate(2, UpgradeType.UPGRADE)}
    assert features(["downgrade", "--feature", "a=1"]) == 0
    assert admin.update_features.call_args.args[0] == {"a": FeatureUpdate(1, UpgradeType.SAFE_DOWNGRADE)}
    assert features(["disable", "--feature", "a", "--unsafe"]) == 0
    assert admin.update_features.call_args.args[0] == {"a": FeatureUpdate(0, UpgradeType.UNSAFE_DOWNGRADE)}


def test_only_levels_that_differ_from_the_release_are_requested(
    admin: FakeAdmin, capsys: pytest.CaptureFixture[str]
) -> None:
    supported = {"metadata.version": VersionRange(7, 29), "group.version": VersionRange(0, 1)}
    finalized = {"metadata.version": VersionRange(25, 25), "group.version": VersionRange(1, 1)}
    admin.describe_features.return_value = FeatureMetadata(finalized, 5, supported)
    admin.update_features.side_effect = lambda updates, **_: Results(dict.fromkeys(updates), {})
    assert features(["upgrade", "--release-version", "4.1", "--dry-run"]) == 0
    captured = capsys.readouterr()
    assert "feature metadata.version                  would be upgraded (to level 27 (4.1-IV1))" in captured.out
    assert "group.version stays at level 1" in captured.err
    wanted = {name: update.max_version_level for name, update in admin.update_features.call_args.args[0].items()}
    assert wanted == {
        "metadata.version": 27, "eligible.leader.replicas.version": 1, "kraft.version": 1, "transaction.version": 2,
    }  # fmt: skip
    assert features(["downgrade", "--release-version", "3.9"]) == 0
    updates = admin.update_features.call_args.args[0]
    assert updates["group.version"] == FeatureUpdate(0, UpgradeType.SAFE_DOWNGRADE)
    assert updates["metadata.version"].max_version_level == 21


def test_missing_features_of_a_broker_are_reported_and_not_taken_as_absent(
    admin: FakeAdmin, capsys: pytest.CaptureFixture[str]
) -> None:
    supported = {"metadata.version": VersionRange(7, 25), "group.version": VersionRange(0, 1)}
    admin.describe_features.return_value = FeatureMetadata({"metadata.version": VersionRange(25, 25)}, 5, supported)
    assert features(["describe"]) == 0
    captured = capsys.readouterr()
    assert captured.out.splitlines()[2].split() == [
        "metadata.version", "7", "(3.3-IV3)", "25", "(4.0-IV3)", "25", "(4.0-IV3)",
    ]  # fmt: skip
    assert captured.err == (
        "note: this broker does not serve kraft.version, transaction.version; --bootstrap-controller shows the "
        "cluster's levels\n"
    )
    assert features(["describe", "--bootstrap-controller", "c:1"]) == 0
    assert capsys.readouterr().err == ""


def test_upgrading_a_feature_that_no_broker_supports_is_reported(
    admin: FakeAdmin, capsys: pytest.CaptureFixture[str]
) -> None:
    admin.update_features.side_effect = lambda updates, **_: Results(dict.fromkeys(updates), {})
    newest, groups = VersionRange(7, 30), VersionRange(0, 1)
    without = FeatureMetadata({}, 5, {"metadata.version": newest, "eligible.leader.replicas.version": groups})
    some = FeatureMetadata({}, 5, {"metadata.version": newest, "group.version": groups})
    admin.describe_features_of_brokers.return_value = {1: without, 2: some}
    upgrade = ["upgrade", "--feature", "group.version=1", "--feature", "share.version=1"]
    assert features(upgrade) == 0
    err = capsys.readouterr().err
    assert "no broker of this cluster serves share.version: the level of it can be raised" in err
    assert "group.version" not in err
    assert features([*upgrade, "--bootstrap-controller", "c:1"]) == 0
    assert features(["disable", "--feature", "share.version"]) == 0
    assert capsys.readouterr().err == ""


def test_levels_of_releases_are_known_without_a_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    assert features(["version-mapping", "--release-version", "4.0", "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["release"], document["features"]["metadata.version"]) == ("4.0-IV3", 25)
    assert document["features"]["group.version"] == 1
    assert features(["version-mapping", "--release-version", "2.8"]) == 2
    assert "Supported metadata.version are: 3.3-IV3" in capsys.readouterr().err
    assert features(["feature-dependencies", "--feature", "eligible.leader.replicas.version=1"]) == 0
    assert "metadata.version=23 (4.0-IV1)" in capsys.readouterr().out
    assert features(["feature-dependencies", "--feature", "group.version=7"]) == 2
    assert "has the levels 0 to 1" in capsys.readouterr().err
    assert features(["upgrade"]) == 2
    assert features(["upgrade", "--feature", "a=1", "--release-version", "4.0"]) == 2


def test_an_error_shared_by_all_features_is_printed_once(admin: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    admin.describe_features.return_value = FeatureMetadata({}, 1, {})
    names = ("group.version", "metadata.version")
    refused = {name: admin_error(ErrorCode.INVALID_UPDATE_VERSION, "it might delete metadata", name) for name in names}
    admin.update_features.return_value = Results({}, refused)
    assert features(["downgrade", "--release-version", "3.9"]) == 1
    assert capsys.readouterr().err.count("it might delete metadata") == 1


def test_an_unknown_feature_is_answered_with_the_closest_name(
    admin: FakeAdmin, capsys: pytest.CaptureFixture[str]
) -> None:
    refused = admin_error(ErrorCode.INVALID_UPDATE_VERSION, "does not support this feature", "metdata.version")
    admin.update_features.return_value = Results({}, {"metdata.version": refused})
    supported = {"metadata.version": VersionRange(7, 30)}
    admin.describe_features.return_value = FeatureMetadata({}, 1, supported)
    assert features(["upgrade", "--feature", "metdata.version=30"]) == 1
    assert "did you mean metadata.version?" in capsys.readouterr().err
    assert features(["upgrade", "--feature", "x"]) == 2
    assert features(["upgrade", "--feature", "x=1", "--feature", "x=2"]) == 2


def test_log_directories_are_shown(admin: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    replicas = {
        TopicPartition("orders", 0): ReplicaInfo(2048, 0, False),
        TopicPartition("other", 1): ReplicaInfo(100, 7, True),
    }
    down = LogDirDescription({}, error=admin_error(ErrorCode.KAFKA_STORAGE_ERROR, None, "/bad"))
    admin.describe_log_dirs.return_value = Results(
        {1: {"/data": LogDirDescription(replicas, 4096, 1024), "/bad": down}}, {}
    )
    assert log_dirs(["describe"]) == 1
    captured = capsys.readouterr()
    assert captured.out.splitlines()[1].split() == ["1", "/data", "2", "2.1", "KiB", "1.0", "KiB", "4.0", "KiB"]
    assert "broker 1 /bad: KAFKA_STORAGE_ERROR" in captured.err
    admin.describe_log_dirs.return_value = Results({1: {"/data": LogDirDescription(replicas, 4096, 1024)}}, {})
    assert log_dirs(["describe", "--partitions", "--bytes", "--broker-list", "1", "--topic-list", "other"]) == 0
    assert capsys.readouterr().out.splitlines()[1].split() == [
        "1",
        "/data",
        "other",
        "1",
        "100",
        "7",
        "moving",
        "here",
    ]
    assert admin.describe_log_dirs.call_args.args == ([1],)
    assert log_dirs(["describe", "--broker-list", "x"]) == 2
