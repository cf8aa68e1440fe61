"""Read a data source in this process, as Spark's workers do, without Spark."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema

__all__ = ["read_partitions", "read_rows", "read_table"]


def read_table(source: type[DataSource], **options: Any) -> pa.Table:
    """Return the rows of a batch read as Arrow hands them to Spark."""
    made = source({name: str(value) for name, value in options.items()})
    schema: Any = made.schema()
    reader: Any = made.reader(schema)
    batches = [batch for partition in reader.partitions() for batch in reader.read(partition)]
    return pa.Table.from_batches(batches, to_arrow_schema(schema))


def read_rows(source: type[DataSource], **options: Any) -> list[dict[str, Any]]:
    """Return the rows of a batch read."""
    made = source({name.replace("__", "."): str(value) for name, value in options.items()})
    reader = made.reader(made.schema())  # type: ignore[arg-type]
    return read_partitions(reader, reader.partitions())


def read_partitions(reader: Any, partitions: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for partition in partitions:
        assert isinstance(partition, InputPartition)
        for batch in reader.read(partition):
            found += batch.to_pylist()
    return found
