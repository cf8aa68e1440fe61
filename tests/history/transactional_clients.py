"""Transactional producers of librdkafka: transfers, lists, and zombies that share a transactional id."""

from __future__ import annotations

import os
import random
import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

from tests.history.clients import CLIENT_SETTINGS, Client
from tests.history.committed_readers import committed_reader, receive
from tests.history.payload import RecordId, encode
from tests.history.transaction_history import Appended, Outcome, Session, Transaction, TransactionHistory

__all__ = ["Appender", "Bank", "Transactor", "Zombie"]

TIMEOUT_MS = 10_000
"""Of a transaction, for the producers that die in one."""
_CALL_S = 20.0
_ENDS_WITHIN_S = 60.0
_PAUSE_S = 0.03
_AMOUNTS = 1000


class Transactor(Client):
    """Begins transactions until its producer can't continue, and then goes on with a new one of the same id."""

    def __init__(
        self, bootstrap: str, topic: str, partitions: int, history: TransactionHistory, *, name: str, seed: int
    ) -> None:
        super().__init__(name)
        self._bootstrap, self._topic, self._partitions, self._history = bootstrap, topic, partitions, history
        self._rng = random.Random(f"{seed} {name}")

    def _run(self) -> None:
        while not self._ends.is_set():
            try:
                self._live(self._started())
            except KafkaException as error:
                self.counts[f"transactions: producer ended: {error.args[0].name()}"] += 1
                self._ends.wait(0.1)

    def end_open_transaction(self) -> None:
        """Let a new producer abort what the stopped client left open. Raise KafkaException."""
        self._new_producer().init_transactions(_ENDS_WITHIN_S)

    def _started(self) -> Producer:
        """Return a producer that fences those before it."""
        producer = self._new_producer()
        while not self._ends.is_set():
            try:
                producer.init_transactions(_CALL_S)
            except KafkaException as error:
                if not error.args[0].retriable():
                    raise
            else:
                break
        self.counts["transactions: producers"] += 1
        return producer

    def _new_producer(self) -> Producer:
        # Zombies are fenced all the time, and librdkafka would print that as a fatal error at every log level.
        log: dict[str, Any] = {"log.queue": True}
        if wanted := os.environ.get("HISTORY_DEBUG_TRANSACTIONS"):
            log = {"debug": wanted, "log_level": 7}
        return Producer(
            {
                **CLIENT_SETTINGS,
                "bootstrap.servers": self._bootstrap,
                "client.id": self.name,
                "transactional.id": self.name,
                "transaction.timeout.ms": TIMEOUT_MS,
                "message.timeout.ms": TIMEOUT_MS - 1000,
                "linger.ms": self._rng.choice([0, 5]),
                "compression.type": self._rng.choice(["none", "lz4"]),
                **log,
            }
        )

    @abstractmethod
    def _live(self, producer: Producer) -> None:
        """Make transactions until the client stops, or raise KafkaException."""

    def _new(self) -> Transaction:
        transaction = Transaction(f"{self.name}.{self.counts['transactions']}", Outcome.NOT_COMMITTED)
        self.counts["transactions"] += 1
        self._history.transactions[transaction.name] = transaction
        return transaction

    @contextmanager
    def _aborting(self, producer: Producer, transaction: Transaction) -> Iterator[None]:
        """Abort the transaction if an error in the block demands it; raise any other error."""
        try:
            yield
        except KafkaException as failure:
            error = failure.args[0]
            self.counts[f"transactions: {error.name()}"] += 1
            if not error.txn_requires_abort():
                raise
            self._abort(producer, transaction)

    def _append(
        self, producer: Producer, transaction: Transaction, partition: int, note: bytes = b"", topic: str = ""
    ) -> None:
        record = RecordId(transaction.name, len(transaction.appended))
        appended = Appended(topic or self._topic, partition, record, note)
        transaction.appended.append(appended)

        def delivered(error: KafkaError | None, message: Any) -> None:
            if error is None and (offset := message.offset()) >= 0:
                self._history.places.append((appended, offset))

        value = encode(record, partition)
        producer.produce(appended.topic, value=value, key=note or None, partition=partition, on_delivery=delivered)

    def _commit(self, producer: Producer, transaction: Transaction) -> None:
        transaction.outcome = Outcome.UNKNOWN
        _end(producer.commit_transaction)
        transaction.ended_s = time.monotonic()
        transaction.outcome = Outcome.COMMITTED
        self.counts["transactions: committed"] += 1

    def _abort(self, producer: Producer, transaction: Transaction) -> None:
        _end(producer.abort_transaction)
        transaction.ended_s = time.monotonic()
        transaction.outcome = Outcome.NOT_COMMITTED
        self.counts["transactions: aborted"] += 1

    def _commit_or_abort(self, producer: Producer, transaction: Transaction) -> None:
        if self._rng.random() < 0.2:
            producer.flush(self._rng.choice([0.0, 5.0]))  # Records that were not sent yet are never sent.
            self._abort(producer, transaction)
        else:
            self._commit(producer, transaction)


def _end(end: Callable[[float], None]) -> None:
    """Commit or abort. A retriable error leaves the call under way; the next one waits for it."""
    given_up_at = time.monotonic() + _ENDS_WITHIN_S
    while True:
        try:
            end(_CALL_S)
        except KafkaException as failure:
            if not failure.args[0].retriable() or time.monotonic() > given_up_at:
                raise
        else:
            return


class Bank(Transactor):
    """Transfers: two records whose amounts add up to zero, in one or two partitions. Occasionally the producer dies in
    a transaction, as a process would: its successor or the time-out ends it."""

    def _live(self, producer: Producer) -> None:
        while not self._ends.wait(_PAUSE_S):
            transaction = self._new()
            with self._aborting(producer, transaction):
                producer.begin_transaction()
                transaction.sends_from_s = time.monotonic()
                amount = self._rng.randint(1, _AMOUNTS)
                for signed in (-amount, amount):
                    self._append(producer, transaction, self._rng.randrange(self._partitions), b"%d" % signed)
                if self._rng.random() < 0.01:
                    producer.flush(1.0)
                    self.counts["transactions: abandoned"] += 1
                    return
                self._commit_or_abort(producer, transaction)


class Appender(Transactor):
    """Reads what is committed in all partitions, then appends to some: the transactions of a list-append history."""

    def _live(self, producer: Producer) -> None:
        starts = dict.fromkeys(range(self._partitions), 0)
        while not self._ends.is_set():
            session = Session(self.name, self._topic, dict(starts))
            self._history.sessions.append(session)
            with closing(committed_reader(self._bootstrap, self._topic, session)) as consumer:
                for _ in range(self._rng.randrange(50, 400)):
                    if self._ends.wait(_PAUSE_S):
                        return
                    self._transact(producer, consumer, session)
            starts = {partition: self._rng.randint(0, end) for partition, end in _ends_of(session).items()}

    def _transact(self, producer: Producer, consumer: Consumer, session: Session) -> None:
        transaction = self._new()
        transaction.read_topic = self._topic
        with self._aborting(producer, transaction):
            producer.begin_transaction()
            transaction.received = receive(consumer, session, self._history, self.counts, most=100, wait_s=0.05)
            transaction.sends_from_s = time.monotonic()
            for partition in self._rng.choices(range(self._partitions), k=self._rng.randint(1, 3)):
                self._append(producer, transaction, partition)
            self._commit_or_abort(producer, transaction)


def _ends_of(session: Session) -> dict[int, int]:
    return session.starts | {event.partition: event.offset for event in session.events}


class Zombie(Transactor):
    """A producer begins a transaction, and another one of the same id initializes. The first one may commit before
    that; afterwards it must fail."""

    def _live(self, producer: Producer) -> None:
        while not self._ends.wait(_PAUSE_S * 10):
            transaction = self._begun(producer)
            races = self._rng.random() < 0.4
            committing = threading.Thread(target=self._try_to_commit, args=(producer, transaction), daemon=True)
            if races:
                committing.start()
            successor = self._started()
            if races:
                committing.join(_ENDS_WITHIN_S + _CALL_S)
            elif self._ends.is_set():
                return  # The successor may not have initialized.
            else:
                self._haunt(producer, transaction)
            producer = successor
            with self._aborting(producer, follows := self._begun(producer)):
                self._commit(producer, follows)

    def _begun(self, producer: Producer) -> Transaction:
        transaction = self._new()
        producer.begin_transaction()
        transaction.sends_from_s = time.monotonic()
        for _ in range(2):
            self._append(producer, transaction, self._rng.randrange(self._partitions))
        producer.flush(2.0)
        return transaction

    def _try_to_commit(self, producer: Producer, transaction: Transaction) -> None:
        try:
            self._commit(producer, transaction)
        except KafkaException as failure:
            self.counts[f"transactions: overtaken: {failure.args[0].name()}"] += 1

    def _haunt(self, zombie: Producer, transaction: Transaction) -> None:
        """A newer producer has begun, so the commit can't succeed, whatever the zombie is told."""
        try:
            self._append(zombie, transaction, self._rng.randrange(self._partitions))
            _end(zombie.commit_transaction)
        except KafkaException as failure:
            self.counts[f"transactions: zombie: {failure.args[0].name()}"] += 1
        else:
            self._history.zombies.append(transaction.name)
