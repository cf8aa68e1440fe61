"""The worker's three topics at run time: records are passed to the herder and to the positions of sources."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from barnabas.clients.consumer.topic_consumer import ConsumerRecord
from barnabas.connect.decide.backing_stores.config_records import ConfigRecord
from barnabas.connect.decide.backing_stores.offset_records import OffsetRecord
from barnabas.connect.decide.backing_stores.offset_state import MergedOffsets, OffsetState, PartitionOffset
from barnabas.connect.decide.tasks.task_runtime import TopicRecord
from barnabas.connect.errors import ConnectError
from barnabas.connect.run.internal_topics.leader_writer import LeaderWriter
from barnabas.connect.run.internal_topics.status_writer import StatusWriter
from barnabas.connect.run.internal_topics.topic_admin import (
    config_topic,
    internal_client_properties,
    offset_topic,
    status_topic,
)
from barnabas.connect.run.internal_topics.topic_log import TopicLog

__all__ = ["SourceOffsets", "WorkerTopics"]


class _OffsetTopic:
    def __init__(self, settings: Mapping[str, object], name: str | None = None) -> None:
        self.state = OffsetState()
        properties = internal_client_properties(settings, "offsets")
        topic = offset_topic(settings, name)
        self.log = TopicLog(topic, properties, self._received, read_committed=_reads_committed(settings))
        self.starting: asyncio.Task[None] | None = None

    def _received(self, record: ConsumerRecord) -> None:
        self.state.replay(record.key, record.value, record.timestamp_ms)

    async def started(self) -> None:
        if self.starting is None or (self.starting.done() and self.starting.exception() is not None):
            self.starting = asyncio.create_task(self.log.start(), name=f"offset topic {self.log.topic.name}")
        await asyncio.shield(self.starting)

    async def write(self, records: Sequence[OffsetRecord]) -> None:
        if records:
            await self.log.write([(record.key, record.value) for record in records])
            await self.log.read_to_end()

    async def close(self) -> None:
        if self.starting is not None:
            self.starting.cancel()
            await asyncio.gather(self.starting, return_exceptions=True)
        await self.log.close()


class SourceOffsets:
    """The positions of source connectors: the OffsetStore of the task runtime.

    A connector may have an offset topic of its own (``offsets.storage.topic``), which ``prepare`` opens.
    """

    def __init__(self, settings: Mapping[str, object]) -> None:
        self._settings = settings
        self._worker = _OffsetTopic(settings)
        self._dedicated: dict[str, _OffsetTopic] = {}
        self._topics: dict[str, str] = {}

    async def start(self) -> None:
        await self._worker.started()

    async def prepare(self, connector: str, config: Mapping[str, str | None]) -> None:
        """Open it before a task of it starts, or its positions are requested. Raises as ``TopicLog.start``."""
        name = (config.get("offsets.storage.topic") or "").strip()
        if not name or name == self._worker.log.topic.name:
            self._topics.pop(connector, None)
            return
        self._topics[connector] = name
        if name not in self._dedicated:
            self._dedicated[name] = _OffsetTopic(self._settings, name)
        await self._dedicated[name].started()

    async def read_to_end(self, connector: str) -> None:
        for topic in self._topics_of(connector):
            await topic.log.read_to_end()

    def source_offset(self, connector: str, partition: Mapping[str, Any]) -> Mapping[str, Any] | None:
        found = (topic.state.offset(connector, partition) for topic in reversed(self._topics_of(connector)))
        return next((offset for offset in found if offset is not None), None)

    def offsets(self, connector: str) -> list[PartitionOffset]:
        own = self._dedicated.get(self._topics.get(connector, ""))
        if own is None:
            return self._worker.state.offsets(connector)
        return MergedOffsets(own.state, self._worker.state).offsets(connector)

    async def write_source_offsets(
        self, connector: str, offsets: Sequence[tuple[Mapping[str, Any], Mapping[str, Any] | None]]
    ) -> None:
        """Write offsets. Return when they are safe and this worker has read them back. Raise ConnectError."""
        worker_first = self._topics_of(connector)
        try:
            for topic in worker_first[:-1]:  # Deletions apply there, too, and first.
                forgotten = [(partition, offset) for partition, offset in offsets if offset is None]
                await topic.write(topic.state.records_to_write(connector, forgotten))
            await worker_first[-1].write(worker_first[-1].state.records_to_write(connector, offsets))
        except ValueError as error:
            raise ConnectError(str(error)) from error

    async def offset_records(
        self, connector: str, offsets: Sequence[tuple[Mapping[str, Any], Mapping[str, Any] | None]]
    ) -> list[TopicRecord]:
        """Return the records of ``write_source_offsets``. Raise ConnectError."""
        *worker, last = self._topics_of(connector)
        deleted = [(partition, offset) for partition, offset in offsets if offset is None]
        try:
            return [
                TopicRecord(topic.log.topic.name, record.key, record.value)
                for topic, changed in (*((topic, deleted) for topic in worker), (last, offsets))
                for record in topic.state.records_to_write(connector, changed)
            ]
        except ValueError as error:
            raise ConnectError(str(error)) from error

    async def read_offsets_to_end(self, connector: str) -> None:
        await self.read_to_end(connector)

    async def forget(self, connector: str) -> None:
        for topic in self._topics_of(connector):
            await topic.write(topic.state.removal_records(connector))

    async def close(self) -> None:
        await asyncio.gather(*(topic.close() for topic in (self._worker, *self._dedicated.values())))

    def _topics_of(self, connector: str) -> list[_OffsetTopic]:
        """Return the worker's topic, then the connector's own."""
        own = self._dedicated.get(self._topics.get(connector, ""))
        return [self._worker] if own is None else [self._worker, own]


class WorkerTopics:
    """``received_config`` and ``received_status`` are called for each record, existing ones included."""

    def __init__(
        self,
        settings: Mapping[str, object],
        *,
        received_config: Callable[[ConsumerRecord], None],
        received_status: Callable[[ConsumerRecord], None],
    ) -> None:
        self.offsets = SourceOffsets(settings)
        topic, properties = config_topic(settings), internal_client_properties(settings, "configs")
        self.configs = TopicLog(topic, properties, received_config, read_committed=_reads_committed(settings))
        self._leader = LeaderWriter(topic.name, properties, str(settings["group.id"]))
        self.statuses = TopicLog(
            status_topic(settings), internal_client_properties(settings, "statuses"), received_status
        )
        self.status_writer = StatusWriter(self.statuses.write)

    async def start(self) -> None:
        """Read each topic to its end. Raise UnusableTopic, ReadFailed, ClientError."""
        await asyncio.gather(self.offsets.start(), self.statuses.start())
        await self.configs.start()

    async def write_configs(self, records: Sequence[ConfigRecord]) -> None:
        await self.configs.write([(record.key, record.value) for record in records])

    async def claim_configs(self) -> None:
        """Fence the writes of earlier leaders. Raise ConnectError."""
        await self._leader.claim()

    async def write_configs_as_leader(self, records: Sequence[ConfigRecord]) -> None:
        """Write records in one transaction. Raise WriteFailed."""
        await self._leader.write(records)

    async def close(self) -> None:
        topics = (self.offsets, self.configs, self.statuses, self._leader)
        await asyncio.gather(*(topic.close() for topic in topics))


def _reads_committed(settings: Mapping[str, object]) -> bool:
    """Return whether transactions may be used. Workers that still prepare for them read as before, as Kafka's do."""
    return str(settings.get("exactly.once.source.support", "")).strip().lower() == "enabled"
