"""The part of a broker that holds data and coordinates groups, built from the product's parts as in ``BrokerPart``.

The product's dispatcher and handlers receive the requests of clients as frames. Only the parts that open sockets,
threads, or files outside the logs are omitted.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property, partial
from types import SimpleNamespace
from typing import TYPE_CHECKING

from barnabas.broker.apis import SERVED_BY_BROKER
from barnabas.broker.broker_settings import BrokerSettings
from barnabas.broker.fetch_session import FetchSessionCache
from barnabas.broker.group_service import GroupService
from barnabas.broker.isr_maintenance import LeaderReplicas
from barnabas.broker.latest_offsets import LatestOffsets
from barnabas.broker.producer_ids import ProducerIdAllocator
from barnabas.broker.replica_manager import ReplicaManager
from barnabas.broker.replication.replica_fetcher import FetcherConfig
from barnabas.broker.share.share_partition_config import SharePartitionConfig
from barnabas.broker.share_group_service import ShareGroupService
from barnabas.broker.share_persister import SharePersister
from barnabas.broker.share_state_service import ShareStateService
from barnabas.broker.streams_topic_creation import StreamsTopicCreation
from barnabas.broker.transaction_service import TransactionService
from barnabas.clients.client_config import Address
from barnabas.coordinator.group.group_coordinator_config import GroupCoordinatorConfig
from barnabas.coordinator.share.share_coordinator_config import ShareCoordinatorConfig
from barnabas.coordinator.transaction.transaction_coordinator_config import TransactionCoordinatorConfig
from barnabas.network.api_handler import HandlerTable
from barnabas.network.request_dispatcher import RequestDispatcher
from barnabas.server.broker.deferred_share_partitions import DeferredSharePartitions
from barnabas.server.broker.log_dir_service import new_replica_directories
from barnabas.server.broker.replica_fetcher_manager import ReplicaFetchers
from tests.simulation.cluster.log_directories import directories_core, directory_service, maintenance, topic_defaults
from tests.simulation.cluster.other_brokers import SimulatedBrokers

if TYPE_CHECKING:
    from barnabas.broker.share.share_partition_manager import SharePartitionManager
    from barnabas.metadata.image.cluster import ClusterImage
    from barnabas.storage.log_manager import LogManager
    from tests.simulation.cluster.node import SimulatedNode

__all__ = ["BrokerData"]

OFFSETS_PARTITIONS = 2
CREATION_TIMEOUT_MS = 5000


class _Broker(SimpleNamespace):
    """What handlers use of a broker. As there, share groups cost nothing before their first request."""

    def __init__(self, data: BrokerData, **attributes: object) -> None:
        super().__init__(**attributes)
        self._data = data

    @property
    def share_persister(self) -> SharePersister:
        return self._data.share_persister

    @property
    def share_groups(self) -> ShareGroupService:
        return self._data.share_groups

    @property
    def share_partitions(self) -> SharePartitionManager:
        return self._data.share_partitions.get()


async def _created_by_clients() -> None:
    """Take the place of a request to create ``__share_group_state``."""


class BrokerData:
    def __init__(self, node: SimulatedNode, logs: LogManager) -> None:
        draw = node.draw
        assert node.lifecycle is not None
        self._node = node
        self.is_open = False
        """Whether its listener accepts requests: the broker is registered and has the metadata up to that."""
        self.logs = logs
        self.producer_ids = ProducerIdAllocator(
            broker_id=node.id, broker_epoch=self._broker_epoch, controller=node.channel
        )
        self.fetchers = self._fetchers()
        core = directories_core(node)
        self.replicas = ReplicaManager(
            broker_id=node.id,
            logs=self.logs,
            clock=node.clock,
            defaults=topic_defaults(node),
            fetchers=self.fetchers,
            new_directories=partial(new_replica_directories, core),
            new_leader_replicas=self._leader_replicas,
        )
        self.log_dirs = directory_service(node, core, self.replicas)
        self.maintenance = maintenance(node, self.replicas)
        self.groups = GroupService(
            _group_coordinator_config(node),
            broker_id=node.id,
            replicas=self.replicas,
            clock=node.clock,
            new_uuid=lambda: draw.randbytes(8).hex(),
            lease=node.lifecycle.lease,
            hurry_heartbeat=node.lifecycle.report_now,
        )
        shape = node.world.shape.transactions
        self.transactions = TransactionService(
            TransactionCoordinatorConfig() if shape is None else shape.coordinator_config,
            broker_id=node.id,
            replicas=self.replicas,
            groups=self.groups,
            metadata=node.cache,
            clock=node.clock,
            others=SimulatedBrokers(node),
            producer_ids=self.producer_ids,
        )
        share = node.world.shape.share_groups
        self.share_state = ShareStateService(
            ShareCoordinatorConfig() if share is None else share.coordinator_config,
            broker_id=node.id,
            replicas=self.replicas,
            metadata=node.cache,
            clock=node.clock,
            reads=self.groups.reads,
        )
        self.share_partitions = DeferredSharePartitions(
            SharePartitionConfig() if share is None else share.partition_config,
            replicas=self.replicas,
            metadata=node.cache,
            clock=node.clock,
            new_persister=lambda: self.share_persister,
        )
        self.dispatcher = self._dispatcher()

    @cached_property
    def share_persister(self) -> SharePersister:
        node = self._node
        return SharePersister(
            broker_id=node.id,
            service=self.share_state,
            metadata=node.cache,
            others=SimulatedBrokers(node),
            create_topic=_created_by_clients,
        )

    @cached_property
    def share_groups(self) -> ShareGroupService:
        node = self._node
        offsets = LatestOffsets(
            broker_id=node.id, replicas=self.replicas, metadata=node.cache, others=SimulatedBrokers(node)
        )
        return ShareGroupService(self.groups, self.share_persister, offsets)

    def _broker_epoch(self) -> int:
        lifecycle = self._node.lifecycle
        return -1 if lifecycle is None else lifecycle.broker_epoch

    def _leader_replicas(self, cluster: ClusterImage) -> LeaderReplicas:
        node = self._node
        return LeaderReplicas(
            broker_id=node.id,
            broker_epoch=self._broker_epoch,
            cluster=cluster,
            controller=node.channel,
            clock=node.clock,
            replica_lag_time_max_ms=node.world.shape.replica_lag_ms,
        )

    def _fetchers(self) -> ReplicaFetchers:
        node = self._node

        def find(broker_id: int) -> Address | None:
            return Address(f"n{broker_id}", 9092) if broker_id in node.loader.image.cluster.brokers else None

        return ReplicaFetchers(
            broker_id=node.id,
            config=FetcherConfig(max_wait_ms=100, backoff_ms=50),
            fetchers_per_leader=1,
            broker_epoch=self._broker_epoch,
            clock=node.clock,
            find_broker=find,
            client_config=lambda client_id: node,  # type: ignore[arg-type, return-value]
            logs=self.logs,
        )

    def _dispatcher(self) -> RequestDispatcher:
        node = self._node
        broker = _Broker(
            self,
            broker_id=node.id,
            settings=BrokerSettings(),
            served=SERVED_BY_BROKER,
            metadata=node.cache,
            replicas=self.replicas,
            groups=self.groups,
            transactions=self.transactions,
            producer_ids=self.producer_ids,
            clock=node.clock,
            controller=node.channel,
            fetch_sessions=FetchSessionCache(
                slots=100, eviction_ms=120_000, new_session_id=lambda: node.draw.randrange(1, 1 << 31)
            ),
            quotas=None,
            token_hmacs=None,
            lease=node.lifecycle.lease,
            share_state=self.share_state,
            topic_creation=SimpleNamespace(
                of_streams=StreamsTopicCreation(controller=node.channel, timeout_ms=CREATION_TIMEOUT_MS)
            ),
        )
        return RequestDispatcher(
            server=broker,
            handlers=HandlerTable("barnabas.broker.apis", SERVED_BY_BROKER),
            authorizer=node.authorizer,
            stats={},
        )

    def start(self) -> None:
        """Start serving, after the broker has caught up with the metadata."""
        self.replicas.settle_strays()
        self.log_dirs.start()
        self.groups.start()
        self.transactions.start()
        self.share_state.start()
        self.fetchers.start()
        self.maintenance.start()
        self.is_open = True

    async def stop(self) -> None:
        """Stop as after SIGTERM. Requests no longer arrive."""
        await self.fetchers.close()
        await self.log_dirs.close()
        await self.maintenance.stop()
        self.share_partitions.stop()
        self.replicas.close()
        self.transactions.stop()
        self.share_state.stop()
        self.groups.stop()
        lifecycle = self._node.lifecycle  # This process's: an earlier process's epoch would make a crash look clean.
        self.logs.shutdown(
            now_ms=self._node.clock.now_ms(), broker_epoch=-1 if lifecycle is None else lifecycle.broker_epoch
        )


def _group_coordinator_config(node: SimulatedNode) -> GroupCoordinatorConfig:
    config = GroupCoordinatorConfig(
        group_initial_rebalance_delay_ms=100,
        group_min_session_timeout_ms=500,
        offsets_topic_num_partitions=OFFSETS_PARTITIONS,
    )
    shape, share = node.world.shape.consumer_groups, node.world.shape.share_groups
    streams = node.world.shape.streams_groups
    if streams is not None:
        return replace(
            config,
            group_streams_session_timeout_ms=streams.session_ms,
            group_streams_assignment_interval_ms=streams.assignment_interval_ms,
            group_streams_initial_rebalance_delay_ms=streams.initial_delay_ms,
            group_streams_num_standby_replicas=streams.standby_replicas,
            group_streams_heartbeat_interval_ms=300,
        )
    if share is not None:
        return replace(
            config,
            group_share_session_timeout_ms=share.session_ms,
            group_share_assignment_interval_ms=share.assignment_interval_ms,
            group_share_initialize_retry_interval_ms=1000,
        )
    if shape is None:
        return config
    return replace(
        config,
        group_consumer_session_timeout_ms=shape.session_ms,
        group_consumer_assignment_interval_ms=shape.assignment_interval_ms,
        group_consumer_regex_refresh_interval_ms=10 * shape.regex_pause_ms,
    )
