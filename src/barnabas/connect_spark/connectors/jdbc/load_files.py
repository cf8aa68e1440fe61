"""Files between Spark and a database: Parquet on Spark's side, the format of the database's client on the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq

from barnabas.connect_spark.connectors.jdbc.column_types import ColumnType, Kind

__all__ = ["csv_pieces", "csv_to_parquet", "write_untyped"]

_ROWS_AT_A_TIME = 50_000
_NO_TYPE = pa.null()


def write_untyped(names: Sequence[str], chunks: Iterable[Sequence[tuple[object, ...]]], file: Path) -> int:
    """Write rows whose columns may mix types, as in SQLite: numbers widen, other mixtures become text."""
    tables = []
    for chunk in chunks:
        columns = [_array(list(values)) for values in zip(*chunk, strict=True)]
        tables.append(columns)
    arrays = []
    for at in range(len(names)):
        pieces = [columns[at] for columns in tables]
        kind = _common({piece.type for piece in pieces})
        arrays.append(pa.chunked_array([_cast(piece, kind) for piece in pieces], type=kind))
    table = pa.table(arrays, names=_distinct(names)) if arrays else pa.table({})
    pq.write_table(table, file)
    return int(table.num_rows)


def _array(values: list[object]) -> pa.Array:
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return pa.array([_text(value) for value in values], type=pa.string())


def _text(value: object) -> str | None:
    return value.hex() if isinstance(value, bytes) else None if value is None else str(value)


def _common(kinds: set[pa.DataType]) -> pa.DataType:
    found = kinds - {_NO_TYPE}
    if len(found) == 1:
        return found.pop()
    return pa.float64() if found == {pa.int64(), pa.float64()} else pa.string()


def _cast(piece: pa.Array, kind: pa.DataType) -> pa.Array:
    if piece.type == kind:
        return piece
    if pa.types.is_binary(piece.type):
        return pa.array([_text(value) for value in piece.to_pylist()], type=kind)
    return piece.cast(kind)


def _distinct(names: Sequence[str]) -> list[str]:
    """Raise ValueError for duplicate names: two columns of one name can't be fields of an object."""
    doubled = sorted({name for name in names if list(names).count(name) > 1})
    if doubled:
        raise ValueError(f"the result has more than one column {', '.join(doubled)}: give them names with AS")
    return list(names)


def csv_pieces(files: Sequence[Path], places: Sequence[int], scratch: Path) -> Iterator[Path]:
    """Yield Parquet files with text columns as CSV, in pieces: null is empty, every value is in quotes."""
    options = arrow_csv.WriteOptions(include_header=False, quoting_style="all_valid")
    piece = scratch / "piece.csv"
    try:
        for file in files:
            for batch in pq.ParquetFile(file).iter_batches(_ROWS_AT_A_TIME, columns=[f"c{at}" for at in places]):
                arrow_csv.write_csv(batch, piece, options)
                yield piece
    finally:
        piece.unlink(missing_ok=True)


_ARROW = {
    Kind.BOOLEAN: pa.bool_(),
    Kind.INT8: pa.int8(),
    Kind.INT16: pa.int16(),
    Kind.INT32: pa.int32(),
    Kind.INT64: pa.int64(),
    Kind.FLOAT32: pa.float32(),
    Kind.FLOAT64: pa.float64(),
    Kind.TEXT: pa.string(),
    # Transferred as hexadecimal digits, days and microseconds: see DriverDatabase.
    Kind.BYTES: pa.string(),
    Kind.DATE: pa.int32(),
    Kind.TIMESTAMP: pa.int64(),
}


def csv_to_parquet(source: Path, columns: Mapping[str, ColumnType], file: Path) -> int:
    """Convert PostgreSQL's CSV, with every value in quotes. Return the number of rows."""
    names = list(columns)
    if source.stat().st_size == 0:
        return 0
    reader = arrow_csv.open_csv(
        source,
        arrow_csv.ReadOptions(column_names=names, block_size=16 << 20),
        arrow_csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
        arrow_csv.ConvertOptions(
            column_types={name: _transferred(column_type) for name, column_type in columns.items()},
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            true_values=["t"],
            false_values=["f"],
        ),
    )
    schema = pa.schema([(name, _final(column_type)) for name, column_type in columns.items()])
    rows = 0
    with pq.ParquetWriter(file, schema) as writer:
        for batch in reader:
            arrays = [_restored(batch.column(name), column_type) for name, column_type in columns.items()]
            writer.write_batch(pa.record_batch(arrays, schema=schema))
            rows += batch.num_rows
    return rows


def _transferred(column: ColumnType) -> pa.DataType:
    return pa.decimal128(column.precision, column.scale) if column.kind is Kind.DECIMAL else _ARROW[column.kind]


def _final(column: ColumnType) -> pa.DataType:
    special = {Kind.BYTES: pa.binary(), Kind.DATE: pa.date32(), Kind.TIMESTAMP: pa.timestamp("us", tz="UTC")}
    return special.get(column.kind) or _transferred(column)


def _restored(values: pa.Array, column: ColumnType) -> pa.Array:
    if column.kind is Kind.BYTES:
        return pa.array([None if text is None else bytes.fromhex(text) for text in values.to_pylist()], pa.binary())
    if column.kind in (Kind.DATE, Kind.TIMESTAMP):
        return pc.cast(values, _final(column))
    return values
