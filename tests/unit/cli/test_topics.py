"""``barnabas topics``: the requests to the cluster, and the reports of its answers."""

from __future__ import annotations

import json

import pytest
import yaml

from barnabas.cli.topics.command import main
from barnabas.clients.admin import (
    Config,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    CreatedTopic,
    LogDirDescription,
    NewPartitions,
    NewTopic,
    ReplicaInfo,
    Results,
    TopicDescription,
    TopicPartitionInfo,
    UnsupportedVersion,
)
from barnabas.clients.admin.errors import admin_error
from barnabas.common.error_code import ErrorCode
from barnabas.common.topic_partition import TopicPartition
from barnabas.common.uuid import Uuid
from tests.unit.cli.conftest import FakeAdmin

ID = Uuid.from_int(1 << 100 | 7)
WELL = TopicPartitionInfo(0, 1, (1, 2), (1, 2))
BEHIND = TopicPartitionInfo(1, 2, (1, 2), (2,))
DOWN = TopicPartitionInfo(2, None, (1, 2), (), (1, 2))


def described(admin: FakeAdmin, *partitions: TopicPartitionInfo) -> None:
    admin.describe_topics.return_value = Results({"orders": TopicDescription("orders", ID, False, partitions)}, {})
    entries = [
        ConfigEntry("retention.ms", "5", ConfigSource.TOPIC_CONFIG, False, False),
        ConfigEntry("min.insync.replicas", "2", ConfigSource.DEFAULT_CONFIG, False, False),
    ]
    resource = ConfigResource.topic("orders")
    config = Config(resource, {entry.name: entry for entry in entries})
    admin.describe_configs.return_value = Results({resource: config}, {})


def test_topics_are_listed(admin: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == [
        "topic", "__consumer_offsets", "orders", "payments",
    ]  # fmt: skip
    assert main(["list", "pay.*", "--output", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [topic["topic"] for topic in document["topics"]] == ["payments"]
    assert document["errors"] == []
    assert main(["list", "--exclude-internal", "-o", "yaml"]) == 0
    assert [topic["topic"] for topic in yaml.safe_load(capsys.readouterr().out)["topics"]] == ["orders", "payments"]


def test_the_list_has_partitions_replicas_and_sizes(admin: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    replicas = {
        TopicPartition("orders", 0): ReplicaInfo(1000, 0, False),
        TopicPartition("x", 0): ReplicaInfo(1, 0, False),
    }
    dirs = {"/data": LogDirDescription(replicas)}
    admin.describe_log_dirs.return_value = Results({1: dirs, 2: dirs}, {})
    assert main(["list", "orders"]) == 0
    header, row = capsys.readouterr().out.splitlines()
    assert header.split() == ["topic", "partitions", "replicas", "size", "id"]
    assert row.split()[:5] == ["orders", "2", "3", "2.0", "KiB"]
    assert main(["list", "orders", "-o", "json"]) == 0
    (topic,) = json.loads(capsys.readouterr().out)["topics"]
    assert (topic["partitions"], topic["replication_factor"], topic["size_bytes"]) == (2, 3, 2000)


def test_sizes_are_missing_without_the_right_to_them(admin: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    admin.describe_log_dirs.side_effect = admin_error(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    assert main(["list", "orders", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["topics"][0]["size_bytes"] is None


def test_names_alone_are_for_pipes(admin: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "--names", "--exclude-internal"]) == 0
    assert capsys.readouterr().out == "orders\npayments\n"
    admin.describe_log_dirs.assert_not_called()


def test_a_missing_topic_is_answered_with_the_closest_name(
    admin: FakeAdmin, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["describe", "ordres"]) == 1
    assert capsys.readouterr().err == (
        "barnabas topics describe: ordres: no topic of this name exists, or you may not see it\n"
        "  next: did you mean orders?\n"
    )


def test_a_topic_is_described_with_its_overridden_settings(
    admin: FakeAdmin, capsys: pytest.CaptureFixture[str]
) -> None:
    described(admin, WELL, BEHIND, DOWN)
    assert main(["describe", "--topic", "orders"]) == 0
    topics, _, partitions = capsys.readouterr().out.partition("\n\n")
    assert topics.splitlines()[1].split() == ["orders", str(ID), "3", "2", "retention.ms=5"]
    assert partitions.splitlines()[3].split() == ["orders", "2", "none", "1,", "2", "1,", "2"]


def test_settings_that_may_not_be_read_are_reported_as_missing(
    admin: FakeAdmin, capsys: pytest.CaptureFixture[str]
) -> None:
    described(admin, WELL)
    resource = ConfigResource.topic("orders")
    refused = admin_error(ErrorCode.TOPIC_AUTHORIZATION_FAILED, None, resource)
    admin.describe_configs.return_value = Results({}, {resource: refused})
    assert main(["describe", "orders"]) == 0
    assert capsys.readouterr().err == "note: settings are not shown: this needs DESCRIBE_CONFIGS on Topic:orders\n"


@pytest.mark.parametrize(
    ("option", "shown"),
    [
        ("--under-replicated-partitions", [1, 2]),
        ("--unavailable-partitions", [2]),
        ("--under-min-isr-partitions", [1, 2]),
        ("--at-min-isr-partitions", [0]),
    ],
)
def test_unhealthy_partitions_are_found(
    admin: FakeAdmin, capsys: pytest.CaptureFixture[str], option: str, shown: list[int]
) -> None:
    described(admin, WELL, BEHIND, DOWN)
    assert main(["describe", option, "--output", "json"]) == 0
    (topic,) = json.loads(capsys.readouterr().out)["topics"]
    assert [partition["partition"] for partition in topic["partitions"]] == shown


def test_topics_are_created(admin: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    admin.create_topics.return_value = Results({"a": CreatedTopic("a", ID, 3, 2, {})}, {})
    arguments = ["create", "a", "--partitions", "3", "--replication-factor", "2", "--config", "cleanup.policy=a,b"]
    assert main(arguments) == 0
    assert capsys.readouterr().out == "topic a  created (partitions 3, replication factor 2)\n"
    (wanted,), options = admin.create_topics.call_args.args[0], admin.create_topics.call_args.kwargs
    assert wanted == NewTopic("a", 3, 2, {"cleanup.policy": "a,b"}, None)
    assert options == {"validate_only": False, "wait": False}


def test_a_dry_run_reports_that_nothing_was_changed(admin: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    admin.create_topics.return_value = Results({"a": CreatedTopic("a", Uuid.from_int(0), 3, 2, {})}, {})
    assert main(["create", "a", "--dry-run", "--output", "json"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out) == {
        "dry_run": True,
        "changes": [{"topic": "a", "change": "created", "id": None, "partitions": 3, "replication_factor": 2}],
        "errors": [],
    }
    assert captured.err == "note: nothing was changed\n"
    assert admin.create_topics.call_args.kwargs["validate_only"] is True


def test_one_failed_topic_fails_the_command_and_not_the_other_topics(
    admin: FakeAdmin, capsys: pytest.CaptureFixture[str]
) -> None:
    refused = admin_error(ErrorCode.TOPIC_AUTHORIZATION_FAILED, None, "b")
    admin.create_topics.return_value = Results({"a": CreatedTopic("a", ID, 1, 1, {})}, {"b": refused})
    assert main(["create", "a", "b"]) == 1
    captured = capsys.readouterr()
    assert captured.out.startswith("topic a  created")
    assert "b: Topic authorization failed (TOPIC_AUTHORIZATION_FAILED)" in captured.err
    assert "next: this needs CREATE on Topic:b or on Cluster" in captured.err


def test_if_not_exists_accepts_an_existing_topic(admin: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    there = admin_error(ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 'a' already exists.", "a")
    admin.create_topics.return_value = Results({}, {"a": there})
    assert main(["create", "a"]) == 1
    assert "--if-not-exists" in capsys.readouterr().err
    assert main(["create", "a", "--if-not-exists"]) == 0
    assert capsys.readouterr().err == "note: a exists already\n"


def test_a_mistyped_setting_is_answered_with_the_closest_name(
    admin: FakeAdmin, capsys: pytest.CaptureFixture[str]
) -> None:
    refused = admin_error(ErrorCode.INVALID_CONFIG, "Unknown topic config name: retentoin.ms", "a")
    admin.create_topics.return_value = Results({}, {"a": refused})
    assert main(["create", "a", "--config", "retentoin.ms=5"]) == 1
    assert "did you mean retention.ms" in capsys.readouterr().err


def test_partitions_are_added_to_topics(admin: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    admin.create_partitions.return_value = Results({"orders": None}, {})
    assert main(["alter", "orders", "--partitions", "3", "--replica-assignment", "1:2,2:1", "--wait"]) == 0
    assert capsys.readouterr().out == "topic orders  grown (to 3 partitions)\n"
    assert admin.create_partitions.call_args.args[0] == {"orders": NewPartitions(3, [[1, 2], [2, 1]])}
    assert admin.create_partitions.call_args.kwargs == {"validate_only": False, "wait": True}


def test_topics_are_deleted_unless_it_is_a_dry_run(admin: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    described(admin, WELL)
    assert main(["delete", "orders", "--dry-run"]) == 0
    assert capsys.readouterr().out == "topic orders  would be deleted (1 partitions)\n"
    admin.delete_topics.assert_not_called()
    missing = admin_error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None, "ordrs")
    admin.delete_topics.return_value = Results({}, {"ordrs": missing})
    assert main(["delete", "ordrs"]) == 1
    assert "did you mean orders?" in capsys.readouterr().err
    assert main(["delete", "ordrs", "--if-exists"]) == 0
    assert capsys.readouterr().err == "note: ordrs does not exist\n"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["create"], "no topic given"),
        (["create", "a b"], "contains one or more characters"),
        (["create", "a", "--config", "x"], "write a setting as key=value"),
        (["create", "a", "--config", "x=1", "--config", "x=2"], "x is given twice"),
        (["create", "a", "--replica-assignment", "1:x"], "as in 1:2,2:3"),
        (
            ["create", "a", "--replica-assignment", "1", "--partitions", "3"],
            "omit --partitions and --replication-factor",
        ),
        (["create", "a", "--partition", "3"], "did you mean --partitions?"),
        (["add-partitions", "a"], "--partitions"),
        (["delete", "pay.*"], "contains one or more characters"),
        (["describe", "--topic-id", "x"], "--topic-id x"),
        (["create", "a", "--partitions", "0"], "the number must be >= 1"),
        (["create", "a", "--partitions", "99999999999"], "the number must be <= 2147483647"),
        (["--list"], "'barnabas topics list ...'"),
        (["--create", "--topic", "a"], "'barnabas topics create ...'"),
        (["--bootstrap-server", "a:1"], "the verb is missing"),
        (["describe", "--unavailable-partitions", "--topics-with-overrides"], "can't be used together"),
        (["list", "("], "regular expression"),
        (["list", "--bootstrap-server", "nowhere"], "is not host:port"),
        (["list", "--bootstrap-server", "a:1", "--bootstrap-controller", "b:1"], "can't be used together"),
        (["list", "--timeout", "0"], "the timeout is too short"),
        (["list", "--command-config", "/none"], "can't read /none"),
    ],
)
def test_invalid_arguments_are_refused_with_advice(
    admin: FakeAdmin, capsys: pytest.CaptureFixture[str], arguments: list[str], expected: str
) -> None:
    assert main(arguments) == 2
    assert expected in capsys.readouterr().err


def test_a_request_to_the_wrong_kind_of_node_names_the_right_option(
    admin: FakeAdmin, capsys: pytest.CaptureFixture[str]
) -> None:
    for text, server, expected in (
        ("a:1 is a controller, not a broker", "server", "as --bootstrap-controller, or that of a broker"),
        ("a:1 is a broker", "controller", "as --bootstrap-server, or that of a controller"),
        ("the node at a:1 does not offer CreateTopics", "controller", "use --bootstrap-server with a broker"),
        ("the node at a:1 does not offer CreateTopics", "server", "this cluster does not support the request"),
    ):
        admin.create_topics.side_effect = UnsupportedVersion(text)
        assert main(["create", "x", f"--bootstrap-{server}", "a:1"]) == 1
        assert expected in capsys.readouterr().err


def test_options_reach_the_client(admin: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    assert str(admin.config.bootstrap[0]) == "localhost:9092"
    assert main(["list", "--bootstrap-controller", "c:1", "--timeout", "2.5"]) == 0
    assert admin.config.asks_controllers
    assert admin.config.values["default.api.timeout.ms"] == 2500
