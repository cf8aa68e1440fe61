"""Transactions while brokers are killed, stopped and suspended: all of a transaction is seen, or nothing of it.

Each transaction writes its name to two partitions. The outcome that a producer was told must hold; where it was told
none, both records are seen or neither. The seed of the faults is printed, and drawn anew if none is given.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable
from random import Random, SystemRandom
from threading import Event, Thread

import pytest
from confluent_kafka import KafkaException, Producer

from barnabas.testing import Cluster, ClusterNode

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

TOPIC = "transfers"
PARTITIONS = 6
SECONDS = float(os.environ.get("BARNABAS_TRANSACTIONS_SECONDS", "8"))
COMMITTED, ABORTED, UNKNOWN = "committed", "aborted", "unknown"


class Bank:
    """A client that transfers, and remembers what it was told."""

    def __init__(self, servers: str, name: str, seed: int) -> None:
        self._settings = {
            "bootstrap.servers": servers,
            "transactional.id": name,
            "transaction.timeout.ms": 5_000,
            "message.timeout.ms": 4_500,
            "socket.timeout.ms": 5_000,
            "log_level": 0,
        }
        self.name = name
        self._random = Random(seed)
        self.outcomes: dict[str, str] = {}
        self.problems: Counter[str] = Counter()

    def run(self, is_over: Event) -> None:
        while not is_over.is_set():
            try:
                self._serve(self._started(), is_over)
            except KafkaException as error:
                self.problems[error.args[0].name()] += 1
                time.sleep(0.1)

    def _started(self) -> Producer:
        producer = Producer(self._settings)
        producer.init_transactions(20)
        return producer

    def _serve(self, producer: Producer, is_over: Event) -> None:
        """Transfer until the producer cannot go on."""
        while not is_over.is_set():
            transfer = f"{self.name}-{len(self.outcomes)}"
            self.outcomes[transfer] = UNKNOWN
            source, target = self._random.sample(range(PARTITIONS), 2)
            try:
                producer.begin_transaction()
                producer.produce(TOPIC, transfer, partition=source)
                producer.produce(TOPIC, transfer, partition=target)
                if self._random.random() < 0.25:
                    producer.flush(self._random.choice([0, 5]))  # Records that were not sent yet are never sent.
                    self._end(producer.abort_transaction)
                    self.outcomes[transfer] = ABORTED
                else:
                    self._end(producer.commit_transaction)
                    self.outcomes[transfer] = COMMITTED
            except KafkaException as failure:
                error = failure.args[0]
                self.problems[error.name()] += 1
                if not error.txn_requires_abort():
                    raise
                self._end(producer.abort_transaction)
                self.outcomes[transfer] = ABORTED

    def _end(self, end: Callable[[float], None]) -> None:
        while True:
            try:
                end(20)
            except KafkaException as failure:
                if not failure.args[0].retriable():
                    raise
            else:
                return


def inject(cluster: Cluster, random: Random, until_s: float) -> list[str]:
    """Do one thing after the other to one broker at a time."""
    done = []
    while time.monotonic() < until_s:
        time.sleep(random.uniform(0.5, 1.5))
        broker: ClusterNode = random.choice(cluster.brokers)
        fault = random.choice(["kill", "kill", "stop", "pause"])
        done.append(f"{fault} {broker.node_id}")
        getattr(broker, fault)()
        time.sleep(random.uniform(0.2, 3.5 if fault == "pause" else 1.0))
        if fault == "pause":
            broker.resume()
        else:
            broker.start()
        time.sleep(random.uniform(0.5, 1.5))
    return done


def test_a_transaction_is_seen_as_a_whole_or_not_at_all() -> None:
    seed = int(os.environ.get("BARNABAS_TRANSACTIONS_SEED", SystemRandom().randrange(2**31)))
    print(f"seed {seed}; again: BARNABAS_TRANSACTIONS_SEED={seed}")
    random, is_over = Random(seed), Event()
    settings = {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500"}
    with Cluster(3, topics={TOPIC: PARTITIONS}, settings=settings) as cluster:
        banks = [Bank(cluster.bootstrap_servers, f"bank{number}", seed + number) for number in range(3)]
        threads = [Thread(target=bank.run, args=(is_over,)) for bank in banks]
        for thread in threads:
            thread.start()
        faults = inject(cluster, random, time.monotonic() + SECONDS)
        time.sleep(3)
        is_over.set()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive(), "a client waits for ever"
        time.sleep(6)  # Open transactions of producers that gave up are aborted after their time-out.
        seen = Counter(
            (record.value or b"").decode() for record in cluster.consume(TOPIC, read_committed=True, timeout_s=60)
        )
        everything = cluster.consume(TOPIC, timeout_s=60)
        logs = [broker.log for broker in cluster.brokers]
    outcomes = {name: outcome for bank in banks for name, outcome in bank.outcomes.items()}
    problems = sum((bank.problems for bank in banks), Counter[str]())
    print(f"{Counter(outcomes.values())}, {problems}, {len(everything)} records, faults: {', '.join(faults)}")
    wrong = {
        name: (outcome, seen[name])
        for name, outcome in outcomes.items()
        if seen[name] not in {COMMITTED: (2,), ABORTED: (0,), UNKNOWN: (0, 2)}[outcome]
    }
    assert not wrong
    assert Counter(outcomes.values())[COMMITTED] > 20
    assert not [log for log in logs if "Traceback" in log]
