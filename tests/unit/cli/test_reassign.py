"""``barnabas reassign``: the requests to the cluster, and the messages before them."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from barnabas.cli.arguments.partition_files import (
    RequestedReplicas,
    read_moves,
    read_offsets,
    read_partitions,
    read_topics,
)
from barnabas.cli.moves.reassign import main
from barnabas.cli.moves.reassignment import ReassignmentState, ThrottleRates, throttles
from barnabas.clients.admin import (
    AlterConfigOpType,
    ClusterDescription,
    ConfigResource,
    LogDirDescription,
    Node,
    PartitionReassignment,
    ReplicaInfo,
    Results,
    TopicDescription,
    TopicPartitionInfo,
    TopicPartitionReplica,
    UnsupportedVersion,
    Uuid,
)
from barnabas.clients.admin.errors import admin_error
from barnabas.common.error_code import ErrorCode
from barnabas.common.topic_partition import TopicPartition
from tests.unit.cli.conftest import FakeAdmin

ZERO, ONE = TopicPartition("orders", 0), TopicPartition("orders", 1)
MOVING = PartitionReassignment((2, 1), (2,), (1,))


@pytest.fixture
def orders(admin: FakeAdmin) -> FakeAdmin:
    """Two partitions on broker 1 of three brokers, without moves."""
    partitions = tuple(TopicPartitionInfo(index, 1, (1,), (1,)) for index in (0, 1))

    async def describe_topics(names: Any) -> Results[Any, Any]:
        missing = admin_error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None, "ordres")
        known = {"orders": TopicDescription("orders", Uuid.from_int(1 << 90), False, partitions)}
        return Results(
            {name: known[name] for name in names if name in known},
            {name: missing for name in names if name not in known},
        )

    admin.mock.describe_topics = describe_topics
    admin.list_partition_reassignments.return_value = {}
    nodes = tuple(Node(index, f"host-{index}", 9092) for index in (1, 2, 3))
    admin.describe_cluster.return_value = ClusterDescription("id", nodes, nodes[0])
    admin.describe_configs.return_value = Results({}, {})
    admin.alter_partition_reassignments.side_effect = lambda moves, **_: Results(dict.fromkeys(moves), {})
    admin.incremental_alter_configs.side_effect = lambda changes, **_: Results(dict.fromkeys(changes), {})
    return admin


def file(tmp_path: Path, *entries: Any, key: str = "partitions") -> str:
    path = tmp_path / "plan.json"
    path.write_text(json.dumps({"version": 1, key: list(entries)}))
    return str(path)


def entry(partition: int, *replicas: int, **more: Any) -> dict[str, Any]:
    return {"topic": "orders", "partition": partition, "replicas": list(replicas), **more}


def test_a_generated_plan_can_be_executed(
    orders: FakeAdmin, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["generate", "--topic", "orders", "--broker-list", "2,3", "-o", "json"]) == 0
    plan = tmp_path / "plan.json"
    plan.write_text(capsys.readouterr().out)
    assert read_moves(str(plan), "--file") == {
        ZERO: RequestedReplicas((2,), ("any",)),
        ONE: RequestedReplicas((3,), ("any",)),
    }
    assert json.loads(plan.read_text())["current"]["partitions"][0]["replicas"] == [1]
    assert main(["generate", "--topic", "orders", "--broker-list", "2,3"]) == 0
    captured = capsys.readouterr()
    assert captured.out.splitlines()[1].split() == ["orders", "0", "1", "2", "2"]
    assert "0 of 2 partitions do not change" in captured.err
    orders.alter_partition_reassignments.assert_not_called()


def test_a_plan_is_read_from_a_pipe(
    orders: FakeAdmin, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = json.dumps({"partitions": [entry(0, 2)]})
    for words in (["--reassignment-json-file", "-"], ["--reassignment-json-file=-"]):
        monkeypatch.setattr("sys.stdin", io.StringIO(text))
        assert main(["execute", *words, "--dry-run"]) == 0
        assert "move of orders-0  would be begun" in capsys.readouterr().out


def test_the_moves_of_a_file_are_started(orders: FakeAdmin, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = file(tmp_path, entry(0, 2), entry(1, 1))
    assert main(["execute", "--reassignment-json-file", plan]) == 0
    captured = capsys.readouterr()
    assert captured.out == "move of orders-0  begun (from 1 to 2)\n"
    assert "1 of 2 partitions are already on these brokers" in captured.err
    assert orders.alter_partition_reassignments.call_args.args == ({ZERO: (2,)},)
    assert main(["execute", "--reassignment-json-file", plan, "--dry-run", "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["changes"] == [
        {
            "move_of": "orders-0", "change": "begun", "topic": "orders", "partition": 0, "replicas": [2],
            "replicas_before": [1],
        }
    ]  # fmt: skip
    assert orders.alter_partition_reassignments.call_count == 1


def test_if_the_cluster_refuses_the_throttle_no_move_starts(
    orders: FakeAdmin, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    refused = admin_error(ErrorCode.INVALID_CONFIG, "it does not work here", ConfigResource.broker(1))
    orders.incremental_alter_configs.side_effect = None
    orders.incremental_alter_configs.return_value = Results({}, {ConfigResource.broker(1): refused})
    plan = file(tmp_path, entry(0, 2))
    assert main(["execute", "--reassignment-json-file", plan, "--throttle", "5000"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "it does not work here (INVALID_CONFIG)" in captured.err
    assert "omit --throttle" in captured.err
    assert orders.incremental_alter_configs.call_args.kwargs == {"validate_only": True}
    orders.alter_partition_reassignments.assert_not_called()


def test_throttles_are_removed_if_no_move_could_start(
    orders: FakeAdmin, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    refused = admin_error(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "broker 2 can't replicate", ZERO)
    orders.alter_partition_reassignments.side_effect = None
    orders.alter_partition_reassignments.return_value = Results({}, {ZERO: refused})
    plan = file(tmp_path, entry(0, 2))
    assert main(["execute", "--reassignment-json-file", plan, "--throttle", "5000"]) == 1
    captured = capsys.readouterr()
    assert (captured.out, "broker 2 can't replicate" in captured.err) == ("", True)
    last = orders.incremental_alter_configs.call_args.args[0]
    assert ConfigResource.topic("orders") in last
    assert {op.op for ops in last.values() for op in ops} == {AlterConfigOpType.DELETE}


def test_throttles_apply_to_senders_and_receivers() -> None:
    stage = ReassignmentState({ZERO: (1, 2), ONE: (2, 1)}, {ONE: MOVING}, {1: None, 2: None, 3: None}, ())
    found = throttles(stage, {ZERO: RequestedReplicas((2, 3))}, ThrottleRates(2048))
    assert found == {
        ConfigResource.topic("orders"): {
            "leader.replication.throttled.replicas": "0:1,0:2,1:1",
            "follower.replication.throttled.replicas": "0:3,1:2",
        },
        **{
            ConfigResource.broker(broker): {
                "leader.replication.throttled.rate": "2048",
                "follower.replication.throttled.rate": "2048",
            }
            for broker in (1, 2, 3)
        },
    }
    directories = throttles(stage, {ZERO: RequestedReplicas((1, 2), ("any", "/d"))}, ThrottleRates(None, 4096))
    assert directories == {ConfigResource.broker(2): {"replica.alter.log.dirs.io.max.bytes.per.second": "4096"}}


def test_a_cluster_that_cannot_choose_directories_is_reported_first(
    orders: FakeAdmin, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    orders.require_api.side_effect = UnsupportedVersion("the node at a:1 does not offer AlterReplicaLogDirs")
    plan = file(tmp_path, entry(0, 2, log_dirs=["/data"]))
    assert main(["execute", "--reassignment-json-file", plan]) == 1
    assert "does not offer AlterReplicaLogDirs" in capsys.readouterr().err
    orders.alter_partition_reassignments.assert_not_called()


def test_a_new_replica_is_moved_to_its_directory_as_soon_as_it_exists(
    orders: FakeAdmin, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    replica = TopicPartitionReplica("orders", 0, 2)
    not_yet: Results[Any, Any] = Results({}, {replica: admin_error(ErrorCode.REPLICA_NOT_AVAILABLE, None, replica)})
    orders.alter_replica_log_dirs.side_effect = [not_yet, not_yet, Results({replica: None}, {})]
    plan = file(tmp_path, entry(0, 2, log_dirs=["/data"]))
    assert main(["execute", "--reassignment-json-file", plan]) == 0
    assert "replica orders-0 on broker 2  sent (to /data)" in capsys.readouterr().out
    assert orders.alter_replica_log_dirs.call_count == 3


def test_verify_distinguishes_complete_running_and_diverging_moves(
    orders: FakeAdmin, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    orders.list_partition_reassignments.return_value = {ZERO: MOVING}
    plan = file(tmp_path, entry(0, 2), entry(1, 1))
    assert main(["verify", "--reassignment-json-file", plan]) == 3
    assert [line.split()[2] for line in capsys.readouterr().out.splitlines()[1:]] == ["on", "complete"]
    orders.describe_configs.assert_not_called()
    orders.list_partition_reassignments.return_value = {}
    assert main(["verify", "--reassignment-json-file", plan]) == 1
    assert "orders-0: its replicas are on 1, not on 2, and it is not moving" in capsys.readouterr().err


def test_verify_checks_directories(orders: FakeAdmin, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    here = LogDirDescription({ZERO: ReplicaInfo(5, 0, False)})
    orders.describe_log_dirs.return_value = Results({1: {"/a": here, "/b": LogDirDescription({})}}, {})
    plan = file(tmp_path, entry(0, 1, log_dirs=["/b"]))
    assert main(["verify", "--reassignment-json-file", plan]) == 1
    assert "orders-0 on broker 1: it is in /a and not in /b" in capsys.readouterr().err
    arriving = LogDirDescription({ZERO: ReplicaInfo(5, 0, True)})
    orders.describe_log_dirs.return_value = Results({1: {"/a": here, "/b": arriving}}, {})
    assert main(["verify", "--reassignment-json-file", plan]) == 3
    assert main(["cancel", "--reassignment-json-file", plan, "--dry-run"]) == 0
    assert "replica orders-0 on broker 1  would be sent (to /a)" in capsys.readouterr().out


def test_cancel_ends_all_moves(orders: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cancel", "--all"]) == 0
    assert capsys.readouterr().err == "note: no moves are in progress\n"
    orders.list_partition_reassignments.return_value = {ZERO: MOVING}
    assert main(["cancel", "--all"]) == 0
    assert capsys.readouterr().out == "move of orders-0  cancelled (it stays on 1)\n"
    assert orders.alter_partition_reassignments.call_args.args == ({ZERO: None},)


def test_a_rollback_file_is_never_overwritten(
    orders: FakeAdmin, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    back = tmp_path / "back.json"
    back.write_text("precious")
    plan = file(tmp_path, entry(0, 2))
    assert main(["execute", "--reassignment-json-file", plan, "--rollback-file", str(back)]) == 1
    assert "no move was started" in capsys.readouterr().err
    assert back.read_text() == "precious"
    orders.alter_partition_reassignments.assert_not_called()


def test_racks_are_required_of_all_brokers_or_of_none(orders: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    nodes = (Node(1, "a", 1, "east"), Node(2, "b", 1))
    orders.describe_cluster.return_value = ClusterDescription("id", nodes, nodes[0])
    assert main(["generate", "--topic", "orders"]) == 1
    assert "brokers 2 have no rack" in capsys.readouterr().err
    assert main(["generate", "--topic", "orders", "--disable-rack-aware"]) == 0


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["execute"], "use either a file or --topic"),
        (["execute", "--topic", "a", "--reassignment-json-file", "b"], "use either a file or --topic"),
        (["execute", "--reassignment-json-file", "/none"], "can't read /none"),
        (["execute", "--topic", "a", "--replicas", "1", "--broker-list", "1"], "--replicas lists the exact replicas"),
        (["execute", "--topic", "a", "--replicas", "1,1"], "a broker is listed twice"),
        (["execute", "--topic", "a", "--broker-list", "x"], "for example 1,2"),
        (["execute", "--topic", "a", "--throttle", "5"], "at least 1024"),
        (["execute", "--topic", "a", "--replication-factor", "0"], "the number must be >= 1"),
        (["execute", "--topic", "a b"], "contains one or more characters"),
        (["generate", "--topic", "a:x"], "write partitions as in a:0,2"),
        (["cancel", "--all", "--topic", "a"], "omit --reassignment-json-file and --topic"),
    ],
)
def test_invalid_arguments_are_refused(
    admin: FakeAdmin, capsys: pytest.CaptureFixture[str], arguments: list[str], expected: str
) -> None:
    assert main(arguments) == 2
    assert expected in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"version": 1,\n "partitions": [', "line 2: invalid JSON"),
        ("[]", 'the file must have the form {"version": 1, "partitions"'),
        ('{"version": 2, "partitions": [{}]}', '"version" is 2; only 1 is supported'),
        ('{"partitions": []}', '"partitions" is empty'),
        ('{"partitions": [5]}', "partitions[0]: an entry must have the form"),
        ('{"partitions": [{"topic": "a"}]}', '"partition" must be a number of at least 0, not missing'),
        ('{"partitions": [{"topic": 5, "partition": 0}]}', '"topic" must be the name of a topic, not 5'),
        ('{"partitions": [{"topic": "a b", "partition": 0}]}', "contains one or more characters"),
        ('{"partitions": [{"topic": "a", "partition": true}]}', "not true"),
        ('{"partitions": [{"topic": "a", "partition": 0, "replicas": []}]}', '"replicas" must be a list of broker ids'),
        ('{"partitions": [{"topic": "a", "partition": 0, "replicas": [1, 1]}]}', "lists a broker twice"),
        (
            '{"partitions": [{"topic": "a", "partition": 0, "replicas": [1], "log_dirs": []}]}',
            '"log_dirs" has 0 entries for 1 replicas',
        ),
        (
            '{"partitions": [{"topic": "a", "partition": 0, "replicas": [1], "log_dirs": ["data"]}]}',
            "a path must be absolute",
        ),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_an_invalid_file_is_reported_with_the_position(
    admin: FakeAdmin, tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, expected: str
) -> None:
    path = tmp_path / "plan.json"
    path.write_text(text)
    assert main(["execute", "--reassignment-json-file", str(path)]) == 2
    assert expected in capsys.readouterr().err


def test_the_topic_and_offset_files_of_kafkas_tools_are_read(tmp_path: Path) -> None:
    assert read_topics(file(tmp_path, {"topic": "a"}, {"topic": "b"}, key="topics"), "-f") == ["a", "b"]
    offsets = file(tmp_path, {"topic": "a", "partition": 1, "offset": -1})
    assert read_offsets(offsets, "-f") == {TopicPartition("a", 1): -1}
    assert read_partitions(offsets, "-f") == [TopicPartition("a", 1)]
