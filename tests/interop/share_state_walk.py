"""A random walk through the requests of share state, drawn from a seed: the same one for every node.

Topic ids differ between nodes, so stories show names. Two coordinators that decide alike tell the same story, and write
the same records about each share-partition.
"""

from __future__ import annotations

from contextlib import closing
from random import Random
from typing import Any, NamedTuple

from barnabas.broker.share_state_messages import (
    deletions,
    initializations,
    outcomes,
    reads,
    states,
    summaries,
    summary_reads,
    writes,
)
from barnabas.common.error_code import ErrorCode
from barnabas.common.uuid import Uuid
from barnabas.coordinator.share.persister import SharePartitionKey, StateBatch, StateInitialization, StateWrite
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.protocol.records.share_snapshot_value import ShareSnapshotValue
from barnabas.protocol.schema import Message
from tests.interop.raw_client import RawClient
from tests.peers.share_state_client import ShareStateClient, settle

__all__ = ["Step", "Story", "walk"]

_UNKNOWN_ID = Uuid(b"unknown topic id")
_TOPICS = {"a": 2, "b": 1, "doomed": 1}
_GROUPS = ("g", "group:2")
_KINDS = ("write",) * 24 + ("read",) * 8 + ("summary",) * 3 + ("initialize",) * 6 + ("delete", "find", "find", "empty")
_DELETED_EVERY = 150


class Step(NamedTuple):
    what: str
    answer: str


class Story(NamedTuple):
    steps: list[Step]
    records: dict[str, list[str]]
    """What is written about each share-partition."""


class _Walk:
    def __init__(self, client: ShareStateClient, seed: int) -> None:
        self.client = client
        self.random = Random(seed)
        self.prefix = f"walk-{seed}"
        self.names: dict[Uuid, str] = {_UNKNOWN_ID: "unknown"}
        self.ids: dict[str, Uuid] = {"unknown": _UNKNOWN_ID}
        self.steps: list[Step] = []

    def prepare(self) -> None:
        for name in _TOPICS:
            self._create(name)
        self.client.prepare([self._key(name, 0, group) for name in _TOPICS for group in _GROUPS])

    def _create(self, name: str) -> None:
        topic_id = self.client.create_topic(f"{self.prefix}-{name}", _TOPICS[name])
        self.ids[name] = topic_id
        self.names[topic_id] = name

    def _key(self, name: str, partition: int, group: str) -> SharePartitionKey:
        return SharePartitionKey(f"{self.prefix}-{group}", self.ids[name], partition)

    # --- steps

    def run(self, count: int) -> list[Step]:
        for number in range(1, count + 1):
            self.client.version = self.random.choice((0, 1, 1))
            kind = "topic is deleted" if number % _DELETED_EVERY == 0 else self.random.choice(_KINDS)
            self.steps.append(self._step(kind))
        return self.steps

    def _step(self, kind: str) -> Step:
        if kind == "topic is deleted":
            self._replace_doomed()
            return Step(kind, "")
        if kind == "find":
            return self._find()
        if kind == "empty":
            return self._empty()
        group = f"{self.prefix}-{self.random.choice(_GROUPS)}"
        calls: list[tuple[SharePartitionKey, Any]] = []
        for _ in range(self.random.choice((1, 1, 1, 2, 4))):
            key = self._random_key(group)
            if all(key != known for known, _ in calls):
                calls.append((key, self._argument(kind)))
        request, results = {
            "initialize": (initializations, outcomes),
            "read": (reads, states),
            "write": (writes, outcomes),
            "delete": (deletions, outcomes),
            "summary": (summary_reads, summaries),
        }[kind]
        found: Any = results(self.client.send(request(group, calls)))  # type: ignore[operator]
        told = sorted(f"{self.names[topic_id]}-{partition}: {_shown(result)}" for topic_id, partition, result in found)
        asked = ", ".join(f"{self._name(key)} {argument}" for key, argument in calls)
        return Step(f"{kind} v{self.client.version} {asked}", "; ".join(told))

    def _random_key(self, group: str) -> SharePartitionKey:
        name = self.random.choice(("a",) * 8 + ("b",) * 4 + ("doomed",) * 3 + ("unknown",))
        partition = self.random.choice((0,) * 20 + (1,) * 10 + (7, -1))
        return SharePartitionKey(group, self.ids[name], partition)

    def _argument(self, kind: str) -> Any:
        random = self.random
        if kind == "initialize":
            return StateInitialization(random.choice((-1, 0, 1, 2, 2, 2)), random.choice((-1, 0, 5)))
        if kind == "read":
            return random.choice((-1, -1, -1, 0, 1, 2, 3))
        if kind != "write":
            return -1 if kind == "summary" else None
        batches = tuple(self._batch() for _ in range(random.choice((0, 1, 1, 2, 5))))
        return StateWrite(
            random.choice((-1, -1, -1, 1, 2, 2)),
            random.choice((-1, -1, -1, 1, 2, 3, 3)),
            random.choice((-1, -1, 0, 5, random.randrange(40))),
            random.choice((-1, 0, 7)),
            batches,
        )

    def _batch(self) -> StateBatch:
        first = self.random.randrange(60)
        last = first + self.random.choice((0, 0, 2, 9))
        return StateBatch(first, last, self.random.choice((0, 2, 4)), self.random.randrange(1, 5))

    def _find(self) -> Step:
        topic_id = self.random.choice((*self.ids.values(), *self.ids.values(), "not an id", ""))
        group = self.random.choice((*[f"{self.prefix}-g"] * 3, "", " ", "a:b:c"))
        key = f"{group}:{topic_id}:{self.random.choice((0, 3, 0, 3, '-1', 'x', '+2', '', '0:'))}"
        version = self.random.choice((4, 5, 6, 6, 6))
        found = self.client.find(key, version)
        asked = key.replace(str(topic_id), self.names[topic_id]) if isinstance(topic_id, Uuid) else key
        return Step(f"find v{version} {asked}", f"{ErrorCode(found.error_code).name} {found.node_id > 0}")

    def _empty(self) -> Step:
        """Requests that Kafka answers without results."""
        group, key = self.random.choice((("", self._random_key("")), (f"{self.prefix}-g", None)))
        calls: list[Any] = [] if key is None else [(key, StateInitialization(0, 0))]
        if key is None or self.random.random() < 0.5:
            answer = self.client.send(initializations(group, calls))
        else:
            answer = self.client.send(reads(group, [(key, -1)]))
        return Step(f"empty {group!r}", str(len(answer.results)))

    def _replace_doomed(self) -> None:
        """Delete a topic, and wait until its state is removed."""
        keys = [self._key("doomed", 0, group) for group in _GROUPS]
        name = f"{self.prefix}-doomed"
        self.client.raw.call(DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=20_000), 6)
        settle(lambda: not self.client.metadata(name).partitions, "the topic is not deleted")
        settle(
            lambda: {self.client.read(key).error_code for key in keys} == {ErrorCode.INVALID_REQUEST},
            "its state is not removed",
        )
        del self.names[self.ids["doomed"]]
        self.names[keys[0].topic_id] = f"doomed before step {len(self.steps)}"
        self._create("doomed")
        self.client.prepare([self._key("doomed", 0, group) for group in _GROUPS])

    def _name(self, key: SharePartitionKey) -> str:
        return f"{key.group_id} {self.names[key.topic_id]}-{key.partition}"

    def records(self) -> dict[str, list[str]]:
        return {
            self._name(key): [_shown_record(value) for value in values]
            for key, values in self.client.records().items()
            if key.group_id.startswith(self.prefix)
        }


def _shown(result: Any) -> str:
    """Show a result, but of a message only whether it has one: the words are ours."""
    code, message, *rest = result
    return " ".join([ErrorCode(code).name, "explained" if message else "plain", *map(str, rest)])


def _shown_record(value: Message | None) -> str:
    """Show a record without its times, but whether it only repeats the state."""
    if isinstance(value, ShareSnapshotValue):
        is_cold = value.create_timestamp != value.write_timestamp
        assert value.create_timestamp > 0
        value.create_timestamp = value.write_timestamp = int(is_cold)
    return str(value)


def walk(port: int, seed: int, steps: int) -> Story:
    with closing(ShareStateClient(RawClient(port))) as client:
        started = _Walk(client, seed)
        started.prepare()
        return Story(started.run(steps), started.records())
