"""All converters of a connector together: raw records of Kafka's <-> RecordBatches.

Rows of one schema go together, because a column of Spark has one type. Which schemas a micro-batch has is asked of it
only where a converter can't know (JsonConverter with ``schemas.enable``); that reads the batch once more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from barnabas.connect.spark.converters.converter import Converter
    from barnabas.connect.spark.converters.record_batch import RecordBatch

__all__ = ["RecordConverter"]


@dataclass(frozen=True)
class RecordConverter:
    key: Converter
    value: Converter
    header: Converter

    @classmethod
    def of(cls, connector_config: Mapping[str, str], worker_config: Mapping[str, str]) -> RecordConverter:
        """The connector's ``key.converter`` etc. with the settings below its prefix, else the worker's with the
        worker's. Raises ConfigException for an unknown class or a bad setting."""
        raise NotImplementedError

    def to_connect(self, raw: DataFrame) -> list[RecordBatch]:
        """For sinks. ``raw`` has what Spark's Kafka source gives with ``includeHeaders``: topic, partition, offset,
        timestamp, key, value, headers; other columns are left out. It should be cached if it is costly to read."""
        raise NotImplementedError

    def from_source(self, frame: DataFrame) -> RecordBatch:
        """For sources: what ``SourceTask.read`` returned (topic, value, and maybe partition, timestamp, key, headers),
        with the Connect schemas that belong to its types. VARIANT is schemaless."""
        raise NotImplementedError

    def from_connect(self, batches: Sequence[RecordBatch]) -> DataFrame:
        """For sources, and for sinks that write to topics: topic, partition, offset, timestamp, key and value (binary),
        headers (``RAW_HEADERS``), failure, original. Rows that failed before come through with null key and value."""
        raise NotImplementedError

    @staticmethod
    def to_frame(batches: Sequence[RecordBatch]) -> DataFrame:
        """One DataFrame for ``SinkTask.write``: topic, partition, offset, timestamp, key, value, headers of all good
        rows. Different schemas are merged (a field that a record lacks is null; types that don't fit together become
        VARIANT), and schemaless data gets the type that holds all of it, so that no field is lost."""
        raise NotImplementedError
