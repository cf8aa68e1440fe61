"""``barnabas configs``: reading settings and checking a file."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from barnabas.cli.configs.command import main
from barnabas.clients.admin import (
    AlterConfigOp,
    AlterConfigOpType,
    Config,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    ConfigSynonym,
    Results,
)
from barnabas.clients.admin.errors import admin_error
from barnabas.common.error_code import ErrorCode
from tests.unit.cli.conftest import FakeAdmin

GOOD = """\
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=127.0.0.1:9093
listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093
controller.listener.names=CONTROLLER
offsets.topic.replication.factor=1
num.io.threads=3
"""


def test_a_setting_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "ssl.client.auth", "retention.ms"]) == 0
    out = capsys.readouterr().out
    assert "[required, requested, none]" in out
    assert "retention.ms" in out


def test_an_unknown_setting_is_answered_with_the_closest_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "num.partitons"]) == 1
    assert "did you mean num.partitions" in capsys.readouterr().err
    assert main(["show", "zzz"]) == 1
    assert "docs/reference/configs.md" in capsys.readouterr().err


def test_a_valid_file_passes_the_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "server.properties"
    path.write_text(GOOD)
    assert main(["check", str(path)]) == 0
    out = capsys.readouterr().out
    assert "num.io.threads has no effect here" in out
    assert f"{path}: 7 settings are valid" in out


def test_super_users_separated_by_commas_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "server.properties"
    authorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    path.write_text(f"{GOOD}\nauthorizer.class.name={authorizer}\nsuper.users=User:a,User:b\n")
    assert main(["check", str(path)]) == 0
    assert "super.users: 'User:a,User:b' is one user" in capsys.readouterr().out


def test_an_invalid_file_fails_the_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "server.properties"
    path.write_text(GOOD)
    assert main(["check", str(path), "--override", "num.partitions=0"]) == 1
    assert "num.partitions=0 (--override)" in capsys.readouterr().err
    assert main(["check", str(tmp_path / "none")]) == 2
    assert "No such file" in capsys.readouterr().err


def test_a_wrong_command_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bogus"]) == 2
    assert main(["show"]) == 2
    assert main(["--help"]) == 0
    assert "check" in capsys.readouterr().out


ORDERS = ConfigResource.topic("orders")


def describes(admin: FakeAdmin, *entries: ConfigEntry) -> None:
    config = Config(ORDERS, {entry.name: entry for entry in entries})
    admin.describe_configs.return_value = Results({ORDERS: config}, {})


def test_only_explicitly_set_values_are_shown(admin: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    describes(
        admin,
        ConfigEntry("retention.ms", "5", ConfigSource.TOPIC_CONFIG, False, False),
        ConfigEntry("segment.ms", "6", ConfigSource.DEFAULT_CONFIG, False, False),
    )
    assert main(["describe", "--topic", "orders"]) == 0
    assert capsys.readouterr().out == "topic orders\nsetting       value  source\nretention.ms  5      topic\n"
    assert main(["describe", "--entity-type", "topics", "--entity-name", "orders", "--all", "-o", "json"]) == 0
    (described,) = json.loads(capsys.readouterr().out)["configs"]
    assert [entry["name"] for entry in described["entries"]] == ["retention.ms", "segment.ms"]


def test_secrets_are_hidden_and_synonyms_are_shown(admin: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    synonym = ConfigSynonym("log.retention.ms", "7", ConfigSource.STATIC_BROKER_CONFIG)
    describes(
        admin,
        ConfigEntry("retention.ms", "5", ConfigSource.TOPIC_CONFIG, False, False, (synonym,)),
        ConfigEntry("secret", None, ConfigSource.TOPIC_CONFIG, True, False),
    )
    assert main(["describe", "--topic", "orders", "--synonyms"]) == 0
    out = capsys.readouterr().out
    assert "static broker:log.retention.ms=7" in out
    assert "secret        (hidden)" in out


def test_a_missing_setting_is_answered_with_the_closest_name(
    admin: FakeAdmin, capsys: pytest.CaptureFixture[str]
) -> None:
    describes(admin)
    assert main(["describe", "--topic", "orders", "--config", "retentin.ms"]) == 0
    assert "did you mean retention.ms" in capsys.readouterr().err


def test_every_kind_of_alteration_is_sent(admin: FakeAdmin, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "more.properties"
    file.write_text("max.message.bytes=7\n")
    admin.incremental_alter_configs.return_value = Results({ORDERS: None}, {})
    arguments = [
        "--config", "a=1,2", "--add-config", "b=[3,4],c=5", "--delete-config", "d,e", "--append-config", "f=6",
        "--subtract-config", "g=7", "--add-config-file", str(file),
    ]  # fmt: skip
    assert main(["alter", "--topic", "orders", *arguments, "--dry-run", "--wait"]) == 0
    captured = capsys.readouterr()
    assert captured.out == "topic orders  would be altered (a, b, c, max.message.bytes, d, e, f, g)\n"
    assert "nothing was changed" in captured.err
    (changes,), options = admin.incremental_alter_configs.call_args
    assert options == {"validate_only": True, "wait": True}
    assert list(changes[ORDERS]) == [
        AlterConfigOp.set("a", "1,2"),
        AlterConfigOp.set("b", "3,4"),
        AlterConfigOp.set("c", "5"),
        AlterConfigOp.set("max.message.bytes", "7"),
        AlterConfigOp.delete("d"),
        AlterConfigOp.delete("e"),
        AlterConfigOp("f", "6", AlterConfigOpType.APPEND),
        AlterConfigOp("g", "7", AlterConfigOpType.SUBTRACT),
    ]


def test_an_authorization_failure_names_the_missing_right(admin: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    broker = ConfigResource.broker()
    refused = admin_error(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None, broker)
    admin.incremental_alter_configs.return_value = Results({}, {broker: refused})
    assert main(["alter", "--broker-defaults", "--config", "password=secret-word"]) == 1
    captured = capsys.readouterr()
    assert "this needs ALTER_CONFIGS on Cluster" in captured.err
    assert "secret-word" not in captured.err + captured.out


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["describe"], "no resource given"),
        (["alter", "--config", "a=1"], "no resource given"),
        (["alter", "--topic", "a"], "no change given"),
        (["alter", "--topic", "a", "--config", "b"], "write a setting as key=value"),
        (["alter", "--topic", "a", "--add-config", "b=1,2"], "write a list in brackets"),
        (["alter", "--topic", "a", "--config", "b=1", "--delete-config", "b"], "only one change"),
        (["alter", "--topic", "a", "--add-config-file", "/none"], "can't read /none"),
        (["describe", "--broker", "x"], "a broker id is a number"),
        (["describe", "--entity-name", "x"], "need --entity-type"),
        (["describe", "--entity-type", "users"], "barnabas quotas"),
        (["describe", "--entity-type", "topics", "--entity-default"], "only brokers have a common default"),
        (["describe", "--entity-type", "topic"], "--entity-type"),
    ],
)
def test_invalid_arguments_are_refused(
    admin: FakeAdmin, capsys: pytest.CaptureFixture[str], arguments: list[str], expected: str
) -> None:
    assert main(arguments) == 2
    assert expected in capsys.readouterr().err


def test_nodes_with_different_values_are_explained_separately(
    admin: FakeAdmin, capsys: pytest.CaptureFixture[str]
) -> None:
    static = ConfigSynonym("log.retention.ms", "7", ConfigSource.STATIC_BROKER_CONFIG)
    of_topic = ConfigEntry("retention.ms", "7", ConfigSource.STATIC_BROKER_CONFIG, False, False, (static,))
    of_one = ConfigEntry("log.retention.ms", "7", ConfigSource.STATIC_BROKER_CONFIG, False, False, (static,))
    of_two = ConfigEntry("log.retention.ms", None, ConfigSource.DEFAULT_CONFIG, False, False)
    brokers = {ConfigResource.broker(1): of_one, ConfigResource.broker(2): of_two}
    admin.describe_cluster.return_value = SimpleNamespace(nodes=[SimpleNamespace(id=1), SimpleNamespace(id=2)])
    admin.describe_configs.side_effect = [
        Results({ORDERS: Config(ORDERS, {"retention.ms": of_topic})}, {}),
        Results({resource: Config(resource, {entry.name: entry}) for resource, entry in brokers.items()}, {}),
    ]
    assert main(["explain", "--topic", "orders"]) == 0
    printed = capsys.readouterr()
    lines = [" ".join(line.split()) for line in printed.out.splitlines()]
    assert lines[2:] == [
        "1 7 log.retention.ms, in the node's file 168 (log.retention.hours, the default)",
        "2 604800000 the default",
    ]
    assert "nodes return different values of retention.ms" in printed.err


def test_explain_requires_a_resource(admin: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain"]) == 2
    assert "--topic" in capsys.readouterr().err
