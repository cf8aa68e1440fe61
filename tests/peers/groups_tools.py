"""What Kafka's four tools for groups print of one situation: groups of each kind, with members and without.

``tests/vectors/groups`` has what they print of a real Kafka, recorded by::

    python -m tests.peers.groups_tools > tests/vectors/groups/groups-tools-4.3.1.txt

Ids of members and addresses are replaced, and the lines of an answer sorted: their order is that of hash maps.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from barnabas.clients.admin import NewTopic, SyncAdminClient
from barnabas.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from barnabas.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest, Subtopology, Topology
from barnabas.protocol.schema import Message, Request
from tests.interop.raw_client import RawClient
from tests.peers import KafkaNode, run_class
from tests.peers.node_process import NodeProcess
from tests.peers.quorums import wait_until

__all__ = ["SETTINGS", "answers_of", "recorded"]

SETTINGS = {
    f"group.{kind}.{name}": value
    for kind in ("consumer", "share", "streams")
    for name, value in {
        "assignment.interval.ms": "0",
        # The members stay without heartbeats.
        "max.session.timeout.ms": "600000",
        "session.timeout.ms": "600000",
    }.items()
} | {
    "group.streams.initial.rebalance.delay.ms": "0",
    "log.retention.ms": "-1",  # The records are of 1970.
    "share.coordinator.state.topic.num.partitions": "4",
}

_MEMBER, _INSTANCE = "AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg"
_TOPICS = {"jobs": 2, "other": 1}
_VARYING = re.compile(r"(old-)[0-9a-f-]{36}|127\.0\.0\.1:\d+")

WHILE_MEMBERS_WORK = """
groups --list
groups --list --state
groups --list --state Stable,Empty
groups --list --state Empty
groups --list --state Assigning
groups --list --type
groups --list --type consumer
groups --list --type Classic
groups --list --type share
groups --list --state stable --type consumer
groups --describe --group new
groups --describe --group new --verbose
groups --describe --group new --members
groups --describe --group new --members --verbose
groups --describe --group new --state
groups --describe --group new --state --verbose
groups --describe --group new --state Stable
groups --describe --group old
groups --describe --group old --verbose
groups --describe --group old --members
groups --describe --group old --members --verbose
groups --describe --group old --state
groups --describe --group old --state --verbose
groups --describe --group idle
groups --describe --group idle --members
groups --describe --group idle --state
groups --describe --all-groups --state
groups --describe --all-groups --offsets --verbose
groups --describe --group idle --group new --members
groups --describe --group absent
groups --describe --group absent --members
groups --describe --group absent --state
groups --describe --group queue
groups --describe --group builders
groups --delete --group new
groups --delete --group old --group absent --group queue
groups --delete-offsets --group new --topic jobs
groups --delete-offsets --group old --topic jobs --topic other
groups --reset-offsets --group new --topic jobs --to-earliest --execute
groups --reset-offsets --group old --topic jobs --to-earliest --dry-run
groups --reset-offsets --group queue --topic jobs --to-earliest --dry-run
groups --validate-regex jobs.*|other
groups --validate-regex jobs(?=x)
groups --validate-regex jobs(
all-groups --list
all-groups --list --group-type consumer
all-groups --list --group-type classic
all-groups --list --group-type share
all-groups --list --group-type streams
all-groups --list --group-type wrong
all-groups --list --protocol consumer
all-groups --list --protocol other
all-groups --list --group-type classic --protocol consumer
all-groups --list --consumer
all-groups --list --share
all-groups --list --streams
groups-share --list --state
groups-share --describe --all-groups --state --verbose
groups-share --describe --group new --state
streams-groups --list --state
streams-groups --list --state Stable
streams-groups --describe --all-groups --state --verbose
streams-groups --describe --group builders --members --verbose
streams-groups --describe --group new --state
streams-groups --delete --group builders
streams-groups --reset-offsets --group builders --input-topic jobs --to-earliest --dry-run
"""
AFTER_THEY_HAVE_LEFT = """
groups --list --state --type
groups --describe --group new
groups --describe --group new --members
groups --describe --group new --state --verbose
groups --describe --group old --state
groups --describe --group old --members --verbose
groups --reset-offsets --group new --all-topics --to-earliest
groups --reset-offsets --group new --topic jobs --to-latest --execute
groups --describe --group new --verbose
groups --reset-offsets --group idle --topic jobs --to-earliest --dry-run
groups --reset-offsets --group idle --topic jobs:1 --to-latest --execute
groups --reset-offsets --group idle --all-topics --to-offset 3 --execute
groups --reset-offsets --group idle --all-topics --to-offset 7 --dry-run
groups --reset-offsets --group idle --all-topics --shift-by 2 --execute
groups --reset-offsets --group idle --all-topics --shift-by -1 --execute
groups --reset-offsets --group idle --topic jobs:0 --shift-by -100 --dry-run
groups --reset-offsets --group idle --topic jobs --to-datetime 1970-01-01T00:00:05.000 --execute
groups --reset-offsets --group idle --topic jobs --to-datetime 1970-01-01T00:00:05.000+02:00 --dry-run
groups --reset-offsets --group idle --topic jobs --to-datetime yesterday --dry-run
groups --reset-offsets --group idle --topic jobs --by-duration P1D --dry-run
groups --reset-offsets --group idle --topic jobs --by-duration P1X --dry-run
groups --reset-offsets --group idle --all-topics --to-current --dry-run
groups --reset-offsets --group idle --all-topics --to-current --export
groups --reset-offsets --group idle --from-file FILE --execute
groups --reset-offsets --group idle --group new --all-topics --to-current --export
groups --reset-offsets --all-groups --all-topics --to-earliest --dry-run
groups --reset-offsets --group fresh --topic other --to-latest --execute
groups --reset-offsets --group idle --topic jobs:7 --to-latest --dry-run
groups --reset-offsets --group idle --topic absent --to-latest --dry-run
groups --describe --group idle --group fresh
groups --delete-offsets --group idle --topic jobs:1
groups --delete-offsets --group idle --topic absent --topic jobs:7
groups --delete-offsets --group absent --topic jobs
groups --describe --group idle --offsets
groups --delete --group new --group absent
groups --delete --group idle
groups-share --delete --group queue
streams-groups --reset-offsets --group builders --all-input-topics --to-latest --execute
streams-groups --describe --group builders --offsets
streams-groups --delete --group builders
groups --delete --all-groups
all-groups --list
"""
_FILE = "jobs,0,1\njobs,1,9\nother,0,4\n"


def answers_of(node: NodeProcess, folder: Path) -> dict[str, list[str]]:
    """Fill a node with groups, and return what the tools print."""
    (folder / "offsets.csv").write_text(_FILE)
    _fill(node.bootstrap_servers)
    with closing(RawClient(node.port)) as client, _classic_member(node.bootstrap_servers), _other_members(client):
        told = _answers("working", WHILE_MEMBERS_WORK, node, folder)
    return told | _answers("left", AFTER_THEY_HAVE_LEFT, node, folder)


def recorded(text: str) -> dict[str, list[str]]:
    """Read what ``main`` has printed."""
    answers = (part.splitlines() for part in text.split("$ ")[1:])
    return {command: lines for command, *lines in answers}


def _answers(when: str, commands: str, node: NodeProcess, folder: Path) -> dict[str, list[str]]:
    return {f"{when}: {line}": _answer(line, node, folder) for line in commands.strip().splitlines()}


def _answer(command: str, node: NodeProcess, folder: Path) -> list[str]:
    name, *args = command.replace("FILE", str(folder / "offsets.csv")).split()
    server = () if "--validate-regex" in args else ("--bootstrap-server", node.bootstrap_servers)
    done = run_class(name, *server, *args, check=False)
    printed = done.stdout if done.stdout.strip() else "\n".join(done.stderr.splitlines()[:1])
    lines = (" ".join(_VARYING.sub(r"\1#", line).split()) for line in printed.splitlines())
    return [f"status {done.returncode}", *sorted(line for line in lines if line)]


def _fill(server: str) -> None:
    with SyncAdminClient(server) as admin:
        admin.create_topics([NewTopic(name, partitions=count) for name, count in _TOPICS.items()], wait=True)
    producer = Producer({"bootstrap.servers": server})
    for number in range(20):
        producer.produce("jobs", f"{number}", partition=number % 2, timestamp=1000 * (number + 1))
    for number in range(5):
        producer.produce("other", f"{number}", partition=0, timestamp=1000 * (number + 1))
    assert producer.flush(30) == 0


@contextmanager
def _classic_member(server: str) -> Iterator[None]:
    """A member of the group ``old`` of librdkafka, which has read ``jobs`` and committed a part of it."""
    settings = {"group.id": "old", "client.id": "old", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = Consumer({"bootstrap.servers": server, "partition.assignment.strategy": "range", **settings})
    consumer.subscribe(["jobs"])
    try:
        wait_until(lambda: consumer.poll(0.1) is not None, what="a record", timeout_s=60)
        consumer.commit(offsets=[TopicPartition("jobs", 0, 6)], asynchronous=False)
        yield
    finally:
        consumer.close()


class _ConsumerMember:
    """A member of the group ``new``, which reports the partitions of its last assignment."""

    def __init__(self, client: RawClient, member_id: str, instance_id: str | None, topics: list[str]) -> None:
        self._client = client
        self._identity: dict[str, Any] = {"group_id": "new", "member_id": member_id, "instance_id": instance_id}
        self._topics: list[str] | None = topics
        self._owned: list[TopicPartitions] = []
        self.epoch = 0

    def is_settled(self) -> bool:
        """Send a heartbeat. Return whether the answer has nothing new."""
        before = self.epoch, self._owned
        answer = self._beat(self.epoch)
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self._owned = answer.assignment.topic_partitions
        return before == (self.epoch, self._owned)

    def leave(self) -> None:
        self._beat(-1)

    def _beat(self, epoch: int) -> Any:
        request = ConsumerGroupHeartbeatRequest(**self._identity, member_epoch=epoch)
        if epoch >= 0:
            request.rebalance_timeout_ms = 60_000
            request.subscribed_topic_names, request.topic_partitions = self._topics, self._owned
        return _answered(self._client, request)


@contextmanager
def _other_members(client: RawClient) -> Iterator[None]:
    """Members of ``new``, ``queue`` and ``builders``; ``idle`` has offsets that no member has committed."""
    _commit(client, "idle", {"jobs": [4, 10], "other": [2]})
    first = _ConsumerMember(client, _MEMBER, None, ["jobs"])
    static = _ConsumerMember(client, _INSTANCE, "first", ["jobs", "other"])
    _settle(first)
    _settle(first, static)
    _commit(client, "new", {"jobs": [3, 0]}, member_id=_MEMBER, generation_id_or_member_epoch=first.epoch)
    wait_until(lambda: _answered(client, _share(0)).assignment is not None, what="share partitions", timeout_s=60)
    wait_until(lambda: bool(_answered(client, _streams(0)).active_tasks), what="tasks", timeout_s=60)
    yield
    first.leave()
    static.leave()
    for request in (_share(-1), _streams(-1)):
        _answered(client, request)


def _settle(*members: _ConsumerMember) -> None:
    """Send heartbeats of all members until no answer has anything new."""
    wait_until(lambda: not [member for member in members if not member.is_settled()], what="stability", timeout_s=60)


def _commit(client: RawClient, group: str, offsets: dict[str, list[int]], **member: Any) -> None:
    topics = [
        OffsetCommitRequestTopic(
            name=topic,
            partitions=[
                OffsetCommitRequestPartition(partition_index=index, committed_offset=offset, committed_metadata="")
                for index, offset in enumerate(committed)
            ],
        )
        for topic, committed in offsets.items()
    ]
    request = OffsetCommitRequest(group_id=group, topics=topics, **member)
    codes: set[int] = set()

    def is_committed() -> bool:
        answer = client.call(request, 9)
        codes.update(partition.error_code for topic in answer.topics for partition in topic.partitions)
        return not any(partition.error_code for topic in answer.topics for partition in topic.partitions)

    client.call(FindCoordinatorRequest(key_type=0, coordinator_keys=[group]))
    wait_until(is_committed, what=f"a commit ({codes})", timeout_s=60)


def _share(epoch: int) -> ShareGroupHeartbeatRequest:
    return ShareGroupHeartbeatRequest(
        group_id="queue", member_id=_MEMBER, member_epoch=epoch, subscribed_topic_names=["jobs"]
    )


def _streams(epoch: int) -> StreamsGroupHeartbeatRequest:
    request = StreamsGroupHeartbeatRequest(group_id="builders", member_id=_MEMBER, member_epoch=epoch)
    if epoch == 0:
        subtopology = Subtopology(subtopology_id="0", source_topics=["jobs"])
        request.process_id, request.rebalance_timeout_ms = "process", 60_000
        request.topology = Topology(epoch=1, subtopologies=[subtopology])
        request.active_tasks, request.standby_tasks, request.warmup_tasks = [], [], []
    return request


def _answered(client: RawClient, request: Request[Message]) -> Any:
    """Return the answer of a coordinator, which may still load."""
    answers: list[Any] = []

    def is_answered() -> bool:
        answers.append(client.call(request))
        return bool(answers[-1].error_code == 0)

    wait_until(is_answered, what=f"an answer to {request}", timeout_s=60)
    return answers[-1]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        node = KafkaNode(Path(folder) / "kafka", settings=SETTINGS)
        node.start()
        try:
            answers = answers_of(node, Path(folder))
        finally:
            node.stop()
    for command, lines in answers.items():
        print(f"$ {command}", *lines, sep="\n")


if __name__ == "__main__":
    main()
