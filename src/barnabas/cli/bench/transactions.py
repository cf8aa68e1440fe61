"""``barnabas bench produce --transactional-id``: write records in transactions, and measure how long commits take."""

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
    number,
    one_row,
    rate,
    volume,
    volume_cells,
)
from barnabas.cli.bench.options import until_stopped
from barnabas.cli.bench.progress import Progress, live
from barnabas.cli.output.answer import Answer, Problem
from barnabas.cli.output.transaction_advice import transaction_problem
from barnabas.clients.latency_histogram import LatencyHistogram
from barnabas.clients.network_client import NetworkClient
from barnabas.clients.producer.transaction_errors import TransactionError
from barnabas.clients.producer.transactional_producer import TransactionalProducer
from barnabas.clients.throughput_throttler import Pacer
from barnabas.clients.topic_metadata import TopicMetadataSource

if TYPE_CHECKING:
    from barnabas.cli.bench.produce import ProduceLoad
    from barnabas.clients.client_config import ClientConfig
    from barnabas.clients.producer.config import ProducerConfig

__all__ = ["TransactionLoad", "measure_transactions"]

_TURN_BYTES = 64 * 1024
_NAP_S = 0.1
_COLUMNS = (*VOLUME_COLUMNS, "transactions", "transactions/s", *(f"commit {name}" for name in LATENCY_COLUMNS))


@dataclass(frozen=True, slots=True)
class TransactionLoad:
    """A transaction is committed after so many records, or after so many seconds."""

    produce: ProduceLoad
    size: int | None
    duration_s: float | None


@dataclass(slots=True)
class _Result:
    """What was committed since ``began_at``, after the warm-up."""

    began_at: float
    records: int = 0
    size: int = 0
    transactions: int = 0
    ended_at: float = 0.0
    commits: LatencyHistogram = field(default_factory=LatencyHistogram)

    @property
    def elapsed_s(self) -> float:
        return max(0.0, self.ended_at - self.began_at)


class _Writer:
    def __init__(self, producer: TransactionalProducer, load: TransactionLoad) -> None:
        self._loop = asyncio.get_running_loop()
        self._producer = producer
        self._load = load
        self._made = 0
        self._open_records = self._open_bytes = 0
        self._began_s = 0.0
        self.failure: TransactionError | None = None
        self.result = _Result(self._loop.time())

    @property
    def uncommitted(self) -> int:
        return self._open_records

    async def write(self) -> None:
        """Write and commit all records. A TransactionError ends it."""
        try:
            await self._producer.init_transactions()
            self.result = _Result(self._loop.time())
            await self._write_all()
        except TransactionError as error:
            self.failure = error

    async def _write_all(self) -> None:
        count = self._load.produce.count
        pacer = Pacer(self._load.produce.rate, self._loop.time())
        while self._made < count:
            now = self._loop.time()
            due = pacer.due_count(now, self._made, count - self._made)
            if due:
                await self._send(due)
            if self._open_records and (self._is_full() or self._made == count):
                await self._commit()
            if not due:
                await asyncio.sleep(min(pacer.wait_s(now, self._made), _NAP_S))

    async def _send(self, due: int) -> None:
        load, payloads = self._load, self._load.produce.payloads
        if not self._open_records:
            self._producer.begin()
            self._began_s = self._loop.time()
        room = max(1, _TURN_BYTES // (payloads.next_size + 16))
        if load.size is not None:
            room = min(room, load.size - self._open_records)
        values = payloads.take(min(due, room))
        self._made += len(values)
        self._open_records += len(values)
        self._open_bytes += sum(map(len, values))
        await self._producer.send_values(load.produce.topic, values, self._producer.now_ms())
        await asyncio.sleep(0)

    def _is_full(self) -> bool:
        load = self._load
        if load.size is not None and self._open_records >= load.size:
            return True
        return load.duration_s is not None and self._loop.time() - self._began_s >= load.duration_s

    async def _commit(self) -> None:
        began = self._loop.time()
        await self._producer.commit()
        now, result = self._loop.time(), self.result
        if self._made <= self._load.produce.warmup:
            self.result = _Result(now)
        else:
            result.records += self._open_records
            result.size += self._open_bytes
            result.transactions += 1
            result.ended_at = now
            result.commits.record(now - began)
        self._open_records = self._open_bytes = 0


async def measure_transactions(
    config: ClientConfig, settings: ProducerConfig, load: TransactionLoad, stop: asyncio.Event
) -> Answer:
    """Run the measurement. Raise AdminError or ClientError if it can't start."""
    async with NetworkClient(config) as network:
        await TopicMetadataSource(network, load.produce.topic).load()
        async with TransactionalProducer(network, settings) as producer:
            writer = _Writer(producer, load)

            def look() -> Progress:
                return Progress(writer.result.records, writer.result.size, "")

            async with live(f"produce to {load.produce.topic}", load.produce.count, look):
                await until_stopped(writer.write(), stop)
        return _answer(load, settings, writer)


def _answer(load: TransactionLoad, settings: ProducerConfig, writer: _Writer) -> Answer:
    result, topic = writer.result, load.produce.topic
    counts = (result.records, result.size, result.elapsed_s)
    per_s = rate(result.transactions, result.elapsed_s)
    cells = [*volume_cells(*counts), f"{result.transactions:,}", number(per_s), *latency_cells(result.commits)]
    document: dict[str, Any] = {
        "topic": topic,
        **volume(*counts),
        "transactional_id": settings.transactional_id,
        "transactions": result.transactions,
        "transactions_per_s": round(per_s, 1),
        "commit_latency_ms": latency_document(result.commits),
        "not_committed": writer.uncommitted,
        "compression": settings.compression.name.lower(),
    }
    notes = []
    if writer.uncommitted:
        notes.append(
            f"{writer.uncommitted:,} records of the last transaction are not counted: it was not committed in time"
        )
    problems: list[Problem] = []
    if writer.failure is not None:
        problems.append(
            transaction_problem(
                writer.failure,
                transactional_id=str(settings.transactional_id),
                topic=topic,
                right=f"WRITE on Topic:{topic}",
                advice=ADVICE,
            )
        )
    return Answer(document, [one_row(_COLUMNS, cells)] if result.records else [], notes, problems)
