"""The statements that Spark runs: it starts with the first of them, and reads topics between offsets of that moment."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from barnabas.cli.sql.cluster_topics import ClusterTopics
from barnabas.cli.sql.input_views import InputView, implicit_view
from barnabas.cli.sql.interruption import interruptible
from barnabas.cli.sql.results import Result
from barnabas.cli.sql.shell_settings import PACKAGES, ShellSettings
from barnabas.cli.sql.statement_errors import StatementError, explained_extra
from barnabas.cli.sql.statements import SparkStatement
from barnabas.cli.sql.table_names import TableName
from barnabas.common.topic_partition import TopicPartition

if TYPE_CHECKING:
    from barnabas.connect_spark.sql_shell.shell_spark import ShellSpark

__all__ = ["Queries"]


class Queries:
    def __init__(
        self,
        topics: ClusterTopics,
        client_properties: Mapping[str, str],
        settings: ShellSettings,
        notify: Callable[[str], None],
        spark: ShellSpark | None = None,
    ) -> None:
        """``client_properties`` are those of the Kafka client; ``spark`` is created when it is needed."""
        self.views: dict[str, InputView] = {}
        """The declared views."""
        self._topics = topics
        self._client = {"isolation.level": "read_committed", **client_properties}
        self._settings = settings
        self._notify = notify
        self._spark = spark
        self._implicit: dict[str, InputView] = {}
        """The topics that queries have read without a declaration."""

    def declare(self, view: InputView) -> None:
        """Add or replace a view. Raise StatementError if Spark runs without a package that it needs."""
        self._check_packages(view)
        self.views[view.name] = view
        self._implicit.pop(view.name, None)

    def drop_view(self, name: str) -> bool:
        """Return whether the view existed."""
        was_declared = self.views.pop(name, None) is not None
        was_in_spark = self._spark is not None and self._spark.drop_view(name)
        return was_declared or was_in_spark

    def set(self, name: str, value: str | None) -> None:
        """Change a setting of Spark, if it runs. Raise StatementError."""
        if self._spark is not None:
            try:
                self._spark.set(name, value)
            except Exception as error:
                raise self._plain(error, "") from error

    def run(self, statement: SparkStatement, give: Callable[[Result], None]) -> None:
        """Run the statement and give its rows while they are computed. Raise StatementError, or KeyboardInterrupt."""
        views = self._read_views(statement.names)
        spark = self._started()
        rows_max = self._settings.rows + 1 if self._settings["output"] == "table" else None

        def work() -> None:
            try:
                for name, view in views.items():
                    self._define(spark, name, view)
                found = spark.run(statement.text, rows_max)
                if statement.explains:
                    plans = [str(row[0]) for row in found.rows]
                    give(Result(["plan"], [(plan,) for plan in plans], text="\n".join(plans)))
                else:
                    give(Result(found.columns, found.rows))
            except (StatementError, BrokenPipeError):  # The reader of the output has closed the pipe.
                raise
            except Exception as error:
                raise self._plain(error, statement.text) from error

        interruptible(work, spark.cancel)

    def close(self) -> None:
        if self._spark is not None:
            self._spark.close()

    # ---- what a query reads

    def _read_views(self, names: Sequence[TableName]) -> dict[str, InputView]:
        """Return the views and topics that a statement reads, by the names that it uses.

        If it reads others, such as a view that an earlier query has defined, all topics of earlier queries are
        returned, so that such a view shows their latest records, too.
        """
        single = [name.parts[0] for name in names if len(name.parts) == 1]
        undeclared = [name for name in single if name not in self.views]
        self._refuse_dots(names)
        existing = self._topics.existing(undeclared)
        found = {name: self.views[name] for name in single if name in self.views}
        found |= {name: implicit_view(name) for name in existing}
        self._implicit |= {name: found[name] for name in existing}
        if len(found) < len(set(single)):
            found = {**self.views, **self._implicit, **found}
        return found

    def _refuse_dots(self, names: Sequence[TableName]) -> None:
        """Raise StatementError for a topic's name with dots that is not in backticks."""
        dotted = {str(name): name for name in names if len(name.parts) > 1 and all(map(_is_plain, name.parts))}
        for text in self._topics.existing(list(dotted)):
            name = dotted[text]
            raise StatementError(
                f"{text} is a topic, and its name has dots",
                start=name.start,
                length=name.length,
                advice=f"write it in backticks: `{text}`",
            )

    def _define(self, spark: ShellSpark, name: str, view: InputView) -> None:
        from barnabas.connect_spark.sql_shell.shell_spark import TopicRange

        topic = view.declaration.topic
        if topic is None:
            spark.define(name, view.declaration, self._client, None)
            return
        try:
            start, end = self._settings.point("start", view.start), self._settings.point("end", view.end)
        except ValueError as error:
            raise StatementError(str(error)) from error
        offsets = self._topics.offsets(topic, start, end)
        starts = {TopicPartition(topic, partition): offset for partition, offset in offsets.starts.items()}
        ends = {TopicPartition(topic, partition): offset for partition, offset in offsets.ends.items()}
        spark.define(name, view.declaration, self._client, TopicRange(starts, ends))

    # ---- Spark

    def _started(self) -> ShellSpark:
        """Return Spark, which runs. Raise StatementError if it can't."""
        with explained_extra("a query needs"):
            from barnabas.connect_spark.sql_shell.shell_spark import ShellSpark
        from barnabas.spark.errors import SparkUnavailable

        if self._spark is None:
            self._spark = ShellSpark(self._notify)
        try:
            self._spark.start(self._settings.of_spark, self._needed_packages())
        except SparkUnavailable as error:
            raise StatementError(str(error)) from error
        return self._spark

    def _needed_packages(self) -> list[str]:
        wanted = {*self._settings.packages, *(package for view in self.views.values() for package in _packages(view))}
        return [package for package in PACKAGES if package in wanted]

    def _check_packages(self, view: InputView) -> None:
        there = None if self._spark is None else self._spark.packages
        missing = [package for package in _packages(view) if there is not None and package not in there]
        if missing:
            raise StatementError(
                f"{view.name} needs Spark's package {missing[0]}, and Spark runs without it",
                advice=f"start a new shell, and declare the view or SET packages = {missing[0]} before the first query",
            )

    def _plain(self, error: Exception, statement: str) -> StatementError:
        from barnabas.connect_spark.sql_shell.plain_errors import plain_error

        if self._spark is not None and not self._spark.is_running:
            advice = "the next query starts it again, without the views and functions that queries have created"
            return StatementError("Spark has ended unexpectedly: its Java process was killed or failed", advice=advice)
        found = plain_error(error, statement)
        return StatementError(found.text, start=found.start, length=found.length, advice=found.advice)


def _packages(view: InputView) -> list[str]:
    table = view.declaration.table
    if table is None:
        return []
    kind = str(table.kind)
    return [
        *([kind] if kind in PACKAGES else []),
        *(
            ["s3"]
            if table.address.startswith(("s3a://", "s3://")) or "s3a://" in "".join(view.options.values())
            else []
        ),
    ]


def _is_plain(part: str) -> bool:
    return part.replace("-", "").isalnum() or "_" in part
