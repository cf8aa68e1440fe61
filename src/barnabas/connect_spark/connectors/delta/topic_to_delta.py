"""Topics to Delta Lake tables, each record exactly once (``table_sink``).

A batch is one commit of a table, which contains data and positions (``delta_log``).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import unquote, urlsplit

from barnabas.connect.plugins.api import (
    REQUIRED,
    ConfigDef,
    ConfigKey,
    ConfigType,
    Importance,
    NonEmptyString,
    SinkConnector,
    TerminalError,
    TopicPartition,
)
from barnabas.connect_spark.connectors.delta.delta_log import DeltaTable, refusal, require_delta
from barnabas.connect_spark.connectors.tables.table_settings import TABLE_KEYS, TOPIC, table_errors
from barnabas.connect_spark.connectors.tables.table_sink import TableSinkTask, application_of, change_positions
from barnabas.connect_spark.sessions.object_stores import is_object_store, require_s3
from barnabas.connect_spark.sessions.running_session import running_session
from barnabas.connect_spark.sessions.shared_folder import require_shared_place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["TopicToDelta"]

_PATH = "path"


class TopicToDeltaTask(TableSinkTask):
    pattern_setting: ClassVar[str] = _PATH
    property_prefix: ClassVar[str] = "delta."

    def start(self, spark: SparkSession) -> None:
        require_delta(spark)
        super().start(spark)
        path = str(self.settings[_PATH])
        _refuse_unwritable(path)
        _refuse_lost_commits(spark, path)
        require_shared_place(spark, path.partition(TOPIC)[0], _PATH)

    def open_table(self, spark: SparkSession, name: str) -> DeltaTable:
        return DeltaTable(spark, name, application_of(self.settings, self.context.connector))

    def refusal(self, error: Exception) -> str | None:
        return refusal(error)

    def missing(self, name: str) -> str:
        return f"{name} is not a Delta table, and auto.create is false: create the table, or correct path."


class TopicToDelta(SinkConnector):
    """Records of topics in tables of Delta Lake, each exactly once."""

    version = "1.0.0"
    config_def = ConfigDef(
        [
            ConfigKey(
                _PATH,
                ConfigType.STRING,
                REQUIRED,
                "The table: a path that is the same on all workers, or a URL that Spark can write to. "
                "With ${topic} in it, each topic has its own table.",
                NonEmptyString(),
                Importance.HIGH,
            ),
            ConfigKey(
                "partition.by", ConfigType.LIST, "", "The columns by which a table that is created is partitioned."
            ),
            *TABLE_KEYS,
        ]
    )
    task_class = TopicToDeltaTask

    @classmethod
    def validate(cls, config: Mapping[str, str], settings: Mapping[str, object]) -> Mapping[str, Sequence[str]]:
        errors = table_errors(settings)
        path = str(settings.get(_PATH) or "/")
        if not urlsplit(path).scheme and not path.startswith("/"):
            errors[_PATH] = [f"{path} is not an absolute path: workers may run in different folders."]
        return errors

    @classmethod
    def alter_offsets(cls, config: Mapping[str, str], offsets: Mapping[TopicPartition, int | None]) -> bool:
        spark = running_session("the Delta table")
        require_delta(spark)
        settings: Mapping[str, Any] = cls.config_def.parse(config)
        application = application_of(settings, config["name"])
        change_positions(str(settings[_PATH]), offsets, settings, lambda path: DeltaTable(spark, path, application))
        return True


def _refuse_lost_commits(spark: SparkSession, path: str) -> None:
    """Require a log store that is safe for several writers. Raise TerminalError.

    Delta's own for object stores is safe within one JVM only: of two workers that commit a version at the same time,
    the second would replace the commit of the first.
    """
    if not is_object_store(path):
        return
    require_s3(spark, path, _PATH)
    setting = f"spark.delta.logStore.{urlsplit(path).scheme}.impl"
    if not (spark.conf.get(setting, None) or spark.conf.get("spark.delta.logStore.class", None)):
        raise TerminalError(
            f"path: {path} is in an object store, where Delta Lake's own commits are safe for one process only, so a "
            "task that moves to another worker could lose rows. Use the connector TopicToIceberg with catalog.type=rest"
            f" or jdbc, or set barnabas.connect.spark.conf.{setting} to a log store for several writers, such as "
            "io.delta.storage.S3DynamoDBLogStore with its jars."
        )


def _refuse_unwritable(path: str) -> None:
    """Check a local path; for other paths Spark reports the error."""
    parts = urlsplit(path)
    if parts.scheme not in ("", "file"):
        return
    folder = Path((unquote(parts.path) if parts.scheme else path).partition(TOPIC)[0])
    while not folder.exists():
        folder = folder.parent
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        raise TerminalError(
            f"path: {path} can't be written: {folder} is not a folder, or the worker may not write to it."
        )
