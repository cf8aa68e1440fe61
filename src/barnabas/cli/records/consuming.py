"""Read topics until their end, a time or a number of records, or until Ctrl-C; alone or as a member of a group.

A member commits what was written, every few seconds, before it gives up partitions, and at the end. So a record may be
read twice after a crash, and is never lost. One rebalance, commit or end happens at a time.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING

from barnabas.cli.output.advice import UnknownName
from barnabas.cli.records.limits import within_api_timeout
from barnabas.cli.records.positions import Start, end_positions, start_positions
from barnabas.cli.records.rates import Volume, live
from barnabas.cli.records.sink import RecordSink
from barnabas.clients.admin.errors import AdminError
from barnabas.clients.consumer.config import GroupConfig
from barnabas.clients.consumer.fetcher import Fetcher, of_topic
from barnabas.clients.consumer.group_member import group_member
from barnabas.clients.errors import ClientError
from barnabas.clients.membership.consumer_membership import Subscription
from barnabas.clients.network_client import NetworkClient
from barnabas.clients.topic_metadata import TopicMetadataSource, TopicsMetadataSource
from barnabas.common.topic_partition import TopicPartition
from barnabas.common.uuid import Uuid

if TYPE_CHECKING:
    from barnabas.cli.records.printers import Printed, Printer
    from barnabas.cli.records.sink import Output
    from barnabas.clients.client_config import ClientConfig
    from barnabas.clients.consumer.config import ConsumerConfig
    from barnabas.clients.consumer.group_member import GroupMember

__all__ = ["ConsumeJob", "Consumed", "consume_records"]

_COMMIT_EVERY_S = 5.0
_WRITE_WITHIN_S = 2.0
"""How long the end of the command waits for a slow reader of a pipe."""
_UNASSIGNED_FOR_S = 10.0


@dataclass(frozen=True, slots=True)
class ConsumeJob:
    """What to read: a topic, or as a member of a group those that match ``include``, a regular expression.

    ``until_ms`` in the future ends the work at that time.
    """

    topic: str | None
    now_ms: int
    include: str | None = None
    start: Start = field(default_factory=Start)
    partitions: tuple[int, ...] | None = None
    follows: bool = True
    until_ms: int | None = None
    max_messages: int | None = None
    patience_s: float | None = None
    """How long to wait for a record."""
    group: str | None = None
    group_config: GroupConfig = field(default_factory=GroupConfig)
    commits: bool = True
    shows_rates: bool = False


@dataclass(slots=True)
class Consumed:
    """The result. ``skipped`` counts offsets that were deleted before they could be read."""

    volume: Volume
    skipped: int = 0
    notes: list[str] = field(default_factory=list)
    failure: Exception | None = None


async def consume_records(
    config: ClientConfig,
    settings: ConsumerConfig,
    job: ConsumeJob,
    printer: Printer,
    output: Output,
    stop: asyncio.Event,
) -> Consumed:
    """Read and write records until the end of the job. Raise AdminError or ClientError if it can't begin."""
    async with NetworkClient(config) as network:
        consumption = _Consumption(network, settings, job, stop)
        await within_api_timeout(config, consumption.begin(printer, output))
        consumed = consumption.consumed
        try:
            async with live(consumed.volume, is_shown=job.shows_rates, now=asyncio.get_running_loop().time):
                await consumption.run()
        except (AdminError, ClientError) as error:
            consumed.failure = consumed.failure or error
        finally:
            await consumption.end()
        return consumed


class _Consumption:
    """``positions`` are the next offsets, after what was written. In a group, it is the listener of the member."""

    def __init__(self, network: NetworkClient, settings: ConsumerConfig, job: ConsumeJob, stop: asyncio.Event) -> None:
        self._loop = asyncio.get_running_loop()
        self.consumed = Consumed(Volume(self._loop.time()))
        self._network = network
        self._settings = settings
        self._job = job
        self._stop = stop
        self._topics = TopicsMetadataSource(network, [] if job.topic is None else [job.topic])
        self._positions: dict[TopicPartition, int] = {}
        self._committed: dict[TopicPartition, int] = {}
        self._commit_at = self._loop.time() + _COMMIT_EVERY_S
        self._stop_at: float | None = None
        self._until: dict[TopicPartition, int] | None = None
        self._member: GroupMember | None = None
        self._turn = asyncio.Lock()
        self._unassigned_since: float | None = None
        self._sink: RecordSink
        self._fetcher: Fetcher

    async def begin(self, printer: Printer, output: Output) -> None:
        """Find out where to begin and to end. Raise AdminError, ClientError, UnknownName."""
        job = self._job
        partitions = [] if job.topic is None else await self._partitions_of(job.topic)
        if job.until_ms is not None and job.until_ms > job.now_ms:
            self._stop_at = self._loop.time() + (job.until_ms - job.now_ms) / 1000
        elif job.until_ms is not None or not job.follows:
            self._until = await self._ends(partitions)
        if job.group is None:
            self._positions = await self._starts(partitions)
        self._sink = RecordSink(printer, output, self._written, until=self._until, limit=job.max_messages)
        self._fetcher = Fetcher(
            self._network, self._source(), self._settings, self._positions, self._sink.put,
            until=self._until, room=self._sink.room,
        )  # fmt: skip
        self._fetcher.start(*(await self._topics.leaders()).values())
        if job.group is not None:
            await self._join(job.group)

    async def run(self) -> None:
        """Read until the end of the job, or an error. Raise AdminError, ClientError."""
        while True:
            await self._something()
            now = self._loop.time()
            if self._stop.is_set():
                return
            if self._sink.ended.is_set():
                self.consumed.failure = self._sink.failure
                return
            if self._member is not None and self._member.failure is not None:
                raise self._member.failure
            if self._fetcher.finished.is_set():
                self.consumed.failure = self._fetcher.failure
                return
            if self._is_late(now):
                return
            if now >= self._commit_at:
                async with self._turn:
                    await self._commit()

    async def end(self) -> None:
        """Stop fetching, write what was fetched, commit, and leave the group."""
        async with self._turn:
            await self._fetcher.close()
            self.consumed.skipped += self._fetcher.statistics.skipped
            await self._drain()
            self._sink.close()
            self.consumed.failure = self.consumed.failure or self._sink.failure
            try:
                await self._commit()
            except (AdminError, ClientError) as error:
                self.consumed.failure = self.consumed.failure or error
            if self._member is not None:
                await self._member.leave()

    # --- when to do something

    async def _something(self) -> None:
        """Wait for an event, or until it is time to commit or to end."""
        events = [self._stop, self._sink.ended, self._fetcher.finished]
        if self._member is not None:
            events.append(self._member.ended)
        due = min(filter(None, (self._commit_at, self._stop_at, self._late_at())))
        await _first_of(events, max(0.0, due - self._loop.time()))

    def _late_at(self) -> float | None:
        """Return when the next record is late, if a limit is set."""
        if self._job.patience_s is None:
            return None
        volume = self.consumed.volume
        return (volume.ended_at or volume.began_at) + self._job.patience_s

    def _is_late(self, now: float) -> bool:
        if self._stop_at is not None and now >= self._stop_at:
            return True
        late_at = self._late_at()
        if late_at is not None and now >= late_at:
            self.consumed.notes.append(f"no record arrived for {self._job.patience_s:g} s (--timeout-ms)")
            return True
        since = self._unassigned_since
        if self._until is not None and since is not None and now >= since + _UNASSIGNED_FOR_S:
            self.consumed.notes.append(f"other members of group {self._job.group} read all partitions")
            return True
        return False

    # --- reading

    def _source(self) -> TopicMetadataSource | TopicsMetadataSource:
        """Return where the fetcher learns the leaders. A topic that was named must exist."""
        topic = self._job.topic
        return self._topics if topic is None else TopicMetadataSource(self._network, topic)

    async def _partitions_of(self, topic: str) -> list[TopicPartition]:
        metadata = await TopicMetadataSource(self._network, topic).load()
        numbers = metadata.partitions if self._job.partitions is None else list(self._job.partitions)
        for number in numbers:
            if number not in metadata.leaders:
                count = len(metadata.partitions)
                raise UnknownName(f"{topic}-{number}", f"the topic has partitions 0 to {count - 1}")
        return [TopicPartition(topic, number) for number in numbers]

    async def _starts(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        found: dict[TopicPartition, int] = {}
        for source, numbers in self._by_topic(partitions):
            starts = await start_positions(
                self._network, source, numbers, self._job.start, read_committed=self._settings.read_committed
            )
            found |= of_topic(source.topic, starts)
        return found

    async def _ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        found: dict[TopicPartition, int] = {}
        until_ms = self._job.until_ms
        for source, numbers in self._by_topic(partitions):
            if until_ms is not None:
                ends = await end_positions(self._network, source, numbers, until_ms)
            else:
                read_committed = self._settings.read_committed
                ends = await end_positions(self._network, source, numbers, read_committed=read_committed)
            found |= of_topic(source.topic, ends)
        return found

    def _by_topic(self, partitions: Iterable[TopicPartition]) -> list[tuple[TopicMetadataSource, list[int]]]:
        return [
            (TopicMetadataSource(self._network, topic), [partition.partition for partition in of_one])
            for topic, of_one in groupby(sorted(partitions), lambda partition: partition.topic)
        ]

    async def _drain(self) -> None:
        """Write what was fetched. After Ctrl-C, a slow reader is given up."""
        draining = self._loop.create_task(self._sink.drain())
        stopping = self._loop.create_task(self._stop.wait())
        try:
            await asyncio.wait([draining, stopping], return_when=asyncio.FIRST_COMPLETED)
            if not draining.done():
                await asyncio.wait([draining], timeout=_WRITE_WITHIN_S)
            if not draining.done():
                self.consumed.notes.append("the reader of the output did not take all records that were read")
        finally:
            draining.cancel()
            stopping.cancel()

    def _written(self, partition: TopicPartition, printed: Printed) -> None:
        self.consumed.volume.add(printed.records, printed.payload_bytes, self._loop.time())
        if partition in self._positions:
            self._positions[partition] = max(self._positions[partition], printed.next_offset)

    # --- the group

    async def _join(self, group: str) -> None:
        job = self._job
        topics: frozenset[str] = frozenset() if job.topic is None else frozenset({job.topic})
        self._member = await group_member(
            self._network, group, Subscription(topics, job.include), job.group_config, self,
            member_id=str(Uuid(os.urandom(16))),
        )  # fmt: skip
        self._member.start()

    async def partitions_revoked(self, partitions: frozenset[TopicPartition]) -> None:
        async with self._turn:
            await self._give_up(partitions, commits=True)

    async def partitions_lost(self, partitions: frozenset[TopicPartition]) -> None:
        async with self._turn:
            await self._give_up(partitions, commits=False)

    async def partitions_assigned(self, partitions: frozenset[TopicPartition]) -> None:
        async with self._turn:
            if partitions and self._member is not None:
                await self._begin_with(partitions, self._member)
            self._unassigned_since = None if self._positions else self._unassigned_since or self._loop.time()

    async def _give_up(self, partitions: frozenset[TopicPartition], *, commits: bool) -> None:
        self._fetcher.remove(partitions)
        await self._drain()
        if commits:
            await self._commit()
        for partition in partitions:
            self._positions.pop(partition, None)
            self._committed.pop(partition, None)

    async def _begin_with(self, partitions: frozenset[TopicPartition], member: GroupMember) -> None:
        self._topics.topics |= {partition.topic for partition in partitions}
        found = await member.committed(partitions)
        starts = found | await self._starts(partitions - found.keys())
        if self._until is not None:
            await self._end_new(partitions - self._until.keys(), self._until)
        self._committed |= found
        self._positions |= starts
        self._fetcher.add(starts)

    async def _end_new(self, partitions: Iterable[TopicPartition], until: dict[TopicPartition, int]) -> None:
        """Set the ends of partitions that were not known at the beginning."""
        if self._job.topic is None:
            until |= await self._ends(partitions)
        else:  # A partition that was added since is read another time.
            until |= dict.fromkeys(partitions, 0)

    async def _commit(self) -> None:
        """Commit positions that have moved. A member that the group has removed commits nothing, and joins again."""
        self._commit_at = self._loop.time() + _COMMIT_EVERY_S
        member = self._member
        if member is None or not self._job.commits:
            return
        moved = {
            partition: offset
            for partition, offset in self._positions.items()
            if self._committed.get(partition) != offset
        }
        if await member.commit(moved):
            self._committed |= moved


async def _first_of(events: Iterable[asyncio.Event], timeout_s: float) -> None:
    """Wait until one of the events is set, or the time is over."""
    loop = asyncio.get_running_loop()
    waiting = [loop.create_task(event.wait()) for event in events]
    try:
        await asyncio.wait(waiting, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in waiting:
            task.cancel()
