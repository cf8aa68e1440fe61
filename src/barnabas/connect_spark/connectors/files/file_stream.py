"""Kafka's two example connectors, with its names, settings and offsets: lines of a file to a topic, and back.

``FileStreamSource`` keeps ``{"filename": f} -> {"position": n}`` as Kafka's does, so either kind of worker continues
where the other stopped; n counts bytes (Kafka's counts characters, which is the same for ASCII). Unlike Kafka's, it
needs a file, because a worker's standard input has no user. ``FileStreamSink`` appends a line for each record, at least
once.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, ClassVar

from barnabas.connect.plugins.api import (
    REQUIRED,
    ConfigDef,
    ConfigKey,
    ConfigType,
    Importance,
    NonEmptyString,
    OffsetMap,
    Range,
    SinkBatch,
    SinkConnector,
    SinkTask,
    SourceConnector,
    SourceOffset,
    TerminalError,
)
from barnabas.connect_spark.connectors.files.file_lines import end_of_lines, line_table
from barnabas.connect_spark.connectors.files.file_range import lines_in_range
from barnabas.connect_spark.queries.polled_source import Polled, PolledSourceTask
from barnabas.connect_spark.sessions.session_kind import works_here

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["FileStreamSink", "FileStreamSource"]

_FILE = "file"
_TOPIC = "topic"
_BATCH_SIZE = "batch.size"
_HELD_BYTES_MAX = 64 << 20
"""Bytes of a batch that is held in memory."""
_READ_BYTES_MIN, _READ_BYTES_MAX = 1 << 20, 512 << 20
"""Bytes of a batch that Spark reads from the file itself. Such a batch is written again after a crash."""
_WRITTEN_RECORDS_MIN = 10_000
"""Records of a batch that Spark writes to files of its own, which are then appended."""
_COPIED_AT_ONCE = 256 << 10


class FileStreamSourceTask(PolledSourceTask):
    def start(self, spark: SparkSession) -> None:
        position = _position(self.context.source_offset(self._partition) or {"position": 0})
        if isinstance(position, str):
            raise TerminalError(f"the offset of {_shown(self._partition)} can't be used: {position}")
        self._next = position

    def poll(self, spark: SparkSession) -> Polled | None:
        from pyspark.sql import functions as F

        path, start = Path(str(self.settings[_FILE])), self._next
        end = end_of_lines(path, start, _READ_BYTES_MAX if works_here(spark) else _HELD_BYTES_MAX)
        if start == end:
            return None
        rows, frame = None, None
        if works_here(spark) and end - start >= _READ_BYTES_MIN:
            frame = lines_in_range(spark, path, start, end)
        if frame is not None:
            lines = F.decode(F.col("value").cast("binary"), "UTF-8")
        else:
            if end - start > _HELD_BYTES_MAX:
                end = end_of_lines(path, start, _HELD_BYTES_MAX)
            table = line_table(path, start, end)
            # One writer, so that lines keep their order.
            frame, rows, lines = spark.createDataFrame(table).coalesce(1), table.num_rows, F.col("value")
        self._next = end
        topic = str(self.settings[_TOPIC])
        records = frame.select(F.lit(topic).alias("topic"), lines.alias("value"))
        return Polled(records, [SourceOffset(self._partition, {"position": end})], rows, frozenset({topic}))

    @property
    def _partition(self) -> OffsetMap:
        return {"filename": str(self.settings[_FILE])}


class FileStreamSource(SourceConnector):
    """Lines of a file, as they are appended, to a topic."""

    version = "1.0.0"
    aliases: ClassVar[tuple[str, ...]] = ("org.apache.kafka.connect.file.FileStreamSourceConnector",)
    config_def = ConfigDef(
        [
            ConfigKey(
                _FILE,
                documentation="The file to read. It may be created later, and grow.",
                validator=NonEmptyString(),
                importance=Importance.HIGH,
            ),
            ConfigKey(
                _TOPIC,
                documentation="The topic to write its lines to.",
                validator=NonEmptyString(),
                importance=Importance.HIGH,
            ),
            ConfigKey(
                _BATCH_SIZE,
                ConfigType.INT,
                "2000",
                "Accepted for compatibility with Kafka's settings. A batch has all available lines, up to 512 MiB.",
                Range(1),
                Importance.LOW,
            ),
        ]
    )
    task_class = FileStreamSourceTask

    @classmethod
    def validate(cls, config: Mapping[str, str], settings: Mapping[str, object]) -> Mapping[str, Sequence[str]]:
        path = settings.get(_FILE)
        if path and Path(str(path)).is_dir():
            return {_FILE: [f"{path} is a folder, not a file."]}
        return {}

    @classmethod
    def exactly_once_support(cls, config: Mapping[str, str]) -> bool:
        return True

    @classmethod
    def alter_offsets(cls, config: Mapping[str, str], offsets: Sequence[tuple[OffsetMap, OffsetMap | None]]) -> bool:
        for partition, offset in offsets:
            if set(partition) != {"filename"}:
                raise ValueError(f'a partition of this connector is like {{"filename":"..."}}, not {_shown(partition)}')
            position = 0 if offset is None else _position(offset)
            if isinstance(position, str):
                raise ValueError(position)
        return True


class FileStreamSinkTask(SinkTask):
    """One line for each record, in the order of each partition."""

    def start(self, spark: SparkSession) -> None:
        path = Path(str(self.settings[_FILE]))
        try:
            path.touch()
        except OSError as error:
            raise TerminalError(f"{path} can't be written: {error.strerror}") from error

    def columns(self) -> Sequence[str]:
        return ("value",)

    def write(self, df: DataFrame, batch: SinkBatch) -> None:
        from pyspark.sql import functions as F
        from pyspark.sql.types import ArrayType, MapType, StructType, VariantType

        kind = df.schema["value"].dataType
        is_nested = isinstance(kind, StructType | MapType | ArrayType | VariantType)
        text = F.to_json("value") if is_nested else F.col("value").cast("string")
        lines = df.select(F.coalesce(text, F.lit("null")).alias("line"))
        records = sum(offsets.end - offsets.start for offsets in batch.ranges.values())
        with Path(str(self.settings[_FILE])).open("ab") as file:
            if records >= _WRITTEN_RECORDS_MIN and works_here(df.sparkSession):
                self._append_files(lines, file)
            else:
                for row in lines.toLocalIterator(prefetchPartitions=True):
                    file.write(f"{row.line}\n".encode())
            file.flush()
            os.fsync(file.fileno())

    def _append_files(self, lines: DataFrame, file: BinaryIO) -> None:
        """Let Spark write a file for each partition, in order, and append these.

        For many lines this is much less work than fetching each of them.
        """
        folder = self.context.scratch / "lines"
        lines.write.mode("overwrite").text(str(folder))
        for part in sorted(folder.glob("part-*")):
            with part.open("rb") as source:
                shutil.copyfileobj(source, file, _COPIED_AT_ONCE)
            part.unlink()


class FileStreamSink(SinkConnector):
    """Records of topics, appended to a file as lines."""

    version = "1.0.0"
    aliases: ClassVar[tuple[str, ...]] = ("org.apache.kafka.connect.file.FileStreamSinkConnector",)
    config_def = ConfigDef(
        [ConfigKey(_FILE, ConfigType.STRING, REQUIRED, "The file to append to.", NonEmptyString(), Importance.HIGH)]
    )
    task_class = FileStreamSinkTask


def _position(offset: OffsetMap) -> int | str:
    """Return the number of bytes, or an error message."""
    position = offset.get("position")
    if set(offset) != {"position"} or isinstance(position, bool) or not isinstance(position, int) or position < 0:
        return f'an offset of this connector is like {{"position":0}}, in bytes, not {_shown(offset)}'
    return position


def _shown(some: OffsetMap) -> str:
    return json.dumps(dict(some), separators=(",", ":"))
