"""What partitions promise to those who write and read them.

Every acknowledgement and every record that a reader was given is a claim: at this offset is this record. Claims may
come in any order; all claims about one place must agree, for ever. The final readers read everything once more from
the start when all faults are over, and then every claim must be there.

* What was acknowledged with acks=all, or seen by anybody, is there in the end, where it was said to be.
* What an idempotent producer sent is there once at most, and in the order in which it sent it to the partition. That
  is not promised of a producer that gave a record up: its client begins a new epoch then, and sends the others again.
* Offsets have no holes: topics are neither compacted nor written in transactions.
* A reader gets offset after offset. Where it begins it says itself.
* Nobody is told that a place is not there which is there. Kafka's brokers promise less: one that was frozen or cut off
  and does not know yet that others lead answers from its own, shorter log (ours: NOT_LEADER_OR_FOLLOWER). So what
  they say of a place that is there in the end is counted, and is no broken promise.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass, field

from tests.history.payload import RecordId
from tests.history.violations import Broken, Violation

__all__ = ["RecordsCheck"]


@dataclass(slots=True)
class _Partition:
    sent: dict[RecordId, None] = field(default_factory=dict)
    """In the order in which each producer sent them."""
    acknowledged: dict[RecordId, int | None] = field(default_factory=dict)
    """None: the producer was told that it is written, and not where."""
    claims: dict[int, tuple[RecordId, str]] = field(default_factory=dict)
    """By offset: the record, and who said so first."""
    final: dict[int, RecordId] = field(default_factory=dict)
    log_start: int = 0
    log_end: int | None = None


@dataclass(frozen=True, slots=True)
class _Refusal:
    reader: str
    partition: int
    offset: int
    broker: int | None
    error: str

    def __str__(self) -> str:
        return f"{self.reader} at {_place(self.partition, self.offset)}: {self.error}"


class RecordsCheck:
    """Told what happened, in the words of the clients; ``violations`` judges when the final read is over.

    ``kafka_brokers`` are the ids of those that are Kafka's own.
    """

    def __init__(self, kafka_brokers: Collection[int] = ()) -> None:
        self._kafka_brokers = frozenset(kafka_brokers)
        self._refusals: list[_Refusal] = []
        self._partitions: dict[int, _Partition] = defaultdict(_Partition)
        self._next: dict[tuple[str, int], int] = {}
        self._found: list[Violation] = []
        self._gave_up: set[str] = set()

    @property
    def count_sent(self) -> int:
        return sum(len(each.sent) for each in self._partitions.values())

    @property
    def count_acknowledged(self) -> int:
        return sum(len(each.acknowledged) for each in self._partitions.values())

    def sent(self, record: RecordId, partition: int) -> None:
        self._partitions[partition].sent[record] = None

    def not_sent(self, record: RecordId, partition: int) -> None:
        """The client refused to take it."""
        del self._partitions[partition].sent[record]

    def acknowledged(self, record: RecordId, partition: int, offset: int | None) -> None:
        self._partitions[partition].acknowledged[record] = offset
        if offset is not None:
            self._claim(record, partition, offset, f"the acknowledgement of {record}")

    def gave_up(self, producer: str) -> None:
        """It was told that a record failed."""
        self._gave_up.add(producer)

    def reader_begins(self, reader: str, partition: int, offset: int | None) -> None:
        """Also when it is given the partition again. None: where it begins is known from the first record it gets."""
        if offset is None:
            self._next.pop((reader, partition), None)
        else:
            self._next[reader, partition] = offset

    def seen(self, reader: str, partition: int, offset: int, record: RecordId) -> None:
        expected = self._next.get((reader, partition), offset)
        self._next[reader, partition] = offset + 1
        if offset > expected:
            self._violated(Broken.GAP, f"{reader} got {_place(partition, offset)} where {expected} was next")
        elif offset < expected:
            self._violated(Broken.SEEN_TWICE, f"{reader} got {_place(partition, offset)} where {expected} was next")
        self._claim(record, partition, offset, reader)

    def seen_spoilt(self, reader: str, partition: int, offset: int, value: str) -> None:
        self._violated(Broken.SPOILT, f"{reader} got {value} at {_place(partition, offset)}")

    def refused_offset(
        self, reader: str, partition: int, offset: int, error: str, *, broker: int | None = None
    ) -> None:
        """``broker`` is who said that the offset is beyond its log; None: something else was said, or nobody knows."""
        self._refusals.append(_Refusal(reader, partition, offset, broker, error))

    def refused_by_stale_leaders(self) -> list[str]:
        """What brokers of Kafka said of places that are there in the end."""
        return [str(each) for each in self._refusals if self._is_of_a_stale_leader(each)]

    def _is_of_a_stale_leader(self, refusal: _Refusal) -> bool:
        if refusal.broker not in self._kafka_brokers:
            return False
        partition = self._partitions[refusal.partition]
        return partition.log_end is not None and partition.log_start <= refusal.offset <= partition.log_end

    def final_range(self, partition: int, log_start: int, log_end: int) -> None:
        """What is there when all faults are over: from ``log_start`` up to, without, ``log_end``."""
        self._partitions[partition].log_start = log_start
        self._partitions[partition].log_end = log_end

    def final(self, partition: int, offset: int, record: RecordId) -> None:
        self._partitions[partition].final[offset] = record

    def final_places(self) -> list[tuple[int, int]]:
        """(partition, offset) of every record that is there in the end, in order."""
        return sorted((number, offset) for number, each in self._partitions.items() for offset in each.final)

    def violations(self) -> list[Violation]:
        found = list(self._found)
        stands = [each for each in self._refusals if not self._is_of_a_stale_leader(each)]
        found += [Violation(Broken.NO_SUCH_OFFSET, str(each)) for each in stands]
        for number, partition in sorted(self._partitions.items()):
            found += _holes(number, partition)
            found += _broken_claims(number, partition)
            found += _lost(number, partition)
            found += _doubled_or_reordered(number, partition, self._gave_up)
        return found

    def _claim(self, record: RecordId, partition: int, offset: int, who: str) -> None:
        first, whose = self._partitions[partition].claims.setdefault(offset, (record, who))
        if first != record:
            what = f"{_place(partition, offset)} holds {record} according to {who}, {first} according to {whose}"
            self._violated(Broken.CHANGED, what)

    def _violated(self, broken: Broken, what: str) -> None:
        self._found.append(Violation(broken, what))


def _place(partition: int, offset: int) -> str:
    return f"{partition}@{offset}"


def _holes(number: int, partition: _Partition) -> list[Violation]:
    if partition.log_end is None:
        return [Violation(Broken.LOST, f"partition {number} could not be read in the end")]
    expected = range(partition.log_start, partition.log_end)
    holes = [offset for offset in expected if offset not in partition.final]
    return [Violation(Broken.GAP, f"{_place(number, offset)} can't be read in the end") for offset in holes]


def _broken_claims(number: int, partition: _Partition) -> list[Violation]:
    found: list[Violation] = []
    for offset, (record, who) in partition.claims.items():
        there = partition.final.get(offset)
        if there is None:
            found.append(Violation(Broken.LOST, f"{record} at {_place(number, offset)}, according to {who}"))
        elif there != record:
            what = f"{_place(number, offset)} held {record} according to {who}, and holds {there} in the end"
            found.append(Violation(Broken.CHANGED, what))
    return found


def _lost(number: int, partition: _Partition) -> list[Violation]:
    where = {record: offset for offset, record in partition.final.items()}
    found: list[Violation] = []
    for record, offset in partition.acknowledged.items():
        if record not in where:
            found.append(Violation(Broken.LOST, f"{record} of partition {number} was acknowledged"))
        elif offset is not None and where[record] != offset:
            found.append(
                Violation(
                    Broken.MOVED, f"{record}: {_place(number, offset)}, and is at {_place(number, where[record])}"
                )
            )
    return found


def _doubled_or_reordered(number: int, partition: _Partition, gave_up: set[str]) -> list[Violation]:
    found: list[Violation] = []
    place_sent = {record: place for place, record in enumerate(partition.sent)}
    first_at: dict[RecordId, int] = {}
    newest: dict[str, RecordId] = {}
    for offset, record in sorted(partition.final.items()):
        if record not in place_sent:
            found.append(Violation(Broken.NEVER_SENT, f"{record} at {_place(number, offset)}"))
            continue
        if record.producer in gave_up:
            continue
        if record in first_at:
            places = f"{_place(number, first_at[record])} and {_place(number, offset)}"
            both = ((number, first_at[record]), (number, offset))
            found.append(Violation(Broken.DOUBLED, f"{record} at {places}", both, record.producer))
            continue
        first_at[record] = offset
        before = newest.get(record.producer)
        if before is not None and place_sent[before] > place_sent[record]:
            found.append(Violation(Broken.REORDERED, f"{record} at {_place(number, offset)} comes after {before}"))
        newest[record.producer] = record
    return found
