"""The guarantees of transactions to their producers and to readers of committed records.

Producers:

* A transaction that was committed, as its producer learnt, exists as a whole: every record once, in the order sent. One
  that was aborted, or whose commit was never requested, is committed nowhere. One of unknown outcome is committed as a
  whole or not at all, in all of its partitions.
* A record that was acknowledged exists at its offset, whether or not its transaction was committed.
* Once a producer has initialized, no older producer of the same transactional id commits anything.

Readers of committed records:

* A reader receives no record of an aborted or open transaction (Adya's G1a).
* A reader receives every committed record from its start to its position, once, in order. So a transaction is complete
  in a partition as soon as the position has passed its records there. Kafka promises no more: the position may stand
  between the records of one transaction, if another one that began between them is open, and partitions receive their
  markers one after another.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from tests.history.payload import RecordId
from tests.history.transaction_history import Appended, Outcome, Passed, Seen, Session, Transaction, TransactionHistory
from tests.history.transaction_log import Logged, TopicLog
from tests.history.violations import Broken, Violation

__all__ = ["check_producers", "check_session"]


class _Place(NamedTuple):
    topic: str
    partition: int
    logged: Logged

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}@{self.logged.offset}"


def check_producers(history: TransactionHistory, logs: Mapping[str, TopicLog]) -> list[Violation]:
    """``logs`` by topic: all topics that the transactions of the history wrote to."""
    places = _places(logs)
    found = [Violation(Broken.ZOMBIE, f"{name} was committed after a newer producer began") for name in history.zombies]
    found += [Violation(Broken.SPOILT, what) for what in history.spoilt]
    sent: set[RecordId] = set()
    for transaction in list(history.transactions.values()):
        sent.update(appended.record for appended in transaction.appended)
        found += _check_transaction(transaction, places)
    found += [
        Violation(Broken.NEVER_SENT, f"{record} at {where[0]}")
        for record, where in places.items()
        if record not in sent
    ]
    return found + list(_moved(history.places, places))


def _places(logs: Mapping[str, TopicLog]) -> dict[RecordId, list[_Place]]:
    found: dict[RecordId, list[_Place]] = defaultdict(list)
    for topic, log in logs.items():
        for partition, records in log.partitions.items():
            for logged in records:
                found[logged.record].append(_Place(topic, partition, logged))
    return found


def _check_transaction(transaction: Transaction, places: Mapping[RecordId, list[_Place]]) -> Iterator[Violation]:
    found = {appended.record: places.get(appended.record, []) for appended in transaction.appended}
    for record, where in found.items():
        if len(where) > 1:
            yield Violation(Broken.DOUBLED, f"{record} at {', '.join(map(str, where))}", producer=transaction.name)
    committed = [record for record, where in found.items() if any(place.logged.is_committed for place in where)]
    if committed and len(committed) < len(found):
        missing = sorted(found.keys() - set(committed))
        what = f"{transaction.name}: {committed[0]} is committed, and {missing[0]} isn't"
        yield Violation(Broken.PARTIAL, what)
    if transaction.outcome is Outcome.COMMITTED and found and not committed:
        yield Violation(Broken.LOST, f"{transaction.name} was committed, as its producer learnt, and is not")
    if transaction.outcome is Outcome.NOT_COMMITTED and committed:
        what = f"{transaction.name} was aborted or its commit was never requested, and {committed[0]} is committed"
        yield Violation(Broken.COMMITTED_ANYWAY, what)
    yield from _reordered(transaction, found)


def _reordered(transaction: Transaction, found: Mapping[RecordId, list[_Place]]) -> Iterator[Violation]:
    newest: dict[tuple[str, int], int] = {}
    for appended in transaction.appended:
        for place in found[appended.record][:1]:
            if (place.topic, place.partition) != (appended.topic, appended.partition):
                what = f"{appended.record}: sent to {appended.topic}-{appended.partition}, stored at {place}"
                yield Violation(Broken.MOVED, what)
            if place.logged.note != appended.note:
                yield Violation(Broken.SPOILT, f"{place}: {place.logged.note!r} instead of {appended.note!r}")
            key = place.topic, place.partition
            if newest.get(key, -1) > place.logged.offset:
                yield Violation(Broken.REORDERED, f"{appended.record} at {place} precedes a record sent before it")
            newest[key] = max(newest.get(key, -1), place.logged.offset)


def _moved(acknowledged: list[tuple[Appended, int]], places: Mapping[RecordId, list[_Place]]) -> Iterator[Violation]:
    for appended, offset in acknowledged:
        where = places.get(appended.record, [])
        if not where:
            yield Violation(Broken.LOST, f"{appended.record} was acknowledged at {offset} and is missing")
        elif offset not in {place.logged.offset for place in where}:
            yield Violation(Broken.MOVED, f"{appended.record}: acknowledged at {offset}, stored at {where[0]}")


class _Position:
    """Follows one reader through one partition."""

    def __init__(self, session: Session, partition: int, records: list[Logged]) -> None:
        self._who = f"{session.reader} of {session.topic}-{partition}"
        self._records = records
        self._index = bisect_left(records, session.starts[partition], key=lambda logged: logged.offset)
        self._next = session.starts[partition]

    def pass_to(self, offset: int) -> Iterator[Violation]:
        """Report the committed records below ``offset`` that the reader has not received."""
        while self._index < len(self._records) and self._records[self._index].offset < offset:
            logged = self._records[self._index]
            if logged.is_committed:
                what = f"{self._who} passed {logged.record} at {logged.offset} without receiving it"
                yield Violation(Broken.SKIPPED_READ, what)
            self._index += 1
        self._next = max(self._next, offset)

    def see(self, seen: Seen) -> Iterator[Violation]:
        if seen.offset < self._next:
            what = f"{self._who} received {seen.offset} where {self._next} was next"
            yield Violation(Broken.SEEN_TWICE, what)
            return
        yield from self.pass_to(seen.offset)
        self._next = seen.offset + 1
        logged = self._records[self._index] if self._index < len(self._records) else None
        if logged is None or logged.offset != seen.offset:
            what = f"{self._who} received {seen.record} at {seen.offset}, where no record is"
            yield Violation(Broken.LOST, what)
            return
        self._index += 1
        if (logged.record, logged.note) != (seen.record, seen.note):
            what = f"{self._who} received {seen.record} at {seen.offset}, which holds {logged.record}"
            yield Violation(Broken.CHANGED, what)
        if not logged.is_committed:
            state = "open" if logged.is_committed is None else "aborted"
            what = f"{self._who} received {seen.record} at {seen.offset} of an {state} transaction"
            yield Violation(Broken.ABORTED_READ, what)


def check_session(session: Session, log: TopicLog) -> list[Violation]:
    positions = {
        partition: _Position(session, partition, log.partitions.get(partition, [])) for partition in session.starts
    }
    found: list[Violation] = []
    for event in session.events:
        position = positions[event.partition]
        found += position.pass_to(event.offset) if isinstance(event, Passed) else position.see(event)
    return found
