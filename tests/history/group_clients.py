"""Members that share a topic, commit what they received, leave and rejoin; and a client that reads committed
offsets."""

from __future__ import annotations

import os
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from tests.history.clients import CLIENT_SETTINGS, Client, report_records_seen
from tests.history.groups_check import GroupsCheck
from tests.history.owners_check import OwnersCheck, Ownership
from tests.history.records_check import RecordsCheck
from tests.history.register_check import Read, Write

__all__ = ["CommittedOffsetsReader", "GroupMember", "committed_offsets", "leaving"]

_TIMEOUT_S = 10.0
_GIVEN_UP_AFTER_S = 30.0
"""Five times ``socket.timeout.ms``: whatever a node does, a client's request has failed by then."""


class _Stuck(Exception):
    """The client library returned neither an answer nor an error."""


@contextmanager
def leaving(consumer: Consumer, name: str, counts: Counter[str]) -> Iterator[None]:
    """Close the member at the end of the block. One that does not close in time is abandoned and counted."""
    closing = threading.Thread(target=consumer.close, name=f"{name} closes", daemon=True)
    try:
        yield
    finally:
        closing.start()
        closing.join(_GIVEN_UP_AFTER_S)
        if closing.is_alive():
            counts["abandoned: did not close"] += 1


class _Commit(NamedTuple):
    """The commit of a partition: its number as a write, when it was requested, and by which ownership."""

    number: int
    asked_s: float
    ownership: Ownership


class GroupMember(Client):
    """``protocol``: "classic" or "consumer" (KIP-848).

    librdkafka can lose a commit: when all known brokers are unreachable and it contacts the bootstrap servers again, a
    member may wait for its coordinator forever and stop sending. Such a member is abandoned and counted, and a new one
    replaces it, so that the history continues.
    """

    def __init__(
        self, bootstrap: str, topic: str, groups: GroupsCheck, owners: OwnersCheck, records: RecordsCheck,
        *, group: str, protocol: str, name: str, seed: int,
    ) -> None:  # fmt: skip
        super().__init__(name)
        self._bootstrap, self._topic, self._groups, self._records = bootstrap, topic, groups, records
        self._owners = owners
        self._group, self._protocol = group, protocol
        self._rng = random.Random(f"{seed} {name}")
        self._positions: dict[int, int] = {}
        self._began: dict[int, float] = {}
        self._owned: dict[int, Ownership] = {}
        self._under_way: dict[frozenset[tuple[int, int]], list[dict[int, _Commit]]] = {}
        """Unanswered commits by their content."""

    def _run(self) -> None:
        while not self._ends.is_set():
            self.counts["lives of members"] += 1
            settings = {
                **CLIENT_SETTINGS,
                "bootstrap.servers": self._bootstrap,
                "client.id": self.name,
                "group.id": self._group,
                "group.protocol": self._protocol,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "fetch.wait.max.ms": 100,
            }
            if wanted := os.environ.get("HISTORY_DEBUG"):
                settings |= {"debug": wanted, "log_level": 7}
            if self._protocol == "classic":
                settings |= {"session.timeout.ms": 6000, "heartbeat.interval.ms": 1000}
            consumer = Consumer(settings | {"on_commit": self._committed})
            consumer.subscribe([self._topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost)
            try:
                with leaving(consumer, self.name, self.counts):
                    self._work(consumer)
            except _Stuck:
                self.counts["abandoned: a commit without an answer"] += 1
            finally:
                self._positions.clear()
                self._began.clear()
                self._owned.clear()
                self._under_way.clear()

    @property
    def _life(self) -> str:
        return f"{self.name}/{self.counts['lives of members']}"

    def _work(self, consumer: Consumer) -> None:
        lasts_until = time.monotonic() + self._rng.uniform(5, 30)
        while not self._ends.is_set() and time.monotonic() < lasts_until:
            self._consume(consumer)
            self._commit(consumer)
            self._wait_for_commits(consumer)
        self._commit(consumer)
        self._wait_for_commits(consumer)

    def _consume(self, consumer: Consumer) -> None:
        for message in consumer.consume(100, 0.2):
            if (error := message.error()) is None:
                self._take(message)
            else:
                self.counts[f"error: {error.name()}"] += 1

    def _wait_for_commits(self, consumer: Consumer) -> None:
        given_up_at = time.monotonic() + _GIVEN_UP_AFTER_S
        while self._under_way:
            if time.monotonic() > given_up_at:
                raise _Stuck
            self._consume(consumer)

    def _take(self, message: Any) -> None:
        partition, offset = message.partition(), message.offset()
        began = self._began.pop(partition, None)
        if began is not None:
            read = Read(offset, began, time.monotonic(), f"the start of {self.name}")
            self._groups.fetched(self._group, partition, read)
        self._groups.given(self._group, partition, offset)
        self._positions[partition] = offset + 1
        self.counts["read"] += 1
        report_records_seen(self._records, self.name, message)

    def _commit(self, consumer: Consumer) -> None:
        """A commit that the answer does not confirm may still take effect."""
        if not self._positions:
            return
        offsets = [TopicPartition(self._topic, partition, offset) for partition, offset in self._positions.items()]
        began = time.monotonic()
        commits = {
            position.partition: _Commit(
                self._groups.committed(self._group, position.partition, Write(position.offset, began)),
                began,
                self._owned[position.partition],
            )
            for position in offsets
        }
        try:
            consumer.commit(offsets=offsets, asynchronous=True)
        except KafkaException as error:
            self.counts[f"commit: {error.args[0].name()}"] += 1
            return
        self._under_way.setdefault(frozenset(self._positions.items()), []).append(commits)

    def _committed(self, error: KafkaError | None, done: list[TopicPartition]) -> None:
        ended = time.monotonic()
        positions = frozenset((partition.partition, partition.offset) for partition in done)
        if not (commits := self._under_way.get(positions)):
            self.counts["commits answered late"] += 1
            return
        commit = commits.pop(0)
        if not commits:
            del self._under_way[positions]
        if error is not None:
            self.counts[f"commit: {error.name()}"] += 1
            return
        for partition in done:
            self.counts["commits refused" if partition.error else "commits"] += 1
            if partition.error is None:
                confirmed = commit[partition.partition]
                self._groups.answered(self._group, partition.partition, confirmed.number, ended)
                confirmed.ownership.commits(confirmed.asked_s)

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.counts["assignments"] += 1
        for partition in partitions:
            self._began[partition.partition] = time.monotonic()
            self._owned[partition.partition] = self._owners.assigned(
                self._group, partition.partition, self._life, time.monotonic()
            )
            self._records.reader_begins(self.name, partition.partition, None)

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._commit(consumer)
        self._lost(consumer, partitions)

    def _lost(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        for partition in partitions:
            self._positions.pop(partition.partition, None)
            self._began.pop(partition.partition, None)
            self._owned.pop(partition.partition, None)


class CommittedOffsetsReader(Client):
    """Repeatedly reads the committed offsets of each group."""

    def __init__(
        self, bootstrap: str, topic: str, partitions: int, groups: GroupsCheck, *, of: list[str], name: str
    ) -> None:
        super().__init__(name)
        self._bootstrap, self._topic, self._partitions, self._groups, self._of = (
            bootstrap,
            topic,
            partitions,
            groups,
            of,
        )

    def _run(self) -> None:
        while not self._ends.is_set():
            for group in self._of:
                began = time.monotonic()
                offsets = committed_offsets(self._bootstrap, group, self._topic, self._partitions)
                ended = time.monotonic()
                self.counts["asked"] += 1
                for partition, offset in offsets.items():
                    self._groups.fetched(group, partition, Read(offset, began, ended, self.name))
            self._ends.wait(0.5)


def committed_offsets(bootstrap: str, group: str, topic: str, partitions: int) -> dict[int, int]:
    """Return the committed offset of each partition, 0 if none is committed. Partitions without an answer are
    omitted."""
    consumer = Consumer({**CLIENT_SETTINGS, "bootstrap.servers": bootstrap, "group.id": group})
    try:
        wanted = [TopicPartition(topic, partition) for partition in range(partitions)]
        found = consumer.committed(wanted, timeout=_TIMEOUT_S)
    except KafkaException:
        return {}
    finally:
        consumer.close()
    return {partition.partition: max(0, partition.offset) for partition in found if partition.error is None}
