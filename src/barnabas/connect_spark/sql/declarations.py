"""What a query reads and where its rows go, as settings declare it. Nothing here imports PySpark.

A connector writes ``inputs=orders,customers`` and the settings of each below ``inputs.<name>.``; a shell writes the
same settings without that prefix. All problems of a configuration are reported together, by setting.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import TypeVar

__all__ = [
    "EVENT_TIME",
    "FORMATS",
    "METADATA_COLUMNS",
    "ConverterChoice",
    "InputDeclaration",
    "InvalidDeclaration",
    "OutputDeclaration",
    "OutputMode",
    "StartKind",
    "StartPoint",
    "TableKind",
    "TableLocation",
    "listed",
    "parse_input",
    "parse_inputs",
    "parse_output",
]

METADATA_COLUMNS = ("_topic", "_partition", "_offset", "_timestamp", "_key", "_headers")
"""Columns of a topic's records beside those of their values."""

EVENT_TIME = "_event_time"
"""The column of an event time that is not a column of the value."""

Parsed = TypeVar("Parsed")

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PERIOD = re.compile(
    r"\d+ (millisecond|second|minute|hour|day|week)s?( \d+ (millisecond|second|minute|hour|day|week)s?)*"
)
_INPUTS, _OUTPUT = "inputs", "output."
_VALUE, _KEY = "value.converter", "key.converter"
_CONSUMER = "consumer."
_SCHEMA, _FORMAT, _KEY_FORMAT = "schema", "format", "key.format"
_REGISTRY_URL = "schema.registry.url"


class TableKind(StrEnum):
    PARQUET = "parquet"
    DELTA = "delta"
    ICEBERG = "iceberg"
    JDBC = "jdbc"


class OutputMode(StrEnum):
    APPEND = "append"
    """A row is added once, and never changes."""
    UPSERT = "upsert"
    """A row replaces the earlier one of its key."""


class StartKind(StrEnum):
    EARLIEST = "earliest"
    LATEST = "latest"
    TIME = "time"


@dataclass(frozen=True, slots=True)
class StartPoint:
    """Where to begin in a partition that was never read."""

    kind: StartKind = StartKind.EARLIEST
    time_ms: int = 0
    """Milliseconds since 1970, for ``TIME``: the first record of this time or later."""


@dataclass(frozen=True, slots=True)
class ConverterChoice:
    """A converter by its class, with the settings below its prefix."""

    class_name: str
    settings: Mapping[str, str] = field(default_factory=dict)

    def config(self, side: str) -> dict[str, str]:
        """Return Connect's settings for it. ``side`` is ``key.converter`` or ``value.converter``."""
        return {side: self.class_name, **{f"{side}.{name}": text for name, text in self.settings.items()}}


@dataclass(frozen=True, slots=True)
class TableLocation:
    kind: TableKind
    address: str
    """A path or URL (parquet, delta), a name in a catalog (iceberg), or the URL of a database (jdbc:...)."""

    def __str__(self) -> str:
        return self.address if self.kind is TableKind.JDBC else f"{self.kind}:{self.address}"


@dataclass(frozen=True, slots=True)
class InputDeclaration:
    """An input is a topic or a table: exactly one of both is set."""

    name: str
    topic: str | None = None
    table: TableLocation | None = None
    key: ConverterChoice = ConverterChoice("StringConverter")
    value: ConverterChoice = ConverterChoice("ByteArrayConverter")
    event_time: str | None = None
    """A column, or an expression, of the type TIMESTAMP."""
    watermark: str | None = None
    """How late a record may be, in Spark's words."""
    deduplicate_by: tuple[str, ...] = ()
    start: StartPoint = StartPoint()
    consumer: Mapping[str, str] = field(default_factory=dict)
    """The input's own settings of the Kafka client."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Further settings of a table: those of its catalog."""

    @property
    def converters(self) -> dict[str, str]:
        """The settings of both converters, by Connect's names."""
        return {**self.key.config(_KEY), **self.value.config(_VALUE)}


@dataclass(frozen=True, slots=True)
class OutputDeclaration:
    """An output is a topic or a table: exactly one of both is set."""

    topic: str | None = None
    table: TableLocation | None = None
    mode: OutputMode = OutputMode.APPEND
    key: tuple[str, ...] = ()
    """Columns of the query."""
    delete_when: str | None = None
    """A condition on columns of the query: such rows delete the row of their key."""
    converters: Mapping[str, str] = field(default_factory=dict)
    """Settings of converters that take the place of the connector's."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Further settings of a table, by the names of the connector that writes such tables."""


class InvalidDeclaration(ValueError):
    def __init__(self, problems: Mapping[str, Sequence[str]]) -> None:
        """``problems`` are messages by setting."""
        super().__init__("; ".join(f"{name}: {text}" for name, texts in problems.items() for text in texts))
        self.problems = problems


@dataclass(frozen=True, slots=True)
class _Format:
    """How a format becomes a converter."""

    class_name: str
    settings: Mapping[str, str] = field(default_factory=dict)
    schema_setting: str | None = None
    """The converter's setting that takes ``schema``; None if the format has no schema."""
    needs_schema: bool = False
    has_registry: bool = False


_JSON = {"schemas.enable": "false", "barnabas.schema.unknown.fields": "ignore"}
FORMATS: Mapping[str, _Format] = {
    "json": _Format("JsonConverter", _JSON, "barnabas.schema"),
    "avro": _Format("AvroConverter", schema_setting="barnabas.avro.schema", needs_schema=True),
    "registry-avro": _Format("io.confluent.connect.avro.AvroConverter", has_registry=True),
    "registry-json": _Format("io.confluent.connect.json.JsonSchemaConverter", has_registry=True),
    "registry-protobuf": _Format("io.confluent.connect.protobuf.ProtobufConverter", has_registry=True),
    "string": _Format("StringConverter"),
    "bytes": _Format("ByteArrayConverter"),
    "boolean": _Format("BooleanConverter"),
    "integer": _Format("IntegerConverter"),
    "long": _Format("LongConverter"),
    "double": _Format("DoubleConverter"),
}

_TOPIC_SETTINGS = frozenset(
    {
        "topic",
        _FORMAT,
        _KEY_FORMAT,
        _SCHEMA,
        _REGISTRY_URL,
        "event.time",
        "watermark",
        "deduplicate.by",
        "start",
        _VALUE,
        _KEY,
    }
)
_NO_DATABASE = (
    "a query would read all of the table for each batch. Bring it to a topic with JdbcSource or PostgresChanges, and "
    "read that."
)
_OUTPUT_SETTINGS = frozenset({"topic", "table", "mode", "key", "delete.when", _FORMAT, _KEY_FORMAT, _REGISTRY_URL})


def listed(text: str) -> tuple[str, ...]:
    """Return the items of a list, without blanks and empty ones."""
    return tuple(item.strip() for item in text.split(",") if item.strip())


def parse_inputs(config: Mapping[str, str]) -> tuple[InputDeclaration, ...]:
    """Return the inputs that ``inputs`` names. Raise InvalidDeclaration."""
    problems: dict[str, list[str]] = {}
    names = listed(config.get(_INPUTS, ""))
    if not names:
        problems[_INPUTS] = ["Name at least one input, for example inputs=orders, and its topic: inputs.orders.topic."]
    inputs = []
    for name in names:
        prefix = f"{_INPUTS}.{name}."
        own = {key.removeprefix(prefix): text for key, text in config.items() if key.startswith(prefix)}
        try:
            inputs.append(parse_input(name, own, prefix=prefix))
        except InvalidDeclaration as error:
            for key, texts in error.problems.items():
                problems.setdefault(key, []).extend(texts)
    doubled = sorted({name for name in names if [other.lower() for other in names].count(name.lower()) > 1})
    if doubled:
        problems[_INPUTS] = [f"{', '.join(doubled)}: two inputs may not differ in upper and lower case only."]
    known = tuple(f"{_INPUTS}.{name}." for name in names)
    for key in sorted(config):
        if key.startswith(f"{_INPUTS}.") and not key.startswith(known):
            problems[key] = [f"{_INPUTS} does not name this input: it has {', '.join(names) or 'none'}."]
    _raise_if(problems)
    return tuple(inputs)


def parse_input(name: str, settings: Mapping[str, str], *, prefix: str = "") -> InputDeclaration:
    """Return one input. ``prefix`` is only for messages. Raise InvalidDeclaration."""
    reader = _Reader(settings, prefix)
    if not _NAME.fullmatch(name):
        reader.problem("", f"{name} can't be used in SQL: a name has letters, digits and _, and no digit first.")
    topic, table = reader.text("topic"), reader.text("table")
    if (topic is None) == (table is None):
        reader.problem("topic", "Set either topic, or table.")
        reader.raise_problems()
    return _topic_input(name, str(topic), reader) if table is None else _table_input(name, table, reader)


def _topic_input(name: str, topic: str, reader: _Reader) -> InputDeclaration:
    reader.refuse_unknown(_TOPIC_SETTINGS, (_CONSUMER, f"{_VALUE}.", f"{_KEY}."))
    declaration = InputDeclaration(
        name,
        topic=topic,
        key=reader.converter(_KEY, _KEY_FORMAT, "string", takes_schema=False),
        value=reader.converter(_VALUE, _FORMAT, None, takes_schema=True),
        event_time=reader.text("event.time"),
        watermark=reader.period("watermark"),
        deduplicate_by=listed(reader.text("deduplicate.by") or ""),
        start=reader.parsed("start", _start) or StartPoint(),
        consumer=reader.below(_CONSUMER),
    )
    if declaration.event_time is not None and declaration.watermark is None:
        reader.problem("watermark", "event.time needs it: how late records may be, for example 10 minutes.")
    reader.raise_problems()
    return declaration


def _table_input(name: str, table: str, reader: _Reader) -> InputDeclaration:
    location = reader.parsed("table", _location)
    if location is not None:
        if location.kind is TableKind.JDBC:
            reader.problem("table", f"{table}: {_NO_DATABASE}")
        is_iceberg = location.kind is TableKind.ICEBERG
        reader.refuse_unknown({"table"}, ("catalog.",) if is_iceberg else ())
        if is_iceberg:
            reader.required("catalog.type", "the kind of the catalog: hadoop, rest or jdbc")
    reader.raise_problems()
    own = {key: text for key, text in reader.settings.items() if key != "table"}
    return InputDeclaration(name, table=location, options=own)


def parse_output(config: Mapping[str, str]) -> OutputDeclaration:
    """Return the output that the settings below ``output.`` declare. Raise InvalidDeclaration."""
    own = {key.removeprefix(_OUTPUT): text for key, text in config.items() if key.startswith(_OUTPUT)}
    reader = _Reader(own, _OUTPUT)
    topic, table = reader.text("topic"), reader.text("table")
    if (topic is None) == (table is None):
        reader.problem("topic", "Set either output.topic, or output.table.")
        reader.raise_problems()
    mode = reader.parsed("mode", _mode) or OutputMode.APPEND
    key, delete_when = listed(reader.text("key") or ""), reader.text("delete.when")
    if mode is OutputMode.UPSERT and not key:
        reader.problem("key", "output.mode=upsert needs it: the columns that identify a row.")
    if mode is OutputMode.APPEND and delete_when is not None:
        reader.problem("delete.when", "It is for output.mode=upsert: rows that are only added are never deleted.")
    location = reader.parsed("table", _location)
    if topic is not None:
        reader.refuse_unknown(_OUTPUT_SETTINGS, (f"{_VALUE}.", f"{_KEY}.", _VALUE, _KEY))
    elif mode is OutputMode.UPSERT and location is not None and location.kind is TableKind.PARQUET:
        reader.problem(
            "mode", "Parquet files are only added to: write mode=append, or a table of delta, iceberg or jdbc."
        )
    converters = reader.output_converters() if topic is not None else {}
    reader.raise_problems()
    options = {} if topic is not None else {name: text for name, text in own.items() if name not in _OUTPUT_SETTINGS}
    return OutputDeclaration(topic, location, mode, key, delete_when, converters, options)


class _Reader:
    """Reads settings, and collects the problems that it finds."""

    def __init__(self, settings: Mapping[str, str], prefix: str) -> None:
        self.settings = {name: text.strip() for name, text in settings.items() if text.strip()}
        self._prefix = prefix
        self._problems: dict[str, list[str]] = {}

    def problem(self, name: str, text: str) -> None:
        self._problems.setdefault(f"{self._prefix}{name}".rstrip("."), []).append(text)

    def raise_problems(self) -> None:
        _raise_if(self._problems)

    def text(self, name: str) -> str | None:
        return self.settings.get(name)

    def below(self, prefix: str) -> dict[str, str]:
        return {name.removeprefix(prefix): text for name, text in self.settings.items() if name.startswith(prefix)}

    def parsed(self, name: str, parse: Callable[[str], Parsed]) -> Parsed | None:
        """Return the parsed value; None if it is not set or can't be parsed."""
        text = self.text(name)
        try:
            return None if text is None else parse(text)
        except ValueError as error:
            self.problem(name, f"{text}: {error}")
            return None

    def period(self, name: str) -> str | None:
        return self.parsed(name, _period)

    def required(self, name: str, what: str) -> None:
        if name not in self.settings:
            self.problem(name, f"Set it: {what}.")

    def refuse_unknown(self, known: frozenset[str] | set[str], prefixes: tuple[str, ...]) -> None:
        for name in sorted(self.settings):
            if name not in known and not name.startswith(prefixes):
                self.problem(name, f"No such setting. There are {', '.join(sorted(known))}.")

    def converter(self, side: str, format_setting: str, default: str | None, *, takes_schema: bool) -> ConverterChoice:
        """Return the converter that a format or a class names, with its settings."""
        class_name, given = self.text(side), self.text(format_setting)
        own = self.below(f"{side}.")
        if class_name is not None:
            if given is not None:
                self.problem(format_setting, f"{side} names the converter already: omit one of both.")
            return ConverterChoice(class_name, own)
        name = given or default
        known = FORMATS.get(name or "")
        if known is None:
            given_text = "Set it" if name is None else f"{name} is not a format"
            self.problem(format_setting, f"{given_text}: one of {', '.join(FORMATS)}; or name a {side}.")
            return ConverterChoice("ByteArrayConverter")
        settings = {**known.settings, **self._registry(format_setting, known)}
        if takes_schema:
            settings |= self._schema(str(name), known)
        return ConverterChoice(known.class_name, {**settings, **own})

    def output_converters(self) -> dict[str, str]:
        """Return settings of the converters that a topic's output names itself."""
        found: dict[str, str] = {}
        for side, setting in ((_VALUE, _FORMAT), (_KEY, _KEY_FORMAT)):
            if self.text(setting) is not None or self.text(side) is not None:
                found |= self.converter(side, setting, None, takes_schema=False).config(side)
        return found

    def _schema(self, name: str, known: _Format) -> dict[str, str]:
        text = self.text(_SCHEMA)
        if text is None:
            if known.needs_schema:
                self.problem(_SCHEMA, f"{_FORMAT}={name} needs it.")
            return {}
        if known.schema_setting is None:
            self.problem(_SCHEMA, f"{_FORMAT}={name} takes no schema: omit it.")
            return {}
        return {known.schema_setting: text}

    def _registry(self, setting: str, known: _Format) -> dict[str, str]:
        if not known.has_registry:
            return {}
        url = self.text(_REGISTRY_URL)
        if url is None:
            self.problem(_REGISTRY_URL, f"{setting}={self.text(setting)} needs it: the URL of the schema registry.")
        return {_REGISTRY_URL: url or ""}


def _raise_if(problems: Mapping[str, Sequence[str]]) -> None:
    if problems:
        raise InvalidDeclaration(problems)


def _period(text: str) -> str:
    if not _PERIOD.fullmatch(text.lower()):
        raise ValueError("write a number and a unit, for example 30 seconds, 10 minutes or 1 hour 30 minutes.")
    return text.lower()


def _start(text: str) -> StartPoint:
    if text.lower() in (StartKind.EARLIEST, StartKind.LATEST):
        return StartPoint(StartKind(text.lower()))
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError("write earliest, latest or a time such as 2026-01-31T12:00:00Z.") from None
    aware = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
    return StartPoint(StartKind.TIME, int(aware.timestamp() * 1000))


def _mode(text: str) -> OutputMode:
    try:
        return OutputMode(text.lower())
    except ValueError:
        raise ValueError(f"write one of {', '.join(OutputMode)}.") from None


def _location(text: str) -> TableLocation:
    kind, separator, address = text.partition(":")
    if not separator or kind not in tuple(TableKind) or not address:
        raise ValueError(
            "write parquet:/path, delta:/path, iceberg:namespace.table, or the URL of a database: jdbc:postgresql://..."
        )
    if kind == TableKind.JDBC:
        return TableLocation(TableKind.JDBC, text)
    if kind != TableKind.ICEBERG and "://" not in address and not address.startswith("/"):
        raise ValueError(f"{address} is not an absolute path: workers may run in different folders.")
    return TableLocation(TableKind(kind), address)
