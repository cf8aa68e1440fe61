"""Rows of a query as records: the key, and the value or, for rows that delete, none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.connect_spark.sql.declarations import EVENT_TIME, METADATA_COLUMNS, OutputDeclaration, OutputMode
from barnabas.connect_spark.sql.query import InvalidQuery

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

__all__ = ["check_rows", "key_column", "value_column", "value_names"]

_NOT_WRITTEN = frozenset((*METADATA_COLUMNS, EVENT_TIME))


def value_names(columns: Sequence[str]) -> list[str]:
    """Return the columns that are written: metadata of the inputs only under another name."""
    return [name for name in columns if name not in _NOT_WRITTEN]


def check_rows(rows: DataFrame, output: OutputDeclaration) -> None:
    """Check that the rows have what the output needs. Raise InvalidQuery."""
    names = rows.columns
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        raise InvalidQuery(f"the query has more than one column {', '.join(doubled)}: name them with AS.")
    missing = [name for name in output.key if name not in names]
    if missing:
        raise InvalidQuery(f"output.key has {', '.join(missing)}, and the query has the columns {', '.join(names)}.")
    if not value_names(names):
        raise InvalidQuery(f"the query has only metadata of records ({', '.join(names)}): name columns with AS.")
    if output.delete_when is None:
        return
    try:
        kind = rows.select(_condition(output.delete_when)).schema[0].dataType.simpleString()
    except Exception as error:
        text = (str(error).strip().splitlines() or [""])[0]
        raise InvalidQuery(f"output.delete.when={output.delete_when} can't be computed: {text}") from None
    if kind != "boolean":
        raise InvalidQuery(f"output.delete.when={output.delete_when} is of the type {kind}, and must be a condition.")


def key_column(output: OutputDeclaration, *, is_object: bool) -> Column | None:
    """Return the key: the column itself if there is one, unless an object is wanted. A row of a key that is null fails
    where keys identify rows."""
    from pyspark.sql import functions as F

    if not output.key:
        return None
    columns = [_known(name) if output.mode is OutputMode.UPSERT else F.col(_quoted(name)) for name in output.key]
    named = [column.alias(name) for column, name in zip(columns, output.key, strict=True)]
    return F.struct(*named) if is_object or len(named) > 1 else columns[0]


def value_column(rows: DataFrame, output: OutputDeclaration) -> Column:
    """Return the value, null for rows that delete."""
    from pyspark.sql import functions as F

    value = F.struct(*(F.col(_quoted(name)) for name in value_names(rows.columns)))
    if output.delete_when is None:
        return value
    return F.when(~F.coalesce(_condition(output.delete_when), F.lit(False)), value)


def _known(name: str) -> Column:
    from pyspark.sql import functions as F

    text = F.lit(f"{name} is null, but output.key says that it identifies the row")
    column = F.col(_quoted(name))
    return F.coalesce(column, F.raise_error(text))


def _condition(text: str) -> Column:
    from pyspark.sql import functions as F

    return F.expr(text)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
