"""The positions that a pipeline writes to make its next start right, whatever a crash leaves of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from barnabas.common.topic_partition import TopicPartition
from barnabas.connect.identifiers import ConnectorTaskId
from barnabas.connect_spark.queries.source_delivery import TransactionCalls
from barnabas.connect_spark.queries.task_spec import TaskSpec
from barnabas.connect_spark.sql.declarations import OutputDeclaration
from barnabas.connect_spark.sql.pipeline_batch import PipelineBatch
from barnabas.connect_spark.sql.pipeline_delivery import TopicDelivery
from barnabas.connect_spark.sql.pipeline_positions import RunPosition

P0 = TopicPartition("shop-orders", 0)
RUN = RunPosition(1000, -1)
BATCH = PipelineBatch(1003, {"orders": {P0: 1}}, {"orders": {P0: 4}}, RunPosition(1000, 3))


def nothing(*arguments: Any) -> Any:
    return None


def delivery(folder: Path, written: list[Any], *, has_transactions: bool) -> TopicDelivery:
    worker = {"bootstrap.servers": "b:9092", "offset.storage.topic": "offsets"}
    spec = TaskSpec(ConnectorTaskId("orders", 0), {}, {}, worker, folder)
    calls = TransactionCalls("orders-0", nothing, nothing, nothing) if has_transactions else None
    path = cast(Any, None)  # No records are written.
    return TopicDelivery(spec, OutputDeclaration(topic="out"), (), path, written.extend, nothing, calls)


@pytest.mark.parametrize(("has_transactions", "begun", "repeated"), [(False, [RUN.pair], BATCH.pairs), (True, [], [])])
def test_a_run_and_a_repeated_batch_are_noted_unless_a_transaction_has_all_positions(
    tmp_path: Path, has_transactions: bool, begun: list[Any], repeated: list[Any]
) -> None:
    written: list[Any] = []
    of_topic = delivery(tmp_path, written, has_transactions=has_transactions)
    of_topic.begin_run(RUN)
    assert written == begun
    of_topic.adopt(BATCH)
    assert written == [*begun, *repeated]
