"""The topics and tables that the shell's views declare, and the config of a pipeline that reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from barnabas.cli.records.times import time_of
from barnabas.cli.sql.read_points import EARLIEST, ReadPoint, parse_read_point
from barnabas.cli.sql.shell_settings import ShellSettings
from barnabas.cli.sql.statement_errors import StatementError
from barnabas.cli.sql.statements import CreateInputView, CreatePipeline
from barnabas.cli.sql.table_names import TableName
from barnabas.connect_spark.sql.declarations import InputDeclaration, InvalidDeclaration, listed, parse_input

__all__ = [
    "SQL_PIPELINE",
    "InputView",
    "altered_config",
    "implicit_view",
    "input_view",
    "pipeline_config",
    "pipeline_inputs",
]

SQL_PIPELINE = "SqlPipeline"
_INPUTS, _QUERY, _CLASS = "inputs", "query", "connector.class"
_DEFAULT_FORMAT = "string"
_POINTS = ("start", "end")


@dataclass(frozen=True, slots=True)
class InputView:
    declaration: InputDeclaration
    options: Mapping[str, str] = field(default_factory=dict)
    """The settings of the input, as a pipeline has them below ``inputs.<name>.``, without start and end."""
    start: str | None = None
    end: str | None = None
    is_declared: bool = True

    @property
    def name(self) -> str:
        return self.declaration.name

    @property
    def source(self) -> str:
        """The topic or table, for listings."""
        return self.declaration.topic or str(self.declaration.table)


def input_view(statement: CreateInputView, now_ms: int) -> InputView:
    """Raise StatementError for options that declare no input."""
    options = dict(statement.options)
    points = {name: options.pop(name, None) for name in _POINTS}
    if statement.is_table and any(points.values()):
        raise StatementError("start and end are for topics: a table is read as it is when the statement runs")
    if not statement.is_table:
        options.setdefault("topic", statement.name)
        if not {"format", "value.converter"} & options.keys():
            options["format"] = _DEFAULT_FORMAT
    try:
        for name, value in points.items():
            if value is not None:
                parse_read_point(value, name, now_ms)
        declaration = parse_input(statement.name, options)
    except InvalidDeclaration as error:
        raise StatementError(_problems(error)) from error
    except ValueError as error:
        raise StatementError(str(error)) from error
    return InputView(declaration, options, points["start"], points["end"])


def implicit_view(topic: str) -> InputView:
    """Return the view of a topic without a declaration: its values and keys are text."""
    options = {"topic": topic, "format": _DEFAULT_FORMAT}
    return InputView(parse_input("topic", options), options, is_declared=False)


def pipeline_inputs(
    names: Sequence[TableName], views: Mapping[str, InputView], given: Mapping[str, str]
) -> dict[str, InputView | None]:
    """Return the inputs of a pipeline whose query reads these names. None: a topic of this name that has no view.

    Inputs that its own settings declare are omitted. Raise StatementError for a name that no input can have.
    """
    own = _own_inputs(given)
    found: dict[str, InputView | None] = {}
    for name in names:
        text = str(name)
        if text in own:
            continue
        if len(name.parts) > 1 or not (text.isidentifier() and text.isascii()):
            raise StatementError(
                f"{text} can't be the name of a pipeline's input, which has letters, digits and _",
                start=name.start,
                length=name.length,
                advice=f"CREATE TEMPORARY VIEW another_name USING topic OPTIONS (topic '{text}', format 'json'), "
                "and read that view",
            )
        found[text] = views.get(text)
    return found


def pipeline_config(
    statement: CreatePipeline, inputs: Mapping[str, InputView | None], settings: ShellSettings
) -> dict[str, str]:
    """Return the config of the connector. Settings of the statement take precedence over those of views.

    Raise StatementError for a view that begins where no pipeline can.
    """
    config = {_CLASS: SQL_PIPELINE, "tasks.max": "1", _QUERY: statement.query}
    for name, view in inputs.items():
        view = implicit_view(name) if view is None else view
        config |= {f"{_INPUTS}.{name}.{key}": value for key, value in view.options.items()}
        if view.start is not None:
            config[f"{_INPUTS}.{name}.start"] = _pipeline_start(name, settings.point("start", view.start))
    config[_INPUTS] = ",".join(dict.fromkeys([*_own_inputs(statement.options), *inputs]))
    return config | {key: value for key, value in statement.options.items() if key != _INPUTS}


def _own_inputs(settings: Mapping[str, str]) -> list[str]:
    """Return the inputs that settings list or declare. A name may occur twice."""
    declared = [key.split(".")[1] for key in settings if key.startswith(f"{_INPUTS}.") and key.count(".") > 1]
    return [*listed(settings.get(_INPUTS, "")), *declared]


def altered_config(
    config: Mapping[str, str],
    query: str,
    names: Sequence[TableName],
    views: Mapping[str, InputView],
    now: ShellSettings,
) -> tuple[dict[str, str], list[str]]:
    """Return the config with another query, and the names of its inputs that have no view.

    Inputs that both queries read keep their settings; those that the new one does not read are removed.
    Raise StatementError for a pipeline whose query is not SQL.
    """
    if _QUERY not in config:
        raise StatementError(
            "the query of this pipeline is a function in Python, and not SQL",
            advice="change the function, or its settings: ALTER PIPELINE name SET (pipeline.limit = 1)",
        )
    read = {str(name) for name in names}
    gone = [name for name in listed(config.get(_INPUTS, "")) if name not in read]
    kept = {
        key: text for key, text in config.items() if not key.startswith(tuple(f"{_INPUTS}.{name}." for name in gone))
    }
    kept[_INPUTS] = ",".join(name for name in listed(config.get(_INPUTS, "")) if name in read)
    inputs = pipeline_inputs(names, views, kept)
    created = pipeline_config(CreatePipeline("", query, kept), inputs, now)
    return {**created, _QUERY: query}, [name for name, view in inputs.items() if view is None]


def _pipeline_start(name: str, point: ReadPoint) -> str:
    """Return the start as a pipeline has it: earliest, latest or a time. A time ago becomes that of now."""
    if point.timestamp is None:
        raise StatementError(
            f"the view {name} begins at offsets, and a pipeline at earliest, latest or a time",
            advice=f"write inputs.{name}.start = 'earliest' behind WITH, and alter its offsets before it runs: "
            "'barnabas connect alter-offsets'",
        )
    if point.timestamp < 0:
        return "earliest" if point.timestamp == EARLIEST else "latest"
    return time_of(point.timestamp)


def _problems(error: InvalidDeclaration) -> str:
    return "; ".join(f"{name}: {text}" if name else text for name, texts in error.problems.items() for text in texts)
