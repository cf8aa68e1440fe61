"""Readers of committed records: from the start or from many points, from leaders or from followers."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from tests.history.clients import CLIENT_SETTINGS, Client
from tests.history.payload import Spoilt, decode
from tests.history.transaction_history import Passed, Seen, Session, TransactionHistory

__all__ = ["CommittedReader", "committed_reader", "ends", "final_session", "receive"]

_RECORDS_BACK = 500
_CALL_S = 10.0


def _settings(bootstrap: str, name: str) -> dict[str, Any]:
    return {
        **CLIENT_SETTINGS,
        "bootstrap.servers": bootstrap,
        "client.id": name,
        "group.id": f"never-joined-by-{name}",
        "isolation.level": "read_committed",
        "enable.auto.commit": False,
        "auto.offset.reset": "error",
        "enable.partition.eof": True,
        "fetch.wait.max.ms": 100,
    }


def committed_reader(bootstrap: str, topic: str, session: Session, *, rack: str = "") -> Consumer:
    """With a ``rack``, brokers refer the reader to the replica there (KIP-392)."""
    consumer = Consumer(_settings(bootstrap, session.reader) | ({"client.rack": rack} if rack else {}))
    consumer.assign([TopicPartition(topic, partition, start) for partition, start in session.starts.items()])
    return consumer


def receive(
    consumer: Consumer, session: Session, history: TransactionHistory, counts: Counter[str], *, most: int, wait_s: float
) -> list[Seen]:
    """Add what the consumer returns to the session. Return the records."""
    found = []
    for message in consumer.consume(most, wait_s):
        error = message.error()
        if error is not None and error.code() == KafkaError._PARTITION_EOF:
            session.events.append(Passed(message.partition() or 0, message.offset() or 0))
        elif error is not None:
            counts[f"read committed: error: {error.name()}"] += 1
        elif (seen := as_seen(message, session.reader, history)) is not None:
            session.events.append(seen)
            found.append(seen)
    counts["read committed"] += len(found)
    return found


def as_seen(message: Any, reader: str, history: TransactionHistory) -> Seen | None:
    try:
        record, _ = decode(message.value())
    except Spoilt as error:
        history.spoilt.append(f"{reader} at {message.partition()}@{message.offset()}: {error}")
        return None
    return Seen(message.partition(), message.offset(), record, message.key() or b"")


class CommittedReader(Client):
    """Reads all partitions, and often restarts: where it was, or with ``jumps`` at a random offset before that."""

    def __init__(
        self, bootstrap: str, topic: str, partitions: int, history: TransactionHistory,
        *, name: str, seed: int, jumps: bool = False, rack: str = "",
    ) -> None:  # fmt: skip
        super().__init__(name)
        self._bootstrap, self._topic, self._history = bootstrap, topic, history
        self._rng = random.Random(f"{seed} {name}")
        self._jumps, self._rack = jumps, rack
        self._positions = dict.fromkeys(range(partitions), 0)

    def _run(self) -> None:
        while not self._ends.is_set():
            back = _RECORDS_BACK if self._jumps else 0
            starts = {
                partition: self._rng.randint(max(0, position - back), position)
                for partition, position in self._positions.items()
            }
            session = Session(self.name, self._topic, starts)
            self._history.sessions.append(session)
            with closing(committed_reader(self._bootstrap, self._topic, session, rack=self._rack)) as consumer:
                for _ in range(self._rng.randrange(20, 200)):
                    if self._ends.is_set():
                        return
                    for seen in receive(consumer, session, self._history, self.counts, most=100, wait_s=0.2):
                        self._positions[seen.partition] = max(self._positions[seen.partition], seen.offset + 1)


def ends(bootstrap: str, topic: str, partitions: int) -> dict[int, tuple[int, int]]:
    """Return the last stable offset and the end of each partition; partitions without an answer are omitted."""
    found: dict[int, list[int]] = {partition: [] for partition in range(partitions)}
    for level in ("read_committed", "read_uncommitted"):
        with closing(Consumer(_settings(bootstrap, "ends") | {"isolation.level": level})) as consumer:
            for partition, offsets in found.items():
                try:
                    offsets.append(consumer.get_watermark_offsets(TopicPartition(topic, partition), _CALL_S)[1])
                except KafkaException:
                    continue
    return {partition: (offsets[0], offsets[1]) for partition, offsets in found.items() if len(offsets) == 2}


def final_session(
    bootstrap: str, topic: str, partition_ends: Mapping[int, int], history: TransactionHistory, *, timeout_s: float
) -> bool:
    """Read everything once more, up to the given ends. Return whether it was reached in time."""
    session = Session("the final read", topic, dict.fromkeys(partition_ends, 0))
    history.sessions.append(session)
    missing, given_up_at = set(partition_ends), time.monotonic() + timeout_s
    with closing(committed_reader(bootstrap, topic, session)) as consumer:
        while missing and time.monotonic() < given_up_at:
            count = len(session.events)
            receive(consumer, session, history, Counter(), most=1000, wait_s=0.5)
            for event in session.events[count:]:
                if isinstance(event, Passed) and event.offset >= partition_ends[event.partition]:
                    missing.discard(event.partition)
    return not missing
