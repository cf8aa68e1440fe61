"""Topics to Parquet, JSON, CSV or ORC files, in folders by topic, day or hour. Each record is in exactly one file.

Files appear when a batch is committed (``file_commits``, or ``object_commits`` in an object store), so readers never
see an incomplete batch, which may be repeated. A value that is an object becomes columns, one for each field; any other
value becomes the column ``value``.
All files of a connector have the same columns (``file_schema``), except JSON, which has no types. A record that does
not fit is a bad record.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
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
    Range,
    SinkBatch,
    SinkConnector,
    SinkTask,
    TerminalError,
    TopicPartition,
    ValidString,
)
from barnabas.connect_spark.connectors.files.file_commits import FileCommits, batch_name
from barnabas.connect_spark.connectors.files.file_sync import syncing
from barnabas.connect_spark.connectors.files.object_commits import ObjectCommits
from barnabas.connect_spark.connectors.files.s3_store import S3Store
from barnabas.connect_spark.connectors.files.shared_schema import SharedSchema
from barnabas.connect_spark.sessions.object_stores import is_object_store, require_s3
from barnabas.connect_spark.sessions.running_session import running_session
from barnabas.connect_spark.sessions.shared_folder import require_shared

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from barnabas.connect_spark.connectors.files.file_rows import FileRows

__all__ = ["TopicToFiles"]

_DIRECTORY = "directory"
_FORMAT = "format"
_PARTITION_BY = "partition.by"
_RECORD_COLUMNS = "record.columns"
_COMPRESSION = "compression"
_FILE_ROWS = "file.records.max"
_SCHEMA = "schema"

_FORMATS = ("parquet", "json", "csv", "orc")
_COMPRESSIONS = {
    "parquet": ("none", "snappy", "gzip", "zstd", "lz4_raw"),
    "orc": ("none", "snappy", "zlib", "zstd", "lz4"),
    "json": ("none", "gzip", "snappy", "lz4", "zstd", "bzip2"),
    "csv": ("none", "gzip", "snappy", "lz4", "zstd", "bzip2"),
}
_FOLDERS = ("topic", "partition", "date", "hour")
_COLUMNS = ("topic", "partition", "offset", "timestamp", "key", "headers")


class TopicToFilesTask(SinkTask):
    exactly_once: ClassVar[bool] = True

    def start(self, spark: SparkSession) -> None:
        url = str(self.settings[_DIRECTORY])
        self._commits = self._in_store(spark, url) if is_object_store(url) else self._in_folder(spark)
        self._planned: FileRows | None = None
        if self.takes_variant:
            self._schema = SharedSchema(self._commits, url, str(self.settings[_FORMAT]))
            self._schema.open(spark, str(self.settings[_SCHEMA] or ""))

    def _in_folder(self, spark: SparkSession) -> FileCommits:
        root = _root(self.settings)
        commits = FileCommits(root, self.context.connector)
        try:
            commits.prepare()
        except OSError as error:
            raise TerminalError(f"{root} can't be written: {error.strerror}") from error
        require_shared(spark, commits.home, _DIRECTORY)
        commits.forget_staging(self.context.task)
        return commits

    def _in_store(self, spark: SparkSession, url: str) -> ObjectCommits:
        require_s3(spark, url, _DIRECTORY)
        store = S3Store(spark, url)
        store.require_conditional_writes("_barnabas")
        commits = ObjectCommits(store, self.context.connector, self.context.task)
        commits.prepare()
        return commits

    def positions(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        noted = self._commits.positions()
        return {partition: noted[partition] for partition in partitions if partition in noted}

    def columns(self) -> Sequence[str]:
        folders = {"date": "timestamp", "hour": "timestamp"}
        wanted = [folders.get(name, name) for name in _list(self.settings[_PARTITION_BY])]
        return list(dict.fromkeys(["value", *_list(self.settings[_RECORD_COLUMNS]), *wanted]))

    @property
    def takes_variant(self) -> bool:
        return self.settings[_FORMAT] != "json"

    def refused(self, df: DataFrame) -> Column | None:
        if not self.takes_variant:
            return None
        self._planned = self._plan(df)
        return self._planned.refusal()

    def write(self, df: DataFrame, batch: SinkBatch) -> None:
        name = batch_name(self.context.task, batch.ranges)
        staging = self._commits.begin(name, batch.ranges)
        if staging is None:
            return
        rows = self._rows(df)
        writer = rows.write.format(str(self.settings[_FORMAT])).mode("overwrite")
        if self.settings[_COMPRESSION]:
            writer = writer.option("compression", str(self.settings[_COMPRESSION]))
        if self.settings[_FILE_ROWS]:
            writer = writer.option("maxRecordsPerFile", int(str(self.settings[_FILE_ROWS])))
        folders = _list(self.settings[_PARTITION_BY])
        if folders:
            writer = writer.partitionBy(*folders)
        if len(rows.columns) > len(folders):
            with syncing(staging) if isinstance(staging, Path) else nullcontext():
                writer = writer.option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
                writer.option("header", "true").save(str(staging))
        elif isinstance(staging, Path):  # Only nulls and empty objects so far: a file would have no columns.
            staging.mkdir(parents=True)
        self._commits.commit(name, batch.ranges)

    def _rows(self, df: DataFrame) -> DataFrame:
        folders = _folders(self.settings)
        if not self.takes_variant:
            return _plain(_columns(df, self.settings, folders), "json")
        planned, self._planned = self._planned or self._plan(df), None
        _refuse_taken(planned.columns.fieldNames(), [], list(folders))
        named = [column.alias(name) for name, column in folders.items()]
        return _plain(planned.rows(df, named), str(self.settings[_FORMAT]))

    def _plan(self, df: DataFrame) -> FileRows:
        from barnabas.connect_spark.connectors.files.file_rows import find_columns

        found = find_columns(df, _list(self.settings[_RECORD_COLUMNS]))
        _refuse_taken(found.of(True).fieldNames(), list(found.extra), list(_folders(self.settings)))
        return self._schema.rows(found)


class _Compressions:
    """Recommends those of the format."""

    def valid_values(self, name: str, settings: Mapping[str, Any]) -> Sequence[str]:
        return _COMPRESSIONS.get(str(settings.get(_FORMAT)), ())

    def visible(self, name: str, settings: Mapping[str, Any]) -> bool:
        return True


class TopicToFiles(SinkConnector):
    """Records of topics in files, each exactly once."""

    version = "1.0.0"
    config_def = ConfigDef(
        [
            ConfigKey(
                _DIRECTORY,
                ConfigType.STRING,
                REQUIRED,
                "The folder to write to: a path that is the same on all workers, or s3a://bucket/folder.",
                NonEmptyString(),
                Importance.HIGH,
            ),
            ConfigKey(
                _FORMAT, ConfigType.STRING, "parquet", "Format of the files.", ValidString(_FORMATS), Importance.HIGH
            ),
            ConfigKey(
                _PARTITION_BY,
                ConfigType.LIST,
                "",
                f"Folders below it, in this order, of {', '.join(_FOLDERS)}. Date and hour are those of the record's "
                "timestamp, in UTC.",
            ),
            ConfigKey(
                _RECORD_COLUMNS,
                ConfigType.LIST,
                "",
                "Parts of the record that are written beside its value, as columns that begin with _: any of "
                f"{', '.join(_COLUMNS)}.",
            ),
            ConfigKey(
                _SCHEMA,
                ConfigType.STRING,
                "",
                "Columns that all files have from the first one on, with their types, such as id BIGINT, price DOUBLE. "
                "Other columns take their type from the first batch that has them. Not for json, which has no types.",
            ),
            ConfigKey(
                _COMPRESSION,
                ConfigType.STRING,
                "",
                "How files are compressed; empty for the format's default.",
                recommender=_Compressions(),
            ),
            ConfigKey(
                _FILE_ROWS,
                ConfigType.LONG,
                "0",
                "The maximum number of records in a file; 0 for no limit.",
                Range(0),
                Importance.LOW,
            ),
        ]
    )
    task_class = TopicToFilesTask

    @classmethod
    def validate(cls, config: Mapping[str, str], settings: Mapping[str, Any]) -> Mapping[str, Sequence[str]]:
        errors: dict[str, list[str]] = {}
        try:
            if _DIRECTORY in settings and not is_object_store(str(settings[_DIRECTORY])):
                _root(settings)
        except TerminalError as error:
            errors[_DIRECTORY] = [str(error)]
        for name, allowed in ((_PARTITION_BY, _FOLDERS), (_RECORD_COLUMNS, _COLUMNS)):
            wrong = [value for value in _list(settings.get(name)) if value not in allowed]
            if wrong:
                errors[name] = [f"{', '.join(wrong)}: allowed: {', '.join(allowed)}."]
        if settings.get(_SCHEMA) and settings.get(_FORMAT) in ("json", "csv"):
            errors[_SCHEMA] = [f"format={settings[_FORMAT]} has no types: omit the schema."]
        given, compressions = settings.get(_COMPRESSION), _COMPRESSIONS.get(str(settings.get(_FORMAT)), ())
        if given and compressions and given not in compressions:
            errors[_COMPRESSION] = [f"{given}: {settings[_FORMAT]} files can have {', '.join(compressions)}."]
        return errors

    @classmethod
    def alter_offsets(cls, config: Mapping[str, str], offsets: Mapping[TopicPartition, int | None]) -> bool:
        settings = cls.config_def.parse(config)
        url, name = str(settings[_DIRECTORY]), config["name"]
        if is_object_store(url):
            spark = running_session("the object store")
            require_s3(spark, url, _DIRECTORY)
            ObjectCommits(S3Store(spark, url), name, task=0).set_positions(offsets)
        else:
            FileCommits(_root(settings), name).set_positions(offsets)
        return True


def _root(settings: Mapping[str, Any]) -> Path:
    text = str(settings[_DIRECTORY])
    parts = urlsplit(text)
    if parts.scheme not in ("", "file"):
        raise TerminalError(
            f"{text} is neither in a file system of this machine nor in an object store (s3a://bucket/folder): files "
            f"are committed by renaming them, which {parts.scheme}: does not do atomically. Mount it and give its path."
        )
    path = Path(unquote(parts.path) if parts.scheme else text)
    if not path.is_absolute():
        raise TerminalError(f"{text} is not an absolute path: workers may run in different folders.")
    return path


def _list(value: Any) -> list[str]:
    return [str(item) for item in value or ()]


def _folders(settings: Mapping[str, Any]) -> dict[str, Column]:
    from pyspark.sql import functions as F

    folders: dict[str, Column] = {
        "topic": F.col("topic"),
        "partition": F.col("partition"),
        "date": F.date_format("timestamp", "yyyy-MM-dd"),
        "hour": F.date_format("timestamp", "HH"),
    }
    return {name: folders[name] for name in _list(settings[_PARTITION_BY])}


def _refuse_taken(names: Sequence[str], extra: Sequence[str], folders: Sequence[str]) -> None:
    """Check for duplicate names. ``names`` include those of ``extra``, once. Raise TerminalError."""
    taken = [name for name in (*extra, *folders) if list(names).count(name) > (name in extra)]
    if taken:
        raise TerminalError(
            f"the value has fields with the names {', '.join(taken)}, which {_PARTITION_BY} and {_RECORD_COLUMNS} also "
            "create. Rename them with the transform ReplaceField."
        )


def _columns(df: DataFrame, settings: Mapping[str, Any], folders: Mapping[str, Column]) -> DataFrame:
    """Return the value's columns, the wanted ones of the record with a ``_`` prefix, and those of the folders."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import StructType

    kind = df.schema["value"].dataType
    if isinstance(kind, StructType):
        values = [F.col("value").getField(name).alias(name) for name in kind.fieldNames()]
        names = kind.fieldNames()
    else:
        values, names = [F.col("value")], ["value"]
    extra = {f"_{name}": F.col(name) for name in _list(settings[_RECORD_COLUMNS])}
    _refuse_taken([*names, *extra], list(extra), list(folders))
    columns = [*values, *(column.alias(name) for name, column in extra.items())]
    return df.select(*columns, *(column.alias(name) for name, column in folders.items()))


def _plain(rows: DataFrame, file_format: str) -> DataFrame:
    """Convert values that the format cannot hold to text: JSON for nested values, Base64 for bytes."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import ArrayType, BinaryType, MapType, NullType, StructType, VariantType

    columns: list[Column] = []
    for field in rows.schema:
        column, kind = F.col(f"`{field.name}`"), field.dataType
        is_nested = isinstance(kind, StructType | ArrayType | MapType)
        if (isinstance(kind, VariantType) and file_format != "parquet") or (is_nested and file_format == "csv"):
            column = F.to_json(column)
        elif file_format == "csv" and isinstance(kind, BinaryType):
            column = F.base64(column)
        elif isinstance(kind, NullType):
            column = column.cast("string")
        columns.append(column.alias(field.name))
    return rows.select(*columns)
