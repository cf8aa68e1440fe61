"""Java's admin client and ``kafka-streams-groups`` say and do the same on a real Kafka 4.3.1 and on our node."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.testing import Node
from tests.interop.streams_load import PARTITIONS, REPARTITION, TOPICS, Load, await_everything
from tests.peers import run_class, running_kafka
from tests.peers.java import run_source
from tests.peers.streams_application import StreamsApplication

pytestmark = [pytest.mark.interop, pytest.mark.timeout(400)]

GROUP = ("--group", "application")
NODE_SETTINGS = {"group.streams.initial.rebalance.delay.ms": "500"}
SETTINGS = {
    "group.protocol": "streams",
    "commit.interval.ms": "100",
    "num.stream.threads": "1",  # All tasks have one place to be.
    "replication.factor": "1",
}
_VARYING = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}|127\.0\.0\.1:\d+")
_MEMBER = re.compile(r"(memberId=|application )[\w-]{22}(?=[, ])|( \d+ \d+ )[\w-]{22}(?= streams )")
_OFFSETS_WITH_MARKERS = re.compile(rf"({REPARTITION} \d) .*")
"""How many transactions the application needs depends on time."""


class Teller:
    """Asks one node, and writes down what it hears."""

    def __init__(self, servers: str) -> None:
        self._servers = servers
        self._admin = AdminClient({"bootstrap.servers": servers})
        self.told: list[tuple[str, list[str]]] = []

    def create_topics(self) -> None:
        for created in self._admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in TOPICS]).values():
            created.result(30)

    def tool(self, *args: str) -> None:
        done = run_class("streams-groups", "--bootstrap-server", self._servers, *args, check=False)
        self._tell(f"{' '.join(args)}: {done.returncode}", done.stdout.splitlines())

    def admin_client(self) -> None:
        self._tell("admin client", run_source("StreamsGroupsDescribed", self._servers, GROUP[1], "none").splitlines())

    def topics(self) -> None:
        self._tell("topics", list(self._admin.list_topics(timeout=30).topics))

    def offsets(self) -> None:
        (listed,) = self._admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(GROUP[1])]).values()
        partitions = listed.result(30).topic_partitions
        self._tell("offsets", [f"{found.topic} {found.partition} {found.offset}" for found in partitions])

    def _tell(self, what: str, lines: list[str]) -> None:
        self.told.append((what, sorted(filter(None, map(_comparable, lines)))))


def _comparable(line: str) -> str:
    line = _MEMBER.sub(r"\1\2#", " ".join(_VARYING.sub("#", line).split()))
    return _OFFSETS_WITH_MARKERS.sub(r"\1", line)


def story(servers: str, folder: Path) -> list[tuple[str, list[str]]]:
    teller = Teller(servers)
    teller.create_topics()
    load = Load(servers, Random(5))
    load.fill_table()
    load.write(100)
    application = StreamsApplication(folder, servers, SETTINGS)
    try:
        application.start(timeout_s=120)
        await_everything(servers, load)
        _ask_of_the_running_application(teller)
        assert application.stop() == 143
    finally:
        application.kill()
    _ask_of_the_stopped_application(teller)
    return teller.told


def _ask_of_the_running_application(teller: Teller) -> None:
    teller.tool("--list")
    teller.tool("--list", "--state")
    for what in ("--state", "--members", "--offsets"):
        teller.tool("--describe", *GROUP, what)
        teller.tool("--describe", *GROUP, what, "--verbose")
    teller.admin_client()
    teller.tool("--delete", *GROUP)
    teller.tool("--reset-offsets", *GROUP, "--to-earliest", "--all-input-topics", "--dry-run")
    teller.topics()


def _ask_of_the_stopped_application(teller: Teller) -> None:
    teller.tool("--list", "--state")
    teller.admin_client()
    teller.tool("--describe", *GROUP, "--members")
    teller.tool("--reset-offsets", *GROUP, "--to-offset", "7", "--input-topic", "lines", "--dry-run")
    teller.tool("--reset-offsets", *GROUP, "--to-earliest", "--all-input-topics", "--execute")
    teller.topics()
    teller.offsets()
    teller.tool("--delete-offsets", *GROUP, "--input-topic", "lines:1")
    teller.offsets()
    teller.tool("--delete", *GROUP)
    teller.tool("--list")
    teller.offsets()


def test_the_tool_and_the_admin_client_have_the_same_answers(tmp_path: Path) -> None:
    with running_kafka(tmp_path / "kafka", settings=NODE_SETTINGS) as kafka:
        expected = story(kafka.bootstrap_servers, tmp_path / "on-kafka")
    with Node(settings=NODE_SETTINGS) as node:
        seen = story(node.bootstrap_servers, tmp_path / "on-ours")
        assert "Traceback" not in node.log
    for theirs, ours in zip(expected, seen, strict=True):
        assert ours == theirs
