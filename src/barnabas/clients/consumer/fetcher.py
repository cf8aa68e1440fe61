"""Fetch partitions of any topics from their leaders, with one request in flight at each. Received data is processed
meanwhile.

The header of a batch has its last offset, so the next request is sent before the records of the last answer are read.
Partitions that returned data are last in the next request, so that none is starved.

Partitions come and go while others are fetched. An answer counts only if its partition is still fetched from the offset
of the request: a partition that was removed and added again never continues where another reader ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from barnabas.clients.admin.errors import admin_error
from barnabas.clients.consumer.completed_fetch import Fetched, aborted_of
from barnabas.clients.errors import ClientError, RemoteProtocolError
from barnabas.clients.leader_tracker import ThrottleStatistics, TopicFollower, start_guarded
from barnabas.common.error_code import ErrorCode
from barnabas.common.errors import Transient
from barnabas.common.topic_partition import TopicPartition
from barnabas.common.uuid import Uuid
from barnabas.protocol.errors import DecodeError
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.protocol.record_batch import iter_batches

if TYPE_CHECKING:
    from barnabas.clients.client_config import Address
    from barnabas.clients.consumer.config import ConsumerConfig
    from barnabas.clients.network_client import NetworkClient
    from barnabas.clients.topic_metadata import TopicMetadata
    from barnabas.protocol.messages.fetch import FetchResponse, PartitionData

__all__ = ["Fetcher", "FetcherStatistics", "LeaderSource", "of_topic"]

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


class LeaderSource(Protocol):
    """Where the fetcher learns the leaders, by topic. A topic that does not exist may be left out."""

    async def leaders(self) -> Mapping[str, TopicMetadata]:
        """Raise AdminError, ClientError."""


@dataclass(slots=True, eq=False)
class _Place:
    """Where a partition is fetched: the next offset to request, and the one after the data that was handed over."""

    partition: TopicPartition
    offset: int
    handed_over: int


_Sent = dict[tuple[object, int], tuple[_Place, int]]
"""The places of a request with their offsets, by the topic's id or name and the partition."""
_Came = list[tuple[_Place, Fetched]]


class Fetcher:
    """``received`` receives the data, in the order of each partition. ``until`` are end offsets of partitions.

    ``finished`` is set when all have ended, and when ``failure`` says why the fetcher has stopped.
    """

    def __init__(
        self,
        network: NetworkClient,
        source: LeaderSource,
        config: ConsumerConfig,
        positions: Mapping[TopicPartition, int],
        received: Callable[[Fetched], None],
        *,
        until: Mapping[TopicPartition, int] | None = None,
        answered: Callable[[float], None] = lambda duration_s: None,
        room: asyncio.Event | None = None,
    ) -> None:
        """``answered`` receives the duration of each fetch that returned data. No fetch is sent while ``room``, if
        any, is not set: the caller has not processed the data yet."""
        self.statistics = FetcherStatistics()
        self.failure: Exception | None = None
        self.finished = asyncio.Event()
        self._network = network
        self._config = config
        self._received = received
        self._answered = answered
        self._until = until
        self._room = room
        self._loop = asyncio.get_running_loop()
        self._places = _places_at(positions)
        self._topics: dict[str, TopicMetadata] = {}
        self._led: dict[Address, list[_Place]] = {}
        self._tasks: dict[Address | None, asyncio.Task[None]] = {}
        self._follower = TopicFollower(
            source.leaders,
            take=self._take,
            fail=self._fail,
            retriable=_MOVED,
            backoff_s=config.retry_backoff_s,
            backoff_max_s=config.retry_backoff_max_s,
        )

    def start(self, *topics: TopicMetadata) -> None:
        self._take({topic.name: topic for topic in topics})
        self._tasks[None] = start_guarded(self._follower.follow(), self._fail)
        self._look_for_end()

    def add(self, positions: Mapping[TopicPartition, int]) -> None:
        """Fetch these partitions too, from these offsets on."""
        self._places |= _places_at(positions)
        self._distribute()
        if self.failure is None:
            self.finished.clear()
            self._look_for_end()

    def remove(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop fetching these partitions. Nothing of them is handed over after this call."""
        for partition in partitions:
            self._places.pop(partition, None)
        self._distribute()
        self._look_for_end()

    async def close(self) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # --- leaders of partitions

    def _take(self, topics: Mapping[str, TopicMetadata]) -> None:
        self._topics = dict(topics)
        self._distribute()

    def _distribute(self) -> None:
        """Give each partition to the task of its leader."""
        led: dict[Address, list[_Place]] = {}
        for place in self._places.values():
            address = self._address_of(place.partition)
            if address is None:
                self._follower.is_stale.set()
            elif not self._has_ended(place):
                led.setdefault(address, []).append(place)
        self._led = led
        for address in led:
            task = self._tasks.get(address)
            if task is None or task.done():
                self._tasks[address] = start_guarded(self._fetch_from(address), self._fail)

    def _address_of(self, partition: TopicPartition) -> Address | None:
        topic = self._topics.get(partition.topic)
        return None if topic is None else topic.address_of(partition.partition)

    # --- one leader

    async def _fetch_from(self, address: Address) -> None:
        """Fetch until the node leads no wanted partition."""
        came: _Came = []
        while (places := self._led.get(address)) and self.failure is None:
            try:
                if self._room is not None and not self._room.is_set():
                    self._hand_over(came)
                    await self._room.wait()
                connection = await self._network.connection_to(address)
                await connection.ready()
                version = connection.version_of(FetchRequest.API_KEY)
                if any(self._topics[place.partition.topic].topic_id == Uuid.ZERO for place in places):
                    version = min(version, _LAST_VERSION_BY_NAME)
                sent_at = self._loop.time()
                request, sent = self._request(places, by_name=version <= _LAST_VERSION_BY_NAME)
                answer = connection.start(request, version=version)
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
            came = self._read(response, address, sent, by_name=version <= _LAST_VERSION_BY_NAME)
            if came:
                self._answered(self._loop.time() - sent_at)
            else:
                self.statistics.empty_responses += 1
            await self._throttled(response.throttle_time_ms / 1000, waits=version >= _CLIENT_WAITS_SINCE)
        self._hand_over(came)

    def _request(self, places: list[_Place], *, by_name: bool) -> tuple[FetchRequest, _Sent]:
        config = self._config
        sent: _Sent = {}
        topics: dict[str, FetchTopic] = {}
        for place in places:
            name, partition = place.partition
            topic = topics.get(name)
            if topic is None:
                topic = topics[name] = FetchTopic(topic=name, topic_id=self._topics[name].topic_id, partitions=[])
            sent[name if by_name else topic.topic_id, partition] = place, place.offset
            topic.partitions.append(
                FetchPartition(
                    partition=partition, fetch_offset=place.offset, partition_max_bytes=config.partition_max_bytes
                )
            )
        request = FetchRequest(
            max_wait_ms=config.max_wait_ms,
            min_bytes=config.min_bytes,
            max_bytes=config.max_bytes,
            isolation_level=int(config.read_committed),
            topics=list(topics.values()),
        )
        return request, sent

    def _read(self, response: FetchResponse, address: Address, sent: _Sent, *, by_name: bool) -> _Came:
        """Return the received data, and advance the offsets of the next fetch."""
        if response.error_code:
            self._fail(admin_error(response.error_code))
            return []
        came: _Came = []
        for topic in response.responses:
            key = topic.topic if by_name else topic.topic_id
            for partition in topic.partitions:
                place, offset = sent.get((key, partition.partition_index), (None, 0))
                if place is None or self._places.get(place.partition) is not place or place.offset != offset:
                    continue  # Removed meanwhile, or another node has returned it.
                if partition.error_code:
                    self._refused(place, partition, address)
                    continue
                fetched = self._fetched(place, partition)
                if fetched is not None:
                    came.append((place, fetched))
        led = self._led.get(address)
        if led and came:
            gave = {place for place, _ in came}
            self._led[address] = [place for place in led if place not in gave] + [
                place for place in led if place in gave and not self._has_ended(place)
            ]
        return came

    def _fetched(self, place: _Place, response: PartitionData) -> Fetched | None:
        data = response.records
        if not data:
            return None
        try:
            batches = list(iter_batches(data))
        except DecodeError as error:
            raise RemoteProtocolError(f"{place.partition}: a batch that can't be read: {error}") from error
        if not batches:
            raise RemoteProtocolError(f"{place.partition}: a part of a batch without a complete one")
        position = place.offset
        if batches[-1].next_offset <= position:
            return None
        place.offset = batches[-1].next_offset
        self.statistics.received_bytes += len(data)
        aborted = aborted_of(response) if self._config.read_committed else None
        return Fetched(*place.partition, position, batches, aborted, self._config.check_crcs)

    def _refused(self, place: _Place, response: PartitionData, address: Address) -> None:
        error = admin_error(response.error_code, None, place.partition.topic)
        if error.code == ErrorCode.OFFSET_OUT_OF_RANGE and response.log_start_offset > place.offset:
            self.statistics.skipped += response.log_start_offset - place.offset
            place.offset = place.handed_over = response.log_start_offset
        elif error.code in _MOVED:
            self._led[address] = [other for other in self._led.get(address, ()) if other is not place]
            self._follower.is_stale.set()
        else:
            self._fail(error)

    async def _throttled(self, for_s: float, *, waits: bool) -> None:
        if for_s:
            self.statistics.throttled(for_s)
            if waits:
                await asyncio.sleep(for_s)

    def _hand_over(self, came: _Came) -> None:
        for place, fetched in came:
            if self._places.get(place.partition) is place:
                self._received(fetched)
                place.handed_over = fetched.batches[-1].next_offset
        came.clear()
        self._look_for_end()

    def _has_ended(self, place: _Place) -> bool:
        return self._until is not None and place.offset >= self._until[place.partition]

    def _look_for_end(self) -> None:
        until = self._until
        places = self._places.values()
        if until is not None and places and all(place.handed_over >= until[place.partition] for place in places):
            self.finished.set()

    def _fail(self, error: Exception) -> None:
        if self.failure is None:
            self.failure = error
        self.finished.set()


def of_topic(topic: str, offsets: Mapping[int, int]) -> dict[TopicPartition, int]:
    """Return the offsets of partitions of one topic by partition and topic."""
    return {TopicPartition(topic, partition): offset for partition, offset in offsets.items()}


def _places_at(positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, _Place]:
    return {partition: _Place(partition, offset, offset) for partition, offset in positions.items()}
