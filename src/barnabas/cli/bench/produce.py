"""``barnabas bench produce``: write records at a given rate, and measure how long each acknowledgement takes."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from barnabas.cli.bench.advice import ADVICE
from barnabas.cli.bench.measurements import (
    LATENCY_COLUMNS,
    VOLUME_COLUMNS,
    latency_cells,
    latency_document,
    one_row,
    throttle_document,
    throttle_notes,
    volume,
    volume_cells,
)
from barnabas.cli.bench.options import until_stopped
from barnabas.cli.bench.progress import Progress, live
from barnabas.cli.output.advice import problem_of
from barnabas.cli.output.answer import Answer
from barnabas.clients.latency_histogram import LatencyHistogram
from barnabas.clients.network_client import NetworkClient
from barnabas.clients.producer.producer import TopicProducer
from barnabas.clients.throughput_throttler import Pacer
from barnabas.clients.topic_metadata import TopicMetadataSource

if TYPE_CHECKING:
    from barnabas.cli.bench.payloads import Payloads
    from barnabas.clients.client_config import ClientConfig
    from barnabas.clients.producer.batch import ProducerBatch
    from barnabas.clients.producer.config import ProducerConfig

__all__ = ["ProduceLoad", "ProduceResult", "make_records", "measure_produce", "produce_dry_run"]

_TURN_BYTES = 64 * 1024
"""After this number of bytes the event loop runs other tasks, which send the records."""
_NAP_S = 0.1
_GRACE_S = 3.0


@dataclass(frozen=True, slots=True)
class ProduceLoad:
    """The load. ``rate`` is in records per second; None means as fast as the cluster accepts records."""

    topic: str
    count: int
    payloads: Payloads
    rate: float | None = None
    warmup: int = 0


@dataclass(slots=True)
class ProduceResult:
    """Acknowledged records. Records of the warm-up are dropped when it ends."""

    began_at: float
    warmup: int = 0
    records: int = 0
    size: int = 0
    ended_at: float = 0.0
    latencies: LatencyHistogram = field(default_factory=LatencyHistogram)

    def take(self, batch: ProducerBatch, now: float) -> None:
        self.ended_at = now
        if self.warmup > 0:
            self.warmup -= batch.count
            self.began_at = now
            return
        self.records += batch.count
        self.size += batch.value_bytes
        for run in batch.runs:
            self.latencies.record_run(now, run.first_s, run.interval_s, run.length)

    @property
    def elapsed_s(self) -> float:
        return max(0.0, self.ended_at - self.began_at)


async def make_records(producer: TopicProducer, load: ProduceLoad) -> None:
    """Pass records to the producer when they are due. Return when it has all records, or after an error."""
    loop = asyncio.get_running_loop()
    pacer = Pacer(load.rate, loop.time())
    made = 0
    while made < load.count and producer.failure is None:
        now = loop.time()
        due = pacer.due_count(now, made, load.count - made)
        if not due:
            await asyncio.sleep(min(pacer.wait_s(now, made), _NAP_S))
            continue
        left = _TURN_BYTES
        while due and left > 0:
            size = load.payloads.next_size
            room = producer.capacity(size)
            if not room:
                await producer.room()
                break
            values = load.payloads.take(min(due, room))
            first = pacer.due_at(made) if pacer.is_paced else now
            producer.append(values, first, pacer.interval_s, now)
            made += len(values)
            due -= len(values)
            left -= (size + 16) * len(values)
        await asyncio.sleep(0)


async def measure_produce(
    config: ClientConfig, settings: ProducerConfig, load: ProduceLoad, stop: asyncio.Event
) -> Answer:
    """Run the measurement. Raise AdminError or ClientError if it can't start."""
    loop = asyncio.get_running_loop()
    delivered = ProduceResult(loop.time(), load.warmup)
    async with (
        NetworkClient(config) as network,
        TopicProducer(network, load.topic, settings, delivered.take) as producer,
    ):
        delivered.began_at = delivered.ended_at = loop.time()

        def look() -> Progress:
            retried = producer.statistics.retried
            note = f"retries: {', '.join(retried)}" if retried else ""
            return Progress(delivered.records, delivered.size, note)

        async with live(f"produce to {load.topic}", load.count, look):
            await until_stopped(make_records(producer, load), stop)
            await until_stopped(producer.flush(), stop, grace_s=_GRACE_S)
        if producer.waiting:
            delivered.ended_at = loop.time()
        return _answer(load, settings, delivered, producer)


async def produce_dry_run(config: ClientConfig, topic: str, count: int, what: str, *, is_new: bool) -> Answer:
    """Check what a run checks at its beginning, except for a topic that would be created."""
    text = f"{count:,} records would be written to {topic}, {what}"
    if not is_new:
        async with NetworkClient(config) as network:
            metadata = await TopicMetadataSource(network, topic).load()
        text += f" (partitions {len(metadata.partitions)})"
    return Answer({"dry_run": True, "topic": topic, "records": count}, notes=[text, "nothing was written"])


def _answer(load: ProduceLoad, settings: ProducerConfig, delivered: ProduceResult, producer: TopicProducer) -> Answer:
    counts = (delivered.records, delivered.size, delivered.elapsed_s)
    sheet = one_row((*VOLUME_COLUMNS, *LATENCY_COLUMNS), [*volume_cells(*counts), *latency_cells(delivered.latencies)])
    statistics = producer.statistics
    document: dict[str, Any] = {
        "topic": load.topic,
        **volume(*counts),
        "latency_ms": latency_document(delivered.latencies),
        "not_delivered": producer.waiting,
        "requests": statistics.requests,
        "batch_bytes": statistics.sent_bytes,
        "retries": {"batches": statistics.retries, "reasons": statistics.retried},
        "throttle": throttle_document(statistics),
        "acks": "all" if settings.acks == -1 else str(settings.acks),
        "idempotence": producer.is_idempotent,
        "compression": settings.compression.name.lower(),
    }
    notes = throttle_notes(statistics)
    if statistics.retries:
        reasons = ", ".join(f"{name} ({count})" for name, count in statistics.retried.items())
        notes.append(f"{statistics.retries} batches were sent again: {reasons}")
    if settings.idempotence is None and not producer.is_idempotent:
        notes.append("the cluster does not support idempotent producers: an error can duplicate records")
    if producer.waiting:
        notes.append(f"{producer.waiting:,} records were created but not acknowledged")
    problems = []
    if producer.failure is not None:
        problems.append(problem_of(producer.failure, right=f"WRITE on Topic:{load.topic}", advice=ADVICE))
    return Answer(document, [sheet] if delivered.records else [], notes, problems)
