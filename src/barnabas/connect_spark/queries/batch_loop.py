"""Micro-batches driven by a thread of this process, for sessions on a Spark Connect server.

A streaming query there runs its batches on the server, which has neither the gate of a task nor its Kafka clients. So
each batch is a query of its own, and this loop does what a streaming query does elsewhere: one step after another, an
interval between their starts, and an end with its reason. Every query of a step has the task's name as its tag, under
which the server shows it. The session belongs to the task alone, so a step that takes too long is stopped by
interrupting everything in the session.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from barnabas.connect.plugins.api import SourceOffset
from barnabas.connect_spark.queries.driven_query import DrivenQuery

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

    from barnabas.connect_spark.queries.batch_gate import BatchGate
    from barnabas.connect_spark.queries.polled_source import PolledSourceTask

__all__ = ["BatchLoop", "PolledBatches", "Steps"]

log = logging.getLogger(__name__)

_LOOK_AT_SERVER_S = 20
"""How often an idle loop contacts the server: it ends sessions that are silent for an hour, and a task whose server
has stopped must not seem to run."""
_STOP_WAIT_S = 10.0


class Steps(Protocol):
    last: dict[str, Any] | None
    frame: DataFrame | None

    def step(self) -> None:
        """Run one batch inside the gate, if new data exists."""


class BatchLoop(DrivenQuery):
    """A RunningQuery that drives the batches of a Spark Connect session."""

    def __init__(self, name: str, steps: Steps, gate: BatchGate, interval_s: float, spark: SparkSession) -> None:
        super().__init__(f"connect-batches-{name}")
        self._name = name
        self._steps = steps
        self._gate = gate
        self._interval_s = interval_s
        self._spark = spark
        self._spoken_at = time.monotonic()

    def stop(self) -> None:
        """Stop the loop. The gate is closed, so a batch that still runs took too long."""
        self._thread.join(0.5)
        if self._thread.is_alive():
            self._spark.interruptAll()
            self._thread.join(_STOP_WAIT_S)
        if self._thread.is_alive():
            raise TimeoutError(f"a batch of {self._name} runs on {_STOP_WAIT_S:g} s after it was interrupted")

    def explained(self) -> tuple[str, str]:
        """Return the plan of the last batch, and its progress. Waits for the server."""
        frame, last = self._steps.frame, self._steps.last
        plan = "" if frame is None else str(frame._explain_string(extended=True))  # type: ignore[operator]
        return plan, "" if last is None else json.dumps(last, indent=2)

    def _drive(self) -> None:
        from pyspark.sql.connect.session import SparkSession as RemoteSession

        RemoteSession._active_session.session = self._spark  # Functions of columns and types look it up by thread.
        self._spark.addTag(self._name.replace(",", "_"))
        while True:
            began = time.monotonic()
            with self._gate.batch():
                self._steps.step()
                self._look_at_server()
            self._gate.wait(max(0.0, began + self._interval_s - time.monotonic()))

    def _look_at_server(self) -> None:
        now = time.monotonic()
        if now - self._spoken_at >= _LOOK_AT_SERVER_S:
            self._spark.version  # noqa: B018
            self._spoken_at = now


class PolledBatches:
    """A polled source without ticks: the result of a ``poll`` is written and noted before the next ``poll``."""

    def __init__(
        self,
        task: PolledSourceTask,
        spark: SparkSession,
        gate: BatchGate,
        deliver: Callable[[Sequence[DataFrame], Sequence[SourceOffset]], None],
        note: Callable[[int, int], None],
    ) -> None:
        """``deliver`` writes records and then their offsets."""
        self._task = task
        self._spark = spark
        self._gate = gate
        self._deliver = deliver
        self._note = note
        self._batches = 0
        self.last: dict[str, Any] | None = None
        self.frame: DataFrame | None = None

    def step(self) -> None:
        """Continue while ``poll`` immediately returns more, so that the interval is no limit."""
        while not self._gate.is_closed:
            began = time.monotonic()
            found = self._task.poll(self._spark)
            if found is None:
                return
            counted = [_counted(records) for records in found.frames]
            frames = [frame for frame, _ in counted]
            self.frame = frames[-1] if frames else self.frame
            self._deliver(frames, found.offsets)
            took_ms = int((time.monotonic() - began) * 1000)
            count = sum(rows() for _, rows in counted)
            self.last = {"batchId": self._batches, "numInputRows": count}
            self.last["durationMs"] = {"triggerExecution": took_ms}
            self._batches += 1
            self._note(count, took_ms)


def _counted(records: DataFrame) -> tuple[DataFrame, Callable[[], int]]:
    from pyspark.sql import Observation
    from pyspark.sql import functions as F

    observation = Observation()
    frame = records.observe(observation, F.count(F.lit(1)).alias("rows"))
    return frame, lambda: int(observation.get.get("rows", 0))
