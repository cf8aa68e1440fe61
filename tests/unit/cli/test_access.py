"""``barnabas access``: the command line, its errors, its exit statuses, and its notes beside the answer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from barnabas.access.acl_text import parse_host, parse_operation, parse_principal, parse_resource, parse_super_users
from barnabas.cli.access.command import Options, main
from barnabas.common.acl import AclBinding
from barnabas.common.uuid import Uuid
from barnabas.metadata.image.acls import acl_record
from barnabas.metadata.image.record_writer import ApiMessageAndVersion
from barnabas.protocol.records.feature_level_record import FeatureLevelRecord
from barnabas.protocol.schema import Message
from barnabas.server.metadata_log.record_serde import MetadataRecordSerde
from barnabas.storage.bootstrap_file import write_bootstrap_file

EXPLAIN = ["explain", "--principal", "User:alice", "--resource", "Topic:orders", "--operation", "read"]


def snapshot_of(folder: Path, rules: list[AclBinding]) -> str:
    messages: list[Message] = [FeatureLevelRecord(name="metadata.version", feature_level=30)]
    messages += [acl_record(Uuid.from_int(1 << 100 | i), rule) for i, rule in enumerate(rules)]
    records = [ApiMessageAndVersion(message, 0) for message in messages]
    write_bootstrap_file(str(folder), records, serde=MetadataRecordSerde(), now_ms=1)
    return str(folder / "bootstrap.checkpoint")


@pytest.fixture
def snapshot(tmp_path: Path) -> str:
    """A snapshot file with a rule that has markup and a control character in its name."""
    rules = [
        AclBinding(2, "orders", 3, "User:alice", "10.0.0.1", 3, 3),
        AclBinding(2, "[red]orders\x1b", 3, "User:[bold]mallory", "*", 3, 3),
    ]
    return snapshot_of(tmp_path, rules)


def test_the_exit_status_reports_the_decision(snapshot: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*EXPLAIN, "--host", "10.0.0.1", "--snapshot", snapshot]) == 0
    assert capsys.readouterr().out.startswith("ALLOWED  Read on Topic:orders for User:alice from 10.0.0.1\nbecause  ")
    assert main([*EXPLAIN, "--host", "::ffff:10.0.0.1", "--snapshot", snapshot]) == 0
    assert main([*EXPLAIN, "--snapshot", snapshot]) == 3
    out = capsys.readouterr().out
    assert "DENIED" in out
    assert "other host  ALLOW User:alice Read on Topic:orders from 10.0.0.1" in out


def test_the_rights_of_a_client_are_decided_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rules = [
        AclBinding(2, "orders", 3, "User:ann", "*", 3, 3),
        AclBinding(2, "counter-", 4, "User:ann", "*", 2, 3),
        AclBinding(3, "billing", 3, "User:ann", "*", 3, 3),
        AclBinding(3, "counter", 3, "User:ann", "*", 3, 3),
    ]
    snapshot = ["--snapshot", snapshot_of(tmp_path, rules), "--super-users", ""]
    explain = ["explain", "--principal", "User:ann", *snapshot]
    assert main([*explain, "--share-consumer", "billing", "--topics", "orders"]) == 0
    assert "User:ann as a share consumer of group billing: has all rights" in capsys.readouterr().out
    assert main([*explain, "--consumer", "billing", "--topics", "orders,bills"]) == 3
    out = capsys.readouterr().out
    assert "lacks 1 of 3" in out
    assert [line.split()[:3] for line in out.splitlines()[2:]] == [
        ["allowed", "Group:billing", "Read"],
        ["allowed", "Topic:orders", "Read"],
        ["DENIED", "Topic:bills", "Read"],
    ]
    assert main([*explain, "--streams", "counter", "--read-topics", "orders", "-o", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["allowed"]
    internal = answer["needs"][-1]
    assert (internal["resource_name"], internal["pattern_type"]) == ("counter-", "PREFIXED")
    assert internal["explanation"]["resource"]["name"] == "counter-example"


def test_super_users_and_the_default_can_be_set_by_option_or_config(
    snapshot: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*EXPLAIN, "--snapshot", snapshot]) == 3
    assert "the ACLs don't contain super.users and allow.everyone.if.no.acl.found" in capsys.readouterr().err
    assert main([*EXPLAIN, "--snapshot", snapshot, "--super-users", "User:bob;User:alice"]) == 0
    captured = capsys.readouterr()
    assert "is a super user" in captured.out
    assert captured.err == ""
    config = tmp_path / "server.properties"
    config.write_text("super.users=User:alice\nallow.everyone.if.no.acl.found=TRUE\n")
    with_config = ["--snapshot", snapshot, "--config", str(config)]
    assert main([*EXPLAIN, *with_config]) == 0
    assert (
        main(["explain", "--principal", "User:x", "--resource", "Topic:new", "--operation", "read", *with_config]) == 0
    )
    assert main(["who", "Topic:new", *with_config, "--no-allow-everyone", "-o", "json"]) == 0
    answer = json.loads(capsys.readouterr().out.partition("\n{")[2].join(["{", ""]))
    assert (answer["default_allows"], answer["source"]["super_users"]) == (False, ["User:alice"])


def test_server_properties_alone_locates_the_metadata_of_its_node(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "server.properties"
    config.write_text(f"log.dirs={tmp_path}/data,{tmp_path}/more\nsuper.users=nobody\n")
    assert main([*EXPLAIN, "--config", str(config)]) == 1
    assert f"{tmp_path}/data: no such file or directory" in capsys.readouterr().err
    config.write_text("node.id=1\n")
    assert main([*EXPLAIN, "--config", str(config)]) == 1
    assert "does not set a log directory" in capsys.readouterr().err


def test_markup_and_control_characters_in_names_are_printed_as_text(
    snapshot: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["of", "User:[bold]mallory", "--snapshot", snapshot]) == 0
    assert r"Topic:[red]orders\x1b" in capsys.readouterr().out
    assert main(["who", "Topic:[red]orders\x1b", "--snapshot", snapshot]) == 0
    assert "User:[bold]mallory" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        ([*EXPLAIN, "--snapshot", "a", "--directory", "b"], 2, "choose one source"),
        ([*EXPLAIN, "--snapshot", "a", "--super-users", "alice"], 2, "--super-users: 'alice' is not a principal"),
        ([*EXPLAIN, "--snapshot", "no-such-file"], 1, "no such file or directory"),
        ([*EXPLAIN, "--config", "no-such-file"], 2, "can't read no-such-file"),
        ([*EXPLAIN, "--bootstrap-server", "nowhere"], 2, "is not host:port"),
        ([*EXPLAIN, "--command-config", "no-such-file"], 2, "can't read no-such-file"),
        (["explain", "--principal", "User:alice"], 2, "--resource"),
        ([*EXPLAIN, "--consumer", "g", "--topics", "t"], 2, "can't be used with a client"),
        (["explain", "--principal", "User:alice", "--consumer", "g"], 2, "no topics given"),
        (["bogus"], 2, "bogus"),
        (["who", "Topic:x", "--output", "xml"], 2, "xml"),
        (["who", "Toopic:x"], 2, "did you mean Topic?"),
        (["who", "Topic"], 2, "has no resource name"),
        (["who", "Topic:x", "--operation", "all"], 2, "'access who' shows all"),
        (["of", "alice"], 2, "write Type:name"),
    ],
)
def test_mistakes_set_the_exit_status_and_report_what_to_do(
    capsys: pytest.CaptureFixture[str], arguments: list[str], status: int, message: str
) -> None:
    assert main(arguments) == status
    captured = capsys.readouterr()
    assert message in " ".join((captured.err + captured.out).split())


def test_the_default_source_is_the_cluster_on_this_machine() -> None:
    assert Options().source().bootstrap_server == "localhost:9092"
    assert Options(config="server.properties").source().bootstrap_server is None
    assert Options(snapshot="a").source().bootstrap_server is None


def test_principals_without_access_are_listed_only_on_request(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    allow, deny = 3, 2
    rules = [
        AclBinding(2, "orders", 3, "User:alice", "*", 3, allow),
        AclBinding(2, "orders", 3, "User:mallory", "*", 2, deny),
    ]
    question = ["who", "Topic:orders", "--snapshot", snapshot_of(tmp_path, rules)]
    assert main(question) == 0
    out = capsys.readouterr().out
    assert "User:alice" in out
    assert "User:mallory" not in out
    assert "1 principal has no access, although ACLs name them (--denied)" in out
    assert main([*question, "--denied"]) == 0
    assert "User:mallory" in capsys.readouterr().out


def test_help_succeeds(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    assert "explain" in capsys.readouterr().out


# ---- words -------------------------------------------------------------------------------------------------------


def test_resources_are_parsed_in_every_spelling() -> None:
    for text in ("TransactionalId:a:b", "transactional_id:a:b", "TRANSACTIONAL-ID:a:b"):
        assert str(parse_resource(text)) == "TransactionalId:a:b"
    assert str(parse_resource("cluster")) == str(parse_resource("Cluster:kafka-cluster")) == "Cluster:kafka-cluster"
    assert parse_resource("topic:*").name == "*"
    for wrong in ("", "Topic:", "any:x", "unknown:x", "Cluster:other", "orders"):
        with pytest.raises(ValueError):
            parse_resource(wrong)


def test_operations_are_parsed_in_every_spelling() -> None:
    assert {parse_operation(text).name for text in ("DescribeConfigs", "describe_configs", "DESCRIBE-CONFIGS")} == {
        "DESCRIBE_CONFIGS"
    }
    for wrong in ("", "all", "ANY", "unknown", "reed"):
        with pytest.raises(ValueError):
            parse_operation(wrong)


def test_hosts_are_converted_to_the_form_that_kafka_compares() -> None:
    assert parse_host("::1") == "0:0:0:0:0:0:0:1"
    assert parse_host("::ffff:10.0.0.1") == parse_host("10.0.0.1") == "10.0.0.1"
    assert parse_host("*") == "*"
    for wrong in ("", "localhost", "10.0.0", "10.0.0.0/8"):
        with pytest.raises(ValueError):
            parse_host(wrong)


def test_principals_split_at_the_first_colon_and_a_wildcard_is_refused() -> None:
    assert parse_principal("User:CN=a:b") == ("User", "CN=a:b", False)
    for wrong in ("", "User", "User:", ":alice", "User:*"):
        with pytest.raises(ValueError):
            parse_principal(wrong)
    assert parse_super_users(" User:a ;; User:CN=b,O=c ") == {"User:a", "User:CN=b,O=c"}
