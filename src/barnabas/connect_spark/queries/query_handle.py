"""A running query as seen by its own batches: where the present batch ends.

Spark writes the end of a batch into its checkpoint before the batch runs, so it is known for every batch.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from barnabas.connect_spark.positions.checkpoints import Checkpoint
from barnabas.connect_spark.queries.batch_gate import QueryEnds

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from barnabas.connect_spark.queries.batch_gate import BatchGate
    from barnabas.connect_spark.queries.running_query import BatchEnds

__all__ = ["QueryHandle", "start_query"]

_START_TIMEOUT_S = 120


def _is_error(record: logging.LogRecord) -> bool:
    """Return whether Py4J reports an error of a batch, and not that its query is being stopped."""
    return record.exc_info is None or not isinstance(record.exc_info[1], QueryEnds)


class QueryHandle:
    def __init__(self) -> None:
        self._query: StreamingQuery | None = None
        self._is_known = threading.Event()

    def set(self, query: StreamingQuery) -> None:
        self._query = query
        self._is_known.set()

    def ends(self, batch_number: int) -> list[Any] | None:
        """Return Spark's end offset of each source; None for a batch that is not in the checkpoint.

        The first batch may run before the call that starts its query has returned.
        """
        if not self._is_known.wait(_START_TIMEOUT_S) or self._query is None:
            raise RuntimeError(f"the query was not started within {_START_TIMEOUT_S} s")
        found = self._query._jsq.streamingQuery().offsetLog().get(batch_number)
        if not found.isDefined():
            return None
        offsets = found.get().offsets()
        return [
            json.loads(offset.get().json()) if offset.isDefined() else None
            for offset in (offsets.apply(index) for index in range(offsets.size()))
        ]


def start_query(
    records: DataFrame,
    process: Callable[[DataFrame, int, BatchEnds], None],
    gate: BatchGate,
    checkpoint: Checkpoint,
    *,
    name: str,
    trigger_interval_ms: int,
    output_mode: str = "append",
) -> StreamingQuery:
    """Start the query. Each batch passes the gate; ``process`` receives Spark's own number of it."""
    handle = QueryHandle()

    def batch(frame: DataFrame, batch_number: int) -> None:
        with gate.batch():
            process(frame, batch_number, handle)

    logging.getLogger("py4j.clientserver").addFilter(_is_error)  # Adding it again does nothing.
    query = (
        records.writeStream.queryName(name)
        .foreachBatch(batch)
        .outputMode(output_mode)
        .option("checkpointLocation", str(checkpoint.folder))
        .trigger(processingTime=f"{trigger_interval_ms} milliseconds")
        .start()
    )
    handle.set(query)
    return query
