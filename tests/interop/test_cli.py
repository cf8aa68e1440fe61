"""The commands against our node, a real Kafka 4.3.1 and (some of the tests) the last 3.x."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from barnabas.cli.main import main
from tests.peers.commands import Run, runner
from tests.peers.kinds import run_on_each_kind
from tests.peers.secure import SecureNode
from tests.peers.secure_kinds import running_kind, sasl_properties, write_properties

pytestmark = [
    pytest.mark.interop,
    pytest.mark.timeout(180),
    pytest.mark.usefixtures("kafka_peer"),
]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    run_on_each_kind(metafunc, "peer")


@pytest.fixture(scope="module")
def peer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureNode]:
    with running_kind(request.param, tmp_path_factory.mktemp(f"cli-{request.param}")) as node:
        yield node


@pytest.fixture
def run(peer: SecureNode, capsys: pytest.CaptureFixture[str]) -> Run:
    return runner(peer.bootstrap, capsys)


@pytest.fixture
def alice(peer: SecureNode, tmp_path: Path) -> str:
    """Write the properties with which alice logs in. Return the path of the file."""
    return write_properties(tmp_path / "alice.properties", sasl_properties(peer, "alice"))


def test_topics_are_created_grown_and_deleted(run: Run) -> None:
    made = run("topics", "create", "cli-a", "cli-b", "--partitions", "2", "--config", "retention.ms=86400000", "--wait")
    assert made.status == 0, made.err
    assert made.out.splitlines()[0] == "topic cli-a  created (partitions 2, replication factor 1)"
    assert run("topics", "create", "cli-a").status == 1
    assert run("topics", "create", "cli-a", "--if-not-exists").status == 0
    tried = run("topics", "create", "cli-c", "--config", "retentoin.ms=1", "--dry-run")
    assert tried.status == 1
    assert "did you mean retention.ms" in tried.err
    assert run("topics", "add-partitions", "cli-a", "--partitions", "5", "--wait").status == 0
    (topic,) = run("topics", "describe", "cli-a", "--output", "json").document["topics"]
    assert (len(topic["partitions"]), topic["configs"]) == (5, {"retention.ms": "86400000"})
    assert "did you mean cli-a" in run("topics", "describe", "clia").err
    assert run("topics", "delete", "cli-a", "cli-b", "--dry-run").status == 0
    assert run("topics", "delete", "cli-a", "cli-b", "--wait").status == 0
    assert run("topics", "list", "cli-.*").out == ""


@pytest.mark.kafka_3("always")
def test_configs_are_altered(run: Run) -> None:
    assert run("topics", "create", "cli-configs", "--wait").status == 0
    change = ("--topic", "cli-configs", "--add-config", "cleanup.policy=[compact,delete],segment.ms=600000")
    assert run("configs", "alter", *change, "--dry-run").status == 0
    assert run("configs", "describe", "--topic", "cli-configs", "-o", "json").document["configs"][0]["entries"] == []
    assert run("configs", "alter", *change, "--wait").status == 0
    entries = run("configs", "describe", "--topic", "cli-configs", "-o", "json").document["configs"][0]["entries"]
    assert {entry["name"]: entry["value"] for entry in entries} == {
        "cleanup.policy": "compact,delete", "segment.ms": "600000",
    }  # fmt: skip
    assert run("configs", "alter", "--topic", "cli-configs", "--delete-config", "segment.ms").status == 0
    refused = run("configs", "alter", "--topic", "cli-configs", "--config", "segmnt.ms=5")
    assert refused.status == 1
    assert "did you mean segment.ms" in refused.err
    assert run("configs", "describe", "--entity-type", "brokers", "--all").status == 0
    assert "cli-configs" in run("configs", "list").out


@pytest.mark.kafka_3("always")
def test_acls_are_added_and_removed_and_denials_name_the_right(run: Run, alice: str) -> None:
    assert run("topics", "create", "cli-acls", "--wait").status == 0
    rules = ("--allow-principal", "User:alice", "--operation", "Describe", "--topic", "cli-acls")
    assert run("acls", "add", *rules, "--wait").status == 0
    assert "User:alice" in run("acls", "list", "--topic", "cli-acls").out
    with_login = ("--command-config", alice)
    assert "cli-acls" in run("topics", "list", "--names", *with_login, server="SASL_SSL").out.splitlines()
    denied = run("topics", "delete", "cli-acls", *with_login, server="SASL_SSL")
    assert denied.status == 1
    assert "this needs DELETE on Topic:cli-acls" in denied.err
    assert run("acls", "remove", *rules, "--dry-run").out.endswith("would be removed\n")
    assert run("acls", "remove", *rules, "--wait").status == 0
    assert run("acls", "list", "--topic", "cli-acls").out == ""
    assert "this needs DESCRIBE on Cluster" in run("acls", "list", *with_login, server="SASL_SSL").err


def test_a_denied_command_names_the_missing_right(run: Run, alice: str, tmp_path: Path) -> None:
    assert run("topics", "create", "cli-rights", "--wait").status == 0
    rules = ("--allow-principal", "User:alice", "--operation", "Describe", "--topic", "cli-rights")
    assert run("acls", "add", *rules, "--wait").status == 0
    plan = tmp_path / "plan.json"
    plan.write_text('{"partitions": [{"topic": "cli-rights", "partition": 0, "replicas": [1]}]}')
    needed = {
        "DESCRIBE on Cluster": [
            ["reassign", "list"],
            ["reassign", "generate", "--topic", "cli-rights"],
            ["reassign", "verify", "--reassignment-json-file", str(plan)],
            ["quorum", "describe"],
        ],
        "ALTER on Cluster": [
            ["topics", "elect-leaders", "cli-rights"],
            ["reassign", "execute", "--reassignment-json-file", str(plan)],
            ["reassign", "cancel", "--all"],
            ["features", "upgrade", "--feature", "metadata.version=30"],
        ],
        "DELETE on Topic:cli-rights": [["topics", "delete-records", "cli-rights", "--before-offset", "0"]],
    }
    for right, commands in needed.items():
        for words in commands:
            refused = run(*words, "--command-config", alice, server="SASL_SSL")
            assert (refused.status, refused.out) == (1, ""), words
            assert f"this needs {right}" in refused.err, (words, refused.err)
    assert run("acls", "remove", *rules, "--wait").status == 0


def test_a_group_is_described_and_reset(run: Run, peer: SecureNode) -> None:
    assert run("topics", "create", "cli-groups", "--partitions", "1", "--wait").status == 0
    servers = {"bootstrap.servers": peer.bootstrap("PLAINTEXT")}
    producer = Producer(servers)
    for index in range(20):
        producer.produce("cli-groups", str(index).encode())
    producer.flush(30)
    consumer = Consumer(servers | {"group.id": "cli-group", "enable.auto.commit": False})
    consumer.commit(offsets=[TopicPartition("cli-groups", 0, 15)], asynchronous=False)
    consumer.close()
    assert "cli-group" in run("groups", "list").out
    (group,) = run("groups", "describe", "cli-group", "-o", "json").document["groups"]
    assert (group["offsets"][0]["offset"], group["offsets"][0]["lag"]) == (15, 5)
    reset = ("groups", "reset-offsets", "cli-group", "--topic", "cli-groups", "--shift-by", "-5")
    assert run(*reset).out == "group cli-group  would be reset (cli-groups-0 from 15 to 10)\n"
    assert run(*reset, "--execute").status == 0
    (group,) = run("groups", "describe", "cli-group", "-o", "json").document["groups"]
    assert group["offsets"][0]["lag"] == 10
    assert "did you mean cli-group" in run("groups", "describe", "cli-gruop").err
    assert run("groups", "delete-offsets", "cli-group", "--topic", "cli-groups").status == 0
    assert (
        run("groups", "reset-offsets", "cli-group", "--topic", "cli-groups", "--to-earliest", "--execute").status == 0
    )
    assert run("groups", "delete", "cli-group").status == 0


def test_users_and_quotas(run: Run, tmp_path: Path) -> None:
    password = tmp_path / "password"
    password.write_text("a word\n")
    assert run("users", "set-password", "cli-user", "--password-file", str(password), "--wait").status == 0
    (user,) = run("users", "list", "--user", "cli-user", "-o", "json").document["users"]
    assert user["credentials"] == [{"mechanism": "SCRAM-SHA-512", "iterations": 8192}]
    assert run("users", "delete-password", "cli-user", "--wait").status == 0
    quota = ("--user", "cli-user", "--config", "producer_byte_rate=1024")
    assert run("quotas", "alter", *quota, "--dry-run").status == 0
    assert run("quotas", "alter", *quota, "--wait").status == 0
    (found,) = run("quotas", "list", "--user", "cli-user", "-o", "json").document["quotas"]
    assert found == {"entity": {"user": "cli-user"}, "quotas": {"producer_byte_rate": 1024.0}}
    assert run("quotas", "alter", "--user", "cli-user", "--delete-config", "producer_byte_rate").status == 0


def test_tokens(run: Run, alice: str, tmp_path: Path) -> None:
    with_login = ("--command-config", alice)
    made = run("tokens", "create", *with_login, "--wait", "-o", "json", server="SASL_SSL")
    assert made.status == 0, made.err
    token = made.document["token"]
    assert token["owner"] == "User:alice"
    listed = run("tokens", "list", *with_login, server="SASL_SSL")
    assert token["token_id"] in listed.out
    assert token["hmac"] not in listed.out
    file = tmp_path / "hmac"
    file.write_text(token["hmac"])
    hmac = ("--hmac-file", str(file))
    assert run("tokens", "renew", *hmac, *with_login, server="SASL_SSL").status == 0
    assert token["token_id"] in run("tokens", "expire", *hmac, *with_login, "--dry-run", server="SASL_SSL").out
    assert run("tokens", "expire", *hmac, *with_login, server="SASL_SSL").status == 0
    assert "authenticate by SASL" in run("tokens", "create").err


@pytest.mark.kafka_3("always")
def test_the_cluster_as_a_whole(run: Run) -> None:
    document = run("cluster", "describe", "-o", "json").document
    assert [node["id"] for node in document["nodes"]] == [1]
    assert run("cluster", "cluster-id").out.strip() == document["cluster_id"]
    assert run("cluster", "unregister", "77", "--dry-run").status == 1
    assert run("cluster", "unregister", "77").status == 1
    assert run("quorum", "describe", "-o", "json").document["leader"] == 1
    levels = {
        feature["feature"]: feature["level"]
        for feature in run("features", "describe", "-o", "json").document["features"]
    }
    assert levels["metadata.version"] > 0
    assert run("features", "upgrade", "--feature", "metadata.version=99", "--dry-run").status == 1
    assert "did you mean metadata.version" in run("features", "upgrade", "--feature", "metadat.version=9").err
    (log_dir,) = run("log-dirs", "describe", "-o", "json").document["log_dirs"]
    assert log_dir["broker"] == 1


def test_an_unreachable_server_is_reported_immediately(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topics", "list", "--bootstrap-server", "127.0.0.1:1"]) == 1
    assert "nothing listens at 127.0.0.1:1" in capsys.readouterr().err
