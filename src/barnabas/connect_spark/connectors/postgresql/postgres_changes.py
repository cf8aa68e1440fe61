"""Changes of PostgreSQL's tables to topics, as Debezium's events: the tables first, then the stream of a slot.

One task does it, because a slot is one ordered stream. What runs where: the task decodes the stream in the worker and
hands batches to Spark, which converts and writes them. The rows of tables are read by Spark's executors, many parts at
the same time (``snapshot_reading``). ``handover.progress`` describes how nothing is lost or doubled between both, and
after a crash: positions are in Kafka, and the server learns a position only after Kafka has it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, ClassVar

from barnabas.connect.plugins.api import SourceConnector
from barnabas.connect_spark.connectors.postgresql.connection import connect, explained, require_psycopg
from barnabas.connect_spark.connectors.postgresql.handover.progress import check_offset
from barnabas.connect_spark.connectors.postgresql.settings import CONFIG, ChangesSettings, setting_errors
from barnabas.connect_spark.queries.polled_source import Polled, PolledSourceTask
from barnabas.connect_spark.sessions.shared_folder import require_modules

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from barnabas.connect_spark.connectors.postgresql.changes_session import ChangesSession

__all__ = ["PostgresChanges", "PostgresChangesTask"]


class PostgresChangesTask(PolledSourceTask):
    _session: ChangesSession | None = None

    def start(self, spark: SparkSession) -> None:
        self._settings = ChangesSettings.of(self.settings)
        require_modules(spark, [f"{__package__}.table_reading"], "PostgresChanges")

    def poll(self, spark: SparkSession) -> Polled | None:
        """Return the next parts of tables, or the next changes. The records of the previous call are safe."""
        if self._session is None:
            self._session = self._opened()
        try:
            with explained(self._settings.login):
                return self._session.poll(spark)
        except BaseException:
            self._close()
            raise

    @property
    def is_streaming(self) -> bool:
        """Return whether all tables are read, and the stream has begun."""
        return self._session is not None and self._session.is_streaming

    def stop(self) -> None:
        self._close()

    def _opened(self) -> ChangesSession:
        from barnabas.connect_spark.connectors.postgresql.changes_session import ChangesSession

        login = self._settings.login
        require_psycopg()
        with explained(login):
            connection = connect(login)
            try:
                return ChangesSession(self._settings, connection, self.context)
            except BaseException:
                connection.close()
                raise

    def _close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            with suppress(Exception):  # The connection may have ended.
                session.close()


class PostgresChanges(SourceConnector):
    """Changes of PostgreSQL's tables, by logical replication."""

    version = "1.0.0"
    aliases: ClassVar[tuple[str, ...]] = ("io.debezium.connector.postgresql.PostgresConnector",)
    config_def = CONFIG
    task_class = PostgresChangesTask

    @classmethod
    def validate(cls, config: Mapping[str, str], settings: Mapping[str, object]) -> Mapping[str, Sequence[str]]:
        return setting_errors(config, settings)

    @classmethod
    def exactly_once_support(cls, config: Mapping[str, str]) -> bool:
        return True

    @classmethod
    def can_define_transaction_boundaries(cls, config: Mapping[str, str]) -> bool:
        return True

    @classmethod
    def alter_offsets(
        cls, config: Mapping[str, str], offsets: Sequence[tuple[Mapping[str, object], Mapping[str, object] | None]]
    ) -> bool:
        """Check the offsets. Raise ValueError."""
        for partition, offset in offsets:
            if offset is not None:
                check_offset(config.get("topic.prefix", ""), partition, offset)
        return True
