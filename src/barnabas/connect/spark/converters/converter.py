"""The port that every converter implements: bytes of a key, value or header <-> a typed column.

Both directions are expressions of Spark: nothing runs in Python for each row (Protobuf excepted, whose decoder is
Python's and works on Arrow batches). An expression never raises; it tells with ``error`` which rows are bad and why,
so that a bad record is one bad row and not a failed task.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from barnabas.connect.spark.converters.connect_schema import ConnectSchema

if TYPE_CHECKING:
    from pyspark.sql import Column

    from barnabas.connect.spark.converters.record_batch import Datum

__all__ = ["Converter", "Decoded", "Encoded"]


@dataclass(frozen=True)
class Decoded:
    """What to_connect makes of bytes."""

    schema: ConnectSchema | None
    column: Column
    error: Column
    """A string that says what is wrong with this row; null where nothing is."""


@dataclass(frozen=True)
class Encoded:
    """What from_connect makes of typed data."""

    column: Column
    """Binary."""
    error: Column


class Converter(ABC):
    """One object serves the keys, the values or the headers of one task."""

    java_class: ClassVar[str]
    """The full name under which Connect knows it; dead letters and error messages show it."""

    def prepare(self, data: Column) -> Column:
        """What is worth computing once per row before anything else: parsed JSON. By default the bytes themselves."""
        return data

    def variety(self, prepared: Column) -> Column | None:
        """A string by which rows of different schemas are told apart; None if this converter has only one schema.

        Rows of one variety go together through ``to_connect``. Null is a variety as well.
        """
        return None

    @abstractmethod
    def to_connect(self, prepared: Column, variety: str | None) -> Decoded:
        """Typed data of rows that are all of this variety. Raises DataException if none of them can be read."""

    @abstractmethod
    def from_connect(self, datum: Datum) -> Encoded:
        """Bytes of typed data. Raises DataException if no row of this schema can be written."""
