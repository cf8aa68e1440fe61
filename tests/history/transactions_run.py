"""The transactional part of a run: its topics, its clients, and what they and the logs must agree on."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import KafkaException

from tests.history.bank_check import check_balance
from tests.history.clients import Client
from tests.history.committed_readers import CommittedReader, ends, final_session
from tests.history.copiers import Copier, OffsetRegisters
from tests.history.copies_check import check_copies
from tests.history.dependency_check import check_cycles, count_cycles
from tests.history.group_clients import committed_offsets
from tests.history.java_clients import JavaCopier
from tests.history.log_files import read_batches
from tests.history.register_check import Read
from tests.history.sequences_check import check_sequences
from tests.history.transaction_history import TransactionHistory
from tests.history.transaction_log import TopicLog, read_topic
from tests.history.transactional_clients import TIMEOUT_MS, Appender, Bank, Transactor, Zombie
from tests.history.transactions_check import check_producers, check_session
from tests.history.violations import Broken, Violation

__all__ = ["LEDGER_PARTITIONS", "MEGABYTES_A_SECOND", "TOPICS", "TransactionsPart"]

LEDGER, COPIES, JAVA_COPIES = "ledger", "copies", "java-copies"
TOPICS = (LEDGER, COPIES, JAVA_COPIES)
LEDGER_PARTITIONS = 3
GROUP, JAVA_GROUP = "copiers", "java-copiers"
MEGABYTES_A_SECOND = 0.2
"""What a broker writes at most: records, markers, offsets and the state of transactions."""
_MARGIN_S = 10.0
_SWEPT_WITHIN_S = 60.0
_READ_WITHIN_S = 60.0


class _Watcher(Client):
    """Repeatedly reads the stable committed offsets of the copiers."""

    def __init__(self, bootstrap: str, offsets: OffsetRegisters) -> None:
        super().__init__("copies-watcher")
        self._bootstrap, self._offsets = bootstrap, offsets

    def _run(self) -> None:
        while not self._ends.wait(0.5):
            read_offsets(self._bootstrap, self._offsets, self.name)


def read_offsets(bootstrap: str, offsets: OffsetRegisters, who: str) -> dict[int, int]:
    began_s = time.monotonic()
    found = committed_offsets(bootstrap, GROUP, LEDGER, LEDGER_PARTITIONS)
    for partition, offset in found.items():
        offsets.read(partition, Read(offset, began_s, time.monotonic(), who))
    return found


class TransactionsPart:
    """``racks``: of the brokers; one reader in each of them reads from the replica there. ``java_log``: the folder for
    the output of a Java client, if one shall run."""

    def __init__(self, bootstrap: str, *, seed: int, racks: list[str], java_log: Path | None) -> None:
        self._bootstrap = bootstrap
        self._history, self._offsets = TransactionHistory(), OffsetRegisters(GROUP, LEDGER_PARTITIONS)
        self.violations: list[Violation] = []
        self.counts: Counter[str] = Counter()
        self.producers = self._producers(seed)
        self.readers: list[Client] = [_Watcher(bootstrap, self._offsets), *self._readers(seed, racks)]
        if java_log is not None:
            self.readers.append(
                JavaCopier(
                    bootstrap, LEDGER, JAVA_COPIES, java_log, group=JAVA_GROUP, transaction_timeout_ms=TIMEOUT_MS
                )
            )
        self._final_offsets: dict[str, dict[int, int]] = {}

    def _producers(self, seed: int) -> list[Transactor]:
        common = self._bootstrap, LEDGER, LEDGER_PARTITIONS, self._history
        found: list[Transactor] = [Bank(*common, name=f"bank-{number}", seed=seed) for number in range(2)]
        found += [Appender(*common, name=f"appender-{number}", seed=seed) for number in range(2)]
        found.append(Zombie(*common, name="zombie", seed=seed))
        copies = self._bootstrap, COPIES, LEDGER_PARTITIONS, self._history
        found += [
            Copier(*copies, source=LEDGER, group=GROUP, offsets=self._offsets, name=f"copier-{number}", seed=seed)
            for number in range(2)
        ]
        return found

    def _readers(self, seed: int, racks: list[str]) -> list[Client]:
        common = self._bootstrap, LEDGER, LEDGER_PARTITIONS, self._history
        found: list[Client] = [
            CommittedReader(*common, name=f"committed-{rack}", seed=seed, rack=rack, jumps=number == 0)
            for number, rack in enumerate(racks)
        ]
        return [
            *found,
            CommittedReader(*common, name="committed-follows", seed=seed),
            CommittedReader(*common, name="committed-jumps", seed=seed, jumps=True),
        ]

    def settle(self, say: Callable[[str], None]) -> None:
        """After all clients have stopped: wait until every transaction has ended, then read everything again."""
        say("waiting for the ends of open transactions")
        if not self._are_stable(within_s=TIMEOUT_MS / 1000 + _MARGIN_S):
            self._sweep()
        final: dict[str, dict[int, int]] = {}
        for topic in (LEDGER, COPIES):
            final[topic] = {partition: end for partition, (_, end) in self._ends(topic).items()}
            if not final_session(self._bootstrap, topic, final[topic], self._history, timeout_s=_READ_WITHIN_S):
                what = f"the committed records of {topic} could not be read to their end: {final[topic]}"
                self.violations.append(Violation(Broken.STUCK, what))
        self._final_offsets = {
            GROUP: read_offsets(self._bootstrap, self._offsets, "the final read"),
            JAVA_GROUP: committed_offsets(self._bootstrap, JAVA_GROUP, LEDGER, LEDGER_PARTITIONS),
        }
        for group, offsets in self._final_offsets.items():
            if len(offsets) < LEDGER_PARTITIONS:
                self.violations.append(Violation(Broken.STUCK, f"no committed offsets of {group} in the end"))

    def _ends(self, topic: str) -> dict[int, tuple[int, int]]:
        return ends(self._bootstrap, topic, LEDGER_PARTITIONS)

    def _are_stable(self, *, within_s: float) -> bool:
        given_up_at = time.monotonic() + within_s
        while True:
            places = [place for topic in TOPICS for place in self._ends(topic).values()]
            if len(places) == len(TOPICS) * LEDGER_PARTITIONS and all(stable == end for stable, end in places):
                return True
            if time.monotonic() > given_up_at:
                return False
            time.sleep(0.5)

    def _sweep(self) -> None:
        """A coordinator whose clock was ahead by an hour when a transaction began ends it an hour late. A new producer
        of its id ends it at once."""
        for producer in self.producers:
            try:
                producer.end_open_transaction()
            except KafkaException as error:
                what = f"no new producer of {producer.name} could begin: {error}"
                self.violations.append(Violation(Broken.STUCK, what))
        self.counts["transactions: the time-outs of some came late"] += 1
        if not self._are_stable(within_s=_SWEPT_WITHIN_S):
            what = (
                f"stable offsets and ends are {self._ends(LEDGER)}, {self._ends(COPIES)} although no producer is left"
            )
            self.violations.append(Violation(Broken.HANGING, what))

    def judge(self, folder: Path) -> list[Violation]:
        """``folder``: the logs of one broker, after it has stopped."""
        found, logs = self.violations, dict[str, TopicLog]()
        for topic in TOPICS:
            batches = {
                partition: read_batches(folder / f"{topic}-{partition}") for partition in range(LEDGER_PARTITIONS)
            }
            logs[topic] = read_topic(topic, batches, are_copies=topic == JAVA_COPIES)
            found += logs[topic].violations
            self.counts.update({f"transactions: {what}": count for what, count in logs[topic].counts.items()})
            for partition, partition_batches in batches.items():
                found += check_sequences(f"{topic}-{partition}", partition_batches)
        java_copies = logs.pop(JAVA_COPIES)
        self.counts["transactions: copies by Java"] = sum(map(len, java_copies.committed().values()))
        found += check_copies(logs[LEDGER], java_copies, self._final_offsets[JAVA_GROUP], are_equal=True)
        found += check_copies(logs[LEDGER], logs[COPIES], self._final_offsets[GROUP])
        found += check_producers(self._history, logs)
        self._judge_sessions(logs)
        for register in self._offsets.partitions:
            found += register.violations()
        transactions = list(self._history.transactions.values())
        found += check_cycles(transactions, logs)
        self.counts += count_cycles(transactions, logs)
        self.counts.update(f"transactions: outcome {transaction.outcome}" for transaction in transactions)
        return found

    def _judge_sessions(self, logs: dict[str, TopicLog]) -> None:
        for session in self._history.sessions:
            log = logs[session.topic]
            self.violations += check_session(session, log)
            if session.topic == LEDGER:
                prefixes, unequal = check_balance(session, log)
                self.counts["transactions: prefixes whose sum was checked"] += prefixes
                self.violations += unequal
