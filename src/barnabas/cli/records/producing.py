"""Send the records of an input to a topic, until its end or until Ctrl-C."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from barnabas.cli.output.advice import UnknownName
from barnabas.cli.records.limits import within_api_timeout
from barnabas.cli.records.rates import Volume, live
from barnabas.cli.records.source import Format, Piece, RecordSource, UnusableInput
from barnabas.clients.network_client import NetworkClient
from barnabas.clients.producer.stream_producer import StreamProducer

if TYPE_CHECKING:
    from barnabas.clients.client_config import ClientConfig
    from barnabas.clients.producer.config import ProducerConfig
    from barnabas.clients.producer.stream_batches import StreamBatch

__all__ = ["ProduceJob", "Produced", "check_partition", "produce_records"]

_FLUSH_WITHIN_S = 10.0
"""How long Ctrl-C waits for the records in hand."""


@dataclass(frozen=True, slots=True)
class ProduceJob:
    """``timestamp_ms`` is that of all records; None means the time at which each is read."""

    topic: str
    paths: Sequence[str]
    partition: int | None = None
    timestamp_ms: int | None = None
    shows_rates: bool = False


@dataclass(slots=True)
class Produced:
    """The result. ``offsets`` are the first and the last offset in each partition; -1 without an answer."""

    volume: Volume
    offsets: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    """By partition: the number of records, their first and their last offset."""
    not_delivered: int = 0
    failure: Exception | None = None
    committed: int = 0
    """The number of transactions."""
    aborted: int = 0
    aborted_records: int = 0

    def take(self, batch: StreamBatch, now: float) -> None:
        self.volume.add(batch.count, batch.payload_bytes, now)
        end = batch.base_offset + batch.count - 1 if batch.base_offset >= 0 else -1
        self._add_offsets(batch.partition, batch.count, batch.base_offset, end)

    def add(self, other: Produced, now: float) -> None:
        """Add the records of a transaction that was committed."""
        self.volume.add(other.volume.records, other.volume.payload_bytes, now)
        for partition, (count, first, last) in other.offsets.items():
            self._add_offsets(partition, count, first, last)

    def _add_offsets(self, partition: int, added: int, its_first: int, its_last: int) -> None:
        count, first, last = self.offsets.get(partition, (0, -1, -1))
        if its_first >= 0:
            first = its_first if first < 0 else min(first, its_first)
        self.offsets[partition] = (count + added, first, max(last, its_last))


async def produce_records(
    config: ClientConfig, settings: ProducerConfig, job: ProduceJob, format_: Format, stop: asyncio.Event
) -> Produced:
    """Send everything, and return the result. Raise AdminError, ClientError or UnknownName if it can't begin."""
    loop = asyncio.get_running_loop()
    produced = Produced(Volume(loop.time()))
    async with NetworkClient(config) as network:
        producer = StreamProducer(network, job.topic, settings, lambda batch: produced.take(batch, loop.time()))
        await within_api_timeout(config, producer.open())
        try:
            check_partition(job.partition, producer.partitions, f"{job.topic}-{job.partition}")
            produced.volume.began_at = loop.time()
            async with live(produced.volume, is_shown=job.shows_rates, now=loop.time):
                sending = loop.create_task(_send_all(producer, job, format_, produced))
                stopping = loop.create_task(stop.wait())
                await asyncio.wait([sending, stopping], return_when=asyncio.FIRST_COMPLETED)
                stopping.cancel()
                sending.cancel()
                await asyncio.gather(sending, stopping, return_exceptions=True)
                if not sending.cancelled() and (error := sending.exception()) is not None:
                    raise error
                await _flush(producer, _FLUSH_WITHIN_S if stop.is_set() else None)
            produced.not_delivered = producer.waiting
            produced.failure = producer.failure or produced.failure
        finally:
            await producer.close()
    return produced


async def _send_all(producer: StreamProducer, job: ProduceJob, format_: Format, produced: Produced) -> None:
    source = RecordSource(job.paths, format_)
    while producer.failure is None:
        try:
            piece = await source.next()
        except (OSError, UnusableInput) as error:
            produced.failure = error
            return
        if piece is None:
            return
        try:
            _send(producer, job, piece)
        except UnknownName as error:
            produced.failure = error
            return
        while producer.is_full and producer.failure is None:
            await producer.room()


def _send(producer: StreamProducer, job: ProduceJob, piece: Piece) -> None:
    if piece.values:
        timestamp_ms = producer.now_ms() if job.timestamp_ms is None else job.timestamp_ms
        producer.append_values(piece.values, timestamp_ms, partition=job.partition)
    if piece.pairs:
        timestamp_ms = producer.now_ms() if job.timestamp_ms is None else job.timestamp_ms
        producer.append_pairs(piece.pairs, timestamp_ms, partition=job.partition)
    for named, records in piece.records:
        partition = named if job.partition is None else job.partition
        check_partition(partition, producer.partitions, f"{job.topic}-{partition}")
        producer.append(records, partition=partition)


def check_partition(partition: int | None, partitions: Sequence[int], name: str) -> None:
    """Raise UnknownName if the topic does not have the partition."""
    if partition is not None and partition not in partitions:
        raise UnknownName(name, f"the topic has partitions 0 to {len(partitions) - 1}")


async def _flush(producer: StreamProducer, within_s: float | None) -> None:
    try:
        async with asyncio.timeout(within_s):
            await producer.flush()
    except TimeoutError:
        pass  # The result says how many records were not delivered.
