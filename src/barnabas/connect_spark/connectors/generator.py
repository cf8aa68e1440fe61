"""A source that generates records, to try a pipeline before its data exist, or to measure one."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

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
)
from barnabas.connect_spark.positions.source_positions import check_positions
from barnabas.connect_spark.queries.polled_source import Polled, PolledSourceTask

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Generator"]

_PARTITION = {"generator": "numbers"}
_BATCH_MAX = 500_000


def due(start: int, elapsed_s: float, per_second: int, end: int) -> int:
    """Return the number of records that are due. ``end`` is the limit unless it is negative."""
    next_number = start + int(elapsed_s * per_second)
    return next_number if end < 0 else min(next_number, max(end, start))


class GeneratorTask(PolledSourceTask):
    """Record n has the key n and the value ``{"number": n, "text": ...}``; the same n is always the same record."""

    def start(self, spark: SparkSession) -> None:
        found = self.context.source_offset(_PARTITION) or {"next": 0}
        first = found.get("next")
        if isinstance(first, bool) or not isinstance(first, int) or first < 0:
            raise TerminalError(f'the offset of this connector must be like {{"next":0}}, not {dict(found)}')
        self._first = self._next = first
        self._began = time.monotonic()

    def poll(self, spark: SparkSession) -> Polled | None:
        from pyspark.sql import functions as F

        rate, most = int(str(self.settings["records.per.second"])), int(str(self.settings["records.max"]))
        elapsed_s = time.monotonic() - self._began
        end = min(due(self._first, elapsed_s, rate, most), self._next + _BATCH_MAX)
        if end == self._next:
            return None
        number = F.col("id")
        text = F.rpad(F.sha2(number.cast("string"), 256), int(str(self.settings["text.size"])), "=")
        records = spark.range(self._next, end).select(
            F.lit(str(self.settings["topic"])).alias("topic"),
            number.cast("string").alias("key"),
            F.struct(number.alias("number"), text.alias("text")).alias("value"),
        )
        rows, self._next = end - self._next, end
        return Polled(records, [SourceOffset(_PARTITION, {"next": end})], rows)


class Generator(SourceConnector):
    """Numbered records at a rate."""

    version = "1.0.0"
    config_def = ConfigDef(
        [
            ConfigKey(
                "topic", ConfigType.STRING, REQUIRED, "The topic to write to.", NonEmptyString(), Importance.HIGH
            ),
            ConfigKey("records.per.second", ConfigType.INT, "10", "Records per second.", Range(1, 10_000_000)),
            ConfigKey(
                "records.max",
                ConfigType.LONG,
                "-1",
                "The total number of records, over all starts; -1 for no limit.",
                Range(-1),
            ),
            ConfigKey("text.size", ConfigType.INT, "64", "The length of the text in each record.", Range(1, 1_000_000)),
        ]
    )
    task_class = GeneratorTask

    @classmethod
    def exactly_once_support(cls, config: Mapping[str, str]) -> bool:
        return True

    @classmethod
    def alter_offsets(
        cls, config: Mapping[str, str], offsets: Sequence[tuple[Mapping[str, object], Mapping[str, object] | None]]
    ) -> bool:
        """Check the offsets. Raise ValueError."""
        check_positions(offsets, partition=_PARTITION, offset={"next": 0})
        return True
