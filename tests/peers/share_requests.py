"""A walk through ShareFetch and ShareAcknowledge: the same requests for every broker, and its answers.

Topic ids differ between brokers, so answers show names. Error messages are not compared: Kafka mostly has none.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from barnabas.common.error_code import ErrorCode
from barnabas.common.uuid import Uuid
from barnabas.protocol.messages.share_acknowledge import AcknowledgementBatch as OwnBatch
from barnabas.protocol.messages.share_acknowledge import (
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from barnabas.protocol.messages.share_fetch import (
    AcknowledgementBatch,
    FetchPartition,
    FetchTopic,
    ForgottenTopic,
    ShareFetchRequest,
)
from barnabas.protocol.record_batch import iter_batches
from barnabas.protocol.schema import Message

__all__ = ["CONFIGS", "GROUP", "TOPICS", "Broker", "Step", "assert_equal_to_kafkas", "walk"]

RECORDED = Path(__file__).parents[1] / "oracles" / "data" / "share_requests" / "answers.json.gz"
"""Kafka's answers, from ``tests.peers.record_share_requests``."""

GROUP = "workers"
TOPICS = {"jobs": 2, "mails": 1}
CONFIGS = {"share.auto.offset.reset": "earliest", "share.delivery.count.limit": "10"}
UNKNOWN = "unknown"
ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4

Place = tuple[str, int]
Acks = Mapping[Place, Sequence[tuple[int, int, Sequence[int]]]]
"""(topic, partition) -> (first offset, last offset, acknowledge types)."""
Step = tuple[str, dict[str, Any]]


class Broker(Protocol):
    """A broker with ``TOPICS``, and with the group, which has ``CONFIGS``."""

    def topic_id(self, name: str) -> Uuid: ...

    def produce(self, topic: str, partition: int, count: int) -> None:
        """Append one batch."""
        ...

    def delete_topic(self, name: str) -> None: ...

    def ask(self, member_id: str, request: Message, version: int) -> Any:
        """Send on the connection of the member, and return the answer."""
        ...

    def disconnect(self, member_id: str) -> None: ...


class _Walk:
    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.steps: list[Step] = []
        self._ids = {name: broker.topic_id(name) for name in TOPICS} | {UNKNOWN: Uuid(b"unknown topic id")}
        self._names = {topic_id: name for name, topic_id in self._ids.items()}

    def fetch(
        self,
        title: str,
        member: str | None,
        epoch: int,
        places: Sequence[Place] = (),
        *,
        acks: Acks | None = None,
        forget: Sequence[Place] = (),
        version: int = 2,
        connection: str | None = None,
        **fields: Any,
    ) -> None:
        partitions = {place: FetchPartition(partition_index=place[1]) for place in (*places, *(acks or {}))}
        for place, batches in (acks or {}).items():
            partitions[place].acknowledgement_batches = [
                AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=list(types))
                for first, last, types in batches
            ]
        request = ShareFetchRequest(
            member_id=member,
            share_session_epoch=epoch,
            topics=[
                FetchTopic(topic_id=self._ids[name], partitions=list(mine.values()))
                for name, mine in _by_topic(partitions).items()
            ],
            forgotten_topics_data=[
                ForgottenTopic(topic_id=self._ids[name], partitions=list(mine))
                for name, mine in _by_topic(dict.fromkeys(forget)).items()
            ],
            **{
                "group_id": GROUP,
                "max_wait_ms": 300,
                "min_bytes": 1,
                "max_records": 500,
                "batch_size": 500,
                **fields,
            },
        )
        response = self.broker.ask(connection or member or "nobody", request, version)
        self.steps.append((title, self._fetched(response)))

    def acknowledge(
        self, title: str, member: str | None, epoch: int, acks: Acks, *, version: int = 2, **fields: Any
    ) -> None:
        partitions = {
            place: AcknowledgePartition(
                partition_index=place[1],
                acknowledgement_batches=[
                    OwnBatch(first_offset=first, last_offset=last, acknowledge_types=list(types))
                    for first, last, types in batches
                ],
            )
            for place, batches in acks.items()
        }
        request = ShareAcknowledgeRequest(
            member_id=member,
            share_session_epoch=epoch,
            topics=[
                AcknowledgeTopic(topic_id=self._ids[name], partitions=list(mine.values()))
                for name, mine in _by_topic(partitions).items()
            ],
            **{"group_id": GROUP, **fields},
        )
        response = self.broker.ask(member or "nobody", request, version)
        answers = {
            self._place(topic, partition): {"error": partition.error_code}
            for topic in response.responses
            for partition in topic.partitions
        }
        self.steps.append((title, {"error": response.error_code, "partitions": dict(sorted(answers.items()))}))

    def _fetched(self, response: Any) -> dict[str, Any]:
        answers = {
            self._place(topic, partition): {
                "error": partition.error_code,
                "acknowledge error": partition.acknowledge_error_code,
                "acquired": [
                    [each.first_offset, each.last_offset, each.delivery_count] for each in partition.acquired_records
                ],
                "batches": [[batch.base_offset, batch.last_offset] for batch in iter_batches(partition.records or b"")],
            }
            for topic in response.responses
            for partition in topic.partitions
        }
        return {
            "error": response.error_code,
            "lock": response.acquisition_lock_timeout_ms,
            "partitions": dict(sorted(answers.items())),
        }

    def _place(self, topic: Any, partition: Any) -> str:
        return f"{self._names[topic.topic_id]}-{partition.partition_index}"


def _by_topic(places: Mapping[Place, Any]) -> dict[str, dict[int, Any]]:
    topics: dict[str, dict[int, Any]] = {}
    for (name, index), value in places.items():
        topics.setdefault(name, {})[index] = value
    return topics


J0, J1, M0 = ("jobs", 0), ("jobs", 1), ("mails", 0)


def walk(broker: Broker) -> list[Step]:
    """Return the answers to all requests."""
    made = _Walk(broker)
    _without_a_session(made)
    _sessions(made)
    _limits(made)
    _acknowledgements(made)
    _malformed(made)
    _renewals(made)
    _with_fetches(made)
    _endings(made)
    _deleted_topics(made)
    return made.steps


def _without_a_session(walk: _Walk) -> None:
    accept = {J0: [(0, 0, [ACCEPT])]}
    walk.fetch("a session that does not exist", "nobody", 1)
    walk.fetch("the end of one that does not exist", "nobody", -1)
    walk.fetch("an epoch below -1", "nobody", -2)
    walk.fetch("a first fetch acknowledges", "nobody", 0, acks=accept)
    walk.fetch("without a member id", None, 0, [J0])
    walk.fetch("with an empty member id", "", 0, [J0])
    walk.fetch("with a long member id", "m" * 37, 0, [J0])
    walk.fetch("without a group", "nobody", 0, [J0], group_id=None)
    walk.fetch("with an empty group", "nobody", 0, group_id="")
    walk.acknowledge("acknowledge without a session", "nobody", 1, accept)
    walk.acknowledge("acknowledge as the first", "nobody", 0, accept)
    walk.acknowledge("end a session that does not exist", "nobody", -1, accept)
    walk.acknowledge("acknowledge without a member id", None, 1, accept)
    walk.acknowledge("acknowledge with a long member id", "m" * 37, 1, accept)
    walk.acknowledge("acknowledge without a group", "nobody", 1, accept, group_id=None)
    walk.fetch("renew as the first", "nobody", 0, is_renew_ack=True, max_wait_ms=0, min_bytes=0, max_records=0)


def _sessions(walk: _Walk) -> None:
    walk.fetch("an empty first fetch", "a", 0, max_wait_ms=0)
    walk.fetch("an empty next one", "a", 1, max_wait_ms=0)
    walk.fetch("partitions that do not exist", "b", 0, [("jobs", 9), (UNKNOWN, 0), J1], max_wait_ms=1000)
    walk.fetch("their errors are repeated", "b", 1)
    walk.fetch("an epoch too early", "b", 3)
    walk.fetch("an epoch again", "b", 1)
    walk.fetch("forgotten", "b", 2, forget=[("jobs", 9), (UNKNOWN, 0)])
    walk.fetch("forgotten again, and one that is not there", "b", 3, forget=[("jobs", 9), J0])
    walk.fetch("added", "b", 4, [M0], max_wait_ms=1000)
    walk.fetch("added again", "b", 5, [M0])
    walk.fetch("nothing has happened", "b", 6)
    walk.fetch("a session begins again", "b", 0, [M0], max_wait_ms=1000)
    walk.acknowledge("nothing to acknowledge", "b", 1, {})
    walk.acknowledge("a wrong epoch", "b", 1, {})
    walk.fetch("a fetch after it", "b", 2)
    walk.fetch("its end", "b", -1)
    walk.fetch("after the end", "b", 3)


def _limits(walk: _Walk) -> None:
    for _ in range(6):
        walk.broker.produce("jobs", 0, 10)
    walk.fetch("batches are not divided", "c", 0, [J0], max_records=15, batch_size=500, max_wait_ms=5000)
    walk.fetch("a strict limit divides them", "c", 1, max_records=15, batch_size=500, share_acquire_mode=1)
    walk.fetch("another member", "d", 0, [J0], max_records=1)
    walk.fetch("version 1", "d", 1, version=1, max_records=7)
    walk.fetch("nothing is left", "d", 2)
    walk.fetch("no records", "d", 3, max_records=0)
    walk.fetch("no bytes", "d", 4, max_bytes=0)
    walk.fetch("the end of a session releases", "d", -1)
    walk.fetch("released ones", "c", 2, max_records=100, batch_size=4)
    walk.fetch("the end of another", "c", -1)
    walk.fetch("a byte", "c", 0, [J0], max_bytes=1)
    walk.fetch("more bytes than there are", "c", 1, min_bytes=1_000_000, max_wait_ms=100)
    walk.fetch("end", "c", -1)


def _acknowledgements(walk: _Walk) -> None:
    """The log has 60 records in six batches, all available."""
    walk.fetch("acquire", "e", 0, [J0], max_records=30)
    walk.acknowledge("a range", "e", 1, {J0: [(0, 4, [ACCEPT])]})
    walk.acknowledge("again", "e", 2, {J0: [(0, 4, [ACCEPT])]})
    walk.acknowledge("each record", "e", 3, {J0: [(5, 9, [ACCEPT, RELEASE, REJECT, 0, RELEASE])]})
    walk.acknowledge("several ranges", "e", 4, {J0: [(10, 11, [ACCEPT]), (14, 15, [RELEASE])]})
    walk.acknowledge("over batches", "e", 5, {J0: [(18, 21, [ACCEPT])]})
    walk.acknowledge("not acquired", "e", 6, {J0: [(40, 41, [ACCEPT])]})
    walk.acknowledge("beyond the log", "e", 7, {J0: [(1000, 1001, [ACCEPT])]})
    walk.acknowledge("half is not acquired", "e", 8, {J0: [(22, 45, [ACCEPT])]})
    walk.acknowledge("one of two fails", "e", 9, {J0: [(22, 22, [ACCEPT]), (40, 40, [ACCEPT])]})
    walk.fetch("a second member", "f", 0, [J0], max_records=10)
    walk.acknowledge("those of another member", "f", 1, {J0: [(24, 24, [ACCEPT])]})
    walk.acknowledge("other partitions", "e", 10, {J1: [(0, 0, [ACCEPT])], ("jobs", 9): [(0, 0, [ACCEPT])]})
    walk.acknowledge("other topics", "e", 11, {M0: [(0, 0, [ACCEPT])], (UNKNOWN, 0): [(0, 0, [ACCEPT])]})
    walk.acknowledge("some fail", "e", 12, {J0: [(23, 23, [REJECT])], J1: [(0, 0, [ACCEPT])]})
    walk.acknowledge("no batches", "e", 13, {J0: [], ("jobs", 9): [], (UNKNOWN, 0): []})
    walk.acknowledge("some without batches", "e", 14, {J0: [(12, 12, [RELEASE])], J1: [], ("jobs", 9): []})
    walk.acknowledge("version 1", "e", 15, {J0: [(24, 24, [ACCEPT])]}, version=1)
    walk.acknowledge("before the start", "e", 16, {J0: [(0, 0, [ACCEPT])]})
    walk.acknowledge("released ones are not acquired", "f", 2, {J0: [(8, 8, [ACCEPT])]})
    walk.acknowledge("the end", "e", -1, {J0: [(25, 25, [ACCEPT])]})
    walk.acknowledge("after the end", "e", 17, {J0: [(26, 26, [ACCEPT])]})
    walk.fetch("what was released", "f", 3, max_records=100)
    walk.acknowledge("the last end", "f", -1, {})


def _malformed(walk: _Walk) -> None:
    walk.fetch("begin", "g", 0, [J0], max_records=10)
    malformed: Sequence[Sequence[tuple[int, int, Sequence[int]]]] = (
        [(11, 10, [ACCEPT])],
        [(12, 13, [ACCEPT]), (10, 11, [ACCEPT])],
        [(12, 13, [ACCEPT]), (13, 14, [ACCEPT])],
        [(12, 13, [])],
        [(12, 13, [ACCEPT, ACCEPT, ACCEPT])],
        [(12, 14, [ACCEPT, ACCEPT])],
        [(12, 13, [5])],
        [(12, 13, [-1])],
        [(12, 13, [4])],
        [(12, 13, [1, 4])],
        [(-1, 13, [1])],
    )
    for number, batches in enumerate(malformed):
        walk.acknowledge(f"malformed {number}", "g", 1 + number, {J0: batches})
    walk.acknowledge("renew with version 1", "g", 12, {J0: [(12, 13, [4])]}, version=1)
    walk.acknowledge("malformed for a topic that does not exist", "g", 13, {(UNKNOWN, 0): [(11, 10, [ACCEPT])]})
    walk.acknowledge("malformed for one that does not exist", "g", 14, {("jobs", 9): [(11, 10, [ACCEPT])]})
    walk.fetch("malformed in a fetch", "g", 15, acks={J0: [(11, 10, [ACCEPT])]}, max_wait_ms=0)
    walk.fetch("a wrong type in a fetch", "g", 16, acks={J0: [(12, 12, [7])]}, max_wait_ms=0)
    walk.fetch("renew in a fetch that does not say so", "g", 17, acks={J0: [(12, 12, [RENEW])]}, max_wait_ms=0)
    walk.fetch("end", "g", -1)


_RENEWAL: dict[str, Any] = {"is_renew_ack": True, "max_wait_ms": 0, "min_bytes": 0, "max_bytes": 0, "max_records": 0}


def _renewals(walk: _Walk) -> None:
    walk.fetch("begin", "h", 0, [J0], max_records=10)
    walk.acknowledge("renew", "h", 1, {J0: [(50, 51, [RENEW])]}, is_renew_ack=True)
    walk.acknowledge("renew acquired ones", "h", 2, {J0: [(12, 13, [RENEW])]}, is_renew_ack=True)
    walk.acknowledge("renew with others", "h", 3, {J0: [(12, 13, [RENEW, ACCEPT])]}, is_renew_ack=True)
    walk.acknowledge("renew nothing", "h", 4, {J0: [(14, 14, [ACCEPT])]}, is_renew_ack=True)
    walk.fetch("a fetch renews", "h", 5, acks={J0: [(6, 6, [RENEW])]}, **_RENEWAL)
    walk.fetch("a fetch renews nothing", "h", 6, **_RENEWAL)
    for name, value in (("max_wait_ms", 1), ("min_bytes", 1), ("max_bytes", 1), ("max_records", 1)):
        walk.fetch(f"a fetch renews with {name}", "h", 7, acks={J0: [(6, 6, [RENEW])]}, **{**_RENEWAL, name: value})
    walk.fetch("a fetch renews without a batch size", "h", 7, acks={J0: [(6, 6, [RENEW])]}, batch_size=0, **_RENEWAL)
    walk.fetch("end", "h", -1)


def _with_fetches(walk: _Walk) -> None:
    walk.broker.produce("mails", 0, 5)
    walk.broker.produce("mails", 0, 5)
    walk.fetch("begin", "i", 0, [M0], max_records=5)
    walk.fetch("acknowledge and fetch", "i", 1, acks={M0: [(0, 4, [ACCEPT])]}, max_records=5)
    walk.fetch("an acknowledgement fails", "i", 2, acks={M0: [(0, 4, [ACCEPT])]})
    walk.fetch("release and fetch", "i", 3, acks={M0: [(5, 9, [RELEASE])]})
    walk.fetch("acknowledge without fetching", "i", 4, acks={M0: [(5, 5, [ACCEPT])]}, max_records=0)
    walk.fetch("acknowledge for one that is not in the session", "i", 5, acks={J1: [(0, 0, [ACCEPT])]})
    walk.fetch("acknowledge for one that does not exist", "i", 6, acks={("jobs", 9): [(0, 0, [ACCEPT])]})
    walk.fetch("acknowledge for a topic that does not exist", "i", 7, acks={(UNKNOWN, 0): [(0, 0, [ACCEPT])]})
    walk.fetch("no news", "i", 8, forget=[("jobs", 9), (UNKNOWN, 0)])
    walk.fetch("acknowledge, and add others", "i", 9, [("jobs", 9), J1], acks={M0: [(8, 8, [ACCEPT])]})
    walk.fetch("acknowledge again", "i", 10, acks={M0: [(8, 8, [ACCEPT])]}, forget=[("jobs", 9), J1])
    walk.fetch("acknowledge what is forgotten", "i", 11, acks={M0: [(6, 6, [ACCEPT])]}, forget=[M0])
    walk.fetch("nothing any more", "i", 12)
    walk.fetch("acknowledge at the end", "i", -1, acks={M0: [(7, 7, [ACCEPT])]})
    walk.fetch("what was released", "k", 0, [M0])
    walk.fetch("end", "k", -1, [M0])


def _endings(walk: _Walk) -> None:
    """Sessions end with their connections; another session of the group keeps its share-partitions."""
    walk.fetch("one stays", "l", 0, [J1], max_wait_ms=0)
    walk.fetch("begin", "m", 0, [M0], max_wait_ms=3000)
    walk.fetch("begin another on the same connection", "n", 0, [J0], connection="m", max_wait_ms=3000, max_records=10)
    walk.broker.disconnect("m")
    walk.fetch("what the last connection had", "l", 1, [J0], max_records=10, max_wait_ms=3000)
    walk.fetch("its session is gone", "n", 1, max_wait_ms=0)
    walk.fetch("end", "l", -1)


def _deleted_topics(walk: _Walk) -> None:
    walk.fetch("begin", "o", 0, [J0, M0], max_wait_ms=3000)
    walk.broker.delete_topic("jobs")
    walk.fetch("the topic is deleted", "o", 1, max_wait_ms=0)
    walk.acknowledge("its records are acknowledged", "o", 2, {J0: [(30, 30, [ACCEPT])]})
    walk.fetch("its records are acknowledged in a fetch", "o", 3, acks={J0: [(30, 30, [ACCEPT])]}, max_wait_ms=0)
    walk.fetch("it is forgotten", "o", 4, forget=[J0], max_wait_ms=0)
    walk.fetch("end", "o", -1)


def assert_equal_to_kafkas(answers: Sequence[Step]) -> None:
    """Compare the answers of our broker with the recorded ones."""
    kafkas = json.loads(gzip.decompress(RECORDED.read_bytes()))
    assert len(kafkas) >= 130
    for (title, answer), (expected_title, expected) in zip(json.loads(json.dumps(answers)), kafkas, strict=True):
        assert title == expected_title
        if expected["error"] == ErrorCode.UNKNOWN_SERVER_ERROR:
            # Kafka fails to answer a ShareFetch if its session has a topic that does not exist.
            errors = [partition["error"] for partition in answer["partitions"].values()]
            assert answer["error"] == 0, title
            assert ErrorCode.UNKNOWN_TOPIC_ID in errors, title
        else:
            assert answer == expected, title
