from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.pipelines.errors import PipelineError
from barnabas.pipelines.flights.job import check_query, stop_query

LOG = Path("spark.log")


class Query:
    """Stands for Spark's handle of a query."""

    def __init__(self, *, is_active: bool = False, failure: str | None = None, is_lost: bool = False) -> None:
        self._is_active = is_active
        self._failure = failure
        self._is_lost = is_lost

    @property
    def isActive(self) -> bool:
        if self._is_lost:
            raise ConnectionRefusedError("connection refused")
        return self._is_active

    def exception(self) -> str | None:
        return self._failure

    def stop(self) -> None:
        if self._is_lost:
            raise ConnectionRefusedError("connection refused")


def test_a_query_that_runs_passes() -> None:
    check_query(Query(is_active=True), log=LOG)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("failure", "text"),
    [
        (
            "[STREAM_FAILED] Query [id = 1] terminated with exception: boom\n"
            "org.apache.spark.SparkException: Job aborted\n\tat org.apache.Thing.run(Thing.java:1)\n"
            "Caused by: java.io.IOException: No space left on device\n\tat java.base/FileOutputStream.write\n",
            r"the query ended: Caused by: java\.io\.IOException: No space left on device\. Spark's log: spark\.log",
        ),
        ("something else", "the query ended: something else"),
        (None, "the query ended: it was stopped"),
    ],
)
def test_a_query_that_ended_is_told_with_its_cause(failure: str | None, text: str) -> None:
    with pytest.raises(PipelineError, match=text):
        check_query(Query(failure=failure), log=LOG)  # type: ignore[arg-type]


def test_a_spark_that_died_is_told_and_can_still_be_stopped() -> None:
    query = Query(is_lost=True)
    with pytest.raises(PipelineError, match=r"Spark's process ended \(connection refused\)"):
        check_query(query, log=LOG)  # type: ignore[arg-type]
    stop_query(query)  # type: ignore[arg-type]
