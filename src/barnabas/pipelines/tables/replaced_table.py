"""A Parquet table that is replaced as a whole, so that readers and restarts see only complete versions.

``<path>/version=<number>/`` is a version. Spark writes its ``_SUCCESS`` last, and only with it the version exists: a
job that is killed leaves the previous one in force, on any file system, without a rename. Writing a version that exists
does nothing. The version before the current one is kept for those that are reading it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["ReplacedTable"]

_VERSION = re.compile(r"version=(\d{20})\Z")
_KEPT = 2


class ReplacedTable:
    def __init__(self, spark: SparkSession, path: str) -> None:
        """``path`` is a local path or a URL that Spark can write to."""
        self.path = path.rstrip("/")
        self._spark = spark
        jvm: Any = spark._jvm
        self._to_path = jvm.org.apache.hadoop.fs.Path
        self._files = self._to_path(self.path).getFileSystem(spark._jsc.hadoopConfiguration())

    @property
    def version(self) -> int:
        """The current version; -1 without one."""
        return max(self._versions(), default=-1)

    def read(self) -> DataFrame | None:
        """Return the rows of the current version; None without one."""
        version = self.version
        return None if version < 0 else self._spark.read.parquet(self._folder(version))

    def write(self, frame: DataFrame, version: int) -> bool:
        """Make these rows the version, unless it or a later one exists. Return whether they were written.

        The rows may come from the current version.
        """
        if version <= self.version:
            return False
        frame.write.mode("overwrite").parquet(self._folder(version))
        for old in sorted(self._versions())[:-_KEPT]:
            self._files.delete(self._to_path(self._folder(old)), True)
        return True

    def _folder(self, version: int) -> str:
        return f"{self.path}/version={version:020d}"

    def _versions(self) -> list[int]:
        root = self._to_path(self.path)
        if not self._files.exists(root):
            return []
        names = [status.getPath().getName() for status in self._files.listStatus(root)]
        found = [int(match[1]) for name in names if (match := _VERSION.match(name))]
        return [version for version in found if self._files.exists(self._to_path(f"{self._folder(version)}/_SUCCESS"))]
