"""Count the work of one task since its start, and derive its metrics (KIP-196, KIP-298).

Names are Kafka's. Averages, maxima and shares are over the task's life on this worker, where Kafka's are over the last
minute; the reader derives rates from the totals. A batch is one micro-batch of Spark's. The task's thread writes,
any thread reads.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, runtime_checkable

from barnabas.connect.identifiers import ConnectorTaskId

__all__ = ["BatchTotals", "MeasuredTasks", "Metric", "TaskFigures", "TaskKind"]

_TASK = "kafka_connect_connector_task_metrics"
_SINK = "kafka_connect_sink_task_metrics"
_SOURCE = "kafka_connect_source_task_metrics"
_ERRORS = "kafka_connect_task_error_metrics"

Metric = tuple[str, str, float]
"""Name, description, value."""


class TaskKind(Enum):
    SOURCE = "source"
    SINK = "sink"


@dataclass(slots=True)
class _Spread:
    """A summary of values: their number, their sum, and the largest."""

    count: int = 0
    sum: float = 0
    max: float = 0
    min: float = 0

    def add(self, value: float) -> None:
        self.min = min(self.min, value) if self.count else value
        self.count += 1
        self.sum += value
        self.max = max(self.max, value)

    @property
    def average(self) -> float:
        return self.sum / self.count if self.count else 0


@dataclass(frozen=True, slots=True)
class BatchTotals:
    """Durations of the ended batches with records."""

    batches: int
    records: int
    last_records: int
    last_ms: int
    ended_at_ms: int
    """Milliseconds since 1970."""


class TaskFigures:
    def __init__(
        self,
        *,
        monotonic_ms: Callable[[], int],
        epoch_ms: Callable[[], int],
        succeeded: Callable[[], None] = lambda: None,
        skipped: Callable[[int, int], None] = lambda records, dead_letters: None,
    ) -> None:
        """``succeeded`` is called after the first committed batch, ``skipped`` with bad records that were left out and
        how many of them became dead letters. Both are called on the task's thread."""
        self._monotonic_ms = monotonic_ms
        self._epoch_ms = epoch_ms
        self._succeeded = succeeded
        self._skipped_listener = skipped
        self._lock = threading.Lock()
        self._kind: TaskKind | None = None
        self._partitions = 0
        self._began_ms = self._since_ms = monotonic_ms()
        self._in_state_ms = {"running": 0, "paused": 0}
        self._state = ""
        self._read = self._written = self._active = self._max_active = 0
        self._batches, self._batch_ms = _Spread(), _Spread()
        self._commits, self._failed_commits = _Spread(), 0
        self._has_transactions = False
        self._transactions, self._in_transaction = _Spread(), 0
        self._last: BatchTotals | None = None
        self._failures = self._skipped = self._retries = self._logged = 0
        self._dead_letters = self._failed_dead_letters = self._last_error_ms = 0
        self._reported: dict[str, Metric] = {}

    # ---- written by the task

    def is_of(self, kind: TaskKind, *, partitions: int = 0, has_transactions: bool = False) -> None:
        with self._lock:
            self._kind, self._partitions, self._has_transactions = kind, partitions, has_transactions

    def is_in_state(self, state: str) -> None:
        """Note the state: ``running``, ``paused``, or any other."""
        now_ms = self._monotonic_ms()
        with self._lock:
            if self._state in self._in_state_ms:
                self._in_state_ms[self._state] += now_ms - self._since_ms
            self._state, self._since_ms = state, now_ms

    def has_read(self, records: int) -> None:
        """Note that a batch has begun whose records are in progress until ``has_written``."""
        with self._lock:
            self._read += records
            self._active = records
            self._max_active = max(self._max_active, records)

    def has_written(self, *, read: int, written: int, took_ms: int) -> None:
        """Note that a batch has ended: the records read for it, and those that have reached the target."""
        with self._lock:
            self._written += written
            self._in_transaction += written
            self._active = 0
            self._batches.add(read)
            self._batch_ms.add(took_ms)
            self._last = BatchTotals(
                self._batches.count, int(self._batches.sum), read, took_ms, ended_at_ms=self._epoch_ms()
            )

    def has_done(self, records: int, took_ms: int) -> None:
        """Note a complete batch, all of which reached its target."""
        self.has_read(records)
        self.has_written(read=records, written=records, took_ms=took_ms)

    def has_committed(self, took_ms: int, *, succeeded: bool = True) -> None:
        """Note committed positions: of a sink in its group, of a source in the offset topic."""
        with self._lock:
            if succeeded:
                self._commits.add(took_ms)
            else:
                self._failed_commits += 1
            is_first = succeeded and self._commits.count == 1
        if is_first:
            self._succeeded()

    def has_ended_transaction(self, *, is_aborted: bool) -> None:
        """Note that the positions of a transaction were committed, with its records unless they were aborted."""
        with self._lock:
            self._transactions.add(0 if is_aborted else self._in_transaction)
            self._in_transaction = 0

    def has_abandoned_transaction(self) -> None:
        """Note that the records of the open transaction will be read again."""
        with self._lock:
            self._in_transaction = 0

    def has_retried(self) -> None:
        with self._lock:
            self._retries += 1
            self._last_error_ms = self._epoch_ms()

    def has_failed(self, records: int, *, skipped: bool, logged: int = 0) -> None:
        """Note bad records. Without tolerance the task fails with the first."""
        if records:
            with self._lock:
                self._failures += records
                self._skipped += records if skipped else 0
                self._logged += logged
                self._last_error_ms = self._epoch_ms()

    def has_skipped(self, records: int, *, dead_letters: int) -> None:
        """Note that bad records are dealt with: skipped, logged and sent as the settings require."""
        if records:
            self._skipped_listener(records, dead_letters)

    def has_sent_dead_letters(self, records: int, *, succeeded: bool = True) -> None:
        with self._lock:
            self._dead_letters += records
            self._failed_dead_letters += 0 if succeeded else records

    def has_reported(self, name: str, description: str, value: float) -> None:
        """Note a figure of the connector's own."""
        with self._lock:
            self._reported[name] = (f"{_TASK}_{name}", description, value)

    # ---- read from any thread

    @property
    def last_batch(self) -> BatchTotals | None:
        with self._lock:
            return self._last

    def metrics(self) -> list[Metric]:
        now_ms = self._monotonic_ms()
        with self._lock:
            rows = [*self._of_task(now_ms), *self._of_errors(), *self._reported.values()]
            if self._kind is TaskKind.SINK:
                rows += self._of_sink()
            elif self._kind is TaskKind.SOURCE:
                rows += self._of_source()
            return rows

    def _of_task(self, now_ms: int) -> Iterator[Metric]:
        for word, name in (("running", "running_ratio"), ("paused", "pause_ratio")):
            spent_ms = self._in_state_ms[word] + (now_ms - self._since_ms if self._state == word else 0)
            share = spent_ms / (now_ms - self._began_ms) if now_ms > self._began_ms else 0
            yield f"{_TASK}_{name}", f"The part of its time that the task was {word}, from 0 to 1.", share
        yield f"{_TASK}_batch_size_avg", "Records in a batch on average.", self._batches.average
        yield f"{_TASK}_batch_size_max", "Records in the largest batch.", self._batches.max
        tried = self._commits.count + self._failed_commits
        good = self._commits.count / tried if tried else 0
        failed = self._failed_commits / tried if tried else 0
        text = "The part of its commits of offsets that"
        yield f"{_TASK}_offset_commit_success_percentage", f"{text} succeeded, from 0 to 1.", good
        yield f"{_TASK}_offset_commit_failure_percentage", f"{text} failed, from 0 to 1.", failed
        yield f"{_TASK}_offset_commit_avg_time_ms", "How long they took on average.", self._commits.average
        yield f"{_TASK}_offset_commit_max_time_ms", "How long the slowest took.", self._commits.max

    def _of_sink(self) -> Iterator[Metric]:
        yield f"{_SINK}_partition_count", "Partitions that the task reads.", self._partitions
        yield f"{_SINK}_sink_record_read_total", "Records read, counted by offsets.", self._read
        yield f"{_SINK}_sink_record_send_total", "Records that the connector got, without bad ones.", self._written
        yield from self._active_rows(_SINK, "sink", "read and not written yet")
        yield f"{_SINK}_put_batch_avg_time_ms", "How long a batch took on average.", self._batch_ms.average
        yield f"{_SINK}_put_batch_max_time_ms", "How long the slowest batch took.", self._batch_ms.max
        commits = self._commits.count
        yield f"{_SINK}_offset_commit_completion_total", "Commits of offsets that succeeded.", commits
        yield f"{_SINK}_offset_commit_seq_no", "The number of the last commit.", commits + self._failed_commits

    def _of_source(self) -> Iterator[Metric]:
        yield f"{_SOURCE}_source_record_poll_total", "Records read, before transforms.", self._read
        yield f"{_SOURCE}_source_record_write_total", "Records written to topics.", self._written
        yield from self._active_rows(_SOURCE, "source", "read and not in Kafka yet")
        text = "from reading to Kafka, for Spark reads while it writes."
        yield f"{_SOURCE}_poll_batch_avg_time_ms", f"How long a batch took on average, {text}", self._batch_ms.average
        yield f"{_SOURCE}_poll_batch_max_time_ms", f"How long the slowest batch took, {text}", self._batch_ms.max
        if self._has_transactions:
            yield from self._of_transactions()

    def _of_transactions(self) -> Iterator[Metric]:
        sizes, text = self._transactions, "committed transaction"
        yield f"{_SOURCE}_transaction_size_min", f"Records of the smallest {text}.", sizes.min
        yield f"{_SOURCE}_transaction_size_max", f"Records of the largest {text}.", sizes.max
        yield f"{_SOURCE}_transaction_size_avg", f"Records of a {text} on average.", sizes.average

    def _active_rows(self, group: str, kind: str, text: str) -> Iterator[Metric]:
        yield f"{group}_{kind}_record_active_count", f"Records {text}.", self._active
        yield f"{group}_{kind}_record_active_count_max", f"The most records that were {text}.", self._max_active

    def _of_errors(self) -> Iterator[Metric]:
        errors = self._failures + self._retries
        yield f"{_ERRORS}_total_record_errors", "Bad records, and batches that were tried again.", errors
        yield f"{_ERRORS}_total_record_failures", "Bad records.", self._failures
        yield f"{_ERRORS}_total_records_skipped", "Bad records that were left out.", self._skipped
        yield f"{_ERRORS}_total_retries", "How often a batch was tried again.", self._retries
        yield f"{_ERRORS}_total_errors_logged", "Bad records with a line in the log.", self._logged
        yield f"{_ERRORS}_deadletterqueue_produce_requests", "Dead letters that were sent.", self._dead_letters
        failed = self._failed_dead_letters
        yield f"{_ERRORS}_deadletterqueue_produce_failures", "Dead letters that could not be sent.", failed
        last_ms = self._last_error_ms
        yield (
            f"{_ERRORS}_last_error_timestamp",
            "When the last error was, in milliseconds since 1970; 0 for never.",
            (last_ms),
        )


@runtime_checkable
class MeasuredTasks(Protocol):
    """A TaskRuntime that measures what it runs."""

    def figures(self, task: ConnectorTaskId) -> TaskFigures | None:
        """None for a task that is not here. Never blocks."""
