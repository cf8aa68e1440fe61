"""Read the records of a batch, whose frames are known, with the schemas that these name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from barnabas.connect_spark.converters.connect_schema import DataException
from barnabas.connect_spark.converters.converter import Converter, Decoded, Encoded
from barnabas.connect_spark.converters.registry.schema_reading import SchemaGroup, SchemaReader, grouped
from barnabas.connect_spark.converters.schema_merging import moved
from barnabas.connect_spark.converters.spark_types import spark_type

if TYPE_CHECKING:
    from pyspark.sql import Column

    from barnabas.connect_spark.converters.record_batch import Datum

__all__ = ["FRAME_LENGTH", "ReaderOfBatch", "unframed"]

FRAME_LENGTH = 5
"""The magic byte and the id."""
_ALL = 2**31 - 1


def unframed(data: Column) -> Column:
    """Return the error of a row that names no schema."""
    return F.concat(
        F.lit("the bytes begin with 0x"),
        F.hex(F.substring(data, 1, FRAME_LENGTH)),
        F.lit(
            ", not with the byte 0 and the id of a schema: they were not written with a schema registry; choose the "
            "converter of their producer"
        ),
    )


class ReaderOfBatch(Converter):
    """Compared by identity: one is kept for each set of frames."""

    def __init__(
        self,
        java_class: str,
        readers: Mapping[bytes, SchemaReader],
        unreadable: Mapping[bytes, str],
        frame: Callable[[Column], Column],
        *,
        stops_at_unknown: str = "",
    ) -> None:
        """``readers`` have those of the newer schemas last. ``unreadable`` are the errors of other frames.

        Records with any other frame raise an error if their subject is given as ``stops_at_unknown``.
        """
        self._name = java_class
        self._frames = list(readers)
        self._readers = list(readers.values())
        self._unreadable = unreadable
        self._frame = frame
        self._stops_at_unknown = stops_at_unknown
        self._groups = grouped([reader.schema for reader in self._readers])

    @property
    def java_class(self) -> str:  # type: ignore[override]
        return self._name

    @classmethod
    def of(cls, settings: Mapping[str, str]) -> ReaderOfBatch:
        raise NotImplementedError("a converter with a registry makes it")

    def prepare(self, data: Column) -> Column:
        parts = []
        for index, (own, reader) in enumerate(zip(self._frames, self._readers, strict=True)):
            payload = F.when(_begins(data, own), F.substring(data, len(own) + 1, _ALL))
            parts += [payload.alias(f"payload_{index}"), reader.prepare(payload).alias(f"parsed_{index}")]
        group = F.lit(None).cast("string")
        for number, members in enumerate(self._groups[1:], 1):
            for index in members.indexes:
                group = F.when(_begins(data, self._frames[index]), F.lit(str(number))).otherwise(group)
        # The optimizer neither repeats what is not deterministic nor moves a condition before it.
        once = F.spark_partition_id().alias("once")
        return F.struct(*parts, group.alias("group"), self._frame_error(data).alias("error"), once)

    @property
    def prepares_once(self) -> bool:
        return True

    def _frame_error(self, data: Column) -> Column:
        """Return the error of a row that no reader reads."""
        is_read = reduce(or_, (_begins(data, own) for own in self._frames), F.lit(False))
        frame = self._frame(data)
        error = F.when(frame.isNull(), unframed(data))
        for bad, message in self._unreadable.items():
            error = error.when(frame == F.lit(bad), F.lit(message))
        if self._stops_at_unknown:
            schema_id = F.conv(F.hex(F.substring(data, 2, FRAME_LENGTH - 1)), 16, 10)
            unknown = F.concat(
                F.lit("a record has schema "),
                schema_id,
                F.lit(
                    f", which the subject {self._stops_at_unknown} did not have when this query started: the task "
                    "knows it after its next start"
                ),
            )
            error = error.otherwise(F.raise_error(unknown).cast("string"))
        return F.when(data.isNotNull() & ~is_read, error)

    @property
    def has_varieties(self) -> bool:
        """Return whether the schemas don't fit into one."""
        return len(self._groups) > 1

    def variety(self, prepared: Column) -> Column | None:
        return None if not self.has_varieties else F.coalesce(prepared["group"], F.lit("0"))

    def to_connect(self, prepared: Column, variety: str | None) -> Decoded:
        if not self._groups:
            return Decoded(None, F.lit(None).cast("variant"), prepared["error"])
        group = self._groups[int(variety or 0)]
        errors = [prepared["error"]]
        values = []
        for index in group.indexes:
            reader = self._readers[index]
            payload, parsed = prepared[f"payload_{index}"], prepared[f"parsed_{index}"]
            errors.append(reader.error(payload, parsed))
            values.append((payload.isNotNull(), self._moved(group, reader, reader.value(payload, parsed))))
        return Decoded(group.schema, _chosen(values), F.coalesce(*errors))

    @staticmethod
    def _moved(group: SchemaGroup, reader: SchemaReader, value: Column) -> Column:
        return moved(value, spark_type(reader.schema), group.type)

    def from_connect(self, datum: Datum) -> Encoded:
        raise DataException("a reader of records does not write them")

    def header_from_connect(self, value: Column, schema: Column) -> Encoded:
        raise DataException("a reader of records does not write headers")


def _begins(data: Column, frame: bytes) -> Column:
    return F.substring(data, 1, len(frame)) == F.lit(frame)


def _chosen(values: list[tuple[Column, Column]]) -> Column:
    """Return the value of the first condition that holds. A single value has no condition."""
    if len(values) == 1:
        return values[0][1]
    (first, value), *rest = values
    chosen = F.when(first, value)
    for condition, other in rest:
        chosen = chosen.when(condition, other)
    return chosen
