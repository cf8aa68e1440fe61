"""Upkeep of Iceberg tables beside the batches of a task: small files are rewritten, old snapshots expire.

Upkeep changes no row and no position. It commits like any other writer, so a batch that meets such a commit is
committed after it; if upkeep loses, it tries again at its next time. Its failures are logged, and never fail the task.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from barnabas.connect.plugins.api import ConfigKey, ConfigType, Importance, Range
from barnabas.connect_spark.connectors.iceberg.iceberg_table import IcebergTable
from barnabas.connect_spark.sessions.java_errors import java_message

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["UPKEEP_KEYS", "TableUpkeep", "UpkeepRules", "keep_up"]

log = logging.getLogger(__name__)

_INTERVAL, _FILES = "compaction.interval.ms", "compaction.files.min"
_TARGET_BYTES, _AGE, _KEPT = "compaction.file.bytes", "snapshots.age.max.ms", "snapshots.kept.min"

UPKEEP_KEYS = (
    ConfigKey(
        _INTERVAL,
        ConfigType.LONG,
        "0",
        "How often a task rewrites small files of its tables and expires old snapshots; 0 for never.",
        Range(0),
    ),
    ConfigKey(
        _FILES,
        ConfigType.INT,
        "5",
        "How many files a partition must have before they are rewritten into fewer.",
        Range(2),
    ),
    ConfigKey(
        _TARGET_BYTES,
        ConfigType.LONG,
        "134217728",
        "The size of rewritten files, in bytes.",
        Range(1024),
        Importance.LOW,
    ),
    ConfigKey(
        _AGE,
        ConfigType.LONG,
        "0",
        "The age at which snapshots expire, with the files that only they need; 0 for never.",
        Range(0),
    ),
    ConfigKey(_KEPT, ConfigType.INT, "1", "How many snapshots stay, whatever their age.", Range(1), Importance.LOW),
)


@dataclass(frozen=True, slots=True)
class UpkeepRules:
    interval_ms: int
    files_min: int
    file_bytes: int
    age_max_ms: int
    kept_min: int

    @classmethod
    def of(cls, settings: Mapping[str, object]) -> UpkeepRules:
        return cls(*(int(str(settings[name])) for name in (_INTERVAL, _FILES, _TARGET_BYTES, _AGE, _KEPT)))


def keep_up(table: IcebergTable, rules: UpkeepRules, now_ms: int) -> tuple[int, int]:
    """Rewrite small files and expire snapshots. Return the numbers of files before and after the rewriting."""
    loaded = table.load()
    if loaded is None or loaded.currentSnapshot() is None:
        return 0, 0
    with table.settings.commit_lock():
        action = table.jvm.org.apache.iceberg.spark.actions.SparkActions.get(table.spark._jsparkSession)
        rewrite = action.rewriteDataFiles(loaded).option("min-input-files", str(rules.files_min))
        result = rewrite.option("target-file-size-bytes", str(rules.file_bytes)).execute()
    if rules.age_max_ms:
        loaded.refresh()
        with table.settings.commit_lock():
            expiry = loaded.expireSnapshots().expireOlderThan(now_ms - rules.age_max_ms)
            expiry.retainLast(rules.kept_min).commit()
    return int(result.rewrittenDataFilesCount()), int(result.addedDataFilesCount())


class TableUpkeep:
    """Keeps tables up on a thread of its own, until it is stopped."""

    def __init__(
        self,
        spark: SparkSession,
        rules: UpkeepRules,
        tables: Callable[[], Sequence[IcebergTable]],
        who: str,
        *,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        """``tables`` are those to keep up now. ``who`` names the task in the log."""
        self._spark: Any = spark
        self._rules = rules
        self._tables = tables
        self._who = who
        self._now_ms = now_ms
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"connect-upkeep-{who}", daemon=True)

    def begin(self) -> None:
        if self._rules.interval_ms:
            self._thread.start()

    def stop(self) -> None:
        """Cancel what runs. Does not wait: an unfinished rewriting leaves the table as it was."""
        self._stopping.set()
        if self._thread.is_alive():
            self._spark.sparkContext.cancelJobGroup(self._group)

    @property
    def _group(self) -> str:
        return f"barnabas-upkeep-{self._who}"

    def _run(self) -> None:
        while not self._stopping.wait(self._rules.interval_ms / 1000):
            self._spark.sparkContext.setJobGroup(self._group, f"upkeep of the tables of {self._who}", True)
            self._spark.sparkContext.setLocalProperty("spark.scheduler.pool", self._group)
            try:
                for table in self._tables():
                    self._keep_up(table)
            except Exception as error:
                log.warning("task %s: upkeep of its tables failed: %s", self._who, java_message(error))

    def _keep_up(self, table: IcebergTable) -> None:
        if self._stopping.is_set():
            return
        try:
            before, after = keep_up(table, self._rules, self._now_ms())
        except Exception as error:
            if not self._stopping.is_set():
                log.warning("task %s: upkeep of %s failed: %s", self._who, table.name, java_message(error))
            return
        if before:
            log.info("task %s: rewrote %d files of %s into %d", self._who, before, table.name, after)
