"""Fetch partitions from their leaders, with one request in flight at each. Received data is processed meanwhile.

The header of a batch has its last offset, so the next request is sent before the records of the last answer are read.
Partitions that returned data are last in the next request, so that none is starved.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from barnabas.clients.admin.errors import admin_error
from barnabas.clients.consumer.completed_fetch import Fetched, aborted_of
from barnabas.clients.errors import ClientError, RemoteProtocolError
from barnabas.clients.leader_tracker import ThrottleStatistics, TopicFollower, start_guarded
from barnabas.common.error_code import ErrorCode
from barnabas.common.errors import Transient
from barnabas.common.uuid import Uuid
from barnabas.protocol.errors import DecodeError
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.protocol.record_batch import iter_batches

if TYPE_CHECKING:
    from barnabas.clients.client_config import Address
    from barnabas.clients.consumer.config import ConsumerConfig
    from barnabas.clients.network_client import NetworkClient
    from barnabas.clients.topic_metadata import TopicMetadata, TopicMetadataSource
    from barnabas.protocol.messages.fetch import FetchResponse, PartitionData

__all__ = ["Fetcher", "FetcherStatistics"]

_MOVED = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.OFFSET_NOT_AVAILABLE,
    }
)
_LAST_VERSION_BY_NAME = 12
_CLIENT_WAITS_SINCE = 8


@dataclass(slots=True)
class FetcherStatistics(ThrottleStatistics):
    requests: int = 0
    empty_responses: int = 0
    received_bytes: int = 0
    """The size of batches, as stored."""
    skipped: int = 0
    """Offsets that were deleted before they were fetched."""


class Fetcher:
    """``received`` receives the data, in the order of each partition. ``until`` are end offsets of partitions.

    ``finished`` is set when all have ended, and when ``failure`` says why the fetcher has stopped.
    """

    def __init__(
        self,
        network: NetworkClient,
        source: TopicMetadataSource,
        config: ConsumerConfig,
        positions: Mapping[int, int],
        received: Callable[[Fetched], None],
        *,
        until: Mapping[int, int] | None = None,
        answered: Callable[[float], None] = lambda duration_s: None,
        room: asyncio.Event | None = None,
    ) -> None:
        """``answered`` receives the duration of each fetch that returned data. No fetch is sent while ``room``, if
        any, is not set: the caller has not processed the data yet."""
        self.statistics = FetcherStatistics()
        self.failure: Exception | None = None
        self.finished = asyncio.Event()
        self.positions = dict(positions)
        self._handed_over = dict(positions)
        self._network = network
        self._source = source
        self._config = config
        self._received = received
        self._answered = answered
        self._until = until
        self._room = room
        self._loop = asyncio.get_running_loop()
        self._led: dict[Address, list[int]] = {}
        self._tasks: dict[Address | None, asyncio.Task[None]] = {}
        self._topic_id = Uuid.ZERO
        self._follower = TopicFollower(
            source,
            take=self._take,
            fail=self._fail,
            retriable=_MOVED,
            backoff_s=config.retry_backoff_s,
            backoff_max_s=config.retry_backoff_max_s,
        )

    def start(self, metadata: TopicMetadata) -> None:
        self._take(metadata)
        self._tasks[None] = start_guarded(self._follower.follow(), self._fail)
        self._look_for_end()

    async def close(self) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # --- leaders of partitions

    def _take(self, metadata: TopicMetadata) -> None:
        self._topic_id = metadata.topic_id
        led: dict[Address, list[int]] = {}
        for partition in self.positions:
            address = metadata.address_of(partition)
            if address is None:
                self._follower.is_stale.set()
            elif not self._has_ended(partition):
                led.setdefault(address, []).append(partition)
        self._led = led
        for address in led:
            task = self._tasks.get(address)
            if task is None or task.done():
                self._tasks[address] = start_guarded(self._fetch_from(address), self._fail)

    # --- one leader

    async def _fetch_from(self, address: Address) -> None:
        """Fetch until the node leads no wanted partition."""
        came: list[Fetched] = []
        while (partitions := self._led.get(address)) and self.failure is None:
            try:
                if self._room is not None and not self._room.is_set():
                    self._hand_over(came)
                    await self._room.wait()
                connection = await self._network.connection_to(address)
                await connection.ready()
                version = connection.version_of(FetchRequest.API_KEY)
                if self._topic_id == Uuid.ZERO:
                    version = min(version, _LAST_VERSION_BY_NAME)
                sent_at = self._loop.time()
                answer = connection.start(self._request(partitions), version=version)
                self._hand_over(came)
                response = await answer
            except ClientError as error:
                self._hand_over(came)
                if not isinstance(error, Transient):
                    self._fail(error)
                    return
                self._follower.is_stale.set()
                await asyncio.sleep(self._config.retry_backoff_s)
                continue
            self.statistics.requests += 1
            came = self._read(response, address)
            if came:
                self._answered(self._loop.time() - sent_at)
            else:
                self.statistics.empty_responses += 1
            await self._throttled(response.throttle_time_ms / 1000, waits=version >= _CLIENT_WAITS_SINCE)
        self._hand_over(came)

    def _request(self, partitions: list[int]) -> FetchRequest:
        config = self._config
        wanted = [
            FetchPartition(
                partition=partition,
                fetch_offset=self.positions[partition],
                partition_max_bytes=config.partition_max_bytes,
            )
            for partition in partitions
        ]
        return FetchRequest(
            max_wait_ms=config.max_wait_ms,
            min_bytes=config.min_bytes,
            max_bytes=config.max_bytes,
            isolation_level=int(config.read_committed),
            topics=[FetchTopic(topic=self._source.topic, topic_id=self._topic_id, partitions=wanted)],
        )

    def _read(self, response: FetchResponse, address: Address) -> list[Fetched]:
        """Return the received data, and the offset of the next fetch."""
        if response.error_code:
            self._fail(admin_error(response.error_code, None, self._source.topic))
            return []
        came: list[Fetched] = []
        for topic in response.responses:
            for partition in topic.partitions:
                if partition.error_code:
                    self._refused(partition, address)
                    continue
                fetched = self._fetched(partition)
                if fetched is not None:
                    came.append(fetched)
        led = self._led.get(address)
        if led and came:
            gave = {fetched.partition for fetched in came}
            ended = {partition for partition in gave if self._has_ended(partition)}
            self._led[address] = [partition for partition in led if partition not in gave] + [
                partition for partition in led if partition in gave - ended
            ]
        return came

    def _fetched(self, response: PartitionData) -> Fetched | None:
        data = response.records
        if not data:
            return None
        try:
            batches = list(iter_batches(data))
        except DecodeError as error:
            raise RemoteProtocolError(
                f"partition {response.partition_index}: a batch that can't be read: {error}"
            ) from error
        if not batches:
            raise RemoteProtocolError(f"partition {response.partition_index}: a part of a batch without a complete one")
        position = self.positions[response.partition_index]
        if batches[-1].next_offset <= position:
            return None  # From a former leader: another node has returned it meanwhile.
        self.positions[response.partition_index] = batches[-1].next_offset
        self.statistics.received_bytes += len(data)
        aborted = aborted_of(response) if self._config.read_committed else None
        return Fetched(response.partition_index, position, batches, aborted, self._config.check_crcs)

    def _refused(self, response: PartitionData, address: Address) -> None:
        error = admin_error(response.error_code, None, self._source.topic)
        position = self.positions[response.partition_index]
        if error.code == ErrorCode.OFFSET_OUT_OF_RANGE and response.log_start_offset > position:
            self.statistics.skipped += response.log_start_offset - position
            self.positions[response.partition_index] = self._handed_over[response.partition_index] = (
                response.log_start_offset
            )
        elif error.code in _MOVED:
            self._led[address] = [other for other in self._led.get(address, ()) if other != response.partition_index]
            self._follower.is_stale.set()
        else:
            self._fail(error)

    async def _throttled(self, for_s: float, *, waits: bool) -> None:
        if for_s:
            self.statistics.throttled(for_s)
            if waits:
                await asyncio.sleep(for_s)

    def _hand_over(self, came: list[Fetched]) -> None:
        for fetched in came:
            self._received(fetched)
            self._handed_over[fetched.partition] = fetched.batches[-1].next_offset
        came.clear()
        self._look_for_end()

    def _has_ended(self, partition: int) -> bool:
        return self._until is not None and self.positions[partition] >= self._until[partition]

    def _look_for_end(self) -> None:
        until = self._until
        if until is not None and all(offset >= until[partition] for partition, offset in self._handed_over.items()):
            self.finished.set()

    def _fail(self, error: Exception) -> None:
        if self.failure is None:
            self.failure = error
        self.finished.set()
