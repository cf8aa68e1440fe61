"""List-append histories, checked for cycles in the manner of Jepsen's Elle.

A partition is a list, an append adds a record to it, and a read returns a part of it. Offsets give the order of the
versions, so every dependency is known (Adya's names):

* ww: a record of T2 follows one of T1 in a partition;
* wr: T2 received a record of T1, or its copies continue from the offset that T1 committed;
* rw: T2 appended a record that T1 had not received.

Kafka isolates readers from aborted writes, but not transactions from each other. Two committed transactions may append
to two partitions in opposite orders (G0), and combinations of ww and wr may form cycles (G1c). So cycles of whole
transactions are counted, not forbidden. Forbidden are contradictions in time. Every transaction of these histories
first reads, then appends, then commits, which orders its events:

* its reads end before it appends, and it appends before it commits;
* appends to one partition happen in the order of their offsets (ww);
* a transaction is committed before its records, or the offsets that it committed, are read (wr);
* a transaction whose producer learnt its outcome was committed before any later transaction appends (real time).

These edges connect events, not transactions. A cycle of them, found with Tarjan's algorithm, means that a broker showed
a record before its commit, or put an append before one that had been read already. In terms of transactions: every
cycle in which no two ww edges are adjacent, for instance all cycles of wr alone, is a violation. rw edges imply no
order in Kafka, because a poll may return less than what is committed; they only count.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from tests.history.strong_components import cyclic_components, shortest_cycle
from tests.history.transaction_history import Outcome, Transaction
from tests.history.transaction_log import Logged, TopicLog
from tests.history.violations import Broken, Violation

__all__ = ["check_cycles", "count_cycles"]

READ, COMMIT, MOMENT = "reads end", "commit", "moment"


class Event(NamedTuple):
    """The end of a transaction's reads, its commit, a record's append at a place, or a moment of the clock."""

    kind: str
    name: str
    place: str = ""

    def __str__(self) -> str:
        return f"{self.name}: {self.kind}{f' {self.place}' if self.place else ''}"


def check_cycles(transactions: Sequence[Transaction], logs: Mapping[str, TopicLog]) -> list[Violation]:
    graph = _Dependencies(transactions, logs).events()
    return [
        Violation(Broken.CYCLE, _described(shortest_cycle(graph, component), len(component)))
        for component in cyclic_components(graph)
    ]


def _described(cycle: list[Event], size: int) -> str:
    is_read = any((first.kind, second.kind) == (COMMIT, READ) for first, second in pairwise([*cycle, cycle[0]]))
    shown = " < ".join(str(event) for event in cycle if event.kind != MOMENT)
    return f"{'G1c' if is_read else 'G0 in real time'}, {size} events: {shown}, and again"


def count_cycles(transactions: Sequence[Transaction], logs: Mapping[str, TopicLog]) -> Counter[str]:
    """Count the transactions that are part of cycles which Kafka allows."""
    dependencies = _Dependencies(transactions, logs)
    graph: dict[str, list[str]] = defaultdict(list)
    counts: Counter[str] = Counter()
    kinds = {"ww (G0)": dependencies.ww(), "ww, wr (G1c)": dependencies.wr(), "ww, wr, rw (G2)": dependencies.rw()}
    for name, edges in kinds.items():
        for earlier, later in edges:
            if earlier != later:
                graph[earlier].append(later)
        counts[f"transactions in allowed cycles of {name}"] = sum(map(len, cyclic_components(graph)))
    return counts


class _Dependencies:
    def __init__(self, transactions: Sequence[Transaction], logs: Mapping[str, TopicLog]) -> None:
        self._transactions, self._logs = transactions, logs
        self._committed = {topic: log.committed() for topic, log in logs.items()}
        self._names = {
            logged.record.producer
            for partitions in self._committed.values()
            for records in partitions.values()
            for logged in records
        }

    def events(self) -> dict[Event, list[Event]]:
        graph: dict[Event, list[Event]] = defaultdict(list)
        for topic, log in self._logs.items():
            for partition, records in log.partitions.items():
                _add_appends(graph, f"to {topic}-{partition}", records)
        for writer, reader in self.wr():
            if writer != reader:
                graph[Event(COMMIT, writer)].append(Event(READ, reader))
        self._add_real_time(graph)
        return graph

    def ww(self) -> Iterator[tuple[str, str]]:
        """Only neighbours: cycles through others lead through these."""
        for partitions in self._committed.values():
            for records in partitions.values():
                yield from pairwise(logged.record.producer for logged in records)

    def wr(self) -> Iterator[tuple[str, str]]:
        """The reader need not be committed: its reads happened."""
        ends = {
            (partition, to): transaction.name
            for transaction in self._transactions
            if transaction.name in self._names
            for partition, (_, to) in transaction.offsets.items()
        }
        for transaction in self._transactions:
            for seen in transaction.received:
                if seen.record.producer in self._names:
                    yield seen.record.producer, transaction.name
            for partition, (start, _) in transaction.offsets.items():
                if (partition, start) in ends:
                    yield ends[partition, start], transaction.name

    def rw(self) -> Iterator[tuple[str, str]]:
        for transaction in self._transactions:
            partitions = self._committed.get(transaction.read_topic, {})
            for partition, offset in {seen.partition: seen.offset for seen in transaction.received}.items():
                records = partitions.get(partition, [])
                index = bisect_right(records, offset, key=lambda logged: logged.offset)
                if transaction.name in self._names and index < len(records):
                    yield transaction.name, records[index].record.producer

    def _add_real_time(self, graph: dict[Event, list[Event]]) -> None:
        """Connect a commit with all later appends by way of the clock's moments, one for each begin and end."""
        moments = [
            (transaction.ended_s, 1, transaction.name)
            for transaction in self._transactions
            if transaction.name in self._names and transaction.outcome is Outcome.COMMITTED
        ]
        moments += [(transaction.sends_from_s, 0, transaction.name) for transaction in self._transactions]
        before: Event | None = None
        for number, (_, is_end, name) in enumerate(sorted(moments)):
            moment = Event(MOMENT, str(number))
            if before is not None:
                graph[before].append(moment)
            if is_end:
                graph[Event(COMMIT, name)].append(moment)
            else:
                graph[moment].append(Event(READ, name))
            before = moment


def _add_appends(graph: dict[Event, list[Event]], place: str, records: Iterable[Logged]) -> None:
    before: Event | None = None
    for logged in records:
        append = Event("append", str(logged.record), f"{place}@{logged.offset}")
        graph[Event(READ, logged.record.producer)].append(append)
        if logged.is_committed:
            graph[append].append(Event(COMMIT, logged.record.producer))
        if before is not None:
            graph[before].append(append)
        before = append
