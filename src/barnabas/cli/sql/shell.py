"""Run the statements of a shell: its own without Spark, and queries with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from barnabas.cli.output.advice import nearest
from barnabas.cli.sql.cluster_topics import ClusterTopics
from barnabas.cli.sql.grammar import parse_statement
from barnabas.cli.sql.input_views import (
    InputView,
    altered_config,
    input_view,
    pipeline_config,
    pipeline_inputs,
)
from barnabas.cli.sql.pipelines import Pipelines
from barnabas.cli.sql.results import Result
from barnabas.cli.sql.script import Statement, statement_of
from barnabas.cli.sql.shell_settings import SPARK, ShellSettings
from barnabas.cli.sql.statement_errors import StatementError
from barnabas.cli.sql.statements import (
    AlterPipeline,
    CreateInputView,
    CreatePipeline,
    Describe,
    DropPipeline,
    DropView,
    Exit,
    Help,
    Reset,
    SetSetting,
    Show,
    Shown,
    SparkStatement,
)
from barnabas.cli.sql.table_names import TableName, table_names

if TYPE_CHECKING:
    from barnabas.cli.sql.queries import Queries

__all__ = ["HELP", "Shell"]

HELP = """\
SHOW TOPICS | PIPELINES | VIEWS [LIKE 'orders*']
DESCRIBE [TOPIC | PIPELINE | VIEW] name
SELECT ... FROM topic ...                    a query of Spark over the records that the topic has now
EXPLAIN SELECT ...                           its plan
CREATE [OR REPLACE] TEMPORARY VIEW name USING topic OPTIONS (topic 'orders', format 'json', schema 'id BIGINT')
CREATE [OR REPLACE] TEMPORARY VIEW name USING table OPTIONS (table 'delta:/data/customers')
DROP VIEW [IF EXISTS] name
CREATE [OR REPLACE] PIPELINE [IF NOT EXISTS] name WITH (output.topic = 'large') AS SELECT ...
ALTER PIPELINE name SET (key = 'value') | RESET (key) | AS SELECT ... | PAUSE | RESUME | STOP | RESTART
DROP PIPELINE [IF EXISTS] name
SET [name [= value]], RESET [name]           settings of the shell: SET lists them
EXIT

A statement ends with a semicolon. Without a view, the values of a topic are text in the column value. Its records also
have the columns _topic, _partition, _offset, _timestamp, _key and _headers.
SET start and SET end say what a query reads: earliest, latest, -1h, 2026-01-31T12:00, offset 42, 0:42, 1:17, last 100.
"""


class Shell:
    """Keeps the views and settings of one shell. ``queries`` runs what needs Spark."""

    def __init__(
        self,
        topics: ClusterTopics,
        pipelines: Pipelines,
        queries: Queries,
        settings: ShellSettings,
        warn: Callable[[str], None],
    ) -> None:
        self.settings = settings
        self.is_done = False
        self._topics = topics
        self._pipelines = pipelines
        self._queries = queries
        self._warn = warn

    @property
    def known_names(self) -> list[str]:
        """Return names that a statement may use, without asking the cluster."""
        return [*self.views, *self._topics.known]

    @property
    def views(self) -> Mapping[str, InputView]:
        return self._queries.views

    def run(self, statement: Statement, give: Callable[[Result], None]) -> None:
        """Run a statement, and give its result. Raise StatementError, or KeyboardInterrupt."""
        parsed = parse_statement(statement)
        if isinstance(parsed, SparkStatement):
            self._queries.run(parsed, give)
            return
        give(self._own(parsed))

    def _own(self, parsed: object) -> Result:
        match parsed:
            case Show():
                return self._show(parsed)
            case Describe():
                return self._describe(parsed)
            case CreateInputView():
                return self._create_view(parsed)
            case DropView():
                return self._drop_view(parsed)
            case CreatePipeline():
                return self._create_pipeline(parsed)
            case AlterPipeline():
                return self._alter_pipeline(parsed)
            case DropPipeline():
                existed = self._pipelines.drop(parsed.name, if_exists=parsed.if_exists)
                return Result(done=f"pipeline {parsed.name} {'dropped' if existed else 'does not exist'}")
            case SetSetting():
                return self._set(parsed)
            case Reset():
                return self._reset(parsed)
            case Help():
                return Result(text=HELP)
            case Exit():
                self.is_done = True
        return Result()

    # ---- what exists

    def _show(self, statement: Show) -> Result:
        columns, rows = {
            Shown.TOPICS: self._topic_rows,
            Shown.PIPELINES: self._pipeline_rows,
            Shown.VIEWS: self._view_rows,
        }[statement.shown]()
        pattern = statement.pattern
        return Result(columns, [row for row in rows if pattern is None or _matches(pattern, str(row[0]))])

    def _topic_rows(self) -> tuple[list[str], list[tuple[object, ...]]]:
        rows = [(topic.name, topic.partitions, topic.replication_factor) for topic in self._topics.listing()]
        return ["topic", "partitions", "replicas"], sorted(rows)

    def _pipeline_rows(self) -> tuple[list[str], list[tuple[object, ...]]]:
        columns = ["pipeline", "state", "tasks", "inputs", "output", "attention"]
        return columns, [tuple(row[column] for column in columns) for row in self._pipelines.listing()]

    def _view_rows(self) -> tuple[list[str], list[tuple[object, ...]]]:
        rows: list[tuple[object, ...]] = [
            (name, "topic" if view.declaration.topic else "table", view.source, view.options.get("format", ""))
            for name, view in sorted(self.views.items())
        ]
        return ["view", "of", "source", "format"], rows

    def _describe(self, statement: Describe) -> Result:
        name, kind = statement.name, statement.kind
        if kind is Shown.VIEWS or (kind is None and name in self.views):
            return self._describe_view(name)
        if kind is Shown.PIPELINES:
            return self._describe_pipeline(name)
        if name in self._topics.existing([name]):
            return self._describe_topic(name)
        if kind is None and self._has_pipeline(name):
            return self._describe_pipeline(name)
        near = self._topics.nearest_topics(name)
        what = "topic" if kind is Shown.TOPICS else "topic, view or pipeline"
        raise StatementError(f"no {what} is called {name}", advice=f"did you mean {near}?" if near else "")

    def _has_pipeline(self, name: str) -> bool:
        try:
            return self._pipelines.config(name) is not None
        except StatementError as error:
            self._warn(f"pipelines were not looked up: {error.text}")
            return False

    def _describe_topic(self, name: str) -> Result:
        begin, end = self.settings.point("start", "earliest"), self.settings.point("end", "latest")
        offsets = self._topics.offsets(name, begin, end)
        rows = [
            (partition, start, offsets.ends[partition], offsets.ends[partition] - start)
            for partition, start in sorted(offsets.starts.items())
        ]
        views = [view.name for view in self.views.values() if view.declaration.topic == name]
        notes = [f"views of it: {', '.join(views)}"] if views else []
        return Result(["partition", "first offset", "end offset", "offsets"], rows, notes)

    def _describe_view(self, name: str) -> Result:
        view = self.views.get(name)
        if view is None:
            near = nearest(name, self.views)
            advice = f"did you mean {near}?" if near else "SHOW VIEWS lists those of this shell"
            raise StatementError(f"no view is called {name}", advice=advice)
        points = {"start": view.start, "end": view.end}
        given = {**view.options, **{key: value for key, value in points.items() if value is not None}}
        return Result(["setting", "value"], sorted(given.items()))

    def _describe_pipeline(self, name: str) -> Result:
        config = self._pipelines.config(name)
        if config is None:
            near = nearest(name, [row["pipeline"] for row in self._pipelines.listing()])
            advice = f"did you mean {near}?" if near else "SHOW PIPELINES lists the pipelines"
            raise StatementError(f"no pipeline is called {name}", advice=advice)
        status, notes = self._pipelines.description(name)
        rows = [("state", status["state"]), ("worker", status["worker"])]
        rows += [(f"task {task['task']}", f"{task['state']} on {task['worker']}") for task in status["tasks"]]
        rows += sorted((key, value) for key, value in config.items() if key != "name")
        return Result(["property", "value"], rows, notes)

    # ---- views

    def _create_view(self, statement: CreateInputView) -> Result:
        if statement.name in self.views and not statement.replaces:
            raise StatementError(
                f"the view {statement.name} exists already", advice="write CREATE OR REPLACE TEMPORARY VIEW"
            )
        view = input_view(statement, self.settings.now_ms())
        topic = view.declaration.topic
        self._queries.declare(view)
        if topic is not None and topic not in self._topics.existing([topic]):
            near = self._topics.nearest_topics(topic)
            self._warn(f"the topic {topic} does not exist" + (f"; did you mean {near}?" if near else ""))
        return Result(done=f"view {statement.name} created")

    def _drop_view(self, statement: DropView) -> Result:
        if self._queries.drop_view(statement.name):
            return Result(done=f"view {statement.name} dropped")
        if statement.if_exists:
            return Result(done=f"view {statement.name} does not exist")
        near = nearest(statement.name, self.views)
        advice = f"did you mean {near}?" if near else "SHOW VIEWS lists those of this shell"
        raise StatementError(f"no view is called {statement.name}", advice=advice)

    # ---- pipelines

    def _create_pipeline(self, statement: CreatePipeline) -> Result:
        names = self._names_of(statement.query)
        inputs = pipeline_inputs(names, self.views, statement.options)
        self._check_topics([name for name, view in inputs.items() if view is None])
        config = pipeline_config(statement, inputs, self.settings)
        done, notes = self._pipelines.create(
            statement.name, config, replaces=statement.replaces, if_not_exists=statement.if_not_exists
        )
        return Result(done=f"pipeline {statement.name} {done}", notes=notes)

    @staticmethod
    def _names_of(query: str) -> list[TableName]:
        """Return what a query reads. Raise StatementError for what is not a query."""
        statement = statement_of(query)
        parse_statement(statement)
        return table_names(statement.tokens)

    def _check_topics(self, implicit: Sequence[str]) -> None:
        """Warn about inputs that have no view. Raise StatementError for one that is not a topic either."""
        existing = self._topics.existing(implicit)
        for name in implicit:
            if name not in existing:
                near = nearest(name, [*self.views, *(topic.name for topic in self._topics.listing())])
                advice = (
                    f"did you mean {near}?" if near else f"declare it: CREATE TEMPORARY VIEW {name} USING topic ..."
                )
                raise StatementError(f"{name} is neither a view nor a topic", advice=advice)
            self._warn(f"{name} has no view, so its values are text in the column value")

    def _alter_pipeline(self, statement: AlterPipeline) -> Result:
        name, query = statement.name, statement.query
        if statement.action is not None:
            self._pipelines.act(name, statement.action)
            return Result(done=f"pipeline {name}: {statement.action.value} requested")

        def changed(config: dict[str, str]) -> dict[str, str]:
            if query is None:
                merged: dict[str, str | None] = {**config, **statement.settings}
                return {key: value for key, value in merged.items() if value is not None}
            altered, implicit = altered_config(config, query, self._names_of(query), self.views, self.settings)
            self._check_topics(implicit)
            return altered

        done, notes = self._pipelines.alter(name, changed)
        return Result(done=f"pipeline {name} {done}", notes=notes)

    # ---- settings

    def _set(self, statement: SetSetting) -> Result:
        try:
            if statement.name is None:
                return Result(["setting", "value", "meaning"], self.settings.listing())
            if statement.value is None:
                return Result(["setting", "value"], [(statement.name, self.settings[statement.name])])
            if statement.name.startswith(SPARK):
                self._queries.set(statement.name, statement.value)  # Before it is kept: Spark may refuse the value.
            self.settings.set(statement.name, statement.value)
        except ValueError as error:
            raise StatementError(str(error), advice="SET lists the settings") from error
        return Result(done=f"{statement.name} = {self.settings[statement.name]}")

    def _reset(self, statement: Reset) -> Result:
        before = dict(self.settings.of_spark)
        try:
            self.settings.reset(statement.name)
        except ValueError as error:
            raise StatementError(str(error), advice="SET lists the settings") from error
        for name in before.keys() - self.settings.of_spark.keys():
            self._queries.set(name, None)
        return Result(
            done="settings are their defaults" if statement.name is None else f"{statement.name} is its default"
        )


def _matches(pattern: str, name: str) -> bool:
    """Return whether a name matches as in Spark's SHOW: ``*`` is any text, ``|`` separates alternatives."""
    return any(fnmatchcase(name.lower(), part.strip().lower().replace("[", "[[]")) for part in pattern.split("|"))
