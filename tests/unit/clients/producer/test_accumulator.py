"""Which batches are sent when, with the clock of the test."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from barnabas.clients.producer.accumulator import RecordAccumulator
from barnabas.clients.producer.batch import ProducerBatch, Run
from barnabas.clients.producer.config import ProducerConfig


def known(partitions: Iterable[int], config: ProducerConfig) -> RecordAccumulator:
    """An accumulator whose leaders have accepted a batch before."""
    accumulator = RecordAccumulator(partitions, config)
    for queue in accumulator._queues.values():
        queue.is_known = True
    return accumulator


def put(accumulator: RecordAccumulator, count: int, size: int = 100, now: float = 0.0) -> list[int]:
    """Append records and return their partitions."""
    partitions: list[int] = []
    while count:
        part = min(count, accumulator.capacity(size))
        assert part, "no room"
        partitions.append(accumulator.append([b"v" * size] * part, Run(now, 0.0, part), now, 0))
        count -= part
    return partitions


def drain(accumulator: RecordAccumulator, *partitions: int, now: float = 0.0) -> list[ProducerBatch]:
    return accumulator.drain(partitions or (0,), now)


def test_a_batch_is_sent_after_its_linger() -> None:
    accumulator = known([0], ProducerConfig(linger_s=0.005))
    put(accumulator, 3, now=1.0)
    assert drain(accumulator, now=1.004) == []
    assert accumulator.ready_in_s([0], 1.004) == pytest.approx(0.001)
    (batch,) = drain(accumulator, now=1.005)
    assert (batch.count, batch.sequence) == (3, 0)
    assert accumulator.ready_in_s([0], 1.005) is None


def test_a_full_batch_is_sent_immediately_and_respects_the_batch_size() -> None:
    accumulator = known([0], ProducerConfig(linger_s=60, batch_size=1024))
    put(accumulator, 25)
    batches = [batch for _ in range(5) for batch in drain(accumulator)]
    assert [batch.sequence for batch in batches] == [0, 8, 16]
    assert all(batch.size <= 1024 for batch in batches)
    assert drain(accumulator) == []


def test_a_record_larger_than_a_batch_is_sent_alone() -> None:
    accumulator = known([0], ProducerConfig(linger_s=60, batch_size=10))
    put(accumulator, 2, size=500)
    assert [batch.count for _ in range(2) for batch in drain(accumulator)] == [1, 1]


def test_records_fill_a_batch_of_one_partition_then_of_the_least_queued_one() -> None:
    accumulator = known(range(3), ProducerConfig(batch_size=1024))
    assert sorted(put(accumulator, 24)) == [0, 1, 2]
    drain(accumulator, 1)  # The next batch has its partition already; the one after it does not.
    assert put(accumulator, 16)[-1] == 1


def test_partitions_without_a_leader_receive_nothing_while_others_have_one() -> None:
    accumulator = known(range(3), ProducerConfig(batch_size=1024))
    accumulator.set_available({2})
    assert set(put(accumulator, 30)) == {2}
    accumulator.set_available(set())
    assert set(put(accumulator, 60)) > {2}


def test_a_request_holds_a_batch_of_each_partition_up_to_its_limit() -> None:
    accumulator = known(range(4), ProducerConfig(batch_size=1024, max_request_size=2100))
    put(accumulator, 32)
    assert len(drain(accumulator, 0, 1, 2, 3)) == 2
    assert len(drain(accumulator, 0, 1, 2, 3)) == 2


def test_used_up_memory_is_released() -> None:
    accumulator = known([0], ProducerConfig(batch_size=1024, buffer_memory=4096, linger_s=60))
    put(accumulator, 32)
    assert accumulator.capacity(1000) == 0
    (batch,) = drain(accumulator)
    accumulator.finish(batch)
    assert accumulator.capacity(100) > 0
    assert accumulator.waiting == 24


def test_lingering_batches_are_sent_when_memory_is_used_up() -> None:
    accumulator = known([0], ProducerConfig(batch_size=4096, buffer_memory=4096, linger_s=60))
    put(accumulator, 3)
    assert drain(accumulator)


def test_flushing_skips_the_linger() -> None:
    accumulator = known([0], ProducerConfig(linger_s=60))
    put(accumulator, 1)
    accumulator.is_flushing = True
    assert drain(accumulator)


def test_retried_batches_keep_their_order_and_are_sent_one_by_one() -> None:
    accumulator = known([0], ProducerConfig(batch_size=1024))
    put(accumulator, 32)
    first, second, third = (drain(accumulator)[0] for _ in range(3))
    assert not accumulator.is_first_in_flight(second)
    accumulator.requeue(second, 1.0)
    accumulator.requeue(first, 1.0)
    assert drain(accumulator, now=1.0) == []  # The third is still in flight.
    accumulator.requeue(third, 1.0)
    assert drain(accumulator, now=0.9) == []
    sent = []
    for _ in range(4):
        (batch,) = drain(accumulator, now=1.0)
        assert accumulator.is_first_in_flight(batch)
        assert drain(accumulator, now=1.0) == []
        accumulator.finish(batch)
        sent.append(batch.sequence)
    assert sent == [0, 8, 16, 24]


def test_the_first_batch_of_a_partition_is_sent_alone() -> None:
    accumulator = RecordAccumulator([0, 1], ProducerConfig(batch_size=1024))
    put(accumulator, 64)
    first = drain(accumulator, 0, 1)
    assert [batch.sequence for batch in first] == [0, 0]
    assert drain(accumulator, 0, 1) == []
    accumulator.requeue(first[0], 0.0)
    accumulator.finish(first[1])
    assert drain(accumulator, 0, 1)[0] is first[0]
    assert [batch.partition for batch in drain(accumulator, 0, 1)] == [1]


def test_sequences_wrap_around_after_the_largest() -> None:
    accumulator = known([0], ProducerConfig(batch_size=1024))
    accumulator._queues[0].next_sequence = 2**31 - 8
    put(accumulator, 16)
    before, after = (drain(accumulator)[0] for _ in range(2))
    assert (before.sequence, after.sequence) == (2**31 - 8, 0)
    accumulator.requeue(after, 0.0)
    accumulator.requeue(before, 0.0)
    assert drain(accumulator)[0] is before


def test_compression_allows_more_records_in_a_batch() -> None:
    accumulator = known([0], ProducerConfig(batch_size=1024))
    put(accumulator, 8)
    (batch,) = drain(accumulator)
    for _ in range(50):
        accumulator.observe_ratio(batch, batch.size // 4)
    put(accumulator, 30)
    accumulator.is_flushing = True
    assert drain(accumulator)[0].count == 30


def test_expired_batches_are_removed() -> None:
    accumulator = known([0], ProducerConfig(batch_size=1024))
    put(accumulator, 8, now=0.0)
    put(accumulator, 8, now=5.0)
    (old,) = accumulator.take_expired(1.0)
    assert old.created_s == 0.0
    assert accumulator.waiting == 8
