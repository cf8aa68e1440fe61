"""A Parquet table in which a month is one file, and replacing a month is one rename.

A reader sees each month either before or after a replacement, never half of it. So does a process that starts after a
kill. No other bookkeeping exists: a merge by row identity may run twice. The folder is ordinary
partitioned Parquet (``month=2013-07/flights.parquet``), readable by Spark, pandas or anything else at any time.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

__all__ = ["MonthTable", "by_month"]

_PARTITION = "month"


def by_month(frame: DataFrame, months: int) -> DataFrame:
    """Return the same rows, those of a month in one partition. A later step that groups by month moves no rows."""
    return frame.repartition(months, _PARTITION)


class MonthTable:
    """``scratch`` must be on the same file system as ``path``, or a rename would not be atomic."""

    def __init__(self, path: Path, schema: StructType, *, scratch: Path) -> None:
        self.path = path
        self._schema = schema
        self._scratch = scratch / f"{path.name}.new"
        self._file_name = f"{path.name}.parquet"

    def read(self, spark: SparkSession, months: Iterable[str]) -> DataFrame:
        """Return the rows of those months that exist; an empty frame with the same columns if none does."""
        present = [str(self._month_file(month)) for month in sorted(months) if self._month_file(month).exists()]
        if not present:
            # Unlike a frame of no rows from Python, the optimizer knows that this one is empty.
            columns = [F.lit(None).cast(field.dataType).alias(field.name) for field in self._schema]
            return spark.range(0).select(*columns)
        return spark.read.schema(self._schema).option("basePath", str(self.path)).parquet(*present)

    def replace(self, frame: DataFrame, *, order: Iterable[str]) -> None:
        """Replace the frame's months, and leave the others untouched. One task writes a month (``by_month``), so it
        becomes one file.

        ``frame`` may read the months that it replaces: everything is written before anything is renamed.
        """
        shutil.rmtree(self._scratch, ignore_errors=True)
        columns = self._schema.fieldNames()
        (
            frame.select(columns)
            .sortWithinPartitions(_PARTITION, *order)
            .write.partitionBy(_PARTITION)
            .parquet(str(self._scratch))
        )
        for folder in sorted(self._scratch.glob(f"{_PARTITION}=*")):
            (written,) = folder.glob("*.parquet")
            self._publish(written, self.path / folder.name / self._file_name)
        shutil.rmtree(self._scratch, ignore_errors=True)

    def _month_file(self, month: str) -> Path:
        return self.path / f"{_PARTITION}={month}" / self._file_name

    def _publish(self, written: Path, target: Path) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        _sync(written)
        os.replace(written, target)
        _sync(target.parent)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
