"""Rows of ``kraft-metadata``.

A record that can't be decoded keeps its bytes in ``raw`` and the reason in ``problem``. Secrets are hidden unless the
read asks for them: keys of SCRAM credentials, and settings of brokers that are passwords or unknown. A hidden record
has no ``raw``, and neither has a credential or a setting that can't be decoded.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from barnabas.access.cluster_state import HIDDEN, ConfigTarget, is_secret
from barnabas.pipelines.sources.arrow_rows import ArrowRows
from barnabas.pipelines.sources.log_batches import Damage
from barnabas.pipelines.sources.record_types import converter_of, record_struct
from barnabas.protocol.control_record import decode_control_record
from barnabas.protocol.errors import DecodeError
from barnabas.protocol.message_json import message_to_json
from barnabas.protocol.record_batch import BatchView, Record
from barnabas.protocol.record_serde import decode_metadata_record, metadata_record_types
from barnabas.protocol.records.config_record import ConfigRecord
from barnabas.protocol.records.no_op_record import NoOpRecord
from barnabas.protocol.records.user_scram_credential_record import UserScramCredentialRecord
from barnabas.protocol.schema import Message

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["MetadataRows", "RowOptions", "metadata_schema"]

_ROWS_MAX: Final = 4_096

_TYPE_NAMES: Final = metadata_record_types()
_TYPES_WITH_SECRETS: Final = frozenset(cls.__name__ for cls in (ConfigRecord, UserScramCredentialRecord))
_SCRAM_SECRETS: Final = ("salt", "storedKey", "serverKey")


class RowOptions(NamedTuple):
    types: frozenset[str] = frozenset()
    """Only records of these types. Empty: all."""
    is_struct: bool = False
    """``record`` is a struct with a field for each type, not a JSON text."""
    with_raw: bool = True
    shows_secrets: bool = False


class _Row(NamedTuple):
    offset: int
    epoch: int | None
    timestamp: int | None
    type: str | None
    version: int | None
    record: object
    raw: bytes | None
    problem: str | None
    file: str
    snapshot_offset: int | None


def metadata_schema(options: RowOptions) -> StructType:
    """Return the columns of ``kraft-metadata``."""
    record: DataType = record_struct(options.types) if options.is_struct else StringType()
    return StructType(
        [
            StructField("offset", LongType()),
            StructField("epoch", IntegerType()),
            StructField("timestamp", TimestampType()),
            StructField("type", StringType()),
            StructField("version", IntegerType()),
            StructField("record", record),
            StructField("raw", BinaryType()),
            StructField("problem", StringType()),
            StructField("file", StringType()),
            StructField("snapshot_offset", LongType()),
        ]
    )


class MetadataRows:
    """Collects rows of one file. Call ``add_batch`` and ``add_damage``, and at last ``rest``."""

    def __init__(self, options: RowOptions, *, file: str, snapshot_offset: int | None = None) -> None:
        """``snapshot_offset``: the exclusive end of the snapshot that the file is; None for the log."""
        self._options = options
        self._file = file
        self._snapshot_offset = snapshot_offset
        self._rows = ArrowRows(metadata_schema(options), rows_max=_ROWS_MAX)

    def add_batch(self, batch: BatchView, *, start: int = 0, refuse: bool = True) -> Iterator[pa.RecordBatch]:
        """Add the records from offset ``start`` of a batch whose checksum is right; yield what is full.

        Raises DecodeError for a record that can't be decoded if ``refuse``, and for records that can't be parted.
        """
        for record in batch.records():
            row = self._row(batch, record) if record.offset >= start else None
            if refuse and row is not None and row.problem is not None:
                raise DecodeError(f"offset {record.offset}: {row.problem}")
            if row is not None:
                yield from self._rows.add(row, 200 + 2 * len(record.value or b""))

    def add_damage(self, damage: Damage) -> None:
        row = _Row(damage.offset, None, None, None, None, None, None, damage.text, self._file, self._snapshot_offset)
        self._rows.add_small(row)

    def rest(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows that are left, if any."""
        return self._rows.rest()

    def _row(self, batch: BatchView, record: Record) -> _Row | None:
        if self._is_left_out(batch, record):
            return None
        try:
            message, version = _decoded(batch, record)
        except DecodeError as error:
            is_hidden = not self._options.shows_secrets and _type_in_frame(batch, record) in _TYPES_WITH_SECRETS
            raw = None if is_hidden else record.value
            return self._new_row(batch, record, None, None, None, raw, f"record can't be decoded: {error}")
        name = type(message).__name__
        types = self._options.types
        if types and name not in types:
            return None
        is_hidden = not self._options.shows_secrets and _has_secrets(message)
        shown = (
            self._struct(name, message, is_hidden) if self._options.is_struct else _text(message, version, is_hidden)
        )
        return self._new_row(batch, record, name, version, shown, None if is_hidden else record.value, None)

    def _is_left_out(self, batch: BatchView, record: Record) -> bool:
        """Whether the frame alone shows that the record has a type that was not requested."""
        name = _type_in_frame(batch, record) if self._options.types else None
        return name is not None and name not in self._options.types

    def _new_row(
        self,
        batch: BatchView,
        record: Record,
        name: str | None,
        version: int | None,
        shown: object,
        raw: bytes | None,
        problem: str | None,
    ) -> _Row:
        return _Row(
            record.offset,
            batch.leader_epoch,
            record.timestamp,
            name,
            version,
            shown,
            raw if self._options.with_raw or problem else None,
            problem,
            self._file,
            self._snapshot_offset,
        )

    def _struct(self, name: str, message: Message, is_hidden: bool) -> dict[str, Any]:
        if not message.FIELDS:
            return {name: True}
        fields = converter_of(type(message))(message)
        if is_hidden:
            fields.update(dict.fromkeys(_secret_fields(message)))
        return {name: fields}


def _type_in_frame(batch: BatchView, record: Record) -> str | None:
    """Return the type that the record's frame names, without decoding it; None if it is unknown."""
    value = record.value
    is_framed = not batch.is_control and value is not None and len(value) >= 2 and value[0] == 1
    return _TYPE_NAMES.get(value[1]) if is_framed and value is not None else None


def _decoded(batch: BatchView, record: Record) -> tuple[Message, int]:
    if batch.is_control:
        control = decode_control_record(record.key, record.value)
        return control.message, control.version
    return decode_metadata_record(record.value or b"")


def _has_secrets(message: Message) -> bool:
    if isinstance(message, ConfigRecord):
        target = ConfigTarget(message.resource_type, message.resource_name)
        return message.value is not None and is_secret(target, message.name)
    return isinstance(message, UserScramCredentialRecord)


def _secret_fields(message: Message) -> tuple[str, ...]:
    return ("value",) if isinstance(message, ConfigRecord) else _SCRAM_SECRETS


def _text(message: Message, version: int, is_hidden: bool) -> str:
    if isinstance(message, NoOpRecord):
        return "{}"
    fields = message_to_json(message, version)
    if is_hidden:
        fields.update(dict.fromkeys(_secret_fields(message), HIDDEN))
    return json.dumps(fields, separators=(",", ":"))
