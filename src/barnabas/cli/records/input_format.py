"""How the input of ``barnabas produce`` is read, from the options that say what a record is made of."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from barnabas.cli.arguments.cluster_options import UsageError
from barnabas.cli.records.json_lines import InputError
from barnabas.cli.records.source import JsonFormat, TextFormat, WholeFormat
from barnabas.cli.records.text_lines import LineParser, unescaped
from barnabas.cli.records.times import parse_point

if TYPE_CHECKING:
    from barnabas.cli.records.schemas.codecs import SchemaWriter
    from barnabas.cli.records.source import Format
    from barnabas.clients.schema_registry.registry_client import SchemaRegistry
    from barnabas.protocol.record_batch import Header

__all__ = ["RecordFields", "format_of"]


@dataclass(frozen=True, slots=True)
class RecordFields:
    """Options that say what a record is made of."""

    input_: Literal["text", "json"]
    whole: bool
    key: str | None
    header: list[str]
    parse_key: bool
    parse_headers: bool
    key_separator: str
    line_separator: str
    null_marker: str | None
    keep_partitions: bool
    timestamp_ms: int | None
    value_schema: str | None
    key_schema: str | None
    value_message: str
    key_message: str


def format_of(fields: RecordFields, topic: str, registry: SchemaRegistry | None) -> Format:
    """Return how the input is read. Raise UsageError, or SchemaError for a schema that can't be had."""
    write_key, write_value = _schema_writers(fields, topic, registry)
    if fields.input_ == "json":
        return _json_format(fields, write_key, write_value)
    return _text_format(fields, write_key, write_value)


def _schema_writers(
    fields: RecordFields, topic: str, registry: SchemaRegistry | None
) -> tuple[SchemaWriter | None, SchemaWriter | None]:
    if registry is None:
        for option, value in (
            ("--value-schema", fields.value_schema),
            ("--key-schema", fields.key_schema),
            ("--value-message", fields.value_message),
            ("--key-message", fields.key_message),
        ):
            if value:
                raise UsageError(f"{option} needs --schema-registry")
        return None, None
    if fields.key_message and not fields.key_schema:
        raise UsageError("--key-message needs --key-schema")

    def writer(known: SchemaRegistry, kind: str, choice: str, message: str) -> SchemaWriter:
        from barnabas.cli.records.schemas.codecs import SchemaWriter, chosen_schema

        return SchemaWriter(known, chosen_schema(known, f"{topic}-{kind}", choice), message=message)

    of_keys = writer(registry, "key", fields.key_schema, fields.key_message) if fields.key_schema else None
    return of_keys, writer(registry, "value", fields.value_schema or "latest", fields.value_message)


def _json_format(fields: RecordFields, write_key: SchemaWriter | None, write_value: SchemaWriter | None) -> Format:
    for option, is_given in (
        ("--whole", fields.whole),
        ("--key", fields.key is not None),
        ("--header", bool(fields.header)),
        ("--parse-key", fields.parse_key),
        ("--parse-headers", fields.parse_headers),
        ("--null-marker", fields.null_marker is not None),
    ):
        if is_given:
            raise UsageError(f"{option} can't be used with --input json: each line has key, headers and value")

    fixed_ms = fields.timestamp_ms

    def timestamp_of(given: int | str | None) -> int:
        if fixed_ms is not None:
            return fixed_ms
        if isinstance(given, int) and given >= 0:
            return given
        now_ms = int(time.time() * 1000)
        if given is None or given == -1:
            return now_ms
        if isinstance(given, int):
            raise InputError(f"timestamp {given} is negative: write milliseconds since 1970")
        try:
            return parse_point(given, "timestamp", now_ms)
        except UsageError as error:
            raise InputError(str(error)) from error

    return JsonFormat(
        timestamp_of,
        keeps_partitions=fields.keep_partitions,
        write_key=None if write_key is None else write_key.write,
        write_value=None if write_value is None else write_value.write,
    )


def _text_format(fields: RecordFields, write_key: SchemaWriter | None, write_value: SchemaWriter | None) -> Format:
    if fields.key is not None and fields.parse_key:
        raise UsageError("--key and --parse-key can't be used together: both set the key")
    if fields.whole and (fields.parse_key or fields.parse_headers):
        raise UsageError("--whole can't be used with --parse-key or --parse-headers: use --key and --header")
    key = None if fields.key is None else fields.key.encode()
    parser = LineParser(
        has_headers=fields.parse_headers,
        has_key=fields.parse_key,
        separator=_separator(fields.key_separator, "--key-separator"),
        null=None if fields.null_marker is None else unescaped(fields.null_marker, "--null-marker"),
        key=key if key is None or write_key is None else write_key.write_text(key),
        headers=tuple(map(_header, fields.header)),
        write_key=None if write_key is None else write_key.write_text,
        write_value=None if write_value is None else write_value.write_text,
    )
    fixed_ms = fields.timestamp_ms
    text = TextFormat(
        parser,
        lambda: int(time.time() * 1000) if fixed_ms is None else fixed_ms,
        _separator(fields.line_separator, "--line-separator"),
    )
    return WholeFormat(text) if fields.whole else text


def _separator(text: str, option: str) -> bytes:
    separator = unescaped(text, option)
    if not separator:
        raise UsageError(f"{option}: the separator is empty")
    return separator


def _header(text: str) -> Header:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UsageError(f"--header {text}: write a header as name=value")
    return name, value.encode()
