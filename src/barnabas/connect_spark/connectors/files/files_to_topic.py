"""Files of a folder to a topic, each file once.

A file must be complete when it gets its name, so rename it into the folder. Names that begin with ``.`` or ``_`` or end
with ``.tmp`` are skipped, so a writer can use such a name until it is done. Files are read in the order of their
modification times, whole files in a batch, at least once. ``{"folder": f, "file": name}`` ->
``{"size": n, "modified": milliseconds}`` records that a file is in Kafka. A file that changes later is not read again,
which is logged. For a file that grows use FileStreamSource.
"""

from __future__ import annotations

import fnmatch
import logging
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from barnabas.connect.plugins.api import (
    REQUIRED,
    ConfigDef,
    ConfigKey,
    ConfigType,
    Importance,
    NonEmptyString,
    Range,
    SourceConnector,
    SourceOffset,
    TerminalError,
    ValidString,
)
from barnabas.connect_spark.positions.source_positions import check_positions
from barnabas.connect_spark.queries.polled_source import Polled, PolledSourceTask
from barnabas.connect_spark.sessions.shared_folder import require_same_file

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["FilesToTopic", "FoundFile", "found_files"]

log = logging.getLogger(__name__)

_DIRECTORY, _PATTERN, _FORMAT, _TOPIC = "directory", "file.pattern", "format", "topic"
_SCHEMA, _FILES_MAX, _NAME_AS_KEY = "schema", "files.max", "file.name.as.key"
_FORMATS = ("lines", "whole", "json", "csv", "parquet")
_TASK, _TASKS = "files.task", "files.tasks"


@dataclass(frozen=True, slots=True)
class FoundFile:
    path: Path
    name: str
    """The path below the folder."""
    size: int
    modified_ms: int

    @property
    def offset(self) -> dict[str, int]:
        return {"size": self.size, "modified": self.modified_ms}


def found_files(folder: Path, pattern: str, task: int, tasks: int) -> list[FoundFile]:
    """Return the task's share of the existing files, the oldest first. Raise OSError if the folder can't be read."""
    found = []
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        is_hidden = any(part.startswith((".", "_")) for part in path.relative_to(folder).parts)
        if is_hidden or name.endswith(".tmp") or not fnmatch.fnmatchcase(name, pattern):
            continue
        if zlib.crc32(name.encode(errors="surrogateescape")) % tasks != task:
            continue
        try:
            state = path.stat()
        except FileNotFoundError:
            continue  # The file was removed.
        if path.is_file():
            found.append(FoundFile(path, name, state.st_size, state.st_mtime_ns // 1_000_000))
    return sorted(found, key=lambda file: (file.modified_ms, file.name))


class FilesToTopicTask(PolledSourceTask):
    def start(self, spark: SparkSession) -> None:
        self._done: set[str] = set()
        self._is_shared = False
        """Whether Spark is known to see the files, where it is not in the worker."""
        self._folder = Path(str(self.settings[_DIRECTORY]))
        self._task = int(self.config.get(_TASK, "0"))
        self._tasks = int(self.config.get(_TASKS, "1"))

    def poll(self, spark: SparkSession) -> Polled | None:
        if not self._folder.is_dir():
            raise TerminalError(f"{_DIRECTORY}: {self._folder} does not exist on this worker. Create it or mount it.")
        there = found_files(self._folder, str(self.settings[_PATTERN]), self._task, self._tasks)
        new = [file for file in there if self._is_new(file)][: int(str(self.settings[_FILES_MAX]))]
        if not new:
            return None
        if not self._is_shared:
            require_same_file(spark, new[0].path, new[0].size, _DIRECTORY)
            self._is_shared = True
        self._done |= {file.name for file in new}
        return Polled(self._records(spark, new), [SourceOffset(self._partition(file), file.offset) for file in new])

    def _is_new(self, file: FoundFile) -> bool:
        if file.name in self._done:
            return False
        known = self.context.source_offset(self._partition(file))
        if known is None:
            return True
        self._done.add(file.name)
        if dict(known) != file.offset:
            log.warning("%s has changed since it was read, and is not read again: give new data a new name", file.path)
        return False

    def _partition(self, file: FoundFile) -> dict[str, str]:
        return {"folder": str(self._folder), "file": file.name}

    def _records(self, spark: SparkSession, files: Sequence[FoundFile]) -> DataFrame:
        from pyspark.sql import functions as F

        frame = self._frame(spark, [file.path.as_uri() for file in files])
        columns = [F.lit(str(self.settings[_TOPIC])).alias("topic")]
        if self.settings[_NAME_AS_KEY]:
            columns.append(F.substring_index(F.col("_metadata.file_path"), "/", -1).alias("key"))
        if self.settings[_FORMAT] == "lines":
            return frame.select(*columns, F.col("value"))
        if self.settings[_FORMAT] == "whole":
            return frame.select(*columns, F.col("content").alias("value"))
        fields = [F.col("`" + name.replace("`", "``") + "`") for name in frame.columns]
        return frame.select(*columns, F.struct(*fields).alias("value"))

    def _frame(self, spark: SparkSession, files: list[str]) -> DataFrame:
        """Read the files. An unreadable line or row fails the task, so that no part of a file is skipped silently."""
        kind = str(self.settings[_FORMAT])
        reader = spark.read.option("mode", "FAILFAST")
        if kind == "lines":
            return reader.text(files)
        if kind == "whole":
            return reader.format("binaryFile").load(files)
        if self.settings[_SCHEMA]:
            reader = reader.schema(str(self.settings[_SCHEMA]))
        elif kind == "csv":
            reader = reader.option("inferSchema", "false")
        return reader.format(kind).option("header", "true").load(files)


class FilesToTopic(SourceConnector):
    """Files of a folder, line by line, whole, or as rows, to a topic."""

    version = "1.0.0"
    config_def: ClassVar[ConfigDef] = ConfigDef(
        [
            ConfigKey(
                _DIRECTORY,
                ConfigType.STRING,
                REQUIRED,
                "The folder, with its subfolders: a path that is the same on all workers and executors.",
                NonEmptyString(),
                Importance.HIGH,
            ),
            ConfigKey(_TOPIC, ConfigType.STRING, REQUIRED, "The topic to write to.", NonEmptyString(), Importance.HIGH),
            ConfigKey(
                _FORMAT,
                ConfigType.STRING,
                "lines",
                "lines: a record for each line. whole: one for each file, as bytes. json (an object on each line), csv "
                "(with names in the first line) and parquet: an object for each row.",
                ValidString(_FORMATS),
                Importance.HIGH,
            ),
            ConfigKey(_PATTERN, ConfigType.STRING, "*", "Which files, such as *.csv.", NonEmptyString()),
            ConfigKey(
                _SCHEMA,
                ConfigType.STRING,
                "",
                "For json and csv the fields and their types, such as id INT, name STRING. Empty: those of json are "
                "found by reading each batch once more, those of csv are strings.",
            ),
            ConfigKey(_FILES_MAX, ConfigType.INT, "100", "The maximum number of files in a batch.", Range(1)),
            ConfigKey(_NAME_AS_KEY, ConfigType.BOOLEAN, "false", "Whether a record's key is the name of its file."),
        ]
    )
    task_class = FilesToTopicTask

    @classmethod
    def exactly_once_support(cls, config: Mapping[str, str]) -> bool:
        return True

    @classmethod
    def alter_offsets(
        cls, config: Mapping[str, str], offsets: Sequence[tuple[Mapping[str, object], Mapping[str, object] | None]]
    ) -> bool:
        """Check the offsets. Raise ValueError."""
        check_positions(offsets, partition={"folder": "...", "file": "..."}, offset={"size": 0, "modified": 0})
        return True

    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        return [{**self.config, _TASK: str(task), _TASKS: str(max_tasks)} for task in range(max_tasks)]

    @classmethod
    def validate(cls, config: Mapping[str, str], settings: Mapping[str, object]) -> Mapping[str, Sequence[str]]:
        errors: dict[str, Sequence[str]] = {}
        path = str(settings.get(_DIRECTORY) or "/")
        if "://" in path:
            errors[_DIRECTORY] = [f"{path} is not a folder of the worker's machine: mount it, and give its path."]
        elif not Path(path).is_absolute():
            errors[_DIRECTORY] = [f"{path} is not an absolute path: workers may run in different folders."]
        if settings.get(_SCHEMA) and settings.get(_FORMAT, "json") not in ("json", "csv"):
            errors[_SCHEMA] = [f"format={settings[_FORMAT]} does not use a schema: only json and csv do."]
        return errors
