"""``barnabas produce``: write records to a topic."""

from __future__ import annotations

import sys
import time
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
    from barnabas.clients.client_config import ClientConfig
    from barnabas.clients.producer.config import ProducerConfig

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
    "With --transactional-id, readers of committed records see all records or none: an error and Ctrl-C abort the "
    "transaction. --transaction-size and --transaction-duration-ms commit one transaction after the other.\n\n"
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
    "    barnabas produce orders --transactional-id import-1 --file lines.txt\n"
    "    barnabas produce orders --transactional-id import-1 --transaction-size 1000 < lines.txt\n"
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
    transactional_id: str | None = None,
    transaction_size: Annotated[int | None, Parameter(validator=Number(gte=1, lte=2**31 - 1))] = None,
    transaction_duration_ms: Annotated[int | None, Parameter(validator=Number(gte=1, lte=2**31 - 1))] = None,
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
    transactional_id
        Write the records in transactions of this id, which no other running producer has.
    transaction_size
        Commit a transaction after this number of records. Default: one transaction for all records.
    transaction_duration_ms
        Commit a transaction after this number of milliseconds.
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
    from barnabas.cli.records.input_format import RecordFields, format_of
    from barnabas.cli.records.times import parse_point
    from barnabas.clients.schema_registry.errors import SchemaError

    now_ms = int(time.time() * 1000)
    fields = RecordFields(
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
    own = {"acks": acks, "compression.type": compression, "transactional.id": transactional_id}
    settings = _settings(options, own)
    if settings.transactional_id is None and (transaction_size or transaction_duration_ms):
        raise UsageError("--transaction-size and --transaction-duration-ms need --transactional-id")
    try:
        format_ = format_of(fields, name, options.registry())
    except SchemaError as error:
        answer = Answer({}, problems=[Problem(str(error), name, advice=error.advice)])
        return answer.give(running_command.get(), _document_format(options))
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
            if settings.transactional_id is None:
                produced = await produce_records(config, settings, job, format_, stop)
            else:
                from barnabas.cli.records.transactional_producing import TransactionLimits, produce_in_transactions

                duration_s = None if transaction_duration_ms is None else transaction_duration_ms / 1000
                limits = TransactionLimits(transaction_size, duration_s)
                produced = await produce_in_transactions(config, settings, job, limits, format_, stop)
        finally:
            interrupted = stop.is_set()
        return _answer(produced, name, settings.transactional_id, is_quiet=options.quiet, has_stopped=interrupted)

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
        defaults = {"batch.size": str(_BATCH_BYTES)}
        return producer_config(defaults | properties, source=options.source, is_transactional=True)
    except InvalidClientConfig as error:
        raise usage_error(error) from error


def _answer(
    produced: Produced, topic: str, transactional_id: str | None, *, is_quiet: bool, has_stopped: bool
) -> Answer:
    from barnabas.cli.records.rates import summary

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
    if transactional_id is not None:
        document["transactions"] = {
            "transactional_id": transactional_id,
            "committed": produced.committed,
            "aborted": produced.aborted,
            "aborted_records": produced.aborted_records,
        }
    notes = []
    if not is_quiet:
        notes.append(("interrupted after " if has_stopped else "wrote ") + summary(produced.volume))
        if transactional_id is not None:
            notes[-1] += f" in {produced.committed:,} transaction{'' if produced.committed == 1 else 's'}"
    if produced.not_delivered:
        notes.append(f"{produced.not_delivered:,} records were read and not acknowledged; some may be in the topic")
    if produced.aborted:
        count = produced.aborted_records
        notes.append(f"the open transaction with {count:,} record{'' if count == 1 else 's'} was aborted")
    sheet = Sheet(columns=("topic", "partition", "records", "first offset", "last offset"))
    for partition, (count, first, last) in sorted(produced.offsets.items()):
        sheet.add(topic, str(partition), str(count), *("" if offset < 0 else str(offset) for offset in (first, last)))
    sheets = [sheet] if produced.offsets else []
    problems = [] if produced.failure is None else [_problem(produced.failure, topic, transactional_id)]
    return Answer(document, sheets, notes, problems)


def _problem(failure: Exception, topic: str, transactional_id: str | None) -> Problem:
    from barnabas.cli.records.source import UnusableInput

    right = f"WRITE on Topic:{topic}"
    if isinstance(failure, UnusableInput):
        earlier = "the records before it were written" if transactional_id is None else "its transaction was aborted"
        return Problem(str(failure), failure.where, advice=failure.advice or f"correct it; {earlier}")
    if isinstance(failure, OSError):
        return Problem(f"can't be read: {failure.strerror or failure}", str(failure.filename or "the input"))
    if transactional_id is not None:
        from barnabas.cli.output.transaction_advice import transaction_problem
        from barnabas.clients.producer.transaction_errors import TransactionError

        if isinstance(failure, TransactionError):
            return transaction_problem(
                failure, transactional_id=transactional_id, topic=topic, right=right, advice=ADVICE
            )
    return problem_of(failure, right=right, advice=ADVICE)
