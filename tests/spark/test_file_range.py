from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F

from barnabas.connect_spark.connectors.files.file_lines import end_of_lines
from barnabas.connect_spark.connectors.files.file_range import lines_in_range

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def read(spark: SparkSession, path: Path, start: int, end: int) -> list[bytes] | None:
    frame = lines_in_range(spark, path, start, end)
    if frame is None:
        return None
    return [bytes(row[0]) for row in frame.select(F.col("value").cast("binary")).collect()]


def line_starts(path: Path) -> list[int]:
    starts = [0]
    while (end := end_of_lines(path, starts[-1], 1)) > starts[-1]:
        starts.append(end)
    return starts


def test_each_range_has_exactly_its_lines(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "a b%20\u00fc.txt"
    path.write_bytes(b"one\r\n\ntwo\r\rno \xff text\n\xef\xbb\xbf\nlast\nhalf")
    starts = line_starts(path)
    assert len(starts) == 8
    for start, end in combinations(starts, 2):
        assert read(spark, path, start, end) == path.read_bytes()[start:end].splitlines()


def test_lines_appended_during_a_read_are_left_for_later(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "grows"
    path.write_bytes(b"one\ntwo\n")
    frame = lines_in_range(spark, path, 4, 8)
    assert frame is not None
    with path.open("ab") as file:
        file.write(b"three\n")
    assert [row.value for row in frame.collect()] == ["two"]


@pytest.mark.parametrize(
    ("name", "content", "start"),
    [
        ("mark", "\ufeffone\ntwo\n".encode(), 0),  # Spark omits the mark.
        ("first", b"\ntwo\n", 1),  # Hadoop's reader would read it as the first line.
        ("middle", b"one\ntwo\n", 2),  # A user has set the offset.
        ("between", b"one\r\ntwo\n", 4),
        ("lines.gz", b"one\ntwo\n", 0),  # Spark would decompress it.
    ],
)
def test_ranges_that_spark_would_read_differently_are_refused(
    spark: SparkSession, tmp_path: Path, name: str, content: bytes, start: int
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    assert read(spark, path, start, len(content)) is None
