"""Topics to Iceberg tables, each record exactly once (``table_sink``).

A batch is one snapshot of a table, with the positions in its summary (``snapshot_positions``, ``iceberg_table``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from barnabas.connect.plugins.api import (
    REQUIRED,
    ConfigDef,
    ConfigKey,
    ConfigType,
    Importance,
    NonEmptyString,
    SinkConnector,
    TopicPartition,
    ValidString,
)
from barnabas.connect_spark.connectors.iceberg.iceberg_catalog import (
    CATALOG_TYPES,
    IcebergCatalog,
    catalog_errors,
    require_iceberg,
)
from barnabas.connect_spark.connectors.iceberg.iceberg_table import IcebergTable, TableOwner, quoted_name, refusal
from barnabas.connect_spark.connectors.iceberg.partition_transforms import parse_transforms
from barnabas.connect_spark.connectors.iceberg.table_upkeep import UPKEEP_KEYS, TableUpkeep, UpkeepRules
from barnabas.connect_spark.connectors.tables.table_settings import TABLE_KEYS, TOPIC, table_errors
from barnabas.connect_spark.connectors.tables.table_sink import (
    TableSinkTask,
    application_of,
    change_positions,
    topics_of_tables,
)
from barnabas.connect_spark.sessions.object_stores import require_s3
from barnabas.connect_spark.sessions.running_session import running_session
from barnabas.connect_spark.sessions.shared_folder import require_shared_place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from barnabas.connect_spark.connectors.columns.column_fitting import Widening

__all__ = ["TopicToIceberg"]

_TABLE, _PARTITION_BY = "table", "partition.by"


class TopicToIcebergTask(TableSinkTask):
    pattern_setting: ClassVar[str] = _TABLE
    property_prefix: ClassVar[str] = "iceberg."

    def start(self, spark: SparkSession) -> None:
        require_iceberg(spark)
        super().start(spark)
        self._catalog = IcebergCatalog.of(self.config)
        self._catalog.refuse_unwritable()
        warehouse = self._catalog.properties.get("warehouse", "")
        require_s3(spark, warehouse, "catalog.warehouse")
        if warehouse.startswith(("/", "file:")):  # A REST catalog may use a name.
            require_shared_place(spark, warehouse, "catalog.warehouse")
        self._catalog.open(spark)  # The session of the query is a copy of this one, with its catalogs.
        application = application_of(self.settings, self.context.connector)
        self._owner = TableOwner(application, self.context.connector, self.context.task)
        self._kept: tuple[str, ...] = ()
        who = f"{self.context.connector}-{self.context.task}"
        self._upkeep = TableUpkeep(spark, UpkeepRules.of(self.settings), self._tables_to_keep_up, who)
        self._upkeep.begin()

    def stop(self) -> None:
        super().stop()
        if hasattr(self, "_upkeep"):
            self._upkeep.stop()

    def positions(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        self._kept = _kept_tables(self.pattern, partitions, self.context.task)
        return super().positions(partitions)

    def open_table(self, spark: SparkSession, name: str) -> IcebergTable:
        return IcebergTable(spark, self._catalog, name, self._owner)

    def refusal(self, error: Exception) -> str | None:
        return refusal(error)

    @property
    def pattern(self) -> str:
        return _pattern(self.settings)

    @property
    def widening(self) -> Widening | None:
        from barnabas.connect_spark.connectors.iceberg.type_widening import widened

        return widened

    @property
    def partition_by(self) -> list[str]:
        text = str(self.settings[_PARTITION_BY] or "")
        return [text] if text.strip() else []

    @property
    def partition_columns(self) -> list[str]:
        """The columns that transforms need; a field of an object needs the object."""
        found = parse_transforms(str(self.settings[_PARTITION_BY] or ""))
        return [transform.column.partition(".")[0] for transform in found]

    def _tables_to_keep_up(self) -> list[IcebergTable]:
        return [self.open_table(self._spark, name) for name in self._kept]


def _pattern(settings: Mapping[str, Any]) -> str:
    """Return the name with its parts quoted. Dots of the setting separate them; dots in a topic's name do not."""
    return quoted_name(str(settings[_TABLE]).split("."))


def _kept_tables(pattern: str, partitions: Sequence[TopicPartition], task: int) -> tuple[str, ...]:
    """Return the tables that a task keeps up, so that each has one task: task 0, or the one with partition 0."""
    if TOPIC not in pattern:
        return (pattern,) if task == 0 else ()
    topics = {partition.topic for partition in partitions if partition.partition == 0}
    return tuple(topics_of_tables(pattern, topics))


class TopicToIceberg(SinkConnector):
    """Records of topics in Iceberg tables, each exactly once."""

    version = "1.0.0"
    config_def = ConfigDef(
        [
            ConfigKey(
                "catalog.type",
                ConfigType.STRING,
                REQUIRED,
                "The kind of the catalog that has the tables. rest and jdbc are for any number of writers; hadoop is a "
                "folder, for HDFS and for one machine. Other settings that begin with catalog. are Iceberg's "
                "properties of the catalog.",
                ValidString(CATALOG_TYPES),
                Importance.HIGH,
            ),
            ConfigKey(
                "catalog.uri",
                ConfigType.STRING,
                "",
                "The address of the catalog: an http(s) URL, or jdbc:postgresql://host:port/database.",
                importance=Importance.HIGH,
            ),
            ConfigKey(
                "catalog.warehouse",
                ConfigType.STRING,
                "",
                "Where tables are stored: a path that is the same on all workers, a URL such as s3a://bucket/lake, or "
                "what a REST catalog calls its warehouse.",
                importance=Importance.HIGH,
            ),
            ConfigKey(
                _TABLE,
                ConfigType.STRING,
                REQUIRED,
                "The table, with its namespace: lake.orders. With ${topic} in it, each topic has its own table.",
                NonEmptyString(),
                Importance.HIGH,
            ),
            ConfigKey(
                _PARTITION_BY,
                ConfigType.STRING,
                "",
                "How the table is partitioned: columns and transforms, such as days(ts), bucket(16, id). A changed "
                "setting changes how new files are partitioned; empty leaves a table as it is.",
            ),
            *TABLE_KEYS,
            *UPKEEP_KEYS,
        ]
    )
    task_class = TopicToIcebergTask

    @classmethod
    def validate(cls, config: Mapping[str, str], settings: Mapping[str, object]) -> Mapping[str, Sequence[str]]:
        errors = table_errors(settings)
        if "catalog.type" in settings:
            errors |= catalog_errors(config)
        parts = str(settings.get(_TABLE) or "a.b").split(".")
        if len(parts) < 2 or not all(part.strip() for part in parts) or "`" in "".join(parts):
            errors[_TABLE] = [
                f"{settings[_TABLE]} is not a namespace and a table's name: write them with a dot between, lake.orders."
            ]
        try:
            parse_transforms(str(settings.get(_PARTITION_BY) or ""))
        except ValueError as error:
            errors[_PARTITION_BY] = [str(error)]
        return errors

    @classmethod
    def alter_offsets(cls, config: Mapping[str, str], offsets: Mapping[TopicPartition, int | None]) -> bool:
        spark = running_session("the Iceberg table")
        require_iceberg(spark)
        settings: Mapping[str, Any] = cls.config_def.parse(config)
        catalog, owner = IcebergCatalog.of(config), TableOwner(application_of(settings, config["name"]), config["name"])
        change_positions(_pattern(settings), offsets, settings, lambda name: IcebergTable(spark, catalog, name, owner))
        return True
