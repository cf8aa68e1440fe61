"""Plan micro-batches of Kafka records in this process: the offsets of the next one, and a frame of its records.

The plan is written to the checkpoint before the batch begins, in Spark's own form (``checkpoints``). So an unfinished
batch is repeated with the same records and the same id, also by one of Spark's streaming queries.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from barnabas.common.topic_partition import TopicPartition
from barnabas.connect_spark.positions.checkpoints import Checkpoint, note_finished, note_planned, read_state
from barnabas.connect_spark.positions.group_positions import from_kafka_json, kafka_json

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from barnabas.connect_spark.queries.running_query import BatchEnds

__all__ = ["DataLost", "KafkaBatches", "next_ends"]

Positions = Mapping[TopicPartition, int]
Bounds = Mapping[TopicPartition, tuple[int, int]]


class DataLost(Exception):
    """The next record was deleted from the partition."""


def next_ends(starts: Positions, bounds: Bounds, most: int) -> dict[TopicPartition, int]:
    """Return where the next batch ends: at the partition's end, or after its share of ``most`` records.

    As Spark does for ``maxOffsetsPerTrigger``, a partition's share is that of its backlog, and at least one record.
    Raise DataLost.
    """
    for partition, start in starts.items():
        first, end = bounds[partition]
        if not first <= start <= end:
            raise DataLost(
                f"{partition}: the next offset is {start}, but the partition has {first} to {end}: records were "
                "deleted before they were read, or the topic was created again"
            )
    backlog = {partition: bounds[partition][1] - start for partition, start in starts.items()}
    total = sum(backlog.values())
    if total <= most:
        return {partition: bounds[partition][1] for partition in starts}
    return {
        partition: start + min(backlog[partition], max(1, most * backlog[partition] // total))
        for partition, start in starts.items()
    }


class KafkaBatches:
    """A loop of batches. Each step runs one batch if new records exist."""

    def __init__(
        self,
        spark: SparkSession,
        options: Mapping[str, str],
        positions: Positions,
        bounds: Callable[[], Bounds],
        most: int,
        checkpoint: Checkpoint,
        process: Callable[[DataFrame, int, BatchEnds], None],
        note: Callable[[int, int], None],
    ) -> None:
        """``options`` are those of Spark's Kafka reader. ``note`` receives rows and milliseconds of each batch."""
        self._spark = spark
        self._options = options
        self._positions = dict(positions)
        self._bounds = bounds
        self._most = most
        self._folder = checkpoint.folder
        self._process = process
        self._note = note
        self._ends: dict[int, list[object]] = {}
        self._number = 0
        self._planned: dict[TopicPartition, int] | None = None
        """The end of a batch that is in the checkpoint and is not finished."""
        self.last: dict[str, object] | None = None
        """The last batch, for the status."""
        self.frame: DataFrame | None = None
        state = read_state(self._folder)
        if checkpoint.is_resumed and state is not None and state.planned is not None:
            self._ends = dict(state.ends)
            is_finished = state.finished == state.planned
            self._number = state.planned + is_finished
            self._planned = None if is_finished else from_kafka_json(state.ends[state.planned][0])

    def ends(self, batch_number: int) -> list[object] | None:
        return self._ends.get(batch_number)

    def step(self) -> None:
        starts, ends = self._positions, self._planned
        if ends is None:
            ends = next_ends(starts, self._bounds(), self._most)
            if all(ends[partition] == start for partition, start in starts.items()):
                return
            note_planned(self._folder, self._number, [kafka_json(ends)])
        began = time.monotonic()
        number = self._number
        self._ends = {at: end_offsets for at, end_offsets in self._ends.items() if at == number - 1} | {
            number: [kafka_json(ends)]
        }
        self.frame = self._read(starts, ends)
        self._process(self.frame, number, self)
        note_finished(self._folder, number)
        self._positions, self._planned, self._number = ends, None, number + 1
        rows, took_ms = sum(ends.values()) - sum(starts.values()), int((time.monotonic() - began) * 1000)
        self.last = {"batchId": number, "numInputRows": rows, "durationMs": {"triggerExecution": took_ms}}
        self.last["sources"] = [{"startOffset": kafka_json(starts), "endOffset": kafka_json(ends)}]
        self._note(rows, took_ms)

    def _read(self, starts: Positions, ends: Positions) -> DataFrame:
        new = {partition: start for partition, start in starts.items() if ends[partition] > start}
        assigned = {topic: sorted(map(int, offsets)) for topic, offsets in kafka_json(new).items()}
        return (
            self._spark.read.format("kafka")
            .options(**self._options)
            .option("assign", json.dumps(assigned))
            .option("startingOffsets", json.dumps(kafka_json(new)))
            .option("endingOffsets", json.dumps(kafka_json({partition: ends[partition] for partition in new})))
            .option("includeHeaders", "true")
            .option("failOnDataLoss", "true")
            .load()
        )
