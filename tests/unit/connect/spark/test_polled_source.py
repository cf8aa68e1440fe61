from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, cast

import pytest

from barnabas.connect.spark import polled_source
from barnabas.connect.spark.batch_gate import BatchGate
from barnabas.connect.spark.polled_source import Polled, PolledSourceTask, Poller

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Ticks:
    """Stands for Spark's stream in memory: hears of each tick."""

    def __init__(self, spark: Any) -> None:
        self.came = threading.Semaphore(0)

    def tick(self) -> None:
        self.came.release()


class Counting(PolledSourceTask):
    """Finds something at every poll, and believes it to be safe at the next one."""

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


def test_what_was_found_before_a_pause_is_not_lost() -> None:
    task = Counting()
    first, gate = started(task)
    assert gate.close(10)
    first.join()
    assert first.pending == Polled(cast(Any, 1), [])
    second, gate = started(task, first.pending)
    assert second.take().records == 1
    second.done()
    assert cast(Any, second)._stream.came.acquire(timeout=10)
    assert second.take().records == 2
    assert gate.close(10)
    second.join()
