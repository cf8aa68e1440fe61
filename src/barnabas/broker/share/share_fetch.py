"""One fetch of a member: it waits until enough bytes can be acquired in its share-partitions, or its time has passed.

The bytes are distributed evenly over the partitions in which records can be acquired; the records go to the first of
them. The order of the partitions rotates with the epochs of the session, so that none starves.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from barnabas.common.errors import ApiException
from barnabas.protocol.messages.share_fetch import AcquiredRecords, PartitionData

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from barnabas.broker.share.fetched_batches import FetchedBatches
    from barnabas.broker.share.led_share_partition import LedSharePartition
    from barnabas.broker.share.share_session import TopicIdPartition
    from barnabas.broker.share.share_stats import ShareStats

__all__ = ["FetchParams", "FetchResult", "ShareFetch", "failed", "rotated"]

FetchResult = dict["TopicIdPartition", PartitionData]


class FetchParams(NamedTuple):
    member_id: str
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    max_records: int
    batch_size: int
    is_strict: bool


class _Reading(NamedTuple):
    """What was read of one share-partition, or the error."""

    led: LedSharePartition
    fetch_offset: int
    fetched: FetchedBatches | ApiException
    size: int


class ShareFetch:
    """``now_ms`` returns monotonic time. ``errors`` are of partitions that could not be looked up."""

    __slots__ = ("_began_ms", "_done", "_errors", "_leds", "_now_ms", "_params", "_requested", "_stats", "_timer")

    def __init__(
        self,
        params: FetchParams,
        leds: Sequence[LedSharePartition],
        errors: Mapping[TopicIdPartition, ApiException],
        now_ms: Callable[[], int],
        stats: ShareStats,
    ) -> None:
        self._params = params
        self._leds = list(leds)
        self._errors = dict(errors)
        self._now_ms = now_ms
        self._stats = stats
        self._began_ms = now_ms()
        self._requested = len(leds) + len(errors)
        self._done: asyncio.Future[FetchResult] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def result(self) -> FetchResult | None:
        """Return the answer if it need not wait."""
        if not self._leds:
            return self._answer([])
        if any(led.is_serving for led in self._leds):
            return None  # Others have waited for longer.
        readings = self._read()
        return self._answer(readings) if self._is_enough(readings) else None

    def wait(self) -> asyncio.Future[FetchResult]:
        """Wait behind the fetches that wait already."""
        loop = asyncio.get_running_loop()
        self._done = loop.create_future()
        self._stats.waiting_fetches += 1
        self._done.add_done_callback(self._leave)
        self._timer = loop.call_later(max(self._params.max_wait_ms, 0) / 1000, self._expire)
        for led in self._leds:
            led.join(self)
        return self._done

    def attempt(self) -> None:
        """Answer if enough can be acquired now."""
        if self._done is None or self._done.done():
            return
        readings = self._read()
        if self._is_enough(readings):
            self._finish(readings)

    def lost(self, led: LedSharePartition) -> None:
        """Answer because a share-partition was unloaded. One that failed to load waits for the others."""
        self._leds.remove(led)
        led.leave(self)
        if led.error is not None:
            self._errors[led.key.partition] = led.error
        if led.state is not None or not self._leds:
            self._finish(self._read())

    def _expire(self) -> None:
        self._stats.expired_fetches += 1
        self._finish(self._read())

    def _finish(self, readings: Sequence[_Reading]) -> None:
        if self._done is not None and not self._done.done():
            self._done.set_result(self._answer(readings))

    def _leave(self, _: object) -> None:
        """Wait no longer; also called if the member has disconnected."""
        self._stats.waiting_fetches -= 1
        if self._timer is not None:
            self._timer.cancel()
        for led in self._leds:
            led.leave(self)

    # --- reading and acquiring

    def _read(self) -> list[_Reading]:
        acquirable = [(led, offset) for led in self._leds if (offset := led.next_fetch_offset()) is not None]
        left, readings = self._params.max_bytes, []
        for (led, offset), share in zip(acquirable, self._shares(len(acquirable)), strict=True):
            is_first = left == self._params.max_bytes
            try:
                fetched = led.read(
                    offset, max_bytes=min(share, left), max_records=self._params.max_records, is_first=is_first
                )
            except ApiException as error:
                readings.append(_Reading(led, offset, error, 0))
                continue
            left = max(left - fetched.size, 0)
            readings.append(_Reading(led, offset, fetched, fetched.size))
        return readings

    def _shares(self, count: int) -> list[int]:
        """Distribute the bytes evenly. If there are fewer bytes than partitions, the first ones receive one each."""
        if not count:
            return []
        share = self._params.max_bytes // count
        return [share] * count if share else [int(at < self._params.max_bytes) for at in range(count)]

    def _is_enough(self, readings: Sequence[_Reading]) -> bool:
        if any(isinstance(reading.fetched, ApiException) for reading in readings):
            return True
        return bool(readings) and sum(reading.size for reading in readings) >= self._params.min_bytes

    def _answer(self, readings: Sequence[_Reading]) -> FetchResult:
        result = {partition: failed(partition.partition, error) for partition, error in self._errors.items()}
        left = self._params.max_records
        self._count(readings)
        for reading in readings:
            partition = reading.led.key.partition
            if isinstance(reading.fetched, ApiException):
                result[partition] = failed(partition.partition, reading.fetched)
                continue
            answer = self._acquire(reading, reading.fetched, left)
            left -= sum(acquired.last_offset - acquired.first_offset + 1 for acquired in answer.acquired_records)
            result[partition] = answer
        self._stats.records_acquired += self._params.max_records - left
        self._stats.failed_fetch_requests += sum(1 for answer in result.values() if answer.error_code)
        return result

    def _count(self, readings: Sequence[_Reading]) -> None:
        if readings:
            self._stats.acquired(
                readings[0].led.key.group_id,
                elapsed_ms=self._now_ms() - self._began_ms,
                acquirable=len(readings),
                requested=self._requested,
            )

    def _acquire(self, reading: _Reading, fetched: FetchedBatches, max_records: int) -> PartitionData:
        led, params = reading.led, self._params
        answer = PartitionData(partition_index=led.key.partition.partition, records=b"")
        if led.state is None:
            return answer
        acquired = led.state.acquire(
            params.member_id,
            fetched.batches,
            fetch_offset=reading.fetch_offset,
            max_records=max_records,
            batch_size=params.batch_size,
            is_strict=params.is_strict,
            aborted=fetched.aborted(),
            now_ms=self._now_ms(),
        )
        if acquired:
            led.locks_began()
            for first, last, _ in acquired:
                led.batch_sizes.record(last - first + 1)
            answer.records = fetched.records_of(acquired)
            answer.acquired_records = [
                AcquiredRecords(first_offset=first, last_offset=last, delivery_count=count)
                for first, last, count in acquired
            ]
        return answer


def failed(partition: int, error: ApiException) -> PartitionData:
    return PartitionData(partition_index=partition, error_code=error.code, error_message=error.message, records=b"")


def rotated(partitions: Sequence[TopicIdPartition], epoch: int) -> Sequence[TopicIdPartition]:
    """Return the partitions of a request with the first one moved on by one for each epoch."""
    if epoch < 1 or len(partitions) < 2:
        return partitions
    at = epoch % len(partitions)
    return [*partitions[at:], *partitions[:at]]
