"""Read and write data of one Avro schema, through Spark's own Avro package.

From bytes that it can't read Spark produces a record whose fields are all null. A record of one field has the same
bytes as this field, so a wrapper record is read: for unreadable bytes the wrapped record itself is null.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as t

from barnabas.connect_spark.sessions.spark_packages import AVRO, require_package

if TYPE_CHECKING:
    from pyspark.sql import Column

__all__ = ["AvroData", "require_avro"]


@dataclass(frozen=True)
class AvroData:
    schema: str
    """The schema as Avro's JSON."""
    names_members: bool = False
    """Whether the members of a union are named by their types (``member_string``) instead of by their positions."""

    @cached_property
    def type(self) -> t.DataType:
        """Return the type of what ``read`` returns: every part may be null. Raise ValueError if Spark can't use it."""
        return self._type("PERMISSIVE")

    @cached_property
    def strict_type(self) -> t.DataType:
        """Return the same type, in which parts that the schema requires are not nullable. Raise ValueError."""
        return self._type("FAILFAST")

    def _type(self, mode: str) -> t.DataType:
        spark = SparkSession.active()
        require_avro(spark)
        try:
            return spark.createDataFrame([], "data binary").select(self._read(F.col("data"), mode)).schema[0].dataType
        except Exception as error:
            raise ValueError(_reason(error)) from None

    @property
    def takes_null(self) -> bool:
        parsed = json.loads(self.schema)
        return parsed == "null" or (isinstance(parsed, list) and "null" in parsed)

    def read(self, data: Column) -> Column:
        """Return the value; null for bytes that are not Avro of the schema."""
        return self._read(data, "PERMISSIVE")

    def _read(self, data: Column, mode: str) -> Column:
        from pyspark.sql.avro.functions import from_avro

        around = {"type": "record", "name": "BarnabasAround"}
        whole = json.dumps({**around, "fields": [{"name": "whole", "type": json.loads(self.schema)}]})
        options = {"mode": mode}
        if self.names_members:
            options["enableStableIdentifiersForUnionType"] = "true"
        return from_avro(data, whole, options)["whole"]

    def write(self, column: Column) -> Column:
        """Return the bytes; null for null."""
        from pyspark.sql.avro.functions import to_avro

        return F.when(column.isNotNull(), to_avro(column, self.schema))


def require_avro(spark: SparkSession) -> None:
    """Raise TerminalError for a session without Spark's Avro package."""
    require_package(spark, AVRO, "AvroConverter")


def _reason(error: Exception) -> str:
    """Return the last line that is not one of a stack trace."""
    lines = [line.strip() for line in str(error).splitlines()]
    causes = [line for line in lines if line and not line.startswith(("at ", "...", "JVM stacktrace"))]
    return causes[-1][:300] if causes else type(error).__name__
