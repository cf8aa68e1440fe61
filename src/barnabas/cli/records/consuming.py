"""Read a topic until its end, a time or a number of records, or until Ctrl-C; alone or as a member of a group.

A member commits what was written, every few seconds, before it loses partitions, and at the end. So a record may be
read twice after a crash, and is never lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from barnabas.cli.output.advice import UnknownName
from barnabas.cli.records.limits import within_api_timeout
from barnabas.cli.records.positions import Start, end_positions, start_positions
from barnabas.cli.records.rates import Volume, live
from barnabas.cli.records.sink import RecordSink
from barnabas.clients.admin.errors import AdminError
from barnabas.clients.consumer.fetcher import Fetcher
from barnabas.clients.consumer.group_member import GroupMember
from barnabas.clients.errors import ClientError
from barnabas.clients.network_client import NetworkClient
from barnabas.clients.topic_metadata import TopicMetadataSource

if TYPE_CHECKING:
    from barnabas.cli.records.printers import Printed, Printer
    from barnabas.cli.records.sink import Output
    from barnabas.clients.client_config import ClientConfig
    from barnabas.clients.consumer.config import ConsumerConfig

__all__ = ["ConsumeJob", "Consumed", "consume_records"]

_COMMIT_EVERY_S = 5.0
_WRITE_WITHIN_S = 2.0
"""How long the end of the command waits for a slow reader of a pipe."""
_UNASSIGNED_FOR_S = 10.0


@dataclass(frozen=True, slots=True)
class ConsumeJob:
    """What to read. ``until_ms`` in the future ends the work at that time."""

    topic: str
    now_ms: int
    start: Start = field(default_factory=Start)
    partitions: tuple[int, ...] | None = None
    follows: bool = True
    until_ms: int | None = None
    max_messages: int | None = None
    patience_s: float | None = None
    """How long to wait for a record."""
    group: str | None = None
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
    """``positions`` are the next offsets, after what was written."""

    def __init__(self, network: NetworkClient, settings: ConsumerConfig, job: ConsumeJob, stop: asyncio.Event) -> None:
        self._loop = asyncio.get_running_loop()
        self.consumed = Consumed(Volume(self._loop.time()))
        self._network = network
        self._settings = settings
        self._job = job
        self._stop = stop
        self._source = TopicMetadataSource(network, job.topic)
        self._positions: dict[int, int] = {}
        self._committed: dict[int, int] = {}
        self._commit_at = self._loop.time() + _COMMIT_EVERY_S
        self._stop_at: float | None = None
        self._until: dict[int, int] | None = None
        self._fetcher: Fetcher | None = None
        self._member: GroupMember | None = None
        self._drops = 0
        self._unassigned_since: float | None = None
        self._sink: RecordSink

    async def begin(self, printer: Printer, output: Output) -> None:
        """Find out where to begin and to end. Raise AdminError, ClientError, UnknownName."""
        job, read_committed = self._job, self._settings.read_committed
        metadata = await self._source.load()
        partitions = metadata.partitions if job.partitions is None else list(job.partitions)
        for partition in partitions:
            if partition not in metadata.leaders:
                count = len(metadata.partitions)
                raise UnknownName(f"{job.topic}-{partition}", f"the topic has partitions 0 to {count - 1}")
        if job.until_ms is not None and job.until_ms > job.now_ms:
            self._stop_at = self._loop.time() + (job.until_ms - job.now_ms) / 1000
        elif job.until_ms is not None:
            self._until = await end_positions(self._network, self._source, partitions, job.until_ms)
        elif not job.follows:
            self._until = await end_positions(self._network, self._source, partitions, read_committed=read_committed)
        if job.group is None:
            self._positions = await self._starts(partitions)
        self._sink = RecordSink(printer, output, self._written, until=self._until, limit=job.max_messages)
        if job.group is None:
            await self._fetch()
        else:
            self._member = GroupMember(self._network, job.group, job.topic)
            self._member.start()

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
            member, fetcher = self._member, self._fetcher
            if member is not None and member.failure is not None:
                raise member.failure
            if member is not None and member.changed.is_set():
                await self._reassign(member)
                continue
            if fetcher is not None and fetcher.finished.is_set():
                self.consumed.failure = fetcher.failure
                return
            if self._is_late(now):
                return
            if now >= self._commit_at:
                await self._commit()

    async def end(self) -> None:
        """Stop fetching, write what was fetched, commit, and leave the group."""
        await self._stop_fetching(_WRITE_WITHIN_S if self._stop.is_set() else None)
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
        events = [self._stop, self._sink.ended]
        if self._fetcher is not None:
            events.append(self._fetcher.finished)
        if self._member is not None:
            events.append(self._member.changed)
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

    async def _starts(self, partitions: Iterable[int]) -> dict[int, int]:
        read_committed = self._settings.read_committed
        return await start_positions(
            self._network, self._source, partitions, self._job.start, read_committed=read_committed
        )

    async def _fetch(self) -> None:
        metadata = await self._source.load()
        self._fetcher = Fetcher(
            self._network, self._source, self._settings, self._positions, self._sink.put,
            until=self._until, room=self._sink.room,
        )  # fmt: skip
        self._fetcher.start(metadata)

    async def _stop_fetching(self, within_s: float | None = None) -> None:
        """Stop, and write what was fetched; give up a reader that is slower than ``within_s``."""
        fetcher, self._fetcher = self._fetcher, None
        if fetcher is not None:
            await fetcher.close()
            self.consumed.skipped += fetcher.statistics.skipped
        try:
            async with asyncio.timeout(within_s):
                await self._sink.drain()
        except TimeoutError:
            self.consumed.notes.append("the reader of the output did not take all records that were read")

    def _written(self, partition: int, printed: Printed) -> None:
        self.consumed.volume.add(printed.records, printed.payload_bytes, self._loop.time())
        if partition in self._positions:
            self._positions[partition] = max(self._positions[partition], printed.next_offset)

    # --- the group

    async def _reassign(self, member: GroupMember) -> None:
        """Release all partitions before a rebalance, or begin those that the member received by it."""
        member.changed.clear()
        await self._stop_fetching()
        await self._commit()
        self._drops = member.drops
        self._positions.clear()
        self._committed.clear()
        if not member.is_joined:
            member.release()
            return
        assigned = member.assigned
        self._unassigned_since = None if assigned else self._unassigned_since or self._loop.time()
        if not assigned:
            return
        found = await member.committed(assigned)
        self._committed = dict(found)
        self._positions = found | await self._starts(assigned - found.keys())
        if self._until is not None:  # A partition that was added since the beginning is read another time.
            self._until |= {partition: 0 for partition in assigned if partition not in self._until}
        await self._fetch()

    async def _commit(self) -> None:
        """Commit positions that have moved. A member that was dropped commits nothing, and joins again."""
        self._commit_at = self._loop.time() + _COMMIT_EVERY_S
        member = self._member
        if member is None or not self._job.commits or member.drops != self._drops:
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
