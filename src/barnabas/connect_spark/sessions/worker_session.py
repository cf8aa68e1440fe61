"""The single Spark session of a worker: started when the first task needs it, restarted after it died, shared by all.

Starting takes seconds, and fetching jars may take minutes, so every method may block; don't call them on the event
loop. When a JVM ends unexpectedly all its queries end: their threads notice, get the reason from ``failure``, and the
next task that starts also starts another JVM.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any

from barnabas.connect.identifiers import ConnectorTaskId
from barnabas.connect_spark.sessions.object_stores import s3_conf
from barnabas.connect_spark.sessions.spark_settings import SparkSettings
from barnabas.connect_spark.sessions.work_directory import open_work_directory
from barnabas.spark.connector_jars import (
    avro_jars,
    cache_directory,
    connector_jars,
    delta_jars,
    iceberg_jars,
    s3_jars,
)
from barnabas.spark.errors import SparkUnavailable
from barnabas.spark.java_runtime import find_java
from barnabas.spark.spark_session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["EmbeddedSessions", "Sessions", "SparkStart", "embedded_conf", "session_conf", "start_embedded"]

log = logging.getLogger(__name__)

_STOPPING = "the worker is stopping, so its Spark session is not started again"

_CLOSE_WAIT_S = 1.0

_STOP_TIMEOUT = "10s"
"""How long to wait for a query's thread when stopping it."""

_CONF = {
    "spark.scheduler.mode": "FAIR",  # A pool for each connector: a large batch of one does not block the others.
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.caseSensitive": "true",  # As in Kafka's records: id and ID are two fields.
    "spark.sql.legacy.codingErrorAction": "true",  # Invalid text is replaced, as by Kafka's deserializers.
    "spark.sql.variant.allowDuplicateKeys": "true",  # Of a field's values the last one counts, as in Connect.
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",  # Plans of micro-batches are small; re-planning costs more.
    "spark.sql.streaming.stopTimeout": _STOP_TIMEOUT,
    "spark.sql.streaming.minBatchesToRetain": "10",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.maxConcurrentOutputFileWriters": "64",  # Files by topic or hour are written without sorting first.
    # Plans in the console name all columns and whole paths.
    "spark.sql.debug.maxToStringFields": "1000",
    "spark.sql.maxMetadataStringLength": "1000",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Records of polled sources are decoded where they are written, and not in the driver, row by row.
    "spark.sql.execution.arrow.localRelationThreshold": "0",
}

_EMBEDDED_CONF = {
    # Hadoop would write a checksum file beside each file, which is never moved or read: files have their own checksums.
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "spark.hadoop.fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs",
    # Files are for the worker's user and group: Hadoop sets its own mode, whatever the process's umask is.
    "spark.hadoop.fs.permissions.umask-mode": "027",
}

_JAVA_OPTIONS = (
    "-XX:Tier4InvocationThreshold=30000 -XX:Tier4MinInvocationThreshold=5000 "
    "-XX:Tier4CompileThreshold=60000 -XX:Tier4BackEdgeThreshold=200000"
)
"""The optimizing compiler waits until code has run six times as often as by default. With the default it takes
almost as much CPU as the first million records; with twenty times, these records cost more than it saves."""

_DELTA_EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"

_DELTA_CONF = {
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "2",  # Each batch would pay for 50, but tables' logs are short.
}


class Sessions:
    """Provides tasks with their session. Every method may be called from any thread."""

    def of(self, task: ConnectorTaskId) -> Sessions:
        """Return the sessions for a task: all tasks share one, or each has its own."""
        return self

    def session(self) -> SparkSession:
        """Return the session, starting it if none runs. Raise SparkUnavailable."""
        raise NotImplementedError

    def release(self) -> None:
        """Note that the task is over, perhaps while its thread still waits for ``session``. Does not block."""

    def failure(self) -> str | None:
        """Return why an earlier session has ended; None if none has."""
        raise NotImplementedError

    def abandon(self, reason: str) -> None:
        """End the session now, with everything that runs on it."""
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError


def session_conf(settings: SparkSettings) -> dict[str, str]:
    conf = {**_CONF, **settings.conf}
    if settings.has_delta:
        extensions = conf.get("spark.sql.extensions", "")
        if _DELTA_EXTENSION not in extensions:
            conf["spark.sql.extensions"] = ",".join(filter(None, (extensions, _DELTA_EXTENSION)))
        conf = {**_DELTA_CONF, **conf}
    if settings.has_s3:
        conf = {**s3_conf(settings.s3_credentials), **conf}
    return conf


def embedded_conf(settings: SparkSettings) -> dict[str, str]:
    """Return settings of a session whose JVM is ours. Of two equal Java options the later one, the user's, counts."""
    conf = {**_EMBEDDED_CONF, **session_conf(settings)}
    given = conf.get("spark.driver.extraJavaOptions", "")
    return {**conf, "spark.driver.extraJavaOptions": f"{_JAVA_OPTIONS} {given}".strip()}


SparkStart = Callable[[ExitStack, SparkSettings], "tuple[SparkSession, Callable[[], int | None]]"]
"""Start a session and put its end on the stack. The second result is the exit status of its JVM, None while it runs."""


class EmbeddedSessions(Sessions):
    """Sessions on our own JVM: with ``local[*]`` it does the work, with ``spark://`` it drives the cluster."""

    def __init__(self, settings: SparkSettings, *, start: SparkStart | None = None) -> None:
        self._settings = settings
        self._start = start or start_embedded
        self._lock = threading.Lock()
        self._stack: ExitStack | None = None
        self._session: SparkSession | None = None
        self._exit_status: Callable[[], int | None] = lambda: None
        self._reason: str | None = None
        self._is_closed = False

    def session(self) -> SparkSession:
        with self._lock:
            if self._is_closed:
                raise SparkUnavailable(_STOPPING)
            if self._session is not None and self._exit_status() is not None:
                log.warning("%s; restarting it", self.failure())
                self._end()
            if self._session is None:
                self._reason = None
                stack = ExitStack()
                log.info("starting Spark on %s for the first task", self._settings.shown_master)
                began_s = time.monotonic()
                try:
                    self._session, self._exit_status = self._start(stack, self._settings)
                except BaseException:
                    with suppress(Exception):
                        stack.close()
                    raise
                self._stack = stack
                log.info("Spark is ready after %.1f s", time.monotonic() - began_s)
                if self._is_closed:
                    self._end()
                    raise SparkUnavailable(_STOPPING)
            return self._session

    def failure(self) -> str | None:
        if self._reason is not None:
            return self._reason
        status = self._exit_status() if self._session is not None else None
        if status is None:
            return None
        how = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
        return f"Spark's JVM {how}; its log is in {self._settings.directory}"

    def abandon(self, reason: str) -> None:
        with self._lock:
            if self._session is not None:
                log.error("ending the Spark session: %s", reason)
                self._end()
                self._reason = reason

    def close(self) -> None:
        """Close the session. Don't wait for one that is starting: its starter or the end of this process ends it."""
        self._is_closed = True
        if not self._lock.acquire(timeout=_CLOSE_WAIT_S):
            log.info("abandoning a Spark session that is being started")
            return
        try:
            self._end()
        finally:
            self._lock.release()

    def _end(self) -> None:
        stack, self._stack, self._session = self._stack, None, None
        self._exit_status = lambda: None
        if stack is not None:
            with suppress(Exception):  # Its JVM may have ended.
                stack.close()


def start_embedded(
    stack: ExitStack,
    settings: SparkSettings,
    environment: Mapping[str, str] = os.environ,
    notify: Callable[[str], None] = log.info,
) -> tuple[SparkSession, Callable[[], int | None]]:
    """Start a session in a JVM of our own, as ``SparkStart`` says. ``notify`` reports jars that are fetched.

    Raise SparkUnavailable.
    """
    for package in ("pyspark", "pyarrow", "pandas"):
        if importlib.util.find_spec(package) is None:
            raise SparkUnavailable(
                f"tasks run on Spark, and {package} is missing: pip install 'barnabas[connect,spark]'"
            )
    java = find_java(environment)
    further = {  # A running session accepts no further jars.
        avro_jars: settings.has_avro,
        delta_jars: settings.has_delta,
        iceberg_jars: settings.has_iceberg,
        s3_jars: settings.has_s3,
    }
    jars = connector_jars(cache_directory(environment), java, notify)
    for provide, is_needed in further.items():
        if is_needed:
            jars += provide(cache_directory(environment), java, notify)
    open_work_directory(settings.directory)
    context = spark_session(
        "barnabas-connect",
        master=settings.master,
        jars=jars,
        java=java,
        work=settings.directory,
        settings=embedded_conf(settings),
        host=None if settings.is_cluster else "127.0.0.1",
    )
    session = stack.enter_context(context)
    gateway: Any = session.sparkContext._gateway
    return session, gateway.proc.poll
