"""A producer with transactions in the worker, for a Spark whose executors are other processes.

Their producers can't share a transaction. So Spark computes the records of a batch, the worker receives them as Arrow
tables, and its own producer writes them. A stage that Spark repeats sends nothing twice: only its result arrives here.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from barnabas.clients.admin.group_offsets import OffsetAndMetadata
from barnabas.clients.client_config import client_config
from barnabas.clients.network_client import NetworkClient
from barnabas.clients.producer.config import producer_config
from barnabas.clients.producer.stream_batches import StreamRecord
from barnabas.clients.producer.transaction_requests import GroupMetadata
from barnabas.clients.producer.transactional_producer import TransactionalProducer

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark.sql import DataFrame

    from barnabas.common.topic_partition import TopicPartition
    from barnabas.connect.decide.tasks.task_runtime import TopicRecord

__all__ = ["WorkerProducer", "by_target"]

T = TypeVar("T")

Target = tuple[str, int | None]
"""A topic, and the partition if the record names one."""

_RECORDS_AT_ONCE = 10_000


class WorkerProducer:
    """All methods block, and raise TransactionError. They are called on one thread, which is not the producer's."""

    def __init__(self, properties: Mapping[str, str], transactional_id: str) -> None:
        """Raise InvalidClientConfig."""
        self._config = producer_config({**properties, "transactional.id": transactional_id}, is_transactional=True)
        self._network = NetworkClient(client_config(properties, source="producer settings"))
        self._producer = TransactionalProducer(self._network, self._config)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="connect-producer", daemon=True)
        self._thread.start()

    def init_transactions(self) -> None:
        """Fence earlier producers of the transactional id, and end their transaction."""
        self._run(self._producer.init_transactions())

    def begin(self) -> None:
        async def begin() -> None:
            self._producer.begin()

        self._run(begin())

    def write(self, records: DataFrame) -> None:
        """Write records with the columns topic, partition, key, value and headers."""
        for batch in records.toArrow().to_batches(_RECORDS_AT_ONCE):
            self._run(self._send(batch))

    def send(self, records: Iterable[TopicRecord]) -> None:
        """Send records. ``commit`` raises the error of one that could not be written."""
        for record in records:
            now_ms = self._producer.now_ms()
            self._run(self._producer.send_pairs(record.topic, [(record.key, record.value)], now_ms))

    def send_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets of a group without members, as a part of the transaction."""
        positions = {partition: OffsetAndMetadata(offset) for partition, offset in offsets.items()}
        self._run(self._producer.send_offsets(positions, GroupMetadata(group)))

    def commit(self) -> None:
        """Write everything that was sent, and commit."""
        self._run(self._producer.commit())

    def abort(self) -> None:
        self._run(self._producer.abort())

    def close(self) -> None:
        """End what is open, and all connections."""
        if self._loop.is_closed():
            return
        try:
            self._run(self._close())
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    async def _close(self) -> None:
        try:
            await self._producer.close()
        finally:
            await self._network.close()

    async def _send(self, batch: RecordBatch) -> None:
        now_ms = self._producer.now_ms()
        has_headers = any(batch.column("headers").to_pylist())
        for (topic, partition), rows in by_target(batch).items():
            if has_headers:
                records = [StreamRecord(now_ms, row["key"], row["value"], _headers(row)) for row in rows]
                await self._producer.send(topic, records, partition=partition)
            else:
                pairs = [(row["key"], row["value"]) for row in rows]
                await self._producer.send_pairs(topic, pairs, now_ms, partition=partition)

    def _run(self, steps: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(steps, self._loop).result()


def by_target(batch: RecordBatch) -> dict[Target, list[dict[str, Any]]]:
    """Return the rows by topic and partition, in their order. Raise ValueError for a row without a topic."""
    found: dict[Target, list[dict[str, Any]]] = {}
    for row in batch.to_pylist():
        if row["topic"] is None:
            raise ValueError("a record has no topic")
        found.setdefault((row["topic"], row["partition"]), []).append(row)
    return found


def _headers(row: Mapping[str, Any]) -> list[tuple[str, bytes | None]]:
    return [(header["key"], header["value"]) for header in row["headers"] or ()]
