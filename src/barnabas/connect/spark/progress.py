"""How the queries of tasks are doing: the last progress of each, as Spark tells it. For metrics and the console."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["ProgressBoard", "QueryProgress"]


@dataclass(frozen=True, slots=True)
class QueryProgress:
    batches: int
    """Finished since the task started here."""
    rows: int
    """In all of these."""
    last_batch_rows: int
    last_batch_ms: int
    rows_per_second: float
    """Of the last batch."""
    finished_at: float
    """Seconds since 1970."""


class ProgressBoard:
    """Written by Spark's threads, read by anybody."""

    def __init__(self, *, epoch_time: Callable[[], float] = time.time) -> None:
        self._epoch_time = epoch_time
        self._lock = threading.Lock()
        self._by_query: dict[str, QueryProgress] = {}
        self._listened: object = None

    def __getitem__(self, query: str) -> QueryProgress | None:
        with self._lock:
            return self._by_query.get(query)

    def all(self) -> Mapping[str, QueryProgress]:
        with self._lock:
            return dict(self._by_query)

    def forget(self, query: str) -> None:
        with self._lock:
            self._by_query.pop(query, None)

    def note(self, query: str, *, rows: int, duration_ms: int, rows_per_second: float) -> None:
        with self._lock:
            former = self._by_query.get(query)
            self._by_query[query] = QueryProgress(
                batches=1 + (former.batches if former else 0),
                rows=rows + (former.rows if former else 0),
                last_batch_rows=rows,
                last_batch_ms=duration_ms,
                rows_per_second=rows_per_second,
                finished_at=self._epoch_time(),
            )

    def listen(self, spark: SparkSession) -> None:
        """Once for each session; what is not the query of a task has no name that anybody asks for."""
        with self._lock:
            if self._listened is spark:
                return
            self._listened = spark
        from pyspark.sql.streaming.listener import StreamingQueryListener

        board = self

        class Listener(StreamingQueryListener):
            def onQueryStarted(self, event: Any) -> None:
                pass

            def onQueryProgress(self, event: Any) -> None:
                found = event.progress
                if found.name and found.numInputRows:
                    board.note(
                        found.name,
                        rows=found.numInputRows,
                        duration_ms=found.batchDuration,
                        rows_per_second=float(found.processedRowsPerSecond or 0),
                    )

            def onQueryIdle(self, event: Any) -> None:
                pass

            def onQueryTerminated(self, event: Any) -> None:
                pass

        spark.streams.addListener(Listener())
