"""Members of a group that consume, copy and commit their offsets in one transaction."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from math import inf
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from tests.history.clients import CLIENT_SETTINGS
from tests.history.committed_readers import as_seen
from tests.history.copies_check import source_note
from tests.history.group_clients import leaving
from tests.history.register_check import Read, RegisterCheck, Write
from tests.history.transaction_history import Outcome, Seen, Transaction, TransactionHistory
from tests.history.transactional_clients import Transactor

__all__ = ["Copier", "OffsetRegisters"]

_CALL_S = 20.0
_GIVEN_UP_AFTER_S = 45.0
_MOST = 20


class _Stuck(Exception):
    """The client library returned neither in the time that it was given nor long after it."""


class OffsetRegisters:
    """The committed offsets of one group by partition. Only a commit that may have taken effect is a write."""

    def __init__(self, group: str, partitions: int) -> None:
        self.partitions = [
            RegisterCheck(f"the offset of {group} in partition {partition}", initial=0)
            for partition in range(partitions)
        ]

    def ended(self, transaction: Transaction, began_s: float) -> None:
        if transaction.outcome is Outcome.NOT_COMMITTED:
            return
        for partition, (_, to) in transaction.offsets.items():
            self.partitions[partition].wrote(Write(to, began_s, transaction.ended_s))

    def read(self, partition: int, read: Read) -> None:
        self.partitions[partition].read(read)


class Copier(Transactor):
    """Copies ``source`` to random partitions of ``topic``, exactly once.

    librdkafka 2.16 may forget to look for the group's coordinator while brokers restart, with Kafka's brokers too:
    ``send_offsets_to_transaction`` then sends nothing for two minutes, whatever its time-out. Such a producer is
    abandoned and counted; its successor ends the transaction.
    """

    def __init__(
        self, bootstrap: str, topic: str, partitions: int, history: TransactionHistory,
        *, source: str, group: str, offsets: OffsetRegisters, name: str, seed: int,
    ) -> None:  # fmt: skip
        super().__init__(bootstrap, topic, partitions, history, name=name, seed=seed)
        self._source, self._group, self._offsets = source, group, offsets
        self._next: dict[int, int] = {}
        """By assigned partition: the offset that the next transaction replaces."""

    def _live(self, producer: Producer) -> None:
        try:
            self._copy_everything(producer)
        except _Stuck:
            self.counts["transactions: abandoned: offsets without an answer"] += 1

    def _copy_everything(self, producer: Producer) -> None:
        while not self._ends.is_set():
            consumer = self._member()
            with leaving(consumer, self.name, self.counts):
                lasts_until = time.monotonic() + self._rng.uniform(5, 30)
                while not self._ends.is_set() and time.monotonic() < lasts_until:
                    self._copy(producer, consumer)

    def _member(self) -> Consumer:
        consumer = Consumer(
            {
                **CLIENT_SETTINGS,
                "bootstrap.servers": self._bootstrap,
                "client.id": self.name,
                "group.id": self._group,
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "fetch.wait.max.ms": 100,
                "session.timeout.ms": 6000,
                "heartbeat.interval.ms": 1000,
            }
        )
        consumer.subscribe([self._source], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked)
        return consumer

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Begin at the committed offsets, stable ones: offsets of an open transaction are waited for."""
        began_s = time.monotonic()
        while not self._ends.is_set():
            try:
                committed = consumer.committed(partitions, timeout=_CALL_S)
            except KafkaException as error:
                self.counts[f"transactions: committed offsets: {error.args[0].name()}"] += 1
                continue
            if not any(partition.error for partition in committed):
                break
        else:
            return
        for partition in committed:
            partition.offset = max(0, partition.offset)
            read = Read(partition.offset, began_s, time.monotonic(), f"the start of {self.name}")
            self._offsets.read(partition.partition, read)
            self._next[partition.partition] = partition.offset
        consumer.assign(committed)

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        for partition in partitions:
            self._next.pop(partition.partition, None)

    def _copy(self, producer: Producer, consumer: Consumer) -> None:
        """Copy what was received. After an abort the member begins again at the committed offsets."""
        received = self._received(consumer)
        if not received:
            return
        transaction = self._new()
        transaction.read_topic, transaction.received = self._source, received
        began_s = time.monotonic()
        try:
            with self._aborting(producer, transaction):
                producer.begin_transaction()
                transaction.sends_from_s = time.monotonic()
                self._send(producer, consumer, transaction)
                self._commit_or_abort(producer, transaction)
        finally:
            self._offsets.ended(transaction, began_s)
        is_committed = transaction.outcome is Outcome.COMMITTED
        for partition in self._next.keys() & {seen.partition for seen in received}:
            if is_committed:
                self._next[partition] = transaction.offsets[partition][1]
            else:
                consumer.seek(TopicPartition(self._source, partition, self._next[partition]))

    def _received(self, consumer: Consumer) -> list[Seen]:
        found = []
        for message in consumer.consume(_MOST, 0.1):
            if (error := message.error()) is not None:
                self.counts[f"transactions: copier: {error.name()}"] += 1
            elif (seen := as_seen(message, self.name, self._history)) and seen.offset >= self._next.get(
                seen.partition, inf
            ):  # Otherwise it was received before the partition was assigned anew.
                found.append(seen)
        return found

    def _send(self, producer: Producer, consumer: Consumer, transaction: Transaction) -> None:
        for seen in transaction.received:
            transaction.offsets[seen.partition] = self._next[seen.partition], seen.offset + 1
            to = self._rng.randrange(self._partitions)
            self._append(producer, transaction, to, source_note(seen.partition, seen.offset))
        offsets = [TopicPartition(self._source, partition, to) for partition, (_, to) in transaction.offsets.items()]
        metadata: Any = consumer.consumer_group_metadata()
        _in_time(lambda: producer.send_offsets_to_transaction(offsets, metadata, _CALL_S))


def _in_time(call: Callable[[], None]) -> None:
    """Raise what the call raises, or _Stuck."""
    errors: list[KafkaException] = []

    def run() -> None:
        try:
            call()
        except KafkaException as error:
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(_GIVEN_UP_AFTER_S)
    if thread.is_alive():
        raise _Stuck
    if errors:
        raise errors[0]
