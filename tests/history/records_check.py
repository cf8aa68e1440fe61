"""The guarantees of partitions to clients that write and read them.

Every acknowledgement and every record that a reader received is a claim: this offset holds this record. Claims may
arrive in any order; all claims about one offset must agree forever. After all faults have ended, the final readers read
everything again from the start, and every claim must hold.

* Every record that was acknowledged with acks=all, or read by any client, exists in the end, at the claimed offset.
* A record of an idempotent producer exists at most once, and in the order in which it was sent to the partition. This
  is not guaranteed for a producer that gave a record up: its client then begins a new epoch and sends the others again.
* Offsets have no holes: topics are neither compacted nor written in transactions.
* A reader receives consecutive offsets. It chooses where it begins.
* No broker reports an existing offset as out of range. Kafka's brokers guarantee less: one that was frozen or cut off,
  and does not yet know that others lead, answers from its own, shorter log (ours: NOT_LEADER_OR_FOLLOWER). So their
  errors about offsets that exist in the end are counted, and are not violations.
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
    """None: the producer received an acknowledgement without an offset."""
    claims: dict[int, tuple[RecordId, str]] = field(default_factory=dict)
    """By offset: the record, and the first client that claimed it."""
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
    """Receives what the clients observed; ``violations`` judges after the final read.

    ``kafka_brokers`` are the ids of the brokers that are real Kafka brokers.
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
        return sum(len(partition.sent) for partition in self._partitions.values())

    @property
    def count_acknowledged(self) -> int:
        return sum(len(partition.acknowledged) for partition in self._partitions.values())

    def sent(self, record: RecordId, partition: int) -> None:
        self._partitions[partition].sent[record] = None

    def not_sent(self, record: RecordId, partition: int) -> None:
        """The client refused to queue the record."""
        del self._partitions[partition].sent[record]

    def acknowledged(self, record: RecordId, partition: int, offset: int | None) -> None:
        self._partitions[partition].acknowledged[record] = offset
        if offset is not None:
            self._claim(record, partition, offset, f"the acknowledgement of {record}")

    def gave_up(self, producer: str) -> None:
        """The producer received an error for a record."""
        self._gave_up.add(producer)

    def reader_begins(self, reader: str, partition: int, offset: int | None) -> None:
        """A reader begins, also after a new assignment of the partition. None: its first record defines the start."""
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
        """``broker`` is the one that reported the offset as beyond its log; None: another error, or the broker is
        unknown."""
        self._refusals.append(_Refusal(reader, partition, offset, broker, error))

    def refused_by_stale_leaders(self) -> list[str]:
        """Return the out-of-range errors of Kafka's brokers about offsets that exist in the end."""
        return [str(refusal) for refusal in self._refusals if self._is_of_a_stale_leader(refusal)]

    def _is_of_a_stale_leader(self, refusal: _Refusal) -> bool:
        if refusal.broker not in self._kafka_brokers:
            return False
        partition = self._partitions[refusal.partition]
        return partition.log_end is not None and partition.log_start <= refusal.offset <= partition.log_end

    def final_range(self, partition: int, log_start: int, log_end: int) -> None:
        """The offsets that exist after all faults: from ``log_start``, inclusive, to ``log_end``, exclusive."""
        self._partitions[partition].log_start = log_start
        self._partitions[partition].log_end = log_end

    def final(self, partition: int, offset: int, record: RecordId) -> None:
        self._partitions[partition].final[offset] = record

    def final_places(self) -> list[tuple[int, int]]:
        """Return (partition, offset) of every record that exists in the end, in order."""
        return sorted((number, offset) for number, partition in self._partitions.items() for offset in partition.final)

    def violations(self) -> list[Violation]:
        found = list(self._found)
        stands = [refusal for refusal in self._refusals if not self._is_of_a_stale_leader(refusal)]
        found += [Violation(Broken.NO_SUCH_OFFSET, str(refusal)) for refusal in stands]
        for number, partition in sorted(self._partitions.items()):
            found += _holes(number, partition)
            found += _broken_claims(number, partition)
            found += _lost(number, partition)
            found += _doubled_or_reordered(number, partition, self._gave_up)
        return found

    def _claim(self, record: RecordId, partition: int, offset: int, who: str) -> None:
        first, whose = self._partitions[partition].claims.setdefault(offset, (record, who))
        if first != record:
            what = f"{_place(partition, offset)} holds {record} according to {who}, and {first} according to {whose}"
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
            found.append(Violation(Broken.LOST, f"{record} of partition {number} was acknowledged and is missing"))
        elif offset is not None and where[record] != offset:
            found.append(
                Violation(
                    Broken.MOVED,
                    f"{record}: acknowledged at {_place(number, offset)}, stored at {_place(number, where[record])}",
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
            found.append(Violation(Broken.REORDERED, f"{record} at {_place(number, offset)} follows {before}"))
        newest[record.producer] = record
    return found
