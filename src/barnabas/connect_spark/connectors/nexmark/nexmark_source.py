"""A source of NEXMark's events: persons, auctions and bids of an auction site, to try queries over streams.

Spark makes the events from their numbers, without Python. A task makes those of its shares, in order: one Spark task
writes each kind, so event time advances within a topic. Several tasks at full speed may be apart by any time; at a rate
they are apart by a trigger interval.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, ClassVar

from barnabas.connect.plugins.api import (
    ConfigDef,
    ConfigException,
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
from barnabas.connect_spark.connectors.generator import due
from barnabas.connect_spark.connectors.nexmark.event_columns import EventColumns, is_of
from barnabas.connect_spark.connectors.nexmark.event_numbers import (
    BLOCK,
    SHARES,
    Kind,
    count_events,
    shares_of_tasks,
)
from barnabas.connect_spark.positions.source_positions import check_positions
from barnabas.connect_spark.queries.polled_source import Polled, PolledSourceTask

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["NexmarkSource"]

_SHARE = "nexmark.share"
_SHARES = "nexmark.shares"
_BATCH_MAX = 500_000
_FULL_SPEED = 0


class NexmarkTask(PolledSourceTask):
    def start(self, spark: SparkSession) -> None:
        self._columns = EventColumns(
            int(str(self.settings["seed"])),
            event_time(str(self.settings["event.time.start"])),
            int(str(self.settings["event.time.per.second"])),
            times_as_text=self.settings["event.time.type"] == "text",
        )
        shares = map(int, self.config.get(_SHARES, "0").split(","))
        self._starts = {share: self._position(share) for share in shares}
        self._first = min(self._starts.values())
        self._began_s = time.monotonic()

    def poll(self, spark: SparkSession) -> Polled | None:
        begin, end = min(self._starts.values()), self._due()
        if end <= begin:
            return None
        counts = {kind: count_events(kind, self._starts, end) for kind in Kind}
        records = self._records(self._numbers(spark, begin, end), {kind: rows for kind, rows in counts.items() if rows})
        self._starts = {share: max(start, end) for share, start in self._starts.items()}
        offsets = [SourceOffset({_SHARE: share}, {"next": start}) for share, start in self._starts.items()]
        frames, rows = zip(*records.values(), strict=True) if records else ((), ())
        return Polled([*frames], offsets, [*rows], frozenset(records))

    def _due(self) -> int:
        """Return the number after the last event that a batch may have now."""
        begin, last = min(self._starts.values()), int(str(self.settings["events"]))
        most = begin + _BATCH_MAX * SHARES // len(self._starts)
        rate = int(str(self.settings["events.per.second"]))
        if rate == _FULL_SPEED:
            return most if last < 0 else min(most, max(last, begin))
        return min(most, due(self._first, time.monotonic() - self._began_s, rate, last))

    def _position(self, share: int) -> int:
        found = self.context.source_offset({_SHARE: share}) or {"next": 0}
        first = found.get("next")
        if isinstance(first, bool) or not isinstance(first, int) or first < 0:
            raise TerminalError(f'the offset of share {share} must be like {{"next":0}}, not {dict(found)}')
        return first

    def _numbers(self, spark: SparkSession, begin: int, end: int) -> DataFrame:
        """Return the numbers of the events, in order. Shares that are ahead have none before their position."""
        numbers = spark.range(begin, end, 1, 1).withColumnRenamed("id", "number")
        if len(self._starts) < SHARES or len({*self._starts.values()}) > 1:
            begins = ", ".join(f"{self._starts.get(share, end)}L" for share in range(SHARES))
            share = f"CAST(pmod(number div {BLOCK}, {SHARES}) AS INT)"
            numbers = numbers.where(f"number >= array({begins})[{share}]")
        return numbers

    def _records(self, numbers: DataFrame, counts: Mapping[Kind, int]) -> Mapping[str, tuple[DataFrame, int]]:
        """Return the records of each topic, and how many they are."""
        topic, prefix, columns = str(self.settings["topic"]), self.settings["topic.prefix"], self._columns
        if topic:
            return {topic: (_records(numbers, topic, columns.any_key(), columns.any_value()), sum(counts.values()))}
        return {
            f"{prefix}{kind.title}": (
                _records(numbers.where(is_of(kind)), f"{prefix}{kind.title}", columns.key(kind), columns.value(kind)),
                rows,
            )
            for kind, rows in counts.items()
        }


def _records(numbers: DataFrame, topic: str, key: str, value: str) -> DataFrame:
    from pyspark.sql import functions as F

    return numbers.select(F.lit(topic).alias("topic"), F.expr(key).alias("key"), F.expr(value).alias("value"))


def event_time(text: str) -> datetime:
    """Parse a time with its zone. Raise ValueError."""
    found = datetime.fromisoformat(text)
    if found.tzinfo is None:
        raise ValueError(f"{text} has no zone")
    return found


class _TimeWithZone:
    def ensure_valid(self, name: str, value: object) -> None:
        try:
            event_time(str(value))
        except ValueError:
            raise ConfigException(name, value, "Write a time with its zone, such as 2015-07-15T00:00:00Z") from None

    def __str__(self) -> str:
        return "a time with its zone"


class NexmarkSource(SourceConnector):
    """NEXMark's persons, auctions and bids."""

    version = "1.0.0"
    config_def: ClassVar[ConfigDef] = ConfigDef(
        [
            ConfigKey(
                "topic.prefix",
                ConfigType.STRING,
                "nexmark-",
                "Each kind of event has its topic: this prefix with person, auction or bid.",
                NonEmptyString(),
                Importance.HIGH,
            ),
            ConfigKey(
                "topic",
                ConfigType.STRING,
                "",
                "One topic for events of all kinds instead. A value has the fields event_type (0, 1 or 2), person, "
                "auction and bid; two of the last three are null.",
                importance=Importance.HIGH,
            ),
            ConfigKey(
                "events",
                ConfigType.LONG,
                "-1",
                "The total number of events, of all tasks and over all starts; -1 for no limit.",
                Range(-1, 10**15),
            ),
            ConfigKey(
                "events.per.second",
                ConfigType.INT,
                "1000",
                "Events per second, of all tasks; 0 for as many as possible.",
                Range(0, 100_000_000),
            ),
            ConfigKey("seed", ConfigType.LONG, "0", "Another seed makes other events."),
            ConfigKey(
                "event.time.start",
                ConfigType.STRING,
                "2015-07-15T00:00:00Z",
                "The time of the first event, with its zone.",
                _TimeWithZone(),
            ),
            ConfigKey(
                "event.time.per.second",
                ConfigType.INT,
                "10000",
                "Events in a second of event time. It does not depend on the rate at which they are written.",
                Range(1, 100_000_000),
            ),
            ConfigKey(
                "event.time.type",
                ConfigType.STRING,
                "timestamp",
                "timestamp: Connect's type, which JsonConverter writes as milliseconds. text: ISO 8601.",
                ValidString(("timestamp", "text")),
            ),
        ]
    )
    task_class = NexmarkTask

    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        return [{**self.config, _SHARES: ",".join(map(str, shares))} for shares in shares_of_tasks(max_tasks)]

    @classmethod
    def exactly_once_support(cls, config: Mapping[str, str]) -> bool:
        return True

    @classmethod
    def alter_offsets(
        cls, config: Mapping[str, str], offsets: Sequence[tuple[Mapping[str, object], Mapping[str, object] | None]]
    ) -> bool:
        """Check the offsets. Raise ValueError."""
        check_positions(offsets, partition={_SHARE: 0}, offset={"next": 0})
        for partition, position in offsets:
            if position is not None and int(str(partition[_SHARE])) >= SHARES:
                raise ValueError(
                    f"a partition of this connector is a share from 0 to {SHARES - 1}, not {dict(partition)}"
                )
        return True
