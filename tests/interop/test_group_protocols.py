"""Members of both group protocols, of ours and of librdkafka, on a real Kafka 4.3.1 and on our node."""

from __future__ import annotations

import asyncio
import os
import re
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import pytest
from confluent_kafka import Consumer, Producer

from barnabas.clients.client_config import client_config
from barnabas.clients.consumer.config import GroupConfig
from barnabas.clients.consumer.group_member import GroupMember, group_member
from barnabas.clients.membership.consumer_membership import Subscription
from barnabas.clients.network_client import NetworkClient
from barnabas.common.topic_partition import TopicPartition
from barnabas.common.uuid import Uuid
from tests.peers.commands import Run, runner
from tests.peers.kinds import KAFKA, run_on_each_kind

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180), pytest.mark.usefixtures("kafka_peer")]

PARTITIONS = 6


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    run_on_each_kind(metafunc, "bootstrap")


@pytest.fixture(scope="module")
def bootstrap(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue("real_kafka" if request.param == KAFKA else "barnabas_node").bootstrap_servers)


@pytest.fixture
def run(bootstrap: str, capsys: pytest.CaptureFixture[str]) -> Run:
    return runner(lambda server: bootstrap, capsys)


@pytest.fixture
def topic(request: pytest.FixtureRequest, run: Run) -> str:
    name = re.sub(r"[^a-z-]+", "-", request.node.name.removeprefix("test_").replace("_", "-"))[:120]
    assert run("topics", "create", name, "--partitions", str(PARTITIONS), "--wait").status == 0
    return str(name)


def produce(bootstrap: str, topic: str, count: int, first: int = 0) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(first, first + count):
        producer.produce(topic, value=str(number), partition=number % PARTITIONS)
    assert producer.flush(20) == 0


def type_of(run: Run, group: str) -> str:
    listed = run("groups", "list", "-o", "json").document["groups"]
    return str(next(found["type"] for found in listed if found["group"] == group))


@contextmanager
def librdkafka(bootstrap: str, topic: str, group: str, protocol: str) -> Iterator[Consumer]:
    """A member that has partitions."""
    settings = {"group.id": group, "group.protocol": protocol, "auto.offset.reset": "earliest"}
    if protocol == "classic":
        settings["partition.assignment.strategy"] = "range"
    consumer = Consumer({"bootstrap.servers": bootstrap, **settings})
    consumer.subscribe([topic])
    try:
        for _ in range(200):
            consumer.consume(1, timeout=0.1)
            if consumer.assignment():
                break
        assert consumer.assignment()
        yield consumer
    finally:
        consumer.close()


class Reader:
    """A listener that notes which partitions it has; ``seen`` are those that any reader of ``owners`` has."""

    def __init__(self, name: str, owners: dict[TopicPartition, str]) -> None:
        self.name = name
        self.has: set[TopicPartition] = set()
        self.kept = 0
        self.changed = asyncio.Event()
        self.member: GroupMember
        self._owners = owners

    async def partitions_assigned(self, partitions: frozenset[TopicPartition]) -> None:
        for partition in partitions:
            assert partition not in self._owners, f"{self._owners[partition]} still reads {partition}"
            self._owners[partition] = self.name
        self.has |= partitions
        self.changed.set()

    async def partitions_revoked(self, partitions: frozenset[TopicPartition]) -> None:
        self.kept += len(self.has - partitions)
        await asyncio.sleep(0.05)
        self._drop(partitions)

    async def partitions_lost(self, partitions: frozenset[TopicPartition]) -> None:
        self._drop(partitions)

    def _drop(self, partitions: frozenset[TopicPartition]) -> None:
        for partition in partitions:
            del self._owners[partition]
        self.has -= partitions

    async def until_has(self, count: int) -> None:
        async with asyncio.timeout(60):
            while len(self.has) != count:
                if self.member.failure is not None:
                    raise self.member.failure
                self.changed.clear()
                try:
                    async with asyncio.timeout(0.2):
                        await self.changed.wait()
                except TimeoutError:
                    pass


@asynccontextmanager
async def joined(
    bootstrap: str, group: str, subscription: Subscription, config: GroupConfig, reader: Reader
) -> AsyncIterator[GroupMember]:
    async with NetworkClient(client_config({"bootstrap.servers": bootstrap})) as network:
        member = await group_member(
            network, group, subscription, config, reader, member_id=str(Uuid(os.urandom(16)))
        )  # fmt: skip
        member.start()
        reader.member = member
        try:
            yield member
        finally:
            await reader.partitions_lost(frozenset(reader.has))
            await member.leave()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_members_come_and_go_and_no_partition_has_two_readers(bootstrap: str, topic: str, protocol: str) -> None:
    owners: dict[TopicPartition, str] = {}
    group, subscription = f"{topic}-{protocol}", Subscription(frozenset({topic}))
    config = GroupConfig(protocol, heartbeat_interval_ms=300)

    async def come_and_go() -> None:
        first, second, third = (Reader(name, owners) for name in ("first", "second", "third"))
        async with joined(bootstrap, group, subscription, config, first) as member:
            await first.until_has(6)
            assert await member.commit({TopicPartition(topic, 5): 17})
            assert await member.committed([TopicPartition(topic, 5), TopicPartition(topic, 0)]) == {
                TopicPartition(topic, 5): 17
            }
            async with joined(bootstrap, group, subscription, config, second):
                await second.until_has(3)
                await first.until_has(3)
                async with joined(bootstrap, group, subscription, config, third):
                    for reader in (first, second, third):
                        await reader.until_has(2)
                await first.until_has(3)
            await first.until_has(6)
        # Only the new protocol takes some partitions and leaves the others.
        assert (first.kept > 0) == (protocol == "consumer")

    asyncio.run(come_and_go())


def test_a_static_member_that_returns_has_its_partitions_again(bootstrap: str, topic: str) -> None:
    owners: dict[TopicPartition, str] = {}
    subscription = Subscription(frozenset({topic}))

    async def leave_and_return() -> set[TopicPartition]:
        other, first, again = Reader("other", owners), Reader("first", {}), Reader("again", {})
        static = GroupConfig("consumer", instance_id="worker-1")
        async with joined(bootstrap, topic, subscription, GroupConfig("consumer"), other):
            await other.until_has(6)
            async with joined(bootstrap, topic, subscription, static, first):
                await first.until_has(3)
                had = set(first.has)
            async with joined(bootstrap, topic, subscription, static, again):
                await again.until_has(3)
                assert again.has == had
                assert len(other.has) == 3
        return had

    assert len(asyncio.run(leave_and_return())) == 3


def test_the_server_assignor_is_chosen_by_the_client(bootstrap: str, topic: str, run: Run) -> None:
    with_range = ("--group-protocol", "consumer", "--command-property", "group.remote.assignor=range")
    assert run("consume", topic, "--group", topic, "-e", "-q", *with_range).status == 0
    unknown = ("--group-protocol", "consumer", "--command-property", "group.remote.assignor=mine")
    refused = run("consume", topic, "--group", f"{topic}-2", "-e", "-q", *unknown)
    assert refused.status == 1
    assert "UNSUPPORTED_ASSIGNOR" in refused.err


def test_topics_that_match_an_expression_are_read(bootstrap: str, run: Run) -> None:
    for name in ("matched-a", "matched-b", "other-c"):
        assert run("topics", "create", name, "--partitions", str(PARTITIONS), "--wait").status == 0
        produce(bootstrap, name, 12)
    read = run("consume", "--include", "matched-.*", "--group", "matching", "-e", "-q", "--print-topic")
    assert read.status == 0, read.err
    lines = [tuple(line.split("\t")) for line in read.out.splitlines()]
    assert sorted(lines) == sorted((name, str(number)) for name in ("matched-a", "matched-b") for number in range(12))
    assert run("consume", "--include", "matched-.*", "--group", "matching", "-e", "-q").out == ""
    refused = run("consume", "--include", "(", "--group", "matching-2", "-e", "-q")
    assert refused.status == 1
    assert "INVALID_REGULAR_EXPRESSION" in refused.err


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_command_speaks_what_the_members_of_its_group_speak(
    bootstrap: str, topic: str, run: Run, protocol: str
) -> None:
    group = f"{topic}-{protocol}"
    produce(bootstrap, topic, 12)
    with librdkafka(bootstrap, topic, group, protocol):
        assert run("consume", topic, "--group", group, "--timeout-ms", "2000", "-q").status == 0
        assert type_of(run, group) == protocol


def test_a_new_group_has_the_consumer_protocol(bootstrap: str, topic: str, run: Run) -> None:
    assert run("consume", topic, "--group", topic, "-e", "-q").status == 0
    assert type_of(run, topic) == "consumer"
    assert run("consume", topic, "--group", f"{topic}-old", "-e", "-q", "--group-protocol", "classic").status == 0
    assert type_of(run, f"{topic}-old") == "classic"


def test_ours_shares_a_group_of_the_consumer_protocol_with_librdkafka(bootstrap: str, topic: str, run: Run) -> None:
    theirs: list[int] = []
    ends = threading.Event()
    written = 0

    def work(other: Consumer) -> None:
        nonlocal written
        while not ends.is_set():
            produce(bootstrap, topic, 12, written)
            written += 12
            theirs.extend(int(message.value()) for message in other.consume(100, timeout=0.2))
        while messages := other.consume(100, timeout=3):
            theirs.extend(int(message.value()) for message in messages)

    with librdkafka(bootstrap, topic, topic, "consumer") as other:
        working = threading.Thread(target=work, args=(other,), daemon=True)
        working.start()
        try:
            options = ("--group-protocol", "consumer", "--from-beginning", "--max-messages", "100", "-q")
            ours = [int(line) for line in run("consume", topic, "--group", topic, *options).out.split()]
        finally:
            ends.set()
            working.join()
    assert len(ours) == 100
    assert {*ours, *theirs} == set(range(written))
    assert len(theirs) >= written - 100
