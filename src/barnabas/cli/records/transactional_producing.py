"""Send the records of an input to a topic in transactions: one for the whole input, or one after the other.

An error, and Ctrl-C, abort the open transaction. Transactions before it stay committed.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from barnabas.cli.output.advice import UnknownName
from barnabas.cli.records.limits import within_api_timeout
from barnabas.cli.records.producing import Produced, ProduceJob, check_partition
from barnabas.cli.records.rates import Volume, live
from barnabas.cli.records.source import Format, Piece, RecordSource, UnusableInput
from barnabas.clients.network_client import NetworkClient
from barnabas.clients.producer.transaction_errors import TransactionError
from barnabas.clients.producer.transaction_manager import ProducerState
from barnabas.clients.producer.transactional_producer import TransactionalProducer
from barnabas.clients.topic_metadata import TopicMetadataSource

if TYPE_CHECKING:
    from barnabas.clients.client_config import ClientConfig
    from barnabas.clients.producer.config import ProducerConfig
    from barnabas.clients.producer.stream_batches import StreamBatch

__all__ = ["TransactionLimits", "produce_in_transactions", "split"]

_STOP_WITHIN_S = 10.0
"""How long Ctrl-C waits for the end of the transaction."""


class TransactionLimits(NamedTuple):
    """When a transaction is committed and another one begins; None means at the end of the input."""

    records: int | None = None
    duration_s: float | None = None


async def produce_in_transactions(
    config: ClientConfig,
    settings: ProducerConfig,
    job: ProduceJob,
    limits: TransactionLimits,
    format_: Format,
    stop: asyncio.Event,
) -> Produced:
    """Send everything, and return the committed records. Raise AdminError, ClientError, UnknownName before it begins.

    A TransactionError is the result's ``failure``.
    """
    async with NetworkClient(config) as network:
        source = TopicMetadataSource(network, job.topic)
        partitions: list[int] = []

        async def find_partitions() -> None:
            partitions.extend((await source.load()).partitions)

        await within_api_timeout(config, find_partitions())
        check_partition(job.partition, partitions, f"{job.topic}-{job.partition}")
        run = _Run(network, settings, job, limits, partitions)
        try:
            await run.until_stopped(format_, stop)
        finally:
            await run.close()
        return run.produced


class _Run:
    """``produced`` has the records of committed transactions, ``_open`` those of the present one."""

    def __init__(
        self,
        network: NetworkClient,
        settings: ProducerConfig,
        job: ProduceJob,
        limits: TransactionLimits,
        partitions: list[int],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._job = job
        self._limits = limits
        self._partitions = partitions
        self._producer = TransactionalProducer(network, settings, delivered=self._take)
        self._shown = Volume(self._loop.time())
        self._sent = 0
        self._due_s: float | None = None
        self._open = Produced(Volume(self._loop.time()))
        self.produced = Produced(Volume(self._loop.time()))

    async def until_stopped(self, format_: Format, stop: asyncio.Event) -> None:
        async with live(self._shown, is_shown=self._job.shows_rates, now=self._loop.time):
            sending = self._loop.create_task(self._send_all(format_))
            stopping = self._loop.create_task(stop.wait())
            await asyncio.wait([sending, stopping], return_when=asyncio.FIRST_COMPLETED)
            stopping.cancel()
            sending.cancel()
            await asyncio.gather(sending, stopping, return_exceptions=True)
            if not sending.cancelled() and (error := sending.exception()) is not None:
                if not isinstance(error, (TransactionError, UnknownName, UnusableInput, OSError)):
                    raise error
                self.produced.failure = error
            with suppress(TimeoutError, TransactionError):
                async with asyncio.timeout(_STOP_WITHIN_S):
                    await self._settle()
        if self._sent:
            self.produced.aborted_records += self._sent
            self.produced.aborted += 1

    async def close(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(_STOP_WITHIN_S):
                await self._producer.close()

    # --- one transaction after the other

    async def _send_all(self, format_: Format) -> None:
        await self._producer.init_transactions()
        now = self._loop.time()
        self._shown.began_at = self.produced.volume.began_at = now
        source = RecordSource(self._job.paths, format_)
        reading = self._loop.create_task(source.next())
        try:
            while True:
                await asyncio.wait([reading], timeout=self._wait_s())
                if reading.done():
                    piece = reading.result()
                    if piece is None:
                        break
                    reading = self._loop.create_task(source.next())
                    await self._send(piece)
                if self._due_s is not None and self._loop.time() >= self._due_s:
                    await self._commit()
            if self._sent:
                await self._commit()
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    def _wait_s(self) -> float | None:
        return None if self._due_s is None else max(0.0, self._due_s - self._loop.time())

    async def _send(self, piece: Piece) -> None:
        """Send records, and commit each time the transaction has as many as it may have."""
        rest: Piece | None = piece
        while rest is not None:
            limit = self._limits.records
            now, rest = split(rest, None if limit is None else limit - self._sent)
            await self._send_now(now)
            if limit is not None and self._sent >= limit:
                await self._commit()

    async def _send_now(self, piece: Piece) -> None:
        """Send records in the open transaction; the first ones begin it."""
        producer, topic, fixed = self._producer, self._job.topic, self._job.partition
        count = count_of(piece)
        if not count:
            return
        if not self._sent:
            producer.begin()
            if self._limits.duration_s is not None:
                self._due_s = self._loop.time() + self._limits.duration_s
        self._sent += count
        timestamp_ms = producer.now_ms() if self._job.timestamp_ms is None else self._job.timestamp_ms
        if piece.values:
            await producer.send_values(topic, piece.values, timestamp_ms, partition=fixed)
        if piece.pairs:
            await producer.send_pairs(topic, piece.pairs, timestamp_ms, partition=fixed)
        for named, records in piece.records:
            partition = named if fixed is None else fixed
            check_partition(partition, self._partitions, f"{topic}-{partition}")
            await producer.send(topic, records, partition=partition)

    async def _commit(self) -> None:
        await self._producer.commit()
        self._committed()

    def _committed(self) -> None:
        self.produced.add(self._open, self._loop.time())
        self.produced.committed += 1
        self._open = Produced(Volume(self._loop.time()))
        self._sent, self._due_s = 0, None

    async def _settle(self) -> None:
        """End what an error or Ctrl-C has left: a commit that has begun is completed, any other transaction aborted."""
        state = self._producer.state
        if state is ProducerState.COMMITTING:
            await self._commit()
        elif state in (ProducerState.IN_TRANSACTION, ProducerState.ABORTABLE_ERROR):
            await self._producer.abort()

    def _take(self, topic: str, batch: StreamBatch) -> None:
        now = self._loop.time()
        self._open.take(batch, now)
        self._shown.add(batch.count, batch.payload_bytes, now)


def count_of(piece: Piece) -> int:
    return len(piece.values) + len(piece.pairs) + sum(len(records) for _, records in piece.records)


def split(piece: Piece, count: int | None) -> tuple[Piece, Piece | None]:
    """Return the first ``count`` records, and the others, if any. Records of one partition keep their order."""
    if count is None or count_of(piece) <= count:
        return piece, None
    values, later_values = piece.values[:count], piece.values[count:]
    count -= len(values)
    pairs, later_pairs = piece.pairs[:count], piece.pairs[count:]
    count -= len(pairs)
    records, later_records = [], []
    for partition, found in piece.records:
        if found[:count]:
            records.append((partition, found[:count]))
        if found[count:]:
            later_records.append((partition, found[count:]))
        count -= min(count, len(found))
    return Piece(values, pairs, records), Piece(later_values, later_pairs, later_records)
