"""Copies partitions from their leaders: provides connections and time for ``broker.replication.replica_fetcher``.

Each leader has ``num.replica.fetchers`` fetchers (``leader_source``). A fetcher has a connection, a fetch session and
one request in flight. A partition always belongs to the same fetcher. A fetcher that loses its last partition ends
immediately, so that a hanging request does not delay partitions that are added later.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING
from zlib import crc32

from barnabas.broker.replication.followed_partition import FollowedPartition, FollowerLogs
from barnabas.broker.replication.replica_fetcher import FetcherConfig, ReplicaFetcher
from barnabas.clients.errors import ClientError, InvalidClientConfig
from barnabas.clients.network_client import NetworkClient
from barnabas.server.broker.leader_fetcher import LeaderSource
from barnabas.server.start_errors import NodeStartError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from barnabas.broker.partition import Partition
    from barnabas.broker.replication.replication_quota import ReplicationQuota
    from barnabas.clients.client_config import Address, ClientConfig
    from barnabas.clients.node_connection import NodeConnection
    from barnabas.common.clock import Clock
    from barnabas.common.topic_partition import TopicPartition
    from barnabas.storage.log_manager import LogManager
    from barnabas.storage.partition_log import PartitionLog

__all__ = ["ReplicaFetchers"]

log = logging.getLogger(__name__)


class _Leader:
    """Implements ``LeaderAddress``."""

    def __init__(self, owner: ReplicaFetchers, leader_id: int, index: int) -> None:
        self.leader_id = leader_id
        self._owner = owner
        self._index = index

    def now_ms(self) -> int:
        return self._owner.now_ms()

    def is_open(self, connection: NodeConnection) -> bool:
        return connection.is_open and connection.address == self._owner.address_of(self.leader_id)

    async def connect(self) -> NodeConnection:
        return await self._owner.new_client(self._index).open(self._owner.address_of(self.leader_id))

    def count(self, written_bytes: int) -> None:
        self._owner.bytes_in += written_bytes


class ReplicaFetchers:
    """Implements the broker's port of the same name. Nothing is sent before ``start``."""

    def __init__(
        self,
        *,
        broker_id: int,
        config: FetcherConfig,
        fetchers_per_leader: int,
        broker_epoch: Callable[[], int],
        clock: Clock,
        find_broker: Callable[[int], Address | None],
        client_config: Callable[[str], ClientConfig],
        logs: LogManager,
        quota: ReplicationQuota | None = None,
    ) -> None:
        """``client_config`` returns the settings of a client with this id; it may raise NodeStartError."""
        self._broker_id = broker_id
        self._config = config
        self._fetchers_per_leader = fetchers_per_leader
        self._broker_epoch = broker_epoch
        self._clock = clock
        self._find_broker = find_broker
        self._client_config = client_config
        self._log_manager = logs
        self._logs = FollowerLogs(clock, logs.report_failure, self._truncated)
        self._checkpointing: asyncio.Task[None] | None = None
        self._quota = quota
        self._sources: dict[tuple[int, int], LeaderSource] = {}
        self._followed: dict[TopicPartition, tuple[LeaderSource, Partition]] = {}
        self._is_started = False
        self.bytes_in = 0

    # --- the broker's port

    def follow(self, partitions: Iterable[Partition]) -> None:
        for partition in partitions:
            name = partition.topic_partition
            if partition.leader_id < 0 or partition.leader_id == self._broker_id:
                self._stop(name)
                continue
            source = self._source(partition.leader_id, crc32(str(name).encode()) % self._fetchers_per_leader)
            known = self._followed.get(name)
            if known is not None and known[0] is not source:
                self._stop(name)
            self._followed[name] = (source, partition)
            source.follow(FollowedPartition(partition, self._logs), partition.leader_epoch)
        self._end_idle()

    def stop(self, partitions: Iterable[TopicPartition]) -> None:
        for name in partitions:
            self._stop(name)
        self._end_idle()

    def lag_of(self, topic_partition: TopicPartition) -> int | None:
        known = self._followed.get(topic_partition)
        if known is None:
            return None
        partitions = known[0].partitions()
        return next(
            (partition.lag for partition in partitions if partition.replica.topic_partition == topic_partition), None
        )

    def _stop(self, name: TopicPartition) -> None:
        known = self._followed.pop(name, None)
        if known is not None:
            known[0].stop(name)

    def _source(self, leader_id: int, index: int) -> LeaderSource:
        source = self._sources.get((leader_id, index))
        if source is None:
            source = self._sources[leader_id, index] = LeaderSource(_Leader(self, leader_id, index), self._new_fetcher)
            if self._is_started:
                source.start()
        return source

    def _new_fetcher(self, has_session: bool) -> ReplicaFetcher:
        return ReplicaFetcher(
            broker_id=self._broker_id,
            config=self._config,
            broker_epoch=self._broker_epoch,
            quota=self._quota,
            has_session=has_session,
        )

    def _end_idle(self) -> None:
        for key, source in list(self._sources.items()):
            if source.is_idle:
                del self._sources[key]
                source.end()

    def resize(self, fetchers_per_leader: int) -> None:
        """Redistribute the partitions over this number of fetchers for each leader."""
        self._fetchers_per_leader = fetchers_per_leader
        self.follow([partition for _, partition in self._followed.values()])

    # --- life

    def start(self) -> None:
        self._is_started = True
        for source in self._sources.values():
            source.start()

    def _truncated(self, truncated: PartitionLog) -> None:
        """Write a checkpoint: after a crash, rewritten records beyond the truncation must not count as durable."""
        self._log_manager.note_truncation(truncated)
        if self._checkpointing is None:
            self._checkpointing = asyncio.get_running_loop().create_task(self._write_checkpoint())

    async def _write_checkpoint(self) -> None:
        await asyncio.sleep(0)  # Many logs are truncated together.
        self._checkpointing = None
        try:
            await asyncio.get_running_loop().run_in_executor(None, self._log_manager.checkpoint)
        except OSError:
            log.exception("cannot write the recovery point checkpoint; the next checkpoint retries it")

    async def close(self) -> None:
        """Stop copying. Afterwards no log is written."""
        self._is_started = False
        tasks = [task for source in self._sources.values() for task in source.end()]
        checkpointing = self._checkpointing
        self._sources.clear()
        self._followed.clear()
        if checkpointing is not None:
            tasks.append(checkpointing)
        await asyncio.gather(*tasks, return_exceptions=True)

    # --- metrics

    # These may be called from another thread.

    @property
    def failed_count(self) -> int:
        return sum(source.failed_count for source in list(self._sources.values()))

    @property
    def throttled_bytes(self) -> int:
        return 0 if self._quota is None else self._quota.throttled_bytes

    @property
    def max_lag(self) -> int:
        """The lag of the partition that lags most, in committed records."""
        return max(
            (partition.lag or 0 for source in list(self._sources.values()) for partition in source.partitions()),
            default=0,
        )

    # --- for the sources

    def now_ms(self) -> int:
        return self._clock.monotonic_ms()

    def address_of(self, leader_id: int) -> Address:
        """Return the address. Raise ClientError while it is unknown."""
        address = self._find_broker(leader_id)
        if address is None:
            raise ClientError("it has no listener with the name of the inter-broker listener")
        return address

    def new_client(self, index: int) -> NetworkClient:
        """Create a client with the current keys, trust store and passwords. Raise ClientError for unusable settings."""
        try:
            return NetworkClient(self._client_config(f"broker-{self._broker_id}-fetcher-{index}"))
        except (NodeStartError, InvalidClientConfig) as error:
            raise ClientError(str(error)) from error
