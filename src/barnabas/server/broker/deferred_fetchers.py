"""Stands in for the replica fetchers until the first partition must be copied. A single broker never loads them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from barnabas.broker.attempt_limit import AttemptLimit
    from barnabas.broker.partition import Partition
    from barnabas.broker.replication.replication_quota import ReplicationQuota
    from barnabas.common.topic_partition import TopicPartition
    from barnabas.server.broker.replica_fetcher_manager import ReplicaFetchers
    from barnabas.server.node_core import NodeCore
    from barnabas.server.settings.dynamic_broker_config import SettingsChange
    from barnabas.server.settings.node_config import NodeConfig
    from barnabas.storage.log_manager import LogManager

__all__ = ["DeferredFetchers"]

_SILENCE_MS_MIN = 2000
"""Kafka's default heartbeat interval. A shorter interval detects failures sooner, but leaders are not faster."""


class DeferredFetchers:
    """Implements the broker's port ``ReplicaFetchers``."""

    def __init__(
        self, core: NodeCore, logs: LogManager, *, broker_epoch: Callable[[], int], quota: ReplicationQuota
    ) -> None:
        self.made: ReplicaFetchers | None = None
        self._core = core
        self._logs = logs
        self._broker_epoch = broker_epoch
        self._quota = quota
        self._config = core.config
        self._is_started = False

    def follow(self, partitions: Iterable[Partition]) -> None:
        followed = list(partitions)
        if self.made is None:
            if all(replica.leader_id < 0 for replica in followed):
                return
            self.made = self._make()
            if self._is_started:
                self.made.start()
        self.made.follow(followed)

    def stop(self, partitions: Iterable[TopicPartition]) -> None:
        if self.made is not None:
            self.made.stop(partitions)

    def lag_of(self, topic_partition: TopicPartition) -> int | None:
        return None if self.made is None else self.made.lag_of(topic_partition)

    def prepare(self, change: SettingsChange) -> Callable[[], None] | None:
        """Follow the dynamic settings for the number of fetchers and for the credentials of the next connection."""

        def follow() -> None:
            before, self._config = self._config, change.new
            if self.made is not None and change.new.num_replica_fetchers != before.num_replica_fetchers:
                self.made.resize(change.new.num_replica_fetchers)

        return follow

    def start(self) -> None:
        self._is_started = True
        if self.made is not None:
            self.made.start()

    async def close(self) -> None:
        self._is_started = False
        if self.made is not None:
            await self.made.close()

    def _make(self) -> ReplicaFetchers:
        from barnabas.broker.replication.replica_fetcher import FetcherConfig
        from barnabas.server.broker.replica_fetcher_manager import ReplicaFetchers
        from barnabas.server.listeners.inter_broker_client_config import (
            inter_broker_address,
            inter_broker_client_config,
        )

        core, config = self._core, self._config
        return ReplicaFetchers(
            broker_id=config.node_id,
            config=FetcherConfig(
                max_wait_ms=config.replica_fetch_wait_max_ms,
                min_bytes=config.replica_fetch_min_bytes,
                response_max_bytes=config.replica_fetch_response_max_bytes,
                partition_max_bytes=config.replica_fetch_max_bytes,
                backoff_ms=config.replica_fetch_backoff_ms,
                silence=_silence(config),
            ),
            fetchers_per_leader=config.num_replica_fetchers,
            broker_epoch=self._broker_epoch,
            clock=core.clock,
            find_broker=lambda broker_id: inter_broker_address(core.metadata.image.cluster, broker_id, core.config),
            client_config=lambda client_id: inter_broker_client_config(self._config, client_id=client_id),
            logs=self._logs,
            quota=self._quota,
        )


def _silence(config: NodeConfig) -> AttemptLimit:
    """Return the limit for one answer: the wait of the fetch, and for the rest the time of a heartbeat."""
    from barnabas.broker.attempt_limit import AttemptLimit

    limit_ms = config.replica_socket_timeout_ms
    first_ms = config.replica_fetch_wait_max_ms + max(config.broker_heartbeat_interval_ms, _SILENCE_MS_MIN)
    return AttemptLimit(min(first_ms, limit_ms), limit_ms)
