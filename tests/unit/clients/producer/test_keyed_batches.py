"""Which records with keys share a batch, and how batches are divided, withdrawn or restarted."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from typing import Any

import pytest

from barnabas.clients.producer.batch import NO_PRODUCER, ProducerId
from barnabas.clients.producer.config import ProducerConfig
from barnabas.clients.producer.keyed_batches import KeyedAccumulator, KeyedBatch, KeyedRecord, ProduceCall
from barnabas.protocol.compression import Compression
from barnabas.protocol.record_batch import BatchView

FIRST, SECOND = ProducerId(1, 0), ProducerId(2, 0)


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    made = asyncio.new_event_loop()
    asyncio.set_event_loop(made)
    yield made
    asyncio.set_event_loop(None)
    made.close()


def accumulator(batch_size: int = 1_000_000) -> KeyedAccumulator:
    made = KeyedAccumulator([0], ProducerConfig(linger_s=0.0, batch_size=batch_size))
    made.assign_producer(made.assignable(), FIRST)
    return made


def in_loop(loop: asyncio.AbstractEventLoop, count: int) -> ProduceCall:
    async def make() -> ProduceCall:
        return ProduceCall(count)

    made: Coroutine[Any, Any, ProduceCall] = make()
    return loop.run_until_complete(made)


def append(made: KeyedAccumulator, call: ProduceCall, *values: bytes, timestamp_ms: int = 5) -> None:
    records = [KeyedRecord(call, place, b"k", value, timestamp_ms) for place, value in enumerate(values)]
    made.append(0, records, 0.0)


def drain(made: KeyedAccumulator) -> KeyedBatch:
    (batch,) = made.drain([0], 0.0)
    return batch


def view(batch: KeyedBatch, producer: ProducerId = FIRST) -> BatchView:
    seen = BatchView(batch.encode(Compression.NONE, None, producer))
    seen.ensure_valid()
    return seen


def values(batch: KeyedBatch) -> list[bytes | None]:
    return [record.value for record in view(batch).records()]


def test_calls_share_a_batch_with_the_time_of_each(loop: asyncio.AbstractEventLoop) -> None:
    made = accumulator()
    append(made, in_loop(loop, 2), b"1", b"2", timestamp_ms=5)
    append(made, in_loop(loop, 1), b"3", timestamp_ms=9)
    batch = drain(made)
    assert [record[:4] for record in view(batch).records()] == [
        (0, 5, b"k", b"1"),
        (1, 5, b"k", b"2"),
        (2, 9, b"k", b"3"),
    ]
    assert (view(batch).base_sequence, view(batch).max_timestamp) == (0, 9)
    assert len(batch.encode(Compression.NONE, None, FIRST)) <= batch.size


def test_the_records_of_a_call_share_one_batch_if_they_fit(loop: asyncio.AbstractEventLoop) -> None:
    made = accumulator(batch_size=300)
    append(made, in_loop(loop, 1), b"x" * 150)
    append(made, in_loop(loop, 2), b"y" * 40, b"z" * 40)
    assert [len(batch.records) for batch in made._queues[0].batches] == [1, 2]


def test_halves_keep_the_sequences_of_the_whole_and_precede_later_batches(loop: asyncio.AbstractEventLoop) -> None:
    made = accumulator()
    call = in_loop(loop, 3)
    append(made, call, b"1", b"2", b"3")
    batch = drain(made)
    append(made, in_loop(loop, 1), b"4")
    made.divide(batch)
    sent = []
    for _ in range(3):
        half = drain(made)
        sent.append((half.sequence, values(half)))
        made.finish(half)
    assert sent == [(0, [b"1"]), (1, [b"2", b"3"]), (3, [b"4"])]
    assert (made.waiting, made.buffered_bytes) == (0, 0)


def test_a_partition_that_refused_a_batch_receives_smaller_ones(loop: asyncio.AbstractEventLoop) -> None:
    made = accumulator()
    append(made, in_loop(loop, 2), b"x" * 100, b"y" * 100)
    made.divide(drain(made))
    while made.has_ready([0], 0.0):
        made.finish(drain(made))
    append(made, in_loop(loop, 2), b"x" * 100, b"y" * 100)
    assert drain(made).count == 1


def test_unsent_records_of_a_call_are_dropped_when_it_ends(loop: asyncio.AbstractEventLoop) -> None:
    made = accumulator()
    kept, ended = in_loop(loop, 1), in_loop(loop, 2)
    append(made, kept, b"1")
    append(made, ended, b"2", b"3")
    ended.done.cancel()
    made.withdraw([0])
    batch = drain(made)
    assert made.waiting == 1
    assert values(batch) == [b"1"]
    made.finish(batch)
    assert (made.waiting, made.buffered_bytes, made._queues[0].queued_bytes) == (0, 0, 0)


def test_a_sent_batch_of_only_an_ended_call_is_dropped_with_its_producer(
    loop: asyncio.AbstractEventLoop,
) -> None:
    """Whether the cluster has it is unknown: its sequence must not be used again."""
    made = accumulator()
    call = in_loop(loop, 1)
    append(made, call, b"1")
    made.requeue(drain(made), 0.0)
    call.done.cancel()
    made.withdraw([0])
    assert made.drain([0], 0.0) == []
    assert (made.waiting, made.unassigned, made.producer_of(0)) == (0, {0}, NO_PRODUCER)


def test_a_batch_is_sent_again_as_the_first_of_another_producer(loop: asyncio.AbstractEventLoop) -> None:
    made = accumulator()
    append(made, in_loop(loop, 1), b"0")
    first = drain(made)
    first.encode(Compression.NONE, None, FIRST)
    made.finish(first)
    append(made, in_loop(loop, 1), b"1")
    batch = drain(made)
    assert view(batch).base_sequence == 1
    made.forget_producer(0)
    assert made.assignable() == []  # Not while a request is in flight.
    made.requeue(batch, 0.0)
    made.assign_producer(made.assignable(), SECOND)
    again = view(drain(made), SECOND)
    assert (again.producer_id, again.base_sequence) == (2, 0)
    assert [record.value for record in again.records()] == [b"1"]


def test_without_a_producer_a_batch_has_no_sequence(loop: asyncio.AbstractEventLoop) -> None:
    made = accumulator()
    append(made, in_loop(loop, 1), b"1")
    assert view(drain(made), NO_PRODUCER).base_sequence == -1


def test_nothing_is_sent_to_a_partition_without_a_producer(loop: asyncio.AbstractEventLoop) -> None:
    made = KeyedAccumulator([0], ProducerConfig(linger_s=0.0))
    append(made, in_loop(loop, 1), b"1")
    assert made.has_ready([0], 0.0)
    assert made.drain([0], 0.0) == []
    made.assign_producer(made.assignable(), FIRST)
    assert values(drain(made)) == [b"1"]
