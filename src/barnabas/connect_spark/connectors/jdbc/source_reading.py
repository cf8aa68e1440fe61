"""Build the next queries of a JDBC source from its position: SQL and offsets, without a database.

Offsets have the form of the widely known JDBC source connector: ``{"protocol": "1", "table": t}`` (or
``{"query": "query"}``) -> ``{"incrementing": n}`` and ``{"timestamp": milliseconds, "timestamp_nanos": n}``.

**No row is lost at an equal time.** A batch never ends between two rows of the same time, unless an incrementing column
distinguishes them. Its upper bound is the time of the last row that fits, and all rows up to that bound are read, even
if there are many. Rows of the present moment wait until the clock of the database has advanced.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from barnabas.connect_spark.connectors.jdbc.sql_dialect import Dialect, Table, quoted, table_name

__all__ = ["Position", "Reading", "partition_of"]

_NANOS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Position:
    """All rows up to this position are in Kafka. None: no row is."""

    incrementing: int | None = None
    micros: int | None = None

    @classmethod
    def of(cls, offset: Mapping[str, Any] | None) -> Position:
        """Parse the offset. Raise ValueError."""
        found = offset or {}
        number, milliseconds = _whole(found, "incrementing"), _whole(found, "timestamp")
        nanos = _whole(found, "timestamp_nanos")
        if milliseconds is None:
            return cls(number, None)
        micros = milliseconds * 1000 if nanos is None else milliseconds // 1000 * 1_000_000 + nanos // 1000
        return cls(number, micros)

    def offset(self) -> dict[str, int]:
        offset: dict[str, int] = {}
        if self.incrementing is not None:
            offset["incrementing"] = self.incrementing
        if self.micros is not None:
            offset["timestamp"] = self.micros // 1000
            offset["timestamp_nanos"] = self.micros * 1000 % _NANOS
        return offset


def _whole(found: Mapping[str, Any], name: str) -> int | None:
    value = found.get(name)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
        raise ValueError(f"{name} must be a whole number, not {value!r}")
    return value


def partition_of(table: str | None) -> dict[str, str]:
    return {"query": "query"} if table is None else {"protocol": "1", "table": table}


@dataclass(frozen=True, slots=True)
class Reading:
    """One table or query, read in one mode."""

    dialect: Dialect
    source: str
    """The text after FROM, with its alias ``r``."""
    mode: str
    incrementing: str = ""
    timestamps: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        dialect: Dialect,
        table: Table | None,
        query: str,
        mode: str,
        incrementing: str,
        timestamps: tuple[str, ...],
    ) -> Reading:
        source = f"({query}) AS r" if table is None else f"{table_name(table)} AS r"
        return cls(dialect, source, mode, incrementing, timestamps)

    @property
    def has_times(self) -> bool:
        return "timestamp" in self.mode

    @property
    def has_numbers(self) -> bool:
        return "incrementing" in self.mode

    @property
    def _number(self) -> str:
        return f"r.{quoted(self.incrementing)}"

    @property
    def _time(self) -> str:
        """Return the compared expression: the first of the columns that is not null."""
        columns = [self.dialect.compared(f"r.{quoted(timestamp_column)}") for timestamp_column in self.timestamps]
        return columns[0] if len(columns) == 1 else f"COALESCE({', '.join(columns)})"

    @property
    def _micros(self) -> str:
        columns = [self.dialect.micros(f"r.{quoted(timestamp_column)}") for timestamp_column in self.timestamps]
        return columns[0] if len(columns) == 1 else f"COALESCE({', '.join(columns)})"

    def _after(self, position: Position) -> str:
        number = f"{self._number} > {position.incrementing}" if position.incrementing is not None else ""
        if not self.has_times:
            return number or f"{self._number} IS NOT NULL"
        if position.micros is None:
            return f"{self._time} IS NOT NULL"
        moment = self.dialect.moment(position.micros)
        if self.has_numbers and number:
            return f"({self._time} > {moment} OR ({self._time} = {moment} AND {number}))"
        return f"{self._time} > {moment}"

    @property
    def _order(self) -> list[str]:
        return ([self._time] if self.has_times else []) + ([self._number] if self.has_numbers else [])

    def end(self, position: Position, until_micros: int, rows_max: int) -> str:
        """Return the query for the end of the next batch: one row with incrementing and microseconds, or none.

        With an offset of ``rows_max - 1`` that is the last row that fits; if fewer rows exist, use ``last``.
        """
        query = f"{self._ends(position, until_micros)} ORDER BY {', '.join(self._order)}"
        return self.dialect.one_row(query, rows_max - 1)

    def last(self, position: Position, until_micros: int) -> str:
        """Return the query for the end if all rows fit."""
        backwards = ", ".join(f"{column} DESC" for column in self._order)
        return self.dialect.one_row(f"{self._ends(position, until_micros)} ORDER BY {backwards}", 0)

    def _ends(self, position: Position, until_micros: int) -> str:
        number = self.dialect.as_number(self._number) if self.has_numbers else "NULL"
        micros = self._micros if self.has_times else "NULL"
        return f"SELECT {number}, {micros} FROM {self.source} WHERE {self._between(position, until_micros)}"

    def _between(self, position: Position, until_micros: int) -> str:
        after = self._after(position)
        return f"{after} AND {self._time} < {self.dialect.moment(until_micros)}" if self.has_times else after

    def rows(self, position: Position, end: Position) -> str:
        """Return the query for a batch: after ``position``, up to and including ``end``."""
        if self.mode == "bulk":
            return f"SELECT r.* FROM {self.source}"
        order = f" ORDER BY {', '.join(self._order)}"
        return f"SELECT r.* FROM {self.source} WHERE {self._after(position)} AND {self._until(end)}{order}"

    def _until(self, end: Position) -> str:
        if not self.has_times:
            return f"{self._number} <= {end.incrementing}"
        moment = self.dialect.moment(end.micros or 0)
        if not self.has_numbers:
            return f"{self._time} <= {moment}"
        return f"({self._time} < {moment} OR ({self._time} = {moment} AND {self._number} <= {end.incrementing}))"
