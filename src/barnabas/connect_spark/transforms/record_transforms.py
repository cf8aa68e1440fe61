"""Transforms that don't change key, value and headers: Filter, RegexRouter, TimestampRouter."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Self

from pyspark.sql import functions as F

from barnabas.connect_spark.transforms.date_patterns import spark_pattern
from barnabas.connect_spark.transforms.record_expressions import Outcome, Record
from barnabas.connect_spark.transforms.transform import Transform

if TYPE_CHECKING:
    from barnabas.connect_spark.transforms.transform import Settings

__all__ = ["Filter", "RegexRouter", "TimestampRouter"]


@dataclass(frozen=True)
class Filter(Transform):
    name: ClassVar[str] = "Filter"

    @classmethod
    def of(cls, settings: Settings) -> Self:
        return cls()

    def apply(self, record: Record) -> Outcome:
        return Outcome(record, dropped=True)


@dataclass(frozen=True)
class RegexRouter(Transform):
    regex: str
    replacement: str

    name: ClassVar[str] = "RegexRouter"

    @classmethod
    def of(cls, settings: Settings) -> Self:
        return cls(str(settings["regex"]), str(settings["replacement"]))

    def apply(self, record: Record) -> Outcome:
        # Java's own regular expressions, as in Connect; only names that match as a whole are changed.
        routed = F.regexp_replace(record.topic, F.lit(f"\\A(?:{self.regex})\\z"), F.lit(self.replacement))
        return Outcome(replace(record, topic=routed))


@dataclass(frozen=True)
class TimestampRouter(Transform):
    topic_format: str
    pattern: str

    name: ClassVar[str] = "TimestampRouter"

    @classmethod
    def of(cls, settings: Settings) -> Self:
        pattern = str(settings["timestamp.format"])
        return cls(str(settings["topic.format"]), spark_pattern("timestamp.format", pattern))

    def apply(self, record: Record) -> Outcome:
        moment = F.date_format(F.to_utc_timestamp(record.timestamp, F.current_timezone()), self.pattern)
        with_topic = F.replace(F.lit(self.topic_format), F.lit("${topic}"), record.topic)
        routed = F.replace(with_topic, F.lit("${timestamp}"), moment)
        missing = F.when(
            record.timestamp.isNull(), F.lit("Timestamp missing on record: the topic cannot be derived from it")
        )
        topic = F.coalesce(routed, record.topic)
        return Outcome(replace(record, topic=topic), missing)
