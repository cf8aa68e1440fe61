"""A correct cluster in memory, as far as transactions matter: logs as bytes, last stable offsets, honest histories."""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import dataclass, field

from tests.history.copies_check import source_note
from tests.history.payload import RecordId, encode
from tests.history.transaction_history import (
    Appended,
    Outcome,
    Passed,
    Seen,
    Session,
    Transaction,
    TransactionHistory,
)
from tests.history.transaction_log import TopicLog, read_topic
from tests.unit.storage.log_driver import batch, marker

__all__ = ["COPIES", "LEDGER", "Model", "honest"]

LEDGER, COPIES = "ledger", "copies"
PARTITIONS = 2


@dataclass
class Log:
    """One partition: its bytes, the records of open transactions by producer id, and the committed ones by offset."""

    batches: dict[int, bytes] = field(default_factory=dict)
    end: int = 0
    open: dict[int, list[Seen]] = field(default_factory=lambda: defaultdict(list))
    committed: dict[int, Seen] = field(default_factory=dict)

    def write(self, data: bytes) -> int:
        offset, self.end = self.end, self.end + 1
        self.batches[offset] = offset.to_bytes(8, "big") + data[8:]
        return offset

    @property
    def stable(self) -> int:
        return min((records[0].offset for records in self.open.values() if records), default=self.end)

    def read(self, start: int, most: int = 1000) -> list[Seen]:
        return [seen for offset, seen in sorted(self.committed.items()) if start <= offset < self.stable][:most]


class Model:
    """Times are the numbers of steps."""

    def __init__(self, seed: int = 0) -> None:
        self.rng = random.Random(seed)
        self.history = TransactionHistory()
        self.logs = {(topic, number): Log() for topic in (LEDGER, COPIES) for number in range(PARTITIONS)}
        self.offsets = dict.fromkeys(range(PARTITIONS), 0)
        """The committed ones of the group of copiers."""
        self.now = 0.0
        self._numbers: dict[str, int] = defaultdict(int)
        self._ids: dict[str, int] = {}
        self._sequences: dict[tuple[int, str, int], int] = defaultdict(int)
        self._sessions: dict[str, Session] = {}

    def topic_logs(self) -> dict[str, TopicLog]:
        return {
            topic: read_topic(topic, {number: self.logs[topic, number].batches for number in range(PARTITIONS)})
            for topic in (LEDGER, COPIES)
        }

    def begin(self, client: str) -> Transaction:
        self._numbers[client] += 1
        transaction = Transaction(f"{client}.{self._numbers[client]}", Outcome.NOT_COMMITTED)
        self.history.transactions[transaction.name] = transaction
        self.sends(transaction)
        return transaction

    def sends(self, transaction: Transaction) -> None:
        self.now += 1
        transaction.sends_from_s = self.now

    def append(self, transaction: Transaction, partition: int, note: bytes = b"", topic: str = LEDGER) -> int:
        producer_id, log = self._id(transaction), self.logs[topic, partition]
        record = RecordId(transaction.name, len(transaction.appended))
        key = producer_id, topic, partition
        data = batch(
            encode(record, partition), keys=[note or None], producer_id=producer_id, producer_epoch=0,
            base_sequence=self._sequences[key], is_transactional=True,
        )  # fmt: skip
        self._sequences[key] += 1
        offset = log.write(data)
        log.open[producer_id].append(Seen(partition, offset, record, note))
        appended = Appended(topic, partition, record, note)
        transaction.appended.append(appended)
        self.history.places.append((appended, offset))
        return offset

    def mark(self, transaction: Transaction, topic: str, partition: int, *, commit: bool) -> None:
        producer_id, log = self._id(transaction), self.logs[topic, partition]
        records = log.open.pop(producer_id, [])
        if records:
            log.write(marker(producer_id, 0, commit=commit))
        if commit:
            log.committed |= {seen.offset: seen for seen in records}

    def end(self, transaction: Transaction, *, commit: bool, is_known: bool = True) -> None:
        for topic, partition in self.logs:
            self.mark(transaction, topic, partition, commit=commit)
        if commit:
            self.offsets |= {partition: to for partition, (_, to) in transaction.offsets.items()}
        self.learn(transaction, commit=commit, is_known=is_known)

    def learn(self, transaction: Transaction, *, commit: bool, is_known: bool = True) -> None:
        self.now += 1
        if is_known:
            transaction.ended_s = self.now
            transaction.outcome = Outcome.COMMITTED if commit else Outcome.NOT_COMMITTED
        else:
            transaction.outcome = Outcome.UNKNOWN

    def begin_reading(self, reader: str, starts: dict[int, int], topic: str = LEDGER) -> Session:
        self._sessions[reader] = Session(reader, topic, starts)
        self.history.sessions.append(self._sessions[reader])
        return self._sessions[reader]

    def read(self, reader: str, most: int = 1000) -> list[Seen]:
        """Read one partition up to ``most`` records, or to its stable end."""
        session = self._sessions[reader]
        partition = self.rng.choice(list(session.starts))
        events = [event for event in session.events if event.partition == partition]
        position = max((event.offset + isinstance(event, Seen) for event in events), default=session.starts[partition])
        log = self.logs[session.topic, partition]
        found = log.read(position, most)
        session.events += found
        if len(found) < most:
            session.events.append(Passed(partition, max(log.stable, position)))
        return found

    def _id(self, transaction: Transaction) -> int:
        return self._ids.setdefault(transaction.name.partition(".")[0], 100 + len(self._ids))


def honest(seed: int, steps: int = 150) -> Model:
    """Banks, appenders and a copier whose transactions interleave, and readers from several points."""
    model = Model(seed)
    rng, underway = model.rng, dict[str, Transaction]()
    model.begin_reading("all", dict.fromkeys(range(PARTITIONS), 0))
    for client in ("appender-0", "appender-1"):
        model.begin_reading(client, dict.fromkeys(range(PARTITIONS), 0))
    for step in range(steps):
        client = rng.choice(["bank-0", "bank-1", "appender-0", "appender-1", "copier"])
        model.read("all", rng.randint(1, 5))
        if client in underway:
            transaction = underway.pop(client)
            is_committed = rng.random() < 0.8
            if is_committed and client.startswith("bank"):
                model.append(transaction, rng.randrange(PARTITIONS), b"%d" % -int(transaction.appended[0].note))
            model.end(transaction, commit=is_committed, is_known=rng.random() < 0.9)
            continue
        underway[client] = transaction = model.begin(client)
        if client.startswith("bank"):
            model.append(transaction, rng.randrange(PARTITIONS), b"%d" % rng.choice([-7, 3, 11]))
        elif client.startswith("appender"):
            transaction.read_topic, transaction.received = LEDGER, model.read(client)
            model.sends(transaction)
            for _ in range(rng.randint(1, 3)):
                model.append(transaction, rng.randrange(PARTITIONS))
        else:
            _copy(model, transaction)
        if step % 40 == 20:
            ends = {number: rng.randint(0, model.logs[LEDGER, number].end) for number in range(PARTITIONS)}
            model.begin_reading("all", ends)
    for transaction in underway.values():
        model.end(transaction, commit=False)
    model.begin_reading("final", dict.fromkeys(range(PARTITIONS), 0))
    for _ in range(20):
        model.read("final")
    return model


def _copy(model: Model, transaction: Transaction) -> None:
    transaction.read_topic = LEDGER
    partition = model.rng.randrange(PARTITIONS)
    start = model.offsets[partition]
    transaction.received = model.logs[LEDGER, partition].read(start, 5)
    model.sends(transaction)
    for seen in transaction.received:
        to = model.rng.randrange(PARTITIONS)
        model.append(transaction, to, source_note(seen.partition, seen.offset), COPIES)
        transaction.offsets[partition] = start, seen.offset + 1
