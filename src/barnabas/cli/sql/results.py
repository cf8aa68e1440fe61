"""Print the result of a statement: as a table for people, as JSON lines, or as CSV."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from itertools import islice
from math import isfinite
from typing import TYPE_CHECKING, Any, TextIO

from barnabas.cli.output.table import Sheet, show
from barnabas.cli.sql.statement_errors import StatementError
from barnabas.common.printable import printable

if TYPE_CHECKING:
    import msgspec

__all__ = ["Result", "plain", "print_result"]

NULL = "NULL"
Write = Callable[[str], object]


@dataclass(frozen=True, slots=True)
class Result:
    columns: Sequence[str] = ()
    rows: Iterable[Sequence[Any]] = ()
    notes: Sequence[str] = ()
    text: str = ""
    """Printed unchanged in place of a table: a plan. Without columns, as for help, in place of JSON and CSV, too."""
    done: str = ""
    """What a statement did that has no rows."""


def print_result(result: Result, output: str, out: TextIO, *, rows_max: int) -> list[str]:
    """Print the rows, and return notes about them. ``output`` is table, json or csv.

    A table shows at most ``rows_max`` rows. Raise StatementError for columns that JSON can't have.
    """
    write = _write_escaped(out) if out.isatty() else out.write
    if result.text and (output == "table" or not result.columns):
        out.write(result.text if result.text.endswith("\n") else f"{result.text}\n")
        return []
    if not result.columns:
        return []
    match output:
        case "json":
            _print_json(result, write)
        case "csv":
            _print_csv(result, write)
        case _:
            return _print_table(result, out, rows_max)
    return []


def _print_table(result: Result, out: TextIO, rows_max: int) -> list[str]:
    rows = list(islice(result.rows, rows_max + 1))
    sheet = Sheet(columns=result.columns)
    for row in rows[:rows_max]:
        sheet.add(*map(_text, row))
    out.flush()
    show(sheet)
    if len(rows) <= rows_max:
        return []
    return [f"only the first {rows_max} rows are shown: SET rows, LIMIT, or --output json or csv for all of them"]


def _write_escaped(out: TextIO) -> Write:
    """Return a function that writes lines for a terminal, which the texts of records must not control."""
    return lambda text: out.write("\n".join(map(printable, text.split("\n"))))


def _print_json(result: Result, write: Write) -> None:
    doubled = sorted({name for name in result.columns if list(result.columns).count(name) > 1})
    if doubled:
        raise StatementError(
            f"several columns are called {', '.join(doubled)}, and an object of JSON can't have both",
            advice="give them names of their own: SELECT a.id AS order_id, b.id AS customer_id ...",
        )
    for row in result.rows:
        write(_json({name: plain(value) for name, value in zip(result.columns, row, strict=True)}) + "\n")


def _print_csv(result: Result, write: Write) -> None:
    writer = csv.writer(_Lines(write), lineterminator="\n")
    writer.writerow(result.columns)
    for row in result.rows:
        writer.writerow("" if value is None else _text(value) for value in row)


class _Lines:
    """The file that a writer of CSV needs."""

    def __init__(self, write: Write) -> None:
        self.write = write


def _text(value: Any) -> str:
    """Return the text of a cell: values as in JSON, without quotes around texts, dates, bytes and intervals."""
    value = plain(value)
    if value is None:
        return NULL
    if isinstance(value, str):
        return value
    if isinstance(value, float) and not isfinite(value):  # JSON has null for them, and they are not NULL.
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
    text = _json(value)
    return text[1:-1] if text.startswith('"') else text


def _json(value: object) -> str:
    return _encoder().encode(value).decode()


@cache
def _encoder() -> msgspec.json.Encoder:
    import msgspec

    return msgspec.json.Encoder(decimal_format="number")


def plain(value: Any) -> Any:
    """Return a value of Spark as one of JSON: rows as objects, times in UTC, variants by their content.

    Bytes stay bytes, which JSON has as base64, and decimals keep all their digits.
    """
    if isinstance(value, datetime):
        return _time(value)
    if hasattr(value, "toPython"):  # A variant.
        return plain(value.toPython())
    if hasattr(value, "asDict"):
        return {name: plain(of_field) for name, of_field in value.asDict().items()}
    if isinstance(value, Mapping):
        return {_key(key): plain(of_key) for key, of_key in value.items()}
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, list | tuple):
        return [plain(element) for element in value]
    return value


def _time(value: datetime) -> str:
    """Return the time in ISO 8601, with milliseconds unless it has finer parts; without a zone if it has none."""
    timespec = "microseconds" if value.microsecond % 1000 else "milliseconds"
    return value.isoformat(timespec=timespec).replace("+00:00", "Z")


def _key(key: Any) -> str:
    text = plain(key)
    return text if isinstance(text, str) else _json(text)
