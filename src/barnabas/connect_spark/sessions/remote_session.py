"""Sessions on a Spark Connect server (``sc://host:port``), one for each task.

Queries on a server outlive the worker that started them, and only the same user id and session id find them again. So
both are derived from values that every worker of the group knows: the cluster, the group and the task. The next worker
that starts the task finds queries of a dead worker, and ends them first. A server never accepts the id of an ended
session again; then the next id of the same sequence is used, which every worker finds in the same way.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from barnabas.connect.identifiers import ConnectorTaskId
from barnabas.connect_spark.sessions.spark_settings import SparkSettings
from barnabas.connect_spark.sessions.worker_session import Sessions, session_conf
from barnabas.spark.errors import SparkUnavailable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["RemoteSession", "RemoteSessions", "session_ids"]

log = logging.getLogger(__name__)

_IDS = 100
_PROBE_S = 3.0
_ORPHAN_WAIT_S = 2.0
_RETRIES = 8
_RETRY_PAUSE_MS = 3000
"""The retry pause of a call that can't reach the server: pauses grow from 50 ms to this, some 15 s in all. The client's
default would be ten minutes, in which the task does not report that the server is unreachable."""


def session_ids(cluster: str, group: str, task: ConnectorTaskId) -> Iterator[str]:
    """Yield the ids that sessions of a task may have, in the order in which they are tried."""
    for number in range(_IDS):
        digest = uuid.uuid5(uuid.NAMESPACE_URL, f"barnabas-connect:{cluster}:{group}:{task}:{number}")
        yield str(uuid.UUID(bytes=digest.bytes, version=4))  # The client accepts no other version.


class RemoteSessions(Sessions):
    def __init__(self, settings: SparkSettings, group: str, cluster_id: Callable[[], str]) -> None:
        """``cluster_id`` may wait for Kafka. It is called once, on the thread of a task."""
        self._settings = settings
        self._group = group
        self._ask_cluster_id = cluster_id
        self._cluster: str | None = None
        self._lock = threading.Lock()
        self._is_closed = False

    def of(self, task: ConnectorTaskId) -> RemoteSession:
        return RemoteSession(self._settings, task, lambda: self._ids(task))

    def close(self) -> None:
        """Close. Tasks have released their sessions."""
        self._is_closed = True

    def _ids(self, task: ConnectorTaskId) -> tuple[str, Iterator[str]]:
        if self._is_closed:
            raise SparkUnavailable("the worker is stopping, so it opens no Spark session")
        with self._lock:
            if self._cluster is None:
                self._cluster = self._ask_cluster_id()
        return f"barnabas-{self._group}", session_ids(self._cluster, self._group, task)


class RemoteSession(Sessions):
    """Provides the session of one task, while it runs here."""

    def __init__(
        self, settings: SparkSettings, task: ConnectorTaskId, ids: Callable[[], tuple[str, Iterator[str]]]
    ) -> None:
        self._settings = settings
        self._task = task
        self._ids = ids
        self._session: Any = None
        self._reason: str | None = None
        self._is_over = False

    def session(self) -> SparkSession:
        if self._session is not None and not _is_alive(self._session):
            log.info("opening the Spark session of task %s again", self._task)
            self._close()
        if self._session is None:
            self._reason = None
            began_s = time.monotonic()
            self._session = self._open()
            where, spent_s = self._settings.shown_master, time.monotonic() - began_s
            log.info("the Spark session of task %s on %s is ready after %.1f s", self._task, where, spent_s)
        found: SparkSession = self._session
        return found

    def failure(self) -> str | None:
        if self._reason is not None or self._session is None:
            return self._reason
        host, port = self._settings.server
        try:
            socket.create_connection((host, port), timeout=_PROBE_S).close()
        except OSError as error:
            return (
                f"the Spark Connect server {self._settings.shown_master} does not answer: {error.strerror or error}. "
                "Start it again, or correct barnabas.connect.spark.master"
            )
        return None

    def abandon(self, reason: str) -> None:
        """End the session on the server, with everything that runs in it."""
        session = self._session
        if session is not None:
            log.error("ending the Spark session of task %s: %s", self._task, reason)
            self._reason = reason
            with suppress(Exception):
                session.client.release_session()
            self._close()

    def release(self) -> None:
        """Release the session, even while another thread opens it.

        It stays on the server, which ends it after an hour: nothing runs in it.
        """
        self._is_over = True
        self._close()

    def _close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            with suppress(Exception):
                session.client.close()

    # ---- opening

    def _open(self) -> Any:
        _require_packages()
        for name in ("PYSPARK_NO_NAMESPACE_SHARE", "SPARK_REMOTE"):
            os.environ.pop(name, None)  # These settings belong to another Spark on this machine.
        os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"  # Column functions use such a session from now on.
        user, ids = self._ids()
        for session_id in ids:
            session = self._try(user, session_id)
            if session is not None and self._is_over:
                with suppress(Exception):
                    session.client.close()
                raise SparkUnavailable(f"task {self._task} was stopped")  # The session may run its successor's queries.
            if session is not None:
                self._prepare(session)
                return session
        raise SparkUnavailable(
            f"the Spark Connect server {self._settings.shown_master} has ended {_IDS} sessions of task {self._task} "
            "and does not accept their ids again. Restart it, or give the worker another group.id"
        )

    def _try(self, user: str, session_id: str) -> Any:
        """Open the session. Return None if the server has ended a session of this id. Raise SparkUnavailable."""
        from pyspark.sql.connect.client import DefaultChannelBuilder
        from pyspark.sql.connect.client.retries import DefaultPolicy
        from pyspark.sql.connect.session import SparkSession

        try:
            builder = DefaultChannelBuilder(self._settings.master)
            builder.set("session_id", session_id)
            if builder.userId is None:
                builder.set("user_id", user)
            session = SparkSession(connection=builder)
        except Exception as error:
            raise SparkUnavailable(f"{self._settings.shown_master} can't be used: {error}") from error
        session.client.set_retry_policies([DefaultPolicy(max_retries=_RETRIES, max_backoff=_RETRY_PAUSE_MS)])
        session.release_session_on_close = False
        try:
            session.version  # noqa: B018
        except Exception as error:
            with suppress(Exception):
                session.client.close()
            if "INVALID_HANDLE" in str(error):
                return None
            raise SparkUnavailable(self._refusal(error)) from error
        SparkSession._set_default_and_active_session(session)
        SparkSession._active_session.session = session
        return session

    def _refusal(self, error: Exception) -> str:
        text = str(error)
        shown = self._settings.shown_master
        if "UNAUTHENTICATED" in text:
            return (
                f"the Spark Connect server {shown} requires another token: append ;token=... to its address, or set "
                "SPARK_CONNECT_AUTHENTICATE_TOKEN in the worker's environment"
            )
        if "UNAVAILABLE" in text or "RETRIES_EXCEEDED" in text:
            return (
                f"the Spark Connect server {shown} does not answer: {_details(error)}. Start it, or correct "
                "barnabas.connect.spark.master"
            )
        return f"the Spark Connect server {shown} can't be used: {text[:1000]}"

    def _prepare(self, session: Any) -> None:
        """End orphaned queries first. Skip settings that only the start of the server can set."""
        self._end_orphans(session)
        for name, value in session_conf(self._settings).items():
            try:
                session.conf.set(name, value)
            except Exception as error:
                if name in self._settings.conf:
                    raise SparkUnavailable(
                        f"barnabas.connect.spark.conf.{name} can't be set in a session on the Spark Connect server "
                        f"{self._settings.shown_master}: set {name} where the server is started. {_first_line(error)}"
                    ) from error
        options = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "none"}
        try:
            session.read.format("kafka").options(**options).load().schema  # noqa: B018
        except Exception as error:
            raise SparkUnavailable(
                f"the Spark Connect server {self._settings.shown_master} can't read Kafka: start it with --packages "
                f"org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0. {_first_line(error)}"
            ) from error

    def _end_orphans(self, session: Any) -> None:
        ended = list(session.interruptAll() or [])
        for query in session.streams.active:
            ended.append(str(query.name))
            query.stop()
        if ended:
            log.warning("task %s: %d queries of a worker before this one were ended", self._task, len(ended))
            time.sleep(_ORPHAN_WAIT_S)  # A rename in progress is complete by then.


def _is_alive(session: Any) -> bool:
    try:
        return bool(session.version)
    except Exception:
        return False


def _details(error: BaseException) -> str:
    """Return the network's error, which is the cause of another error."""
    inner: BaseException | None = error
    while inner is not None:
        details = getattr(inner, "details", None)
        if callable(details):
            return str(details())[:500]
        inner = inner.__cause__ or inner.__context__
    return _first_line(error)


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0][:500]


def _require_packages(find: Callable[[str], object] = importlib.util.find_spec) -> None:
    needed: Mapping[str, str] = {
        "pyspark": "spark", "pyarrow": "spark", "pandas": "spark", "grpc": "spark-connect",
        "grpc_status": "spark-connect", "google.rpc": "spark-connect",
    }  # fmt: skip
    for package, extra in needed.items():
        try:
            is_there = find(package) is not None
        except ModuleNotFoundError:
            is_there = False
        if not is_there:
            raise SparkUnavailable(
                f"tasks run on a Spark Connect server, and {package} (of the extra {extra}) is missing: "
                "pip install 'barnabas[connect,spark,spark-connect]'"
            )
