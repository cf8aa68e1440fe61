"""``barnabas produce``: write records to a topic."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from barnabas.cli.arguments.cluster_app import cluster_app, main_of
from barnabas.cli.arguments.cluster_options import Flag, UsageError, running_command
from barnabas.cli.arguments.parameter import Number, Parameter
from barnabas.cli.arguments.standard_input import STANDARD_INPUT
from barnabas.cli.output.advice import problem_of
from barnabas.cli.output.answer import Answer, Problem
from barnabas.cli.output.exit_status import INTERRUPTED
from barnabas.cli.output.table import Sheet
from barnabas.cli.records.options import RecordOptions, hint, one_topic, usage_error
from barnabas.common.error_code import ErrorCode

if TYPE_CHECKING:
    import asyncio

    from barnabas.cli.records.producing import Produced
    from barnabas.cli.records.schemas.codecs import SchemaWriter
    from barnabas.cli.records.schemas.registry import SchemaRegistry
    from barnabas.cli.records.source import Format
    from barnabas.clients.client_config import ClientConfig
    from barnabas.clients.producer.config import ProducerConfig
    from barnabas.protocol.record_batch import Header

__all__ = ["app", "main"]

_TEXT = (
    "Write records to a topic: each line of the standard input, or of files, is a record.\n\n"
    "Records with a key go to the partition that Kafka's own clients choose. The others stay with one "
    "partition for a batch. All replicas in sync acknowledge each record, and the cluster has it only once, "
    "however often it is sent again. The first record that can't be written ends the command, with exit status "
    "1. The number of records and their rate are printed to standard error, unless --quiet is used; --output "
    "json prints counts and offsets.\n\n"
    "With --input json, each line has the fields that 'barnabas consume --output json' prints: value, key, "
    "headers, timestamp, and value_base64 or key_base64 for bytes. A value that is not a text is written as "
    "JSON.\n\n"
    "With a schema registry, values are encoded with a schema: the latest one of the subject TOPIC-value, "
    "unless --value-schema names another. Lines are then values in JSON.\n\n"
    "For example:\n\n"
    "    barnabas produce orders < lines.txt\n"
    "    barnabas produce orders --file lines.txt --compression zstd --acks all\n"
    "    barnabas produce orders --parse-key --key-separator : < keyed.txt\n"
    "    barnabas produce orders --key c17 --header source=shop < lines.txt\n"
    "    barnabas produce orders --input json --file records.jsonl\n"
    "    barnabas produce pictures --whole --file picture.png --key picture.png\n"
    "    barnabas produce orders --command-property linger.ms=50 < lines.txt\n"
    "    barnabas produce orders --schema-registry http://localhost:8081 < values"
)

app = cluster_app("produce", _TEXT)
main = main_of(app)

_BATCH_BYTES = 256 * 1024
"""The default of batch.size. Kafka's 16 KiB would be six thousand batches for a million small records."""

ADVICE = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "'barnabas topics create {item}' creates the topic",
    ErrorCode.LEADER_NOT_AVAILABLE: "'barnabas topics describe {item}' shows the partitions without a leader",
    ErrorCode.NOT_ENOUGH_REPLICAS: (
        "the number of replicas in sync is below min.insync.replicas; 'barnabas topics describe {item} "
        "--under-min-isr-partitions' lists the partitions; --acks 1 does not wait for followers"
    ),
    ErrorCode.MESSAGE_TOO_LARGE: (
        "a record is larger than the topic's max.message.bytes; "
        "'barnabas configs alter --topic {item} --config max.message.bytes=...' raises it"
    ),
    ErrorCode.RECORD_LIST_TOO_LARGE: "a record is larger than a segment of the topic (segment.bytes)",
    ErrorCode.INVALID_RECORD: "the topic is compacted, so each record needs a key: use --parse-key or --key",
    ErrorCode.INVALID_TIMESTAMP: "the topic refuses this time: check --timestamp, and the clock of this machine",
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE: "the cluster does not support this compression: change --compression",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "the topic is internal, or its name is invalid: use another topic",
}


@dataclass(frozen=True, slots=True)
class _Fields:
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


@app.default
def produce(
    topic: str | None = None,
    *,
    file: Annotated[list[str] | None, Parameter(name=["--file", "-f"])] = None,
    input_: Annotated[Literal["text", "json"], Parameter(name=["--input", "-i"])] = "text",
    whole: Flag = False,
    key: Annotated[str | None, Parameter(name=["--key", "-k"])] = None,
    header: Annotated[list[str] | None, Parameter(name=["--header", "-H"])] = None,
    parse_key: Flag = False,
    parse_headers: Flag = False,
    key_separator: str = "\\t",
    line_separator: str = "\\n",
    null_marker: Annotated[str | None, Parameter(name=["--null-marker", "--null-literal"])] = None,
    partition: Annotated[int | None, Parameter(validator=Number(gte=0, lte=2**31 - 1))] = None,
    keep_partitions: Flag = False,
    timestamp: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    acks: Annotated[
        Literal["all", "-1", "0", "1"] | None, Parameter(name=["--acks", "--request-required-acks"])
    ] = None,
    compression: Annotated[
        Literal["none", "gzip", "snappy", "lz4", "zstd"] | None,
        Parameter(name=["--compression", "--compression-type", "--compression-codec", "-z"]),
    ] = None,
    value_schema: str | None = None,
    key_schema: str | None = None,
    value_message: str = "",
    key_message: str = "",
    options: RecordOptions | None = None,
) -> int:
    """Write records to a topic: each line of the standard input, or of files, is a record.

    Parameters
    ----------
    topic
        The topic to write to. It must exist.
    file
        A file to read, or - for the standard input, which is the default. May be repeated.
    input_
        Format of the input: text, a record on each line; or json, JSON lines.
    whole
        Each file is one record.
    key
        The key of all records.
    header
        A header of all records, as name=value. May be repeated.
    parse_key
        Each line begins with the key and --key-separator.
    parse_headers
        Each line begins with headers as name:value, separated by commas, and --key-separator.
    key_separator
        What follows headers and key in a line, with the escapes \\t, \\n, \\r, \\0 and \\\\.
    line_separator
        What ends a line, with the same escapes.
    null_marker
        The text that means a missing key, or a tombstone as value.
    partition
        Write all records to this partition.
    keep_partitions
        With --input json, write each record to the partition that its line names.
    timestamp
        The time of all records: 2026-01-31T12:30:00 (UTC), -1h (ago), or milliseconds since 1970. Default: now.
    acks
        Which replicas must acknowledge a record: all in sync, the leader (1), none (0). Default: all.
    compression
        Compression of batches. Default: none.
    value_schema
        The schema of values: latest, the id of a schema, or a file .avsc, .json or .proto, which is registered.
    key_schema
        The schema of keys, which are not encoded without it.
    value_message
        The message of a Protobuf schema. Default: its first one.
    key_message
        The same for keys.
    """
    options = options or RecordOptions()
    name = one_topic(topic)
    from barnabas.cli.records.times import parse_point

    now_ms = int(time.time() * 1000)
    fields = _Fields(
        input_=input_,
        whole=whole,
        key=key,
        header=header or [],
        parse_key=parse_key,
        parse_headers=parse_headers,
        key_separator=key_separator,
        line_separator=line_separator,
        null_marker=null_marker,
        keep_partitions=keep_partitions,
        timestamp_ms=None if timestamp is None else parse_point(timestamp, "--timestamp", now_ms),
        value_schema=value_schema,
        key_schema=key_schema,
        value_message=value_message,
        key_message=key_message,
    )
    if keep_partitions and (input_ != "json" or partition is not None):
        raise UsageError("--keep-partitions needs --input json, and can't be used with --partition")
    settings = _settings(options, {"acks": acks, "compression.type": compression})
    format_ = _format(fields, name, options)
    if isinstance(format_, Answer):
        return format_.give(running_command.get(), _document_format(options))
    paths = ["-" if path == STANDARD_INPUT else path for path in file or ["-"]]
    if paths == ["-"] and sys.stdin.isatty():
        hint("each line is a record; Ctrl-D ends", options)
    interrupted = False

    async def work(config: ClientConfig, stop: asyncio.Event) -> Answer:
        from barnabas.cli.records.producing import ProduceJob, produce_records

        nonlocal interrupted
        job = ProduceJob(
            name,
            paths,
            partition=partition,
            timestamp_ms=fields.timestamp_ms,
            shows_rates=not options.quiet and not sys.stdin.isatty(),
        )
        try:
            produced = await produce_records(config, settings, job, format_, stop)
        finally:
            interrupted = stop.is_set()
        return _answer(produced, name, is_quiet=options.quiet, has_stopped=interrupted)

    answer = options.run_until_stopped(work, name, right=f"WRITE on Topic:{name}", advice=ADVICE)
    if options.output != "table":
        answer.sheets = []
    status = answer.give(running_command.get(), _document_format(options))
    return INTERRUPTED if interrupted else status


def _document_format(options: RecordOptions) -> str:
    return options.output if options.output in ("json", "yaml") else "table"


def _settings(options: RecordOptions, own: dict[str, str | None]) -> ProducerConfig:
    from barnabas.clients.errors import InvalidClientConfig
    from barnabas.clients.producer.config import PRODUCER_PROPERTIES, producer_config

    try:
        properties = options.properties(own, PRODUCER_PROPERTIES)
        return producer_config({"batch.size": str(_BATCH_BYTES)} | properties, source=options.source)
    except InvalidClientConfig as error:
        raise usage_error(error) from error


def _format(fields: _Fields, topic: str, options: RecordOptions) -> Format | Answer:
    """Return how the input is read, or the problem of a schema. Raise UsageError."""
    from barnabas.cli.records.schemas.errors import SchemaError

    try:
        write_key, write_value = _schema_writers(fields, topic, options)
    except SchemaError as error:
        return Answer({}, problems=[Problem(str(error), topic, advice=error.advice)])
    if fields.input_ == "json":
        return _json_format(fields, write_key, write_value)
    return _text_format(fields, write_key, write_value)


def _schema_writers(
    fields: _Fields, topic: str, options: RecordOptions
) -> tuple[SchemaWriter | None, SchemaWriter | None]:
    registry = options.registry()
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


def _json_format(fields: _Fields, write_key: SchemaWriter | None, write_value: SchemaWriter | None) -> Format:
    from barnabas.cli.records.json_lines import InputError
    from barnabas.cli.records.source import JsonFormat
    from barnabas.cli.records.times import parse_point

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


def _text_format(fields: _Fields, write_key: SchemaWriter | None, write_value: SchemaWriter | None) -> Format:
    from barnabas.cli.records.source import TextFormat, WholeFormat
    from barnabas.cli.records.text_lines import LineParser, unescaped

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
    from barnabas.cli.records.text_lines import unescaped

    separator = unescaped(text, option)
    if not separator:
        raise UsageError(f"{option}: the separator is empty")
    return separator


def _header(text: str) -> Header:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UsageError(f"--header {text}: write a header as name=value")
    return name, value.encode()


def _answer(produced: Produced, topic: str, *, is_quiet: bool, has_stopped: bool) -> Answer:
    from barnabas.cli.records.rates import summary
    from barnabas.cli.records.source import UnusableInput

    document: dict[str, object] = {
        "topic": topic,
        **produced.volume.document(),
        "not_delivered": produced.not_delivered,
        "partitions": [
            {
                "partition": partition,
                "records": count,
                "first_offset": first if first >= 0 else None,
                "last_offset": last if last >= 0 else None,
            }
            for partition, (count, first, last) in sorted(produced.offsets.items())
        ],
    }
    notes = []
    if not is_quiet:
        notes.append(("interrupted after " if has_stopped else "wrote ") + summary(produced.volume))
    if produced.not_delivered:
        notes.append(f"{produced.not_delivered:,} records were read and not acknowledged; some may be in the topic")
    failure = produced.failure
    sheet = Sheet(columns=("topic", "partition", "records", "first offset", "last offset"))
    for partition, (count, first, last) in sorted(produced.offsets.items()):
        sheet.add(topic, str(partition), str(count), *("" if offset < 0 else str(offset) for offset in (first, last)))
    sheets = [sheet] if produced.offsets else []
    if failure is None:
        return Answer(document, sheets, notes)
    if isinstance(failure, UnusableInput):
        problem = Problem(
            str(failure), failure.where, advice=failure.advice or "correct it; the records before it were written"
        )
    elif isinstance(failure, OSError):
        problem = Problem(f"can't be read: {failure.strerror or failure}", str(failure.filename or "the input"))
    else:
        problem = problem_of(failure, right=f"WRITE on Topic:{topic}", advice=ADVICE)
    return Answer(document, sheets, notes, [problem])
