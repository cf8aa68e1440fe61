"""Read the outcome of every transaction from the bytes of a partition's log, independently of any node's own rules.

A producer's records in a transaction precede its marker in the same partition. The checks trust these files, and
compare with them what brokers answered. Every replica's log is equal; ``log_files`` checks that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from barnabas.protocol.control_record import ControlRecordType, control_record_type
from barnabas.protocol.record_batch import BatchView
from tests.history.payload import RecordId, Spoilt, decode
from tests.history.violations import Broken, Violation

__all__ = ["Logged", "TopicLog", "read_topic"]


class Logged(NamedTuple):
    """A record in the log. ``is_committed`` is None while its transaction has no marker."""

    offset: int
    record: RecordId
    note: bytes
    is_committed: bool | None


@dataclass(slots=True)
class TopicLog:
    """One topic: the records of each partition in the order of their offsets."""

    topic: str
    partitions: dict[int, list[Logged]] = field(default_factory=dict)
    violations: list[Violation] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def committed(self) -> dict[int, list[Logged]]:
        return {
            partition: [record for record in records if record.is_committed]
            for partition, records in self.partitions.items()
        }


def read_topic(topic: str, logs: Mapping[int, Mapping[int, bytes]], *, are_copies: bool = False) -> TopicLog:
    """``logs``: the batches of each partition by base offset, from logs that begin with offset 0. ``are_copies``: the
    records name the transactions and partitions of others."""
    found = TopicLog(topic)
    for partition, batches in sorted(logs.items()):
        _Reader(f"{topic}-{partition}", partition, found, are_copies).read(batches)
    return found


class _Reader:
    def __init__(self, place: str, partition: int, found: TopicLog, are_copies: bool) -> None:
        self._place, self._partition, self._found, self._are_copies = place, partition, found, are_copies
        self._records: list[Logged] = []
        self._open: dict[int, list[int]] = {}
        self._epochs: dict[int, int] = {}

    def read(self, batches: Mapping[int, bytes]) -> None:
        for offset in sorted(batches):
            batch = BatchView(batches[offset])
            if batch.is_control:
                self._end(batch)
            else:
                self._append(batch)
        for producer_id, indexes in self._open.items():
            first = self._records[indexes[0]]
            what = f"{self._place}: {first.record} at {first.offset} of producer {producer_id} has no marker"
            self._violated(Broken.HANGING, what)
        self._found.partitions[self._partition] = self._records

    def _append(self, batch: BatchView) -> None:
        where = f"{self._place} at offset {batch.base_offset}"
        if not batch.is_transactional:
            self._violated(Broken.NEVER_SENT, f"{where}: a batch outside of a transaction")
        self._note_epoch(batch, "records")
        for record in batch.records():
            try:
                identity, partition = decode(record.value or b"")
            except Spoilt as error:
                self._violated(Broken.SPOILT, f"{self._place} at offset {record.offset}: {error}")
                continue
            if partition != self._partition and not self._are_copies:
                self._violated(Broken.SPOILT, f"{where}: {identity} was sent to partition {partition}")
            self._open.setdefault(batch.producer_id, []).append(len(self._records))
            self._records.append(Logged(record.offset, identity, record.key or b"", None))

    def _end(self, batch: BatchView) -> None:
        self._note_epoch(batch, "a marker")
        [record] = batch.records()
        is_commit = control_record_type(record.key) is ControlRecordType.COMMIT
        self._found.counts[f"markers: {'commit' if is_commit else 'abort'}"] += 1
        indexes = self._open.pop(batch.producer_id, [])
        names = {self._records[index].record.producer for index in indexes}
        if len(names) > 1 and not self._are_copies:
            what = f"{self._place}: one marker at {batch.base_offset} ends {', '.join(sorted(names))}"
            self._violated(Broken.MERGED, what)
        for index in indexes:
            self._records[index] = self._records[index]._replace(is_committed=is_commit)

    def _note_epoch(self, batch: BatchView, what: str) -> None:
        newest = self._epochs.get(batch.producer_id, -1)
        if batch.producer_epoch < newest:
            where = f"{self._place} at offset {batch.base_offset}: {what} of producer {batch.producer_id}"
            self._violated(Broken.ZOMBIE, f"{where} in epoch {batch.producer_epoch}, after epoch {newest}")
        self._epochs[batch.producer_id] = max(newest, batch.producer_epoch)

    def _violated(self, broken: Broken, what: str) -> None:
        self._found.violations.append(Violation(broken, what))
