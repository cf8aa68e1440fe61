"""Topics to tables of a database, each record exactly once.

Settings and their meaning are those of the widely known JDBC sink connector. One thing differs: a micro-batch is one
transaction, and the positions after it are rows of a table in the same database and transaction. So the database has a
batch with its positions or neither, whatever fails, and a task continues from the positions in its database.

Before a batch is written its positions are read under a lock. Of two tasks that both claim a partition the second is
refused. A batch that was committed, but whose answer was lost, is not written again.
"""

from __future__ import annotations

import logging
import shutil
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from barnabas.connect.plugins.api import (
    ConfigDef,
    ConfigKey,
    ConfigType,
    Importance,
    NonEmptyString,
    Range,
    SinkBatch,
    SinkConnector,
    SinkTask,
    TerminalError,
    TopicPartition,
    ValidString,
)
from barnabas.connect_spark.connectors.columns.row_keys import AUTO_EVOLVE, DELETE_ENABLED, key_errors, refused_deletion
from barnabas.connect_spark.connectors.jdbc.database import Database, DatabaseError
from barnabas.connect_spark.connectors.jdbc.database_access import DatabaseAccess
from barnabas.connect_spark.connectors.jdbc.jdbc_settings import CONNECTION, STAGING, connect, connection_errors
from barnabas.connect_spark.connectors.jdbc.position_table import Positions
from barnabas.connect_spark.connectors.jdbc.sql_dialect import DELETED, OFFSET, PARTITION, Table
from barnabas.connect_spark.connectors.jdbc.table_batch import Fields, TopicFiles, fields_of, topic_files, write_files
from barnabas.connect_spark.connectors.jdbc.target_tables import TableRules, target_table

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

__all__ = ["JdbcSink"]

log = logging.getLogger(__name__)

_PK_MODES = ("none", "kafka", "record_key", "record_value")
_OTHERS_OF_JAVA = {"table.whitelist": "", "mssql.use.merge.holdlock": "", "date.timezone": ""}


class JdbcSinkTask(SinkTask):
    exactly_once: ClassVar[bool] = True

    def start(self, spark: SparkSession) -> None:
        self._stopping = threading.Event()
        self._access = DatabaseAccess(self.settings, spark)
        self._folder = self._access.folder()
        self._positions = Positions(self.context.connector, self.context.task, str(self.settings["positions.table"]))
        self._with_retries(self._positions.prepare)

    def stop(self) -> None:
        self._stopping.set()
        self._access.close()

    def positions(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        noted: dict[TopicPartition, int] = {}

        def read(database: Database) -> None:
            noted.update(self._positions.read(database))
            database.commit()

        self._with_retries(read)
        return {partition: noted[partition] for partition in partitions if partition in noted}

    def refused(self, df: DataFrame) -> Column | None:
        """Return the records that lack what their mode needs."""
        from pyspark.sql import functions as F

        mode = str(self.settings["pk.mode"])
        reasons = []
        if mode == "record_key":
            reasons.append(F.when(F.col("key").isNull(), F.lit("pk.mode is record_key, and the record has no key")))
        reasons += refused_deletion(self.settings)
        return F.coalesce(*reasons) if reasons else None

    def write(self, df: DataFrame, batch: SinkBatch) -> None:
        fields = fields_of(df, self.settings)
        folder = self._folder / f"batch-{batch.id}"
        dialect = self._access.database().dialect.name
        try:
            write_files(df, fields, dialect, folder)
            found = topic_files(folder)
            self._with_retries(lambda database: self._write_batch(database, fields, found, batch))
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    # ---- the transaction

    def _write_batch(self, database: Database, fields: Fields, found: list[TopicFiles], batch: SinkBatch) -> None:
        database.begin()
        if self._positions.is_done(database, batch):
            database.rollback()
            return
        columns, is_changed = self._prepared(database, fields, found)
        if is_changed and database.dialect.commits_ddl:
            # The transaction has ended, and with it the lock of the positions.
            database.begin()
            if self._positions.is_done(database, batch):
                database.rollback()
                return
        for files_of_topic in found:
            self._write_topic(database, fields, files_of_topic, columns[files_of_topic.topic])
        self._positions.write(database, batch)
        database.commit()

    def _prepared(
        self, database: Database, fields: Fields, found: list[TopicFiles]
    ) -> tuple[dict[str, list[str]], bool]:
        """Create missing tables and columns. Return the columns to write of each topic, and whether any was created."""
        rules = TableRules(
            creates=bool(self.settings["auto.create"]), evolves=bool(self.settings["auto.evolve"]), keys=fields.keys
        )
        types = {name: kind for name, (_, kind) in fields.columns.items()}
        columns, is_changed = {}, False
        for files_of_topic in found:
            filled = {name for at, name in enumerate(fields.columns) if at in files_of_topic.filled} | set(fields.keys)
            table = self._table(files_of_topic)
            chosen, is_new = rules.prepare(database, table, types, filled, is_alone=len(found) == 1)
            columns[files_of_topic.topic] = chosen
            is_changed = is_changed or is_new
        return columns, is_changed

    def _table(self, found: TopicFiles) -> Table:
        return target_table(str(self.settings["table.name.format"]), found.topic)

    def _write_topic(self, database: Database, fields: Fields, found: TopicFiles, columns: list[str]) -> None:
        table = self._table(found)
        names = list(fields.columns)
        database.execute(database.dialect.drop_staging)
        database.execute(database.dialect.create_staging(table, columns))
        places = [names.index(name) for name in columns]
        places += range(len(names), len(names) + 3)
        database.load(found.files, [*columns, PARTITION, OFFSET, DELETED], places)
        deletes = bool(self.settings["delete.enabled"])
        mode = str(self.settings["insert.mode"])
        for statement in database.dialect.merge(table, columns, fields.keys, mode, deletes=deletes):
            database.execute(statement)
        database.execute(database.dialect.drop_staging)

    def _with_retries(self, work: Callable[[Database], None]) -> None:
        left = int(str(self.settings["max.retries"]))
        while True:
            try:
                work(self._access.database())
                return
            except DatabaseError as error:
                self._access.disconnect()  # Ends the transaction, in whatever state the connection is.
                if not error.is_transient:
                    raise TerminalError(str(error)) from error
                if left <= 0 or self._stopping.is_set():
                    raise
                left -= 1
                log.warning("task %s-%d retries: %s", self.context.connector, self.context.task, error)
                self._stopping.wait(int(str(self.settings["retry.backoff.ms"])) / 1000)
            except BaseException:
                self._access.disconnect()
                raise


class JdbcSink(SinkConnector):
    """Records of topics in tables of SQLite, DuckDB, PostgreSQL, MariaDB, MySQL or SQL Server, each exactly once."""

    version = "1.0.0"
    aliases: ClassVar[tuple[str, ...]] = (
        "io.confluent.connect.jdbc.JdbcSinkConnector",
        "io.aiven.connect.jdbc.JdbcSinkConnector",
    )
    config_def = ConfigDef(
        [
            *CONNECTION,
            ConfigKey(
                "table.name.format",
                ConfigType.STRING,
                "${topic}",
                "The table of a topic. A dot stands between schema and table; dots of the topic are part of the name.",
                NonEmptyString(),
            ),
            ConfigKey(
                "insert.mode",
                ConfigType.STRING,
                "insert",
                "insert: every record is a new row. upsert: a record replaces the row of its key. update: it changes "
                "that row, if there is one.",
                ValidString(("insert", "upsert", "update")),
                Importance.HIGH,
            ),
            ConfigKey(
                "pk.mode",
                ConfigType.STRING,
                "none",
                "The source of a row's key: kafka means topic, partition and offset of the record.",
                ValidString(_PK_MODES),
                Importance.HIGH,
            ),
            ConfigKey(
                "pk.fields",
                ConfigType.LIST,
                "",
                "The columns of the key. With kafka three names, else fields of the key or value; empty for all. A key "
                "that is not an object needs one name.",
            ),
            ConfigKey("fields.whitelist", ConfigType.LIST, "", "Fields of the value that are written; empty for all."),
            DELETE_ENABLED,
            ConfigKey("auto.create", ConfigType.BOOLEAN, "false", "Whether missing tables are created."),
            AUTO_EVOLVE,
            ConfigKey(
                "batch.size",
                ConfigType.INT,
                "3000",
                "Accepted without effect: a micro-batch is one transaction, see barnabas.batch.records.max.",
                Range(0),
                Importance.LOW,
            ),
            ConfigKey("max.retries", ConfigType.INT, "10", "How often a batch is retried.", Range(0)),
            ConfigKey("retry.backoff.ms", ConfigType.INT, "3000", "The pause before each retry.", Range(0)),
            ConfigKey(
                "positions.table",
                ConfigType.STRING,
                "barnabas_connect_positions",
                "The table for positions, created if it does not exist. Connectors can share it.",
                NonEmptyString(),
                Importance.LOW,
            ),
            STAGING,
        ]
    )
    task_class = JdbcSinkTask

    @classmethod
    def validate(cls, config: Mapping[str, str], settings: Mapping[str, Any]) -> Mapping[str, Sequence[str]]:
        errors = connection_errors(config, settings, _OTHERS_OF_JAVA) | key_errors(settings)
        mode, keys = settings.get("pk.mode"), list(settings.get("pk.fields") or ())
        if settings.get("insert.mode") in ("upsert", "update") and mode == "none":
            errors["pk.mode"] = [
                f"insert.mode={settings['insert.mode']} needs a key: set kafka, record_key or record_value."
            ]
        if mode == "kafka" and keys and len(keys) != 3:
            errors["pk.fields"] = ["pk.mode=kafka takes three names, for topic, partition and offset, or none."]
        return errors

    @classmethod
    def alter_offsets(cls, config: Mapping[str, str], offsets: Mapping[TopicPartition, int | None]) -> bool:
        settings = cls.config_def.parse(config)
        database = connect(settings, None)
        try:
            positions = Positions(config["name"], 0, str(settings["positions.table"]))
            positions.prepare(database)
            positions.set(database, offsets)
        finally:
            database.close()
        return True
