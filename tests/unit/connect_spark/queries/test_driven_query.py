"""The outcome of a query driven by a thread of this process."""

from __future__ import annotations

import threading

from barnabas.connect_spark.queries.batch_gate import QueryEnds
from barnabas.connect_spark.queries.driven_query import DrivenQuery


class Waiting(DrivenQuery):
    """Ends with the given outcome when stopped."""

    def __init__(self, end: Exception | None) -> None:
        super().__init__("waiting")
        self._end = end
        self._stopped = threading.Event()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()

    def _drive(self) -> None:
        self._stopped.wait()
        if self._end is not None:
            raise self._end


def test_a_query_is_active_while_its_thread_runs() -> None:
    query = Waiting(None).begin()
    assert (query.isActive, query.exception()) == (True, None)
    query.stop()
    assert (query.isActive, query.exception()) == (False, None)


def test_a_query_that_was_stopped_has_no_reason() -> None:
    query = Waiting(QueryEnds()).begin()
    query.stop()
    assert (query.isActive, query.exception()) == (False, None)


def test_a_query_whose_thread_failed_reports_the_reason() -> None:
    failure = RuntimeError("no disk")
    query = Waiting(failure).begin()
    query.stop()
    assert (query.isActive, query.exception()) == (False, failure)
