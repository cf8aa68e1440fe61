"""``barnabas quorum add-controller|remove-controller`` and ``barnabas log-dirs move``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from barnabas.cli.log_dirs.command import main as log_dirs
from barnabas.cli.quorum.command import main as quorum
from barnabas.clients.admin import (
    LogDirDescription,
    QuorumInfo,
    RaftVoterEndpoint,
    ReplicaInfo,
    ReplicaState,
    Results,
    TopicPartitionReplica,
    UnsupportedVersion,
    Uuid,
)
from barnabas.clients.admin.errors import admin_error
from barnabas.common.error_code import ErrorCode
from barnabas.common.topic_partition import TopicPartition
from tests.unit.cli.conftest import FakeAdmin

ONE, TWO = Uuid.from_int(1 << 90), Uuid.from_int(2 << 90)
ZERO = TopicPartition("orders", 0)


@pytest.fixture
def controllers(admin: FakeAdmin) -> FakeAdmin:
    """1 is the only voter, 2 an observer."""
    voters, observers = (ReplicaState(1, ONE, 10),), (ReplicaState(2, TWO, 9), ReplicaState(3, Uuid.from_int(0), 9))
    admin.describe_quorum.return_value = QuorumInfo(1, 1, 10, voters, observers, ())
    return admin


def config_of(folder: Path, **more: str) -> str:
    settings = {
        "node.id": "2",
        "process.roles": "broker,controller",
        "controller.listener.names": "CONTROLLER",
        "listeners": "PLAINTEXT://:9092,CONTROLLER://host-2:9093",
        "log.dirs": f"{folder / 'data'},/elsewhere",
        **more,
    }
    (folder / "data").mkdir(exist_ok=True)
    meta = f"version=1\ncluster.id=cid\nnode.id=2\ndirectory.id={TWO}\n"
    (folder / "data" / "meta.properties").write_text(meta)
    path = folder / "server.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in settings.items() if value))
    return str(path)


@pytest.mark.parametrize("option", ["--controller-config", "--command-config"])
def test_a_controller_is_added_from_its_configuration_file(controllers: FakeAdmin, tmp_path: Path, option: str) -> None:
    config = config_of(tmp_path, **{"advertised.listeners": "CONTROLLER://outside:19093"})
    assert quorum(["add-controller", option, config, "--dry-run"]) == 0
    controllers.add_raft_voter.assert_not_called()
    assert quorum(["add-controller", option, config]) == 0
    endpoint = RaftVoterEndpoint("CONTROLLER", "outside", 19093)
    controllers.add_raft_voter.assert_awaited_once_with(2, TWO, [endpoint], cluster_id="cid")


def test_a_controller_is_added_from_options(controllers: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["add-controller", "--controller-id", "2", "--endpoint", "CONTROLLER://[::1]:9093"]
    assert quorum(words) == 0
    assert capsys.readouterr().out == f"controller 2  added (directory {TWO}, CONTROLLER://::1:9093)\n"
    for number, expected in (("1", "already a voter"), ("3", "Start the controller first"), ("4", "observers: 2, 3")):
        assert quorum(["add-controller", "--controller-id", number, "--endpoint", "C://a:1"]) == 1
        assert expected in capsys.readouterr().err
    stranger = str(Uuid.from_int(7 << 90))
    assert quorum([*words, "--controller-directory-id", stranger]) == 1
    assert f"no observer has this id and the directory {stranger}" in capsys.readouterr().err
    assert controllers.add_raft_voter.call_count == 1


def test_a_voter_is_removed(controllers: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    assert quorum(["remove-controller", "1", "--dry-run"]) == 0
    captured = capsys.readouterr()
    assert captured.out == f"controller 1  would be removed (directory {ONE})\n"
    assert "this is the last voter" in captured.err
    assert quorum(["remove-controller", "-i", "1", "-d", str(TWO), "--dry-run"]) == 1
    assert "the voters are 1" in capsys.readouterr().err
    controllers.remove_raft_voter.assert_not_called()
    assert quorum(["remove-controller", "-i", "1"]) == 0
    controllers.remove_raft_voter.assert_awaited_once_with(1, ONE)


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"node.id": ""}, "has no node.id"),
        ({"node.id": "5"}, "belongs to node 2, but node.id is 5"),
        ({"process.roles": "broker"}, "this node is not a controller"),
        ({"log.dirs": "/none"}, "/none is not formatted"),
        ({"listeners": "PLAINTEXT://a:1"}, "listeners has none of controller.listener.names (CONTROLLER)"),
        ({"listeners": "CONTROLLER://:9093"}, "write the listener, a host and a port"),
        ({"listeners": "CONTROLLER://0.0.0.0:9093"}, "other nodes can't connect to this address"),
    ],
)
def test_settings_that_do_not_describe_a_controller_are_refused(
    controllers: FakeAdmin, tmp_path: Path, capsys: pytest.CaptureFixture[str], more: dict[str, str], expected: str
) -> None:
    assert quorum(["add-controller", "--controller-config", config_of(tmp_path, **more)]) == 2
    assert expected in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["add-controller"], "no controller given"),
        (["add-controller", "--endpoint", "C://a:1"], "need --controller-id"),
        (["add-controller", "--controller-id", "2"], "--endpoint is missing"),
        (["add-controller", "--controller-id", "2", "--endpoint", "a:1"], "for example CONTROLLER://host-4:9093"),
        (
            ["add-controller", "--controller-id", "2", "--endpoint", "C://a:99999"],
            "for example CONTROLLER://host-4:9093",
        ),
        (["add-controller", "--controller-id", "2", "--controller-config", "x"], "can't be used together"),
        (["add-controller", "--controller-config", "/none"], "can't read /none"),
        (["remove-controller"], "CONTROLLER-ID is missing"),
        (["remove-controller", "1", "-d", "x"], "--controller-directory-id x"),
    ],
)
def test_invalid_arguments_are_refused(
    admin: FakeAdmin, capsys: pytest.CaptureFixture[str], arguments: list[str], expected: str
) -> None:
    assert quorum(arguments) == 2
    assert expected in capsys.readouterr().err


@pytest.fixture
def directories(admin: FakeAdmin) -> FakeAdmin:
    """orders-0 is in /a of brokers 1 and 2; broker 1 has a /b, too."""
    here, empty = LogDirDescription({ZERO: ReplicaInfo(5, 0, False)}), LogDirDescription({})
    admin.describe_log_dirs.return_value = Results({1: {"/a": here, "/b": empty}, 2: {"/a": here}}, {})
    admin.alter_replica_log_dirs.side_effect = lambda moves: Results(dict.fromkeys(moves), {})
    return admin


def test_replicas_are_moved_to_a_directory(directories: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    assert log_dirs(["move", "orders", "--to", "/b", "--dry-run"]) == 0
    directories.alter_replica_log_dirs.assert_not_called()
    assert log_dirs(["move", "orders:0", "--to", "/b"]) == 0
    assert capsys.readouterr().out.endswith("replica orders-0 on broker 1  sent (from /a to /b)\n")
    directories.alter_replica_log_dirs.assert_awaited_once_with({TopicPartitionReplica("orders", 0, 1): "/b"})
    assert log_dirs(["move", "orders:0", "--to", "/a"]) == 0
    assert "orders-0 on broker 1 is in this directory already" in capsys.readouterr().err


def test_an_unknown_directory_is_answered_with_the_existing_ones(
    directories: FakeAdmin, capsys: pytest.CaptureFixture[str]
) -> None:
    assert log_dirs(["move", "orders:0", "--to", "/c"]) == 1
    assert (
        "broker 1: the broker does not have a directory /c (LOG_DIR_NOT_FOUND)\n  next: its directories are /a, /b"
        in (capsys.readouterr().err)
    )
    assert log_dirs(["move", "orders:0", "--to", "/b", "--broker-id", "1", "--broker-id", "2"]) == 1
    assert "broker 2: the broker does not have a directory /b" in capsys.readouterr().err
    for topic, expected in (
        ("ordres", "did you mean orders?"),
        ("payments", "have a replica"),
        ("orders:7", "orders-7: the selected brokers"),
    ):
        assert log_dirs(["move", topic, "--to", "/b"]) == 1
        assert expected in capsys.readouterr().err
    directories.alter_replica_log_dirs.assert_not_called()


def test_an_unreachable_broker_fails_the_move(directories: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    missing: Results[Any, Any] = Results(
        {}, {7: admin_error(ErrorCode.BROKER_NOT_AVAILABLE, "node 7 is unreachable", 7)}
    )
    directories.describe_log_dirs.return_value = missing
    assert log_dirs(["move", "orders", "--to", "/b", "--broker-id", "7"]) == 1
    assert "node 7 is unreachable" in capsys.readouterr().err
    directories.require_api.side_effect = UnsupportedVersion("the node at a:1 does not offer AlterReplicaLogDirs")
    assert log_dirs(["move", "orders", "--to", "/b"]) == 1
    assert "does not offer AlterReplicaLogDirs" in capsys.readouterr().err
    for arguments, expected in (
        (["move", "--to", "/b"], "no replicas given"),
        (["move", "orders", "--to", "b"], "absolute"),
    ):
        assert log_dirs(arguments) == 2
        assert expected in capsys.readouterr().err
