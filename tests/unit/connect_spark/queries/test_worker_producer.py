from __future__ import annotations

import pyarrow as pa
import pytest

from barnabas.connect_spark.queries.worker_producer import by_target


def batch(*rows: tuple[str | None, int | None, bytes]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"topic": topic, "partition": at, "value": value} for topic, at, value in rows])


def test_records_of_a_target_keep_their_order() -> None:
    found = by_target(batch(("a", 0, b"1"), ("b", None, b"2"), ("a", 0, b"3"), ("a", 1, b"4"), ("b", None, b"5")))
    values = {target: [row["value"] for row in rows] for target, rows in found.items()}
    assert values == {("a", 0): [b"1", b"3"], ("b", None): [b"2", b"5"], ("a", 1): [b"4"]}


def test_a_record_without_a_topic_is_refused() -> None:
    with pytest.raises(ValueError, match="no topic"):
        by_target(batch(("a", 0, b"1"), (None, 0, b"2")))
