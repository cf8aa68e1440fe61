"""The transforms of a connector, applied one after the other to each RecordBatch as one projection.

A row that a transform rejects keeps what it had and gets a ``failure``; later steps leave it alone. A row that Filter
drops is not in the result. Where a predicate holds for some rows only and the transform changes their schema, the
batch is split in two, because a column of Spark has one type.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from barnabas.connect.spark.converters.record_batch import RecordBatch

__all__ = ["TransformChain"]


@dataclass(frozen=True)
class TransformChain:
    @classmethod
    def of(cls, connector_config: Mapping[str, str]) -> TransformChain:
        """What ``transforms``, ``transforms.<alias>.*``, ``predicates`` and ``predicates.<alias>.*`` say. Raises
        ConfigException, naming the setting, for what none of the classes here understands."""
        raise NotImplementedError

    def apply(self, batches: Sequence[RecordBatch]) -> list[RecordBatch]:
        raise NotImplementedError
