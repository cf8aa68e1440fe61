"""Runs the scripts of ``SharePartitionScript.java`` on our share-partition, with the same answers.

A step's answer is the result, what the persister received, and the state. Kafka writes a batch for each offset and each
lock where we write ranges, so the comparison joins neighbours that are equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from barnabas.common.errors import ApiException
from barnabas.coordinator.share.persister import StateBatch
from barnabas.coordinator.share_partition.aborted_batches import aborted_batches
from barnabas.coordinator.share_partition.in_flight_batch import InFlightRange
from barnabas.coordinator.share_partition.record_state import RecordState
from barnabas.coordinator.share_partition.share_partition import SharePartition
from barnabas.coordinator.share_partition.share_partition_settings import SharePartitionSettings
from barnabas.coordinator.share_partition.state_batch import AcknowledgementBatch, FetchedBatch
from barnabas.coordinator.share_partition.state_write import StateWrite
from barnabas.protocol.end_transaction_batch import end_transaction_batch
from barnabas.protocol.record_batch import BatchView
from barnabas.protocol.record_batch_builder import RecordBatchBuilder

__all__ = ["ScriptedSharePartition", "joined", "normalized"]

Answer = dict[str, Any]


class ScriptedSharePartition:
    def __init__(self) -> None:
        self.now_ms = 0
        self.persister = "ok"
        self.waiting: list[StateWrite] = []
        self._written: list[Answer] = []
        self._settings = SharePartitionSettings()
        self.partition = SharePartition(lambda: self._settings, 0)

    def run(self, line: str) -> Answer:
        """Return the answer to one line."""
        self._written = []
        name, *arguments = line.split(" ")
        result = getattr(self, f"_{name}")(*arguments)
        return normalized({"result": result, "written": self._written, **self._state()})

    def _new(self, start: str, in_flight: str, deliveries: str, lock_ms: str, batches: str = "") -> str:
        self.now_ms, self.persister, self.waiting = 0, "ok", []
        self._settings = SharePartitionSettings(int(lock_ms), int(deliveries), int(in_flight))
        known = [_state_batch(text) for text in batches.split(",")] if batches else []
        self.partition = SharePartition(lambda: self._settings, int(start), known)
        return "done"

    def _acquire(
        self, member: str, strict: str, batch_size: str, max_records: str, offset: str, batches: str, aborted: str = ""
    ) -> list[Sequence[int]]:
        views = [_view(text) for text in batches.split(",")]
        transactions = [tuple(map(int, text.split(":"))) for text in aborted.split(",")] if aborted else []
        acquired = self.partition.acquire(
            member,
            [FetchedBatch(view.base_offset, view.last_offset) for view in views],
            fetch_offset=int(offset),
            max_records=int(max_records),
            batch_size=int(batch_size),
            is_strict=strict == "1",
            aborted=aborted_batches(views, ((producer, first) for producer, first in transactions)),
            now_ms=self.now_ms,
        )
        return [list(range_) for range_ in acquired]

    def _ack(self, member: str, batches: str) -> str:
        acknowledged = []
        for text in batches.split(","):
            offsets, types = text.split(":")
            acknowledged.append(AcknowledgementBatch(*_offsets(offsets), tuple(map(int, types.split("/")))))
        try:
            return self._write(self.partition.acknowledge(member, acknowledged, now_ms=self.now_ms))
        except ApiException as error:
            return error.code.name

    def _release(self, member: str) -> str:
        return self._write(self.partition.release(member, now_ms=self.now_ms))

    def _advance(self, ms: str) -> None:
        self.now_ms += int(ms)
        self._write(self.partition.expire_locks(self.now_ms))

    def _start(self, offset: str) -> None:
        self.partition.log_start_moved(int(offset))

    def _persister(self, mode: str) -> None:
        self.persister = mode

    def _finish(self, mode: str) -> None:
        self.partition.complete(self.waiting.pop(0), is_stored=mode == "ok", now_ms=self.now_ms)

    def _write(self, write: StateWrite | None) -> str:
        if write is None:
            return "done"
        self._written.append(
            {
                "start": self.partition.start_offset,
                "complete": self.partition.delivery_complete_count,
                "batches": [list(batch) for batch in write.batches],
            }
        )
        if self.persister == "wait":
            self.waiting.append(write)
            return "waits"
        is_stored = self.persister == "ok"
        self.partition.complete(write, is_stored=is_stored, now_ms=self.now_ms)
        return "done" if is_stored else "COORDINATOR_NOT_AVAILABLE"

    def _state(self) -> Answer:
        partition = self.partition
        return {
            "start": partition.start_offset,
            "end": partition.end_offset,
            "next": partition.next_fetch_offset(),
            "complete": partition.delivery_complete_count,
            "batches": [[_state_of(part) for part in batch.ranges] for batch in partition.in_flight_batches],
        }


def _state_of(part: InFlightRange) -> list[Any]:
    member = part.member_id if part.state is RecordState.ACQUIRED else ""
    is_in_transition = int(part.write is not None)
    return [part.first_offset, part.last_offset, int(part.state), part.delivery_count, member, is_in_transition]


def normalized(answer: Answer) -> Answer:
    """Join neighbours, and the writes of several locks that end together."""
    written = answer["written"]
    stored = sorted(batch for write in written for batch in write["batches"])
    return {
        **answer,
        "batches": [joined(batch) for batch in answer["batches"]],
        "written": {
            "start": written[0]["start"] if written else None,
            "complete": written[-1]["complete"] if written else None,
            "batches": joined(stored),
        },
    }


def joined(ranges: Iterable[Sequence[Any]]) -> list[list[Any]]:
    """Join ranges [first, last, *state] that follow each other and are otherwise equal."""
    result: list[list[Any]] = []
    for first, last, *state in ranges:
        if result and result[-1][1] + 1 == first and result[-1][2:] == state:
            result[-1][1] = last
        else:
            result.append([first, last, *state])
    return result


def _offsets(text: str) -> tuple[int, int]:
    first, last = text.split("-")
    return int(first), int(last)


def _state_batch(text: str) -> StateBatch:
    offsets, state, count = text.split(":")
    return StateBatch(*_offsets(offsets), int(state), int(count))


def _view(text: str) -> BatchView:
    offsets, *producer = text.split(":")
    first, last = _offsets(offsets)
    producer_id, kind = map(int, producer) if producer else (-1, 0)
    if kind:
        marker = bytearray(
            end_transaction_batch(producer_id, 0, is_commit=kind == 2, coordinator_epoch=0, timestamp_ms=0)
        )
        marker[:8] = first.to_bytes(8, "big")
        return BatchView(bytes(marker))
    builder = RecordBatchBuilder(base_offset=first, producer_id=producer_id, is_transactional=producer_id >= 0)
    builder.append(first, 0, None, b"")
    return BatchView(builder.build(last_offset=last))
