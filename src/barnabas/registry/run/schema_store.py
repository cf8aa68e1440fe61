"""The state of the registry, followed in the schemas topic, and the writes of the leader.

A leader writes one change after the other: it reads the topic to its end, decides, writes, and answers when it has read
its own records. So an acknowledged change is in the topic, and the state that a decision used had all changes before
it. A new leader first writes a record without content and reads up to it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from barnabas.clients.admin.client import AdminClient
from barnabas.clients.admin.errors import AdminError
from barnabas.clients.consumer.topic_consumer import ConsumerRecord
from barnabas.clients.errors import ClientError
from barnabas.connect.errors import ConnectError
from barnabas.connect.run.internal_topics.topic_admin import InternalTopic
from barnabas.connect.run.internal_topics.topic_log import TopicLog
from barnabas.registry.decide.changes import Change
from barnabas.registry.decide.errors import RegistryError, no_leader, store_failed, store_timed_out
from barnabas.registry.decide.registry_state import RegistryState
from barnabas.registry.decide.topic_records import MalformedRecord, noop_record
from barnabas.registry.settings.registry_config import RegistryConfig

__all__ = ["SchemaStore"]

log = logging.getLogger(__name__)


class SchemaStore:
    """A LeadershipListener. Close it at the end."""

    def __init__(self, config: RegistryConfig, admin: AdminClient) -> None:
        self.state = RegistryState()
        self.malformed_count = 0
        self.write_count = 0
        self._config = config
        self._admin = admin
        self._timeout_s = config.kafkastore_timeout_ms / 1000
        self._log: TopicLog | None = None
        self._turn = asyncio.Lock()
        self._may_write = False
        self._has_lease: Callable[[], bool] = lambda: False
        self._last_offset = -1

    def follow_lease(self, has_lease: Callable[[], bool]) -> None:
        """Write only while this returns True."""
        self._has_lease = has_lease

    @property
    def position(self) -> int:
        """The offset of the next record to read."""
        return 0 if self._log is None else sum(self._log.positions.values())

    async def start(self) -> None:
        """Read the topic to its end. Raise ConnectError, ClientError, AdminError."""
        config = self._config
        brokers = len((await self._admin.describe_cluster()).nodes)
        replicas = min(brokers, config.kafkastore_topic_replication_factor)
        if replicas < config.kafkastore_topic_replication_factor:
            log.warning(
                "the cluster has %d brokers, fewer than kafkastore.topic.replication.factor=%d: a topic that the "
                "registry creates now has %d replicas",
                brokers,
                config.kafkastore_topic_replication_factor,
                replicas,
            )
        topic = InternalTopic(
            config.kafkastore_topic,
            "kafkastore.topic",
            1,
            replicas,
            must_be_one_partition=True,
            prefix="kafkastore.topic.",
        )
        self._log = TopicLog(topic, config.client_properties, self._received)
        await self._log.start(timeout_s=config.kafkastore_init_timeout_ms / 1000)
        log.info("read %d versions of schemas from topic %s", self.state.version_count, topic.name)

    async def close(self) -> None:
        if self._log is not None:
            await self._log.close()

    async def read_to_end(self) -> None:
        """Read all records that are in the topic now. Raise RegistryError."""
        await self._stored(self._opened.read_to_end(timeout_s=self._timeout_s))

    async def change(self, decide: Callable[[], Awaitable[Change]]) -> Change:
        """Carry out a change. ``decide`` is called with the latest state, and its records are written.

        Raise the error of ``decide``, or RegistryError.
        """
        async with self._turn:
            self._check_leads()
            await self.read_to_end()
            change = await decide()
            self._check_leads()  # Deciding takes time: schemas are parsed.
            if change.records:
                await self._write(change.records)
            return change

    async def lead(self) -> None:
        async with self._turn:
            await self._write([noop_record()])
            self._may_write = True

    async def follow(self) -> None:
        self._may_write = False
        async with self._turn:
            pass

    def _check_leads(self) -> None:
        if not self._may_write or not self._has_lease():
            raise no_leader("this registry has ceased to lead its group; send the request again")

    async def _write(self, records: list[tuple[bytes, bytes | None]] | tuple[tuple[bytes, bytes | None], ...]) -> None:
        await self._stored(self._opened.write(list(records), timeout_s=self._timeout_s))
        self.write_count += len(records)
        await self.read_to_end()

    async def _stored(self, work: Awaitable[object]) -> None:
        try:
            await work
        except TimeoutError as error:
            raise store_timed_out(str(error)) from error
        except (ConnectError, ClientError, AdminError) as error:
            raise store_failed(str(error)) from error

    @property
    def _opened(self) -> TopicLog:
        if self._log is None:
            raise RegistryError(500, 50001, "The registry is starting; it has not read its topic yet")
        return self._log

    def _received(self, record: ConsumerRecord) -> None:
        if record.offset <= self._last_offset:
            log.warning("the schemas topic is read from its beginning again: the registry forgets what it had read")
            self.state.clear()
        self._last_offset = record.offset
        try:
            self.state.replay(record.key, record.value)
        except MalformedRecord as error:
            self.malformed_count += 1
            log.warning("the record at offset %d of the schemas topic is skipped: %s", record.offset, error)
