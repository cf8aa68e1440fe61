"""Transfers: the sum of what any reader of committed records received is zero.

A transfer is a transaction of two records whose amounts add up to zero, in one or two partitions. What "any prefix"
may mean follows from what Kafka promises. A reader's positions in the partitions form a cut. Kafka promises no cut at
which all transactions are whole: markers reach the partitions one after another, and the last stable offset itself may
stand between two records of a committed transaction. So a cut may *split* a transaction: some of its committed records
lie below the positions, and some do not. Kafka promises this: in every prefix of the records that a reader received,
in the order in which it received them, all records of the transactions that are not split add up to zero.

That is checked after every record. Whether a cut splits a transaction follows from the positions and the log, and
never from what the reader received. So a record that it misses, receives twice, or receives although its transaction
was aborted, changes the sum.
"""

from __future__ import annotations

from collections import Counter

from tests.history.transaction_history import Seen, Session
from tests.history.transaction_log import Logged, TopicLog
from tests.history.violations import Broken, Violation

__all__ = ["check_balance"]


def check_balance(session: Session, log: TopicLog) -> tuple[int, list[Violation]]:
    """Return the number of prefixes, and the first one whose sum is not zero."""
    balance = _Balance(session, log.committed())
    for count, event in enumerate(session.events, 1):
        if isinstance(event, Seen):
            balance.pass_to(event.partition, event.offset + 1)
            balance.receive(event.record.producer, _amount(event.note))
        else:
            balance.pass_to(event.partition, event.offset)
        if balance.settled:
            what = (
                f"{session.reader} of {session.topic}: the sum is {balance.settled} after {count} of"
                f" {len(session.events)} events, at {event.partition}@{event.offset}"
            )
            return count, [Violation(Broken.SUM, what)]
    return len(session.events), []


class _Balance:
    def __init__(self, session: Session, committed: dict[int, list[Logged]]) -> None:
        self._ahead: Counter[str] = Counter()
        """How many committed records of a transaction are not below the positions."""
        self._split: Counter[str] = Counter()
        """What was received of transactions that are split."""
        self._committed, self._indexes = committed, dict.fromkeys(committed, 0)
        self.settled = 0
        for records in committed.values():
            self._ahead.update(logged.record.producer for logged in records)
        for partition, records in committed.items():
            start = session.starts.get(partition)
            for logged in records:
                if start is None or logged.offset < start:
                    self._ahead[logged.record.producer] += 1  # The reader never receives it as a whole.

    def pass_to(self, partition: int, offset: int) -> None:
        records, index = self._committed.get(partition, []), self._indexes.get(partition, 0)
        while index < len(records) and records[index].offset < offset:
            name = records[index].record.producer
            self._ahead[name] -= 1
            if not self._ahead[name]:
                self.settled += self._split.pop(name, 0)
            index += 1
        self._indexes[partition] = index

    def receive(self, name: str, amount: int) -> None:
        if self._ahead[name]:
            self._split[name] += amount
        else:
            self.settled += amount


def _amount(note: bytes) -> int:
    return int(note) if note.lstrip(b"-").isdigit() else 0
