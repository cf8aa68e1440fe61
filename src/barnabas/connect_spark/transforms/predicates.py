"""HasHeaderKey, RecordIsTombstone, TopicNameMatches (KIP-585)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

from pyspark.sql import functions as F

from barnabas.connect_spark.transforms.transform import Predicate

if TYPE_CHECKING:
    from pyspark.sql import Column

    from barnabas.connect_spark.transforms.record_expressions import Record
    from barnabas.connect_spark.transforms.transform import Settings

__all__ = ["PREDICATE_CLASSES", "HasHeaderKey", "RecordIsTombstone", "TopicNameMatches"]


@dataclass(frozen=True)
class HasHeaderKey(Predicate):
    header: str

    name: ClassVar[str] = "HasHeaderKey"

    @classmethod
    def of(cls, settings: Settings) -> Self:
        return cls(str(settings["name"]))

    def test(self, record: Record) -> Column:
        found = F.exists(record.headers, lambda header: header["key"] == self.header)
        return F.coalesce(found, F.lit(False))


@dataclass(frozen=True)
class RecordIsTombstone(Predicate):
    name: ClassVar[str] = "RecordIsTombstone"

    @classmethod
    def of(cls, settings: Settings) -> Self:
        return cls()

    def test(self, record: Record) -> Column:
        return ~record.value.present


@dataclass(frozen=True)
class TopicNameMatches(Predicate):
    pattern: str

    name: ClassVar[str] = "TopicNameMatches"

    @classmethod
    def of(cls, settings: Settings) -> Self:
        return cls(str(settings["pattern"]))

    def test(self, record: Record) -> Column:
        return F.coalesce(record.topic.rlike(f"\\A(?:{self.pattern})\\z"), F.lit(False))


PREDICATE_CLASSES: tuple[type[Predicate], ...] = (HasHeaderKey, RecordIsTombstone, TopicNameMatches)
