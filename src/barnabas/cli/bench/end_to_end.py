"""``barnabas bench end-to-end``: measure the latency of records from producer to consumer.

Producer and consumer have separate connections. A broker answers the requests of a connection in order, so a waiting
fetch request would delay the record that it waits for. Each record contains an id of the run and a number, so that
other clients may use the topic at the same time.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from barnabas.cli.bench.advice import ADVICE
from barnabas.cli.bench.consume import listed_offsets
from barnabas.cli.bench.measurements import (
    LATENCY_COLUMNS,
    latency_cells,
    latency_document,
    throttle_document,
    throttle_notes,
)
from barnabas.cli.bench.options import until_stopped
from barnabas.cli.bench.progress import Progress, live
from barnabas.cli.output.advice import problem_of
from barnabas.cli.output.answer import Answer, Problem
from barnabas.cli.output.table import Sheet
from barnabas.clients.admin import OffsetSpec
from barnabas.clients.consumer.completed_fetch import Fetched
from barnabas.clients.consumer.fetcher import Fetcher, of_topic
from barnabas.clients.latency_histogram import LatencyHistogram
from barnabas.clients.network_client import NetworkClient
from barnabas.clients.producer.producer import TopicProducer
from barnabas.clients.throughput_throttler import Pacer
from barnabas.clients.topic_metadata import TopicMetadataSource

if TYPE_CHECKING:
    from barnabas.clients.client_config import ClientConfig
    from barnabas.clients.consumer.config import ConsumerConfig
    from barnabas.clients.producer.batch import ProducerBatch
    from barnabas.clients.producer.config import ProducerConfig

__all__ = ["EndToEndLatencies", "EndToEndLoad", "measure_end_to_end"]

_NUMBER = slice(8, 16)
_NAP_S = 0.1


@dataclass(frozen=True, slots=True)
class EndToEndLoad:
    """The load. Without a ``rate``, each record is sent after the previous one has arrived."""

    topic: str
    count: int
    size: int
    rate: float | None = None
    warmup: int = 0
    patience_s: float = 10.0


@dataclass(slots=True)
class EndToEndLatencies:
    """Records in flight, and latencies of arrived records. The first ``warmup`` records are not counted."""

    mark: bytes
    warmup: int
    sent_at: dict[int, float] = field(default_factory=dict)
    arrived: int = 0
    acknowledged_early: int = 0
    again: int = 0
    """Records that arrived more than once."""
    last_at: float = 0.0
    latencies: LatencyHistogram = field(default_factory=LatencyHistogram)
    acknowledged: LatencyHistogram = field(default_factory=LatencyHistogram)
    came: asyncio.Event = field(default_factory=asyncio.Event)

    def value(self, number: int, size: int) -> bytes:
        return (self.mark + number.to_bytes(8, "big")).ljust(size, b"x")

    def take(self, fetched: Fetched) -> None:
        now = asyncio.get_running_loop().time()
        for record in fetched.records():
            value = record.value
            if value is not None and value.startswith(self.mark):
                self._arrive(int.from_bytes(value[_NUMBER], "big"), now)

    def _arrive(self, number: int, now: float) -> None:
        sent_at = self.sent_at.pop(number, None)
        if sent_at is None:
            self.again += 1
            return
        self.last_at = now
        self.arrived += 1
        if number >= self.warmup:
            self.latencies.record(now - sent_at)
        self.came.set()

    def acknowledge(self, batch: ProducerBatch, now: float) -> None:
        for run in batch.runs:
            if self.acknowledged_early < self.warmup:
                self.acknowledged_early += run.length
            else:
                self.acknowledged.record_run(now, run.first_s, run.interval_s, run.length)


async def measure_end_to_end(
    config: ClientConfig, produced: ProducerConfig, consumed: ConsumerConfig, load: EndToEndLoad, stop: asyncio.Event
) -> Answer:
    """Run the measurement. Raise AdminError or ClientError if it can't start."""
    trips = EndToEndLatencies(os.urandom(8), load.warmup)
    async with (
        NetworkClient(config) as reading,
        NetworkClient(config) as writing,
        TopicProducer(writing, load.topic, produced, trips.acknowledge) as producer,
    ):
        source = TopicMetadataSource(reading, load.topic)
        metadata = await source.load()
        positions = of_topic(load.topic, await listed_offsets(config, metadata, OffsetSpec.latest()))
        fetcher = Fetcher(reading, source, consumed, positions, trips.take)
        fetcher.start(metadata)
        total = load.count + load.warmup
        try:
            async with live(f"end to end {load.topic}", total, lambda: Progress(trips.arrived)):
                await until_stopped(_trips(producer, fetcher, trips, load), stop)
        finally:
            await fetcher.close()
        return _answer(load, trips, producer, fetcher, has_stopped=stop.is_set())


async def _trips(producer: TopicProducer, fetcher: Fetcher, trips: EndToEndLatencies, load: EndToEndLoad) -> None:
    """Send records, and wait until all have arrived, an error occurs, or no record arrives in time."""
    loop = asyncio.get_running_loop()
    pacer = Pacer(load.rate, loop.time())
    total = load.count + load.warmup
    made = 0
    trips.last_at = loop.time()
    while trips.arrived < total and producer.failure is None and fetcher.failure is None:
        now = loop.time()
        if now - trips.last_at > load.patience_s and trips.sent_at:
            return
        due = pacer.due_count(now, made, total - made)
        if load.rate is None:
            due = 0 if trips.sent_at else min(1, due)
        for _ in range(due):
            at = pacer.due_at(made) if pacer.is_paced else now
            if not trips.sent_at:
                trips.last_at = now
            trips.sent_at[made] = at
            producer.append([trips.value(made, load.size)], at, 0.0, now)
            made += 1
        trips.came.clear()
        wait = pacer.wait_s(now, made) if pacer.is_paced and made < total else _NAP_S
        try:
            async with asyncio.timeout(min(wait, _NAP_S)):
                await trips.came.wait()
        except TimeoutError:
            pass


def _answer(
    load: EndToEndLoad, trips: EndToEndLatencies, producer: TopicProducer, fetcher: Fetcher, *, has_stopped: bool
) -> Answer:
    sheet = Sheet(columns=("from sent to", "records", *LATENCY_COLUMNS))
    for name, latencies in (("received", trips.latencies), ("acknowledged", trips.acknowledged)):
        if latencies.count:
            sheet.add(name, f"{latencies.count:,}", *latency_cells(latencies))
    document: dict[str, object] = {
        "topic": load.topic,
        "records": trips.latencies.count,
        "latency_ms": latency_document(trips.latencies),
        "acknowledged_ms": latency_document(trips.acknowledged),
        "missing": len(trips.sent_at),
        "received_again": trips.again,
        "throttle": {
            "produce": throttle_document(producer.statistics),
            "fetch": throttle_document(fetcher.statistics),
        },
    }
    notes = [*throttle_notes(producer.statistics), *throttle_notes(fetcher.statistics)]
    if trips.again:
        notes.append(f"{trips.again} records arrived more than once")
    problems = []
    for failure, right in ((producer.failure, "WRITE"), (fetcher.failure, "READ")):
        if failure is not None:
            problems.append(problem_of(failure, right=f"{right} on Topic:{load.topic}", advice=ADVICE))
    if trips.sent_at and not has_stopped and not problems:
        problems.append(
            Problem(
                f"{len(trips.sent_at):,} records did not arrive; no record arrived for {load.patience_s:g} s",
                load.topic,
                advice="a larger --timeout-ms waits longer",
            )
        )
    return Answer(document, [sheet] if sheet.rows else [], notes, problems)
