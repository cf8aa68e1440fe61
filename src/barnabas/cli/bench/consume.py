"""``barnabas bench consume``: read records of a topic as fast as possible."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from barnabas.cli.bench.advice import ADVICE
from barnabas.cli.bench.group_reading import GroupReading
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
from barnabas.cli.output.answer import Answer, Problem
from barnabas.clients.admin import IsolationLevel, OffsetSpec
from barnabas.clients.admin.client import AdminClient
from barnabas.clients.consumer.completed_fetch import Fetched, count_records
from barnabas.clients.consumer.config import GroupConfig
from barnabas.clients.consumer.fetcher import Fetcher, of_topic
from barnabas.clients.latency_histogram import LatencyHistogram
from barnabas.clients.network_client import NetworkClient
from barnabas.clients.topic_metadata import TopicMetadata, TopicMetadataSource
from barnabas.common.topic_partition import TopicPartition

if TYPE_CHECKING:
    from barnabas.clients.client_config import ClientConfig
    from barnabas.clients.consumer.config import ConsumerConfig
    from barnabas.clients.consumer.group_member import GroupMember

__all__ = ["ConsumeLoad", "ConsumeResult", "listed_offsets", "measure_consume"]

_LOOK_EVERY_S = 0.1


@dataclass(frozen=True, slots=True)
class ConsumeLoad:
    """The load. ``count`` None means all records that exist at the start. ``patience_s`` limits the wait for one.

    With ``group``, a group assigns the partitions.
    """

    topic: str
    count: int | None
    from_latest: bool = False
    patience_s: float = 10.0
    group: str | None = None
    group_config: GroupConfig = field(default_factory=GroupConfig)


@dataclass(slots=True)
class ConsumeResult:
    began_at: float
    wanted: int | None
    enough: asyncio.Event
    records: int = 0
    size: int = 0
    first_at: float = 0.0
    last_at: float = 0.0
    fetches: LatencyHistogram = field(default_factory=LatencyHistogram)
    reading: GroupReading | None = None
    """How the group's partitions are read, if one assigns them."""

    def take(self, fetched: Fetched) -> None:
        if self.reading is not None:
            self.reading.take(TopicPartition(fetched.topic, fetched.partition), fetched)
        count, size = count_records(fetched)
        self.records += count
        self.size += size
        now = asyncio.get_running_loop().time()
        if not self.first_at:
            self.first_at = now
        self.last_at = now
        if self.wanted is not None and self.records >= self.wanted:
            self.enough.set()

    @property
    def elapsed_s(self) -> float:
        return max(0.0, self.last_at - self.began_at)


async def listed_offsets(
    config: ClientConfig, metadata: TopicMetadata, spec: OffsetSpec, *, read_committed: bool = False
) -> dict[int, int]:
    """Return the offset of each partition. Raise AdminError for the first partition without one, or ClientError."""
    isolation = IsolationLevel.READ_COMMITTED if read_committed else IsolationLevel.READ_UNCOMMITTED
    async with AdminClient(config=config) as admin:
        wanted = {TopicPartition(metadata.name, partition): spec for partition in metadata.partitions}
        results = await admin.list_offsets(wanted, isolation_level=isolation)
    for error in results.errors.values():
        raise error
    return {partition.partition: listed.offset for partition, listed in results.values.items()}


async def measure_consume(
    config: ClientConfig, settings: ConsumerConfig, load: ConsumeLoad, stop: asyncio.Event
) -> Answer:
    """Run the measurement. Raise AdminError or ClientError if it can't start."""
    loop = asyncio.get_running_loop()
    async with NetworkClient(config) as network:
        source = TopicMetadataSource(network, load.topic)
        metadata = await source.load()
        start = OffsetSpec.latest() if load.from_latest else OffsetSpec.earliest()
        positions = of_topic(load.topic, await listed_offsets(config, metadata, start))
        until = None
        if load.count is None:
            ends = await listed_offsets(config, metadata, OffsetSpec.latest(), read_committed=settings.read_committed)
            until = of_topic(load.topic, ends)
        received = ConsumeResult(loop.time(), load.count, asyncio.Event())
        fetcher = Fetcher(
            network, source, settings, {} if load.group else positions, received.take, until=until,
            answered=received.fetches.record,
        )  # fmt: skip
        total = load.count if until is None else sum(until[partition] - positions[partition] for partition in positions)
        fetcher.start(metadata)
        member = None
        try:
            if load.group is not None:
                received.reading = GroupReading(positions, fetcher)
                member = await received.reading.join(network, load.group, load.topic, load.group_config)
            async with live(f"consume {load.topic}", total, lambda: Progress(received.records, received.size)):
                await until_stopped(_until_enough(fetcher, received, load.patience_s, member), stop)
        finally:
            await fetcher.close()
            if received.reading is not None and member is not None:
                await received.reading.leave()
        failure = fetcher.failure if member is None else fetcher.failure or member.failure
        return _answer(load, received, fetcher, failure, has_stopped=stop.is_set())


async def _until_enough(
    fetcher: Fetcher, received: ConsumeResult, patience_s: float, member: GroupMember | None
) -> None:
    """Wait until enough or all records are read, an error occurs, or no record arrives in time."""
    loop = asyncio.get_running_loop()
    while not (received.enough.is_set() or fetcher.finished.is_set() or (member is not None and member.ended.is_set())):
        if loop.time() - (received.last_at or received.began_at) > patience_s:
            return
        waiting = [asyncio.ensure_future(event.wait()) for event in (received.enough, fetcher.finished)]
        try:
            await asyncio.wait(waiting, timeout=_LOOK_EVERY_S, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waiting:
                task.cancel()


def _answer(
    load: ConsumeLoad, received: ConsumeResult, fetcher: Fetcher, failure: Exception | None, *, has_stopped: bool
) -> Answer:
    counts = (received.records, received.size, received.elapsed_s)
    columns = (*VOLUME_COLUMNS, *(f"fetch {name}" for name in LATENCY_COLUMNS))
    sheet = one_row(columns, [*volume_cells(*counts), *latency_cells(received.fetches)])
    statistics = fetcher.statistics
    document: dict[str, object] = {
        "topic": load.topic,
        **volume(*counts),
        "first_record_ms": round((received.first_at - received.began_at) * 1000, 1) if received.records else None,
        "fetch_latency_ms": latency_document(received.fetches),
        "requests": statistics.requests,
        "empty_responses": statistics.empty_responses,
        "batch_bytes": statistics.received_bytes,
        "skipped_offsets": statistics.skipped,
        "throttle": throttle_document(statistics),
    }
    notes = throttle_notes(statistics)
    if received.reading is not None and received.reading.joined_at:
        joined_ms = round((received.reading.joined_at - received.began_at) * 1000, 1)
        document["joined_ms"] = joined_ms
        notes.append(f"group {load.group} assigned partitions after {joined_ms:g} ms")
    if statistics.skipped:
        notes.append(f"{statistics.skipped:,} offsets were deleted before they could be read")
    problems = []
    if failure is not None:
        right = f"READ on Topic:{load.topic}" + (f" and on Group:{load.group}" if load.group else "")
        problems.append(problem_of(failure, right=right, advice=ADVICE))
    elif not has_stopped and not received.enough.is_set() and not fetcher.finished.is_set():
        wanted = "all" if load.count is None else f"{load.count:,}"
        problems.append(
            Problem(
                f"received {received.records:,} of {wanted} records, and then no record for {load.patience_s:g} s",
                load.topic,
                advice="omit --num-records to read only existing records; a larger --timeout-ms waits longer",
            )
        )
    elif not received.records:
        notes.append(f"topic {load.topic} is empty")
    return Answer(document, [sheet] if received.records else [], notes, problems)
