from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, cast

import pytest

from barnabas.connect_spark.queries import polled_source
from barnabas.connect_spark.queries.batch_gate import BatchGate
from barnabas.connect_spark.queries.polled_source import Polled, PolledSourceTask, Poller

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Ticks:
    """Replaces Spark's in-memory stream and receives each tick."""

    def __init__(self, spark: Any) -> None:
        self.came = threading.Semaphore(0)

    def tick(self) -> None:
        self.came.release()


class Counting(PolledSourceTask):
    """Returns data at every poll, and assumes that the previous data is safe."""

    def __init__(self) -> None:
        self.next = 0

    def poll(self, spark: SparkSession) -> Polled:
        self.next += 1
        return Polled(cast(Any, self.next), [])


@pytest.fixture(autouse=True)
def _ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(polled_source, "_TickStream", Ticks)


def started(task: PolledSourceTask, pending: Polled | None = None) -> tuple[Poller, BatchGate]:
    gate = BatchGate()
    poller = Poller(task, cast(Any, None), gate, 0.01, pending)
    poller.begin()
    assert cast(Any, poller)._stream.came.acquire(timeout=10)
    return poller, gate


def test_data_found_before_a_pause_is_not_lost() -> None:
    task = Counting()
    first, gate = started(task)
    assert gate.close(10)
    first.join()
    assert first.pending == Polled(cast(Any, 1), [])
    second, gate = started(task, first.pending)
    assert second.take() == Polled(cast(Any, 1), [])
    second.done()
    assert cast(Any, second)._stream.came.acquire(timeout=10)
    assert second.take() == Polled(cast(Any, 2), [])
    assert gate.close(10)
    second.join()


def test_a_batch_continues_with_data_that_is_found_immediately() -> None:
    poller, gate = started(Counting())
    assert poller.take() == Polled(cast(Any, 1), [])
    for number in range(2, 50):
        poller.done()
        assert poller.take_next() == Polled(cast(Any, number), [])
    assert gate.close(10)
    poller.join()


def test_a_batch_ends_when_nothing_is_found() -> None:
    class Once(Counting):
        def poll(self, spark: SparkSession) -> Polled | None:
            return super().poll(spark) if self.next == 0 else None

    poller, gate = started(Once())
    assert poller.take() == Polled(cast(Any, 1), [])
    poller.done()
    assert poller.take_next() is None
    assert gate.close(10)
    poller.join()


def test_a_tick_for_data_that_the_previous_batch_took_has_no_effect() -> None:
    poller, gate = started(Counting())
    assert poller.take() == Polled(cast(Any, 1), [])
    assert poller.take() is None
    assert gate.close(10)
    poller.join()


def test_a_batch_does_not_continue_when_the_query_is_stopping() -> None:
    poller, gate = started(Counting())
    assert poller.take() == Polled(cast(Any, 1), [])
    poller.done()
    assert gate.close(10)
    assert poller.take_next() is None
    poller.join()


def test_an_error_of_polling_is_raised_in_the_batch() -> None:
    class Broken(Counting):
        def poll(self, spark: SparkSession) -> Polled:
            if self.next:
                raise RuntimeError("the table was dropped")
            return super().poll(spark)

    poller, gate = started(Broken())
    poller.take()
    poller.done()
    with pytest.raises(RuntimeError, match="the table was dropped"):
        poller.take_next()
    assert gate.close(10)
    poller.join()
