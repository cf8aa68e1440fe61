"""Files of tables that a running query reads: Spark lists them once, and not again for each batch.

Delta and Iceberg find the latest version of a table whenever a batch is planned.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame

__all__ = ["TableFiles"]

_LIST_EVERY_S = 10.0


class TableFiles:
    """The files of tables of Parquet, which are listed again from time to time."""

    def __init__(self, frames: Iterable[DataFrame]) -> None:
        self._indexes = [index for frame in frames for index in _indexes(frame)]
        self._listed_s = time.monotonic()

    def maybe_list(self) -> None:
        """List the files again if it is time. The next batch reads those that exist then."""
        if self._indexes and time.monotonic() - self._listed_s >= _LIST_EVERY_S:
            self._listed_s = time.monotonic()
            for index in self._indexes:
                index.refresh()


def _indexes(frame: DataFrame) -> list[Any]:
    """Return Spark's lists of the files of a table."""
    plan: Any = frame._jdf.queryExecution().analyzed()
    leaves = plan.collectLeaves()
    found = [leaves.apply(number) for number in range(leaves.size())]
    return [leaf.relation().location() for leaf in found if str(leaf.getClass().getSimpleName()) == "LogicalRelation"]
