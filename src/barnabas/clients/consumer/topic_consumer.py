"""Read a topic from given offsets, and continue: each record is delivered once, in the order of its partition.

The end of a ``Fetcher`` does not end this consumer: after a pause it continues after the last delivered record. A topic
whose end is before that (it was created again, or its last leader had less) is read from its beginning again, which is
harmless for a reader that replays it. End offsets are Kafka's: they include transaction markers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from barnabas.clients.admin.errors import AdminError
from barnabas.clients.consumer.config import ConsumerConfig
from barnabas.clients.consumer.fetcher import Fetcher, of_topic
from barnabas.common.error_code import ErrorCode

if TYPE_CHECKING:
    from barnabas.clients.consumer.completed_fetch import Fetched
    from barnabas.clients.network_client import NetworkClient
    from barnabas.clients.topic_metadata import TopicMetadata, TopicMetadataSource

__all__ = ["ConsumerRecord", "TopicConsumer"]

log = logging.getLogger(__name__)

_PAUSE_S = 0.25
_PAUSE_MAX_S = 5.0


class ConsumerRecord(NamedTuple):
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None


class TopicConsumer:
    """``received`` is called on the event loop for each record, and must not raise."""

    def __init__(
        self,
        network: NetworkClient,
        source: TopicMetadataSource,
        received: Callable[[ConsumerRecord], None],
        *,
        read_committed: bool = False,
    ) -> None:
        self.positions: dict[int, int] = {}
        """The next offset of each partition, after the last record that was read."""
        self.failure: Exception | None = None
        """Why reading has paused."""
        self._network = network
        self._source = source
        self._received = received
        self._config = ConsumerConfig(read_committed=read_committed)
        self._moved = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self, metadata: TopicMetadata, beginnings: Mapping[int, int]) -> None:
        self.positions = dict(beginnings)
        self._task = asyncio.get_running_loop().create_task(self._run(metadata))

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def reach(self, ends: Mapping[int, int]) -> None:
        """Wait until all records before these offsets were delivered."""
        while any(self.positions[partition] < end for partition, end in ends.items()):
            self._moved.clear()
            await self._moved.wait()

    async def _run(self, metadata: TopicMetadata | None) -> None:
        pause_s = _PAUSE_S
        while True:
            before = dict(self.positions)
            try:
                await self._follow(metadata or await self._source.load())
            except Exception as error:
                self.failure = error
            if self.positions != before:
                pause_s = _PAUSE_S
            log.warning("topic %s can't be read: %s; trying again in %g s", self._source.topic, self.failure, pause_s)
            self._begin_anew_if_gone()
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, _PAUSE_MAX_S)
            metadata = None

    async def _follow(self, metadata: TopicMetadata) -> None:
        """Follow the topic. Returns only by a failure."""
        positions = of_topic(self._source.topic, self.positions)
        fetcher = Fetcher(self._network, self._source, self._config, positions, self._take)
        try:
            fetcher.start(metadata)
            await fetcher.finished.wait()
        finally:
            await fetcher.close()
        self.failure = fetcher.failure

    def _begin_anew_if_gone(self) -> None:
        error = self.failure
        if isinstance(error, AdminError) and error.code == ErrorCode.OFFSET_OUT_OF_RANGE:
            log.warning("topic %s ends before the last offset read: reading it from its beginning", self._source.topic)
            self.positions = dict.fromkeys(self.positions, 0)

    def _take(self, fetched: Fetched) -> None:
        partition = fetched.partition
        position = self.positions[partition]
        for record in fetched.records():
            if record.offset >= position:
                position = self.positions[partition] = record.offset + 1
                self._received(ConsumerRecord(partition, record.offset, record.timestamp, record.key, record.value))
        self.positions[partition] = max(position, fetched.batches[-1].next_offset)
        self.failure = None
        self._moved.set()
