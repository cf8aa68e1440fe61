"""Kafka's own command-line tools against our node, unmodified."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from barnabas.testing import Node
from tests.peers import run_class

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180), pytest.mark.usefixtures("kafka_peer")]


def tool(node: Node, name: str, *args: str, stdin: str = "", check: bool = True) -> str:
    done = run_class(name, "--bootstrap-server", node.bootstrap_servers, *args, stdin=stdin, check=check)
    return done.stdout if check else done.stdout + done.stderr


def test_topics_are_created_listed_described_grown_and_deleted(barnabas_node: Node) -> None:
    created = tool(
        barnabas_node, "topics", "--create", "--topic", "java-topics", "--partitions", "2",
        "--config", "retention.ms=3600000",
    )  # fmt: skip
    assert "Created topic java-topics." in created
    assert "java-topics" in tool(barnabas_node, "topics", "--list").split()
    tool(barnabas_node, "topics", "--alter", "--topic", "java-topics", "--partitions", "4")
    described = tool(barnabas_node, "topics", "--describe", "--topic", "java-topics")
    assert re.search(r"PartitionCount: 4\s+ReplicationFactor: 1\s+Configs: .*retention\.ms=3600000", described)
    assert described.count("Leader: 1") == 4
    tool(barnabas_node, "topics", "--delete", "--topic", "java-topics")
    assert "java-topics" not in tool(barnabas_node, "topics", "--list").split()


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (("--topic", "bad name"), "contains one or more characters other than ASCII alphanumerics"),
        (
            ("--topic", "java-rf", "--replication-factor", "3"),
            "INVALID_REPLICATION_FACTOR|Replication factor|replication factor",
        ),
        (("--topic", "java-cfg", "--config", "retention.ms=never"), "retention.ms"),
        (("--topic", "java-unknown", "--config", "no.such=1"), "no.such"),
    ],
)
def test_a_bad_topic_is_refused_with_a_reason(barnabas_node: Node, args: tuple[str, ...], expected: str) -> None:
    answer = tool(barnabas_node, "topics", "--create", *args, check=False)
    assert re.search(expected, answer), answer


def test_configs_are_altered_described_and_deleted(barnabas_node: Node) -> None:
    tool(barnabas_node, "topics", "--create", "--topic", "java-configs")
    resource = ("--entity-type", "topics", "--entity-name", "java-configs")
    tool(
        barnabas_node, "configs", "--alter", *resource, "--add-config", "retention.bytes=1048576,cleanup.policy=compact"
    )
    described = tool(barnabas_node, "configs", "--describe", *resource)
    assert "retention.bytes=1048576 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.bytes=1048576" in described
    assert "cleanup.policy=compact" in described
    tool(barnabas_node, "configs", "--alter", *resource, "--delete-config", "cleanup.policy")
    assert "cleanup.policy" not in tool(barnabas_node, "configs", "--describe", *resource)
    everything = tool(barnabas_node, "configs", "--describe", "--all", *resource)
    assert "cleanup.policy=delete" in everything


def test_producer_and_consumer_performance_agree_on_the_count(barnabas_node: Node) -> None:
    tool(barnabas_node, "topics", "--create", "--topic", "java-perf", "--partitions", "3")
    produced = run_class(
        "producer-perf", "--topic", "java-perf", "--num-records", "50000", "--record-size", "200",
        "--throughput", "-1", "--producer-props", f"bootstrap.servers={barnabas_node.bootstrap_servers}", "acks=all",
    )  # fmt: skip
    assert "50000 records sent" in produced.stdout
    consumed = tool(
        barnabas_node, "consumer-perf", "--topic", "java-perf", "--num-records", "50000", "--timeout", "20000"
    )
    assert ", 50000, " in consumed
    offsets = tool(barnabas_node, "get-offsets", "--topic", "java-perf")
    counts = [int(line.rsplit(":", 1)[1]) for line in offsets.split() if line.startswith("java-perf:")]
    assert len(counts) == 3
    assert sum(counts) == 50000
    earliest = tool(barnabas_node, "get-offsets", "--topic", "java-perf", "--time", "earliest")
    assert {line.rsplit(":", 1)[1] for line in earliest.split() if line.startswith("java-perf:")} == {"0"}


def test_consumer_groups_are_listed_described_reset_and_deleted(barnabas_node: Node) -> None:
    tool(barnabas_node, "topics", "--create", "--topic", "java-groups")
    tool(barnabas_node, "console-producer", "--topic", "java-groups", stdin="a\nb\nc\nd\n")
    read = tool(
        barnabas_node, "console-consumer", "--topic", "java-groups", "--group", "java-group", "--from-beginning",
        "--max-messages", "4", "--timeout-ms", "20000",
    )  # fmt: skip
    assert read.split() == ["a", "b", "c", "d"]
    group = ("--group", "java-group")
    assert "java-group" in tool(barnabas_node, "groups", "--list").split()
    described = tool(barnabas_node, "groups", "--describe", *group)
    assert re.search(r"java-group\s+java-groups\s+0\s+4\s+4\s+0", described), described
    assert "Empty" in tool(barnabas_node, "groups", "--describe", *group, "--state")
    reset = tool(
        barnabas_node, "groups", *group, "--topic", "java-groups", "--reset-offsets", "--to-offset", "1", "--execute"
    )
    assert re.search(r"java-groups\s+0\s+1", reset), reset
    assert re.search(r"java-groups\s+0\s+1\s+4\s+3", tool(barnabas_node, "groups", "--describe", *group))
    tool(barnabas_node, "groups", "--delete", *group)
    assert "java-group" not in tool(barnabas_node, "groups", "--list").split()


def test_records_are_deleted_up_to_an_offset(barnabas_node: Node, tmp_path: Path) -> None:
    tool(barnabas_node, "topics", "--create", "--topic", "java-delete")
    tool(barnabas_node, "console-producer", "--topic", "java-delete", stdin="a\nb\nc\n")
    plan = tmp_path / "plan.json"
    plan.write_text('{"partitions": [{"topic": "java-delete", "partition": 0, "offset": 2}], "version": 1}')
    assert "low_watermark: 2" in tool(barnabas_node, "delete-records", "--offset-json-file", str(plan))
    assert "java-delete:0:2" in tool(barnabas_node, "get-offsets", "--topic", "java-delete", "--time", "earliest")


def test_log_dirs_are_described(barnabas_node: Node) -> None:
    tool(barnabas_node, "topics", "--create", "--topic", "java-dirs")
    tool(barnabas_node, "console-producer", "--topic", "java-dirs", stdin="abc\n")
    answer = tool(barnabas_node, "log-dirs", "--describe", "--topic-list", "java-dirs")
    assert '"partition":"java-dirs-0"' in answer
    assert not re.search(r'"error":"', answer)


def test_api_versions_lists_what_is_served_and_nothing_is_unknown_to_java(barnabas_node: Node) -> None:
    answer = tool(barnabas_node, "api-versions")
    assert re.search(r"Produce\(0\): 0 to 13 \[usable: 13\]", answer), answer
    assert re.search(r"Fetch\(1\): 4 to 18 \[usable: 1[78]\]", answer), answer
    assert re.search(r"CreateAcls\(30\): 1 to 3 \[usable: 3\]", answer), answer
    assert re.search(r"ShareFetch\(78\): 1 to 2 \[usable: 2\]", answer), answer
    assert "UNKNOWN" not in answer
