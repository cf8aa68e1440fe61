"""Creates the topic ``__access_audit`` and appends to the partitions of it that this node leads.

Records are keyed by principal; all records of a principal are in one partition that this node leads. No other node may
write to these partitions, so a node that leads no partition writes its events only to its log. This module never calls
an authorizer, so the audit does not audit its own writes.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.murmur2 import partition_for_key
from barnabas.common.topic_name import ACCESS_AUDIT_TOPIC
from barnabas.common.topic_partition import TopicPartition
from barnabas.protocol.compression import Compression
from barnabas.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from barnabas.protocol.record_batch_builder import RecordBatchBuilder
from barnabas.server.audit.event_format import decision_fields, dropped_fields, to_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from barnabas.broker.metadata_cache import MetadataCache
    from barnabas.broker.ports import ControllerChannel
    from barnabas.broker.replica_manager import ReplicaManager
    from barnabas.metadata.image.topics import TopicImage
    from barnabas.security.authorizer.audit import AccessEvent
    from barnabas.server.settings.node_config import NodeConfig

__all__ = ["AccessAuditTopic"]

log = logging.getLogger(__name__)

_BATCH_BYTES_MAX = 256 * 1024
"""Before compression: well below any useful max.message.bytes."""
_WAITING_MAX = 64
"""Batches that may wait until the topic exists."""
_RETRY_S = 1.0
_CREATE_TIMEOUT_MS = 30_000
_FLUSH_TIMEOUT_S = 5.0

_Encoded = tuple[bytes | None, int, bytes, int]
"""Key, timestamp, value, decisions."""

_Batch = tuple[int, bytes, int, int]
"""Partition, record batch, decisions, records."""


class AccessAuditTopic:
    """Call ``write`` on a thread and everything else on the event loop. Set ``loop`` to that loop first."""

    def __init__(
        self, config: NodeConfig, *, metadata: MetadataCache, replicas: ReplicaManager, controller: ControllerChannel
    ) -> None:
        self._config = config
        self._metadata = metadata
        self._replicas = replicas
        self._controller = controller
        self._creating: asyncio.Task[None] | None = None
        self._waiting: list[list[_Encoded]] = []
        self._dropped = 0
        self._logged_failure: ErrorCode | None = None
        self.loop: asyncio.AbstractEventLoop | None = None
        self.records_written = 0

    def start(self) -> None:
        if self._metadata.topic(ACCESS_AUDIT_TOPIC) is None:
            self._creating = asyncio.get_running_loop().create_task(self._create())

    def stop(self) -> None:
        if self._creating is not None:
            self._creating.cancel()

    async def flush(self) -> None:
        """Append as many as possible of the batches that the thread handed back."""
        await asyncio.sleep(0)
        self._append_waiting()

    def take_dropped(self) -> int:
        dropped, self._dropped = self._dropped, 0
        return dropped

    def record_dropped(self, now_ms: int, dropped: int, total: int) -> None:
        """Write the number of dropped events into the stream, so that its readers know."""
        value = to_json(dropped_fields(self._config.node_id, now_ms, dropped, total))
        self._wait_for_topic([(None, now_ms, value, 0)])

    # --- on the thread

    def write(self, events: Sequence[AccessEvent]) -> None:
        node_id, loop = self._config.node_id, self.loop
        encoded: list[_Encoded] = []
        size = 0
        for event in events:
            value = to_json(decision_fields(event, node_id))
            encoded.append((str(event.principal).encode("utf-8", "replace"), event.last_ms, value, event.decisions))
            size += len(value)
            if size > _BATCH_BYTES_MAX:
                self._hand_back(loop, encoded)
                encoded, size = [], 0
        if encoded:
            self._hand_back(loop, encoded)

    def _hand_back(self, loop: asyncio.AbstractEventLoop | None, encoded: list[_Encoded]) -> None:
        if loop is None or loop.is_closed():
            return
        topic = self._metadata.topic(ACCESS_AUDIT_TOPIC)
        if topic is None:
            loop.call_soon_threadsafe(self._wait_for_topic, encoded)
        else:
            loop.call_soon_threadsafe(self._append, _batches(encoded, self._own_partitions(topic)))

    def _own_partitions(self, topic: TopicImage) -> list[int]:
        """Return the partitions that this node leads, or all if it leads none: the append's error names the reason."""
        node_id = self._config.node_id
        led = sorted(number for number, partition in topic.partitions.items() if partition.leader == node_id)
        return led or list(range(len(topic.partitions)))

    # --- on the loop

    def _wait_for_topic(self, encoded: list[_Encoded]) -> None:
        if len(self._waiting) >= _WAITING_MAX:
            self._dropped += sum(decisions for *_, decisions in encoded)
            return
        self._waiting.append(encoded)
        self._append_waiting()

    def _append_waiting(self) -> None:
        topic = self._metadata.topic(ACCESS_AUDIT_TOPIC)
        if topic is not None:
            waiting, self._waiting = self._waiting, []
            for encoded in waiting:
                self._append(_batches(encoded, self._own_partitions(topic)))

    def _append(self, batches: list[_Batch]) -> None:
        for number, batch, decisions, records in batches:
            topic_partition = TopicPartition(ACCESS_AUDIT_TOPIC, number)
            try:
                partition = self._replicas.leader_of(topic_partition)
                self._replicas.append(partition, batch, requires_all_in_sync=False)
            except ApiException as error:
                self._dropped += decisions
                if self._logged_failure is not error.code:
                    self._logged_failure = error.code
                    log.warning("the access audit cannot be appended to %s: %s", topic_partition, error)
            else:
                self._logged_failure = None
                self.records_written += records

    async def _create(self) -> None:
        while self._metadata.topic(ACCESS_AUDIT_TOPIC) is None:
            problem = await self._try_to_create()
            if problem is not None:
                log.warning("topic %s cannot be created: %s", ACCESS_AUDIT_TOPIC, problem)
                await asyncio.sleep(_RETRY_S)
        self._append_waiting()

    async def _try_to_create(self) -> str | None:
        """Return the reason of a failure, or None."""
        request = CreateTopicsRequest(topics=[self._wanted()], timeout_ms=_CREATE_TIMEOUT_MS)
        try:
            answer = await self._controller.send(request)
        except ApiException as error:
            return str(error)
        for topic in answer.topics:
            if topic.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                return f"{ErrorCode(topic.error_code).name} {topic.error_message or ''}".strip()
        return None

    def _wanted(self) -> CreatableTopic:
        config = self._config
        return CreatableTopic(
            name=ACCESS_AUDIT_TOPIC,
            num_partitions=config.barnabas_audit_topic_partitions,
            replication_factor=config.barnabas_audit_topic_replication_factor,
            configs=[
                CreatableTopicConfig(name="cleanup.policy", value="delete"),
                CreatableTopicConfig(name="compression.type", value="producer"),
                CreatableTopicConfig(name="retention.ms", value=str(config.barnabas_audit_topic_retention_ms)),
            ],
        )


def _batches(encoded: list[_Encoded], partitions: Sequence[int]) -> list[_Batch]:
    by_partition: dict[int, list[_Encoded]] = {}
    for record in encoded:
        number = partitions[0 if record[0] is None else partition_for_key(record[0], len(partitions))]
        by_partition.setdefault(number, []).append(record)
    batches = []
    for number, records in by_partition.items():
        builder = RecordBatchBuilder(compression=Compression.LZ4)
        for offset, (key, timestamp, value, _) in enumerate(records):
            builder.append(offset, timestamp, key, value)
        batches.append((number, builder.build(), sum(decisions for *_, decisions in records), len(records)))
    return batches
