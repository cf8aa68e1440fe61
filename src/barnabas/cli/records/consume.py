"""``barnabas consume``: read the records of a topic."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Annotated, Literal

from barnabas.cli.arguments.cluster_app import cluster_app, main_of
from barnabas.cli.arguments.cluster_options import Count, Flag, UsageError, running_command
from barnabas.cli.arguments.parameter import Parameter
from barnabas.cli.arguments.topic_selection import parse_partitions
from barnabas.cli.output.advice import problem_of
from barnabas.cli.output.answer import Answer, Problem
from barnabas.cli.output.exit_status import INTERRUPTED
from barnabas.cli.records.options import RecordOptions, hint, one_topic, put, usage_error
from barnabas.common.error_code import ErrorCode

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable, Callable

    from barnabas.cli.records.consuming import Consumed
    from barnabas.cli.records.printers import Printer, Readers
    from barnabas.cli.records.sink import Output
    from barnabas.cli.records.text_lines import Columns
    from barnabas.clients.client_config import ClientConfig
    from barnabas.clients.consumer.config import ConsumerConfig, GroupConfig

__all__ = ["app", "consumer_settings", "main", "print_records", "printer_of", "schema_readers"]

_TEXT = (
    "Read the records of a topic: as lines of text, or as JSON lines with everything.\n\n"
    "Without another start, only records written from now on are read, and the command follows the topic until "
    "Ctrl-C, as Kafka's console consumer does. --no-follow ends at the end that the topic has now; with it, "
    "reading begins at the beginning. Counts and rates are printed to standard error at the end, unless "
    "--quiet is used.\n\n"
    "With --group, several commands share the partitions. Reading begins after the committed offsets, and what "
    "was written is committed every 5 seconds and at the end. --include reads all topics that match a regular "
    "expression. The command joins the members of a classic group as one of them; in other groups it uses the "
    "consumer protocol, if the cluster has it. --group-protocol chooses another way.\n\n"
    "With --output json a record has the fields topic, partition, offset, timestamp (milliseconds since 1970), "
    "key, value and headers; bytes that are not UTF-8 are base64 in key_base64 or value_base64. The same lines "
    "are the input of 'barnabas produce --input json'. On a terminal, control characters are escaped.\n\n"
    "For example:\n\n"
    "    barnabas consume orders\n"
    "    barnabas consume orders --no-follow\n"
    "    barnabas consume orders --from-beginning -n 10 --print-key\n"
    "    barnabas consume orders --from -1h --until now --output json\n"
    "    barnabas consume orders --from 2026-01-31T12:30:00 --partition 0,2\n"
    "    barnabas consume orders --offset -10 --no-follow\n"
    "    barnabas consume orders --group billing --from-beginning\n"
    "    barnabas consume --include 'orders-.*' --group billing --print-topic\n"
    "    barnabas consume orders --schema-registry http://localhost:8081"
)

app = cluster_app("consume", _TEXT)
main = main_of(app)

ADVICE = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "'barnabas topics list' shows the topics that you may see",
    ErrorCode.OFFSET_OUT_OF_RANGE: "'barnabas topics offsets {item}' shows the offsets; --from-beginning begins anew",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "this needs READ on Group:{item}",
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL: "members of the group use another assignor than range, or the group is of "
    "another type: 'barnabas groups list' shows it; use another --group",
    ErrorCode.GROUP_ID_NOT_FOUND: "the group may be a share group, which 'barnabas queue' reads, or of a streams "
    "application: 'barnabas groups list' shows it; use another --group",
    ErrorCode.INVALID_REGULAR_EXPRESSION: "--include needs a regular expression of RE2, for example 'orders-.*'",
    ErrorCode.UNSUPPORTED_VERSION: "the cluster has no consumer protocol: use --group-protocol classic",
    ErrorCode.UNRELEASED_INSTANCE_ID: "another member has this group.instance.id: use another one, or stop that member",
}

_INSTEAD = {
    "auto.offset.reset": "--from-beginning or --from",
    "enable.auto.commit": "--no-commit",
    "group.id": "--group",
    "group.protocol": "--group-protocol",
}
"""Options for properties of Kafka's consumer. In a file, which other tools share, these properties have no effect."""

_FETCH_BYTES = 16 * 1024 * 1024
"""The default of fetch.max.bytes: a response of 50 MiB would wait in memory for the reader of a pipe."""


@app.default
def consume(
    topic: str | None = None,
    *,
    from_beginning: Flag = False,
    from_: Annotated[str | None, Parameter(name="--from", allow_leading_hyphen=True)] = None,
    offset: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    until: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    partition: Annotated[str | None, Parameter(name=["--partition", "--partitions"])] = None,
    max_messages: Annotated[Count | None, Parameter(name=["--max-messages", "-n"])] = None,
    no_follow: Annotated[bool, Parameter(name=["--no-follow", "-e"], show_default=False)] = False,
    timeout_ms: Count | None = None,
    group: Annotated[str | None, Parameter(name=["--group", "-g"])] = None,
    group_protocol: Literal["classic", "consumer"] | None = None,
    include: str | None = None,
    no_commit: Flag = False,
    isolation_level: Literal["read_uncommitted", "read_committed"] | None = None,
    print_key: Flag = False,
    print_headers: Flag = False,
    print_timestamp: Flag = False,
    print_topic: Flag = False,
    print_partition: Flag = False,
    print_offset: Flag = False,
    key_separator: str = "\\t",
    line_separator: str = "\\n",
    null_marker: Annotated[str, Parameter(name=["--null-marker", "--null-literal"])] = "null",
    schema_keys: Flag = False,
    options: RecordOptions | None = None,
) -> int:
    """Read the records of a topic: as lines of text, or as JSON lines with everything.

    Parameters
    ----------
    topic
        The topic to read.
    from_beginning
        Begin with the first record. With --group, only where the group has not committed an offset.
    from_
        Begin at a time: -1h or -2d12h (ago), 2026-01-31T12:30:00 (UTC), milliseconds since 1970; or beginning, end.
    offset
        Begin at this offset of --partition; -N begins N offsets before the end of each partition; or earliest, latest.
    until
        End before the first record of this time, written as for --from, or now. A time to come ends the command then.
    partition
        Only these partitions, for example 0,2.
    max_messages
        End after this number of records.
    no_follow
        End at the end that each partition has now. Without another start, begin at the beginning.
    timeout_ms
        End when no record has arrived for so many milliseconds.
    group
        Read as a member of this consumer group, and commit offsets.
    group_protocol
        The protocol of the group: classic or consumer. Default: that of the group's members; else consumer.
    include
        Read all topics that match this regular expression, instead of one topic. It needs --group.
    no_commit
        Commit no offsets for the group.
    isolation_level
        With read_committed, records of open and aborted transactions are not read. Default: read_uncommitted.
    print_key
        Print the key before the value.
    print_headers
        Print headers as name:value, separated by commas, before the key.
    print_timestamp
        Print the time, in UTC, first.
    print_topic
        Print the topic after the time.
    print_partition
        Print the partition after the topic.
    print_offset
        Print the offset after the partition.
    key_separator
        What separates the fields of a line, with the escapes \\t, \\n, \\r, \\0 and \\\\.
    line_separator
        What ends a line, with the same escapes.
    null_marker
        The text for a missing key or value.
    schema_keys
        Decode keys with the schema registry too, not only values.
    """
    options = options or RecordOptions()
    name = _chosen_topic(topic, include, group)
    now_ms = int(time.time() * 1000)
    from barnabas.cli.records.consuming import ConsumeJob
    from barnabas.cli.records.positions import Start, chosen_start
    from barnabas.cli.records.text_lines import Columns, unescaped
    from barnabas.cli.records.times import parse_point

    numbers = None if partition is None else tuple(dict.fromkeys(parse_partitions(partition)))
    if group is not None and numbers is not None:
        raise UsageError("--partition can't be used with --group: the group assigns partitions")
    if group is not None and offset is not None:
        raise UsageError("--offset can't be used with --group: use --from, or 'barnabas groups reset-offsets'")
    for option, is_given in (("--no-commit", no_commit), ("--group-protocol", group_protocol is not None)):
        if is_given and group is None:
            raise UsageError(f"{option} needs --group")
    is_start_given = from_beginning or from_ is not None or offset is not None
    start = chosen_start(
        from_beginning=from_beginning or (no_follow and not is_start_given),
        from_=from_,
        offset=offset,
        partitions=numbers,
        now_ms=now_ms,
    )
    job = ConsumeJob(
        name,
        now_ms,
        include=include,
        start=start,
        partitions=numbers,
        follows=not no_follow,
        until_ms=None if until is None else parse_point(until, "--until", now_ms),
        max_messages=max_messages,
        patience_s=None if timeout_ms is None else timeout_ms / 1000,
        group=group,
        group_config=group_settings(options, group_protocol),
        commits=not no_commit,
        shows_rates=not options.quiet and not sys.stdout.isatty(),
    )
    columns = Columns(
        timestamp=print_timestamp,
        topic=print_topic,
        partition=print_partition,
        offset=print_offset,
        headers=print_headers,
        key=print_key,
        separator=unescaped(key_separator, "--key-separator"),
        line_end=unescaped(line_separator, "--line-separator"),
        null=unescaped(null_marker, "--null-marker"),
    )
    settings = consumer_settings(options, isolation_level)
    readers = schema_readers(options, schema_keys=schema_keys)
    if start == Start() and group is None:
        hint("waiting for new records; --from-beginning also reads those that exist. Ctrl-C ends", options)
    printer = printer_of(options.output or "text", columns, readers, with_topic=name is None)

    async def work(config: ClientConfig, output: Output, stop: asyncio.Event) -> Consumed:
        from barnabas.cli.records.consuming import consume_records

        return await consume_records(config, settings, job, printer, output, stop)

    about = name or include or ""
    return print_records(options, about, work, right=_right(about, group))


def _chosen_topic(topic: str | None, include: str | None, group: str | None) -> str | None:
    """Return the topic; None for those that match --include. Raise UsageError."""
    if include is None:
        return one_topic(topic)
    if topic is not None:
        raise UsageError("--include can't be used with a topic: choose one of them")
    if group is None:
        raise UsageError("--include needs --group: the coordinator of the group finds the topics")
    return None


def _right(topic: str, group: str | None) -> str:
    return f"READ on Topic:{topic}" + (f" and on Group:{group}" if group else "")


def print_records(
    options: RecordOptions,
    topic: str,
    read: Callable[[ClientConfig, Output, asyncio.Event], Awaitable[Consumed]],
    *,
    right: str,
) -> int:
    """Read and print records, and return the exit status. ``read`` writes to the output until Ctrl-C."""
    interrupted = False

    async def work(config: ClientConfig, stop: asyncio.Event) -> Answer:
        from barnabas.cli.records.sink import StandardOutput

        nonlocal interrupted
        try:
            consumed = await read(config, StandardOutput(), stop)
        finally:
            interrupted = stop.is_set()
        return _answer_of(consumed, topic, is_quiet=options.quiet, has_stopped=interrupted)

    answer = options.run_until_stopped(work, topic, right=right, advice=ADVICE)
    status = answer.give(running_command.get(), "table")
    return INTERRUPTED if interrupted else status


def _answer_of(consumed: Consumed, topic: str, *, is_quiet: bool, has_stopped: bool) -> Answer:
    """Return the summary and the problem, for standard error. Raise BrokenPipeError if the reader has ended."""
    from barnabas.cli.records.printers import UnreadableRecord
    from barnabas.cli.records.rates import summary
    from barnabas.protocol.errors import DecodeError

    failure = consumed.failure
    if isinstance(failure, BrokenPipeError):
        raise failure
    notes = list(consumed.notes)
    if consumed.skipped:
        notes.append(f"{consumed.skipped:,} offsets were deleted before they could be read")
    if not is_quiet:
        notes.append(("interrupted after " if has_stopped else "read ") + summary(consumed.volume))
    if failure is None:
        return Answer({}, notes=notes)
    if isinstance(failure, UnreadableRecord):
        problem = Problem(str(failure), failure.topic, advice=failure.advice)
    elif isinstance(failure, DecodeError):
        problem = Problem(f"a batch can't be read: {failure}", topic, advice="--command-property check.crcs=false")
    elif isinstance(failure, OSError):
        problem = Problem(f"the output can't be written: {failure.strerror or failure}")
    else:
        problem = problem_of(failure, right=f"READ on Topic:{topic}", advice=ADVICE)
    return Answer({}, notes=notes, problems=[problem])


def consumer_settings(options: RecordOptions, isolation_level: str | None) -> ConsumerConfig:
    """Return the settings of the file and the command line. Raise UsageError."""
    from barnabas.clients.consumer.config import CONSUMER_PROPERTIES, consumer_config
    from barnabas.clients.errors import InvalidClientConfig

    try:
        properties = options.properties({"isolation.level": isolation_level}, CONSUMER_PROPERTIES, _INSTEAD)
        return consumer_config({"fetch.max.bytes": put(_FETCH_BYTES) or ""} | properties, source=options.source)
    except InvalidClientConfig as error:
        raise usage_error(error) from error


def group_settings(options: RecordOptions, protocol: str | None) -> GroupConfig:
    """Return the settings of a member. Raise UsageError."""
    from barnabas.clients.consumer.config import CONSUMER_PROPERTIES, group_config
    from barnabas.clients.errors import InvalidClientConfig

    try:
        properties = options.properties({"group.protocol": protocol}, CONSUMER_PROPERTIES, _INSTEAD)
        return group_config(properties, source=options.source)
    except InvalidClientConfig as error:
        raise usage_error(error) from error


def schema_readers(options: RecordOptions, *, schema_keys: bool) -> Readers:
    """Return how values, and with ``schema_keys`` keys, are decoded. Raise UsageError."""
    from barnabas.cli.records.printers import Readers

    registry = options.registry()
    if registry is None:
        if schema_keys:
            raise UsageError("--schema-keys needs --schema-registry")
        return Readers()
    from barnabas.cli.records.schemas.codecs import SchemaReader

    reader = SchemaReader(registry)
    return Readers(reader.read if schema_keys else None, reader.read)


def printer_of(output: str, columns: Columns, readers: Readers, *, with_topic: bool = False) -> Printer:
    from barnabas.cli.records.printers import DocumentPrinter, RowPrinter, TextPrinter

    if output == "text":
        return TextPrinter(columns, readers)
    if output == "table":
        return RowPrinter(readers, with_topic=with_topic)
    return DocumentPrinter(readers, is_yaml=output == "yaml")
