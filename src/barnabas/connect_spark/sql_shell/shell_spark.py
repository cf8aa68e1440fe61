"""A Spark of its own for one shell: started by the first query, with few partitions, and quiet.

Its log and scratch files are in a temporary folder, which goes with it. Times are those of UTC.
"""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from barnabas.common.topic_partition import TopicPartition
from barnabas.connect_spark.sessions.spark_settings import SparkSettings
from barnabas.connect_spark.sessions.worker_session import start_embedded
from barnabas.connect_spark.sql.declarations import InputDeclaration
from barnabas.connect_spark.sql.input_frames import input_frame
from barnabas.connect_spark.sql.query_error_loggers import silence_query_errors
from barnabas.connect_spark.sql_shell.row_values import row_reader
from barnabas.spark.errors import SparkUnavailable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["QueryRows", "ShellSpark", "TopicRange"]

_JOB_GROUP = "barnabas-sql"
_CORES_MAX = 4


@dataclass(frozen=True, slots=True)
class TopicRange:
    """The offsets to read of each partition: from ``starts``, to before ``ends``."""

    starts: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class QueryRows:
    """``rows`` are computed while they are read."""

    columns: Sequence[str]
    rows: Iterator[Sequence[Any]]


class ShellSpark:
    def __init__(self, notify: Callable[[str], None]) -> None:
        self._notify = notify
        self._stack = ExitStack()
        self._session: SparkSession | None = None
        self._packages: tuple[str, ...] = ()
        self._exit_status: Callable[[], int | None] = lambda: None
        """The exit status of the JVM; None while it runs."""

    @property
    def is_running(self) -> bool:
        return self._session is not None and self._exit_status() is None

    @property
    def packages(self) -> tuple[str, ...] | None:
        """The packages that the session has; None while none runs."""
        return self._packages if self.is_running else None

    def start(self, conf: Mapping[str, str], packages: Sequence[str]) -> None:
        """Start it if it does not run, also after its JVM has ended. Raise SparkUnavailable."""
        if self.is_running:
            return
        self.close()
        directory = Path(tempfile.mkdtemp(prefix="barnabas-sql-"))
        cores = min(_CORES_MAX, os.cpu_count() or 1)
        settings = SparkSettings(
            conf.get("spark.master", f"local[{cores}]"),
            directory,
            {name: value for name, value in conf.items() if name != "spark.master"},
            has_avro=True,
            has_delta="delta" in packages,
            has_iceberg="iceberg" in packages,
            has_s3="s3" in packages,
        )
        self._notify(f"starting Spark ({settings.master}) for the first query")
        os.environ["TZ"] = "UTC"  # PySpark returns times as those of this process.
        time.tzset()
        began_s = time.monotonic()
        with ExitStack() as starting:  # Ctrl-C removes what the start has made.
            logging.getLogger().addFilter(_is_not_interruption)
            starting.callback(logging.getLogger().removeFilter, _is_not_interruption)
            starting.callback(shutil.rmtree, directory, ignore_errors=True)
            try:
                session, self._exit_status = start_embedded(starting, settings, notify=self._notify)
            except SparkUnavailable:
                if any(directory.iterdir()):
                    starting.pop_all()  # The error names the log in the folder.
                raise
            self._stack = starting.pop_all()
        self.use(session, packages)
        self._notify(f"Spark is ready after {time.monotonic() - began_s:.1f} s")

    def use(self, session: SparkSession, packages: Sequence[str] = ()) -> None:
        """Use a session that runs."""
        silence_query_errors()
        self._session, self._packages = session, tuple(packages)

    def set(self, name: str, value: str | None) -> None:
        """Change or remove a setting of the running session. Raise PySpark's error for one that can't change."""
        if self.is_running:
            conf = self._running.conf
            conf.unset(name) if value is None else conf.set(name, value)

    def define(
        self, name: str, declaration: InputDeclaration, client: Mapping[str, str], topic_range: TopicRange | None
    ) -> None:
        """Make a topic's records or a table a view. Raise InvalidDeclaration, TerminalError, or PySpark's error."""
        starts, ends = (None, None) if topic_range is None else (topic_range.starts, topic_range.ends)
        frame = input_frame(self._running, declaration, client, streaming=False, starts=starts, ends=ends)
        frame.createOrReplaceTempView(_quoted(name))

    def drop_view(self, name: str) -> bool:
        """Return whether the view existed."""
        return self.is_running and bool(self._running.catalog.dropTempView(name))

    def run(self, text: str, rows_max: int | None = None) -> QueryRows:
        """Run a statement, for at most so many rows. Call it on the thread that reads the rows.

        Raise PySpark's errors, also while the rows are read.
        """
        spark = self._running
        spark.sparkContext.setJobGroup(_JOB_GROUP, text, interruptOnCancel=True)
        frame = spark.sql(text)
        found = frame.toLocalIterator(prefetchPartitions=True) if rows_max is None else frame.limit(rows_max).collect()
        return QueryRows(frame.columns, map(row_reader(frame.schema), found))

    def cancel(self) -> None:
        """End the running statement. May be called from any thread."""
        if self.is_running:
            self._running.sparkContext.cancelJobGroup(_JOB_GROUP)

    def close(self) -> None:
        self._session = None
        with suppress(Exception):  # Its JVM may have ended.
            self._stack.close()

    @property
    def _running(self) -> SparkSession:
        if self._session is None:
            raise AssertionError("the session has not started")
        return self._session


def _is_not_interruption(record: logging.LogRecord) -> bool:
    """Py4J logs a Ctrl-C with its traceback, on the root logger, and raises it as well."""
    return not record.getMessage().startswith("KeyboardInterrupt while")


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
