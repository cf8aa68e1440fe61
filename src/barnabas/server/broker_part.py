"""The broker of a node: the parts that ``broker`` in ``process.roles`` adds to the core."""

from __future__ import annotations

import asyncio
import os
import random
from functools import partial
from typing import TYPE_CHECKING
from uuid import UUID

from barnabas.broker.apis import SERVED_BY_BROKER
from barnabas.broker.apis.api_versions import is_offered
from barnabas.broker.auto_topic_creation import AutoTopicCreation
from barnabas.broker.broker import Broker
from barnabas.broker.fetch_session import FetchSessionCache
from barnabas.broker.group_service import GroupService
from barnabas.broker.lifecycle import BrokerLifecycle, to_listener
from barnabas.broker.producer_ids import ProducerIdAllocator
from barnabas.broker.replica_manager import ReplicaManager
from barnabas.broker.replication.replica_selector import RACK_AWARE_SELECTOR, RackAwareReplicaSelector
from barnabas.broker.replication.replication_quota import ReplicationQuota, ReplicationQuotas
from barnabas.broker.share_state_service import ShareStateService
from barnabas.broker.topic_defaults import TopicDefaultsPublisher
from barnabas.broker.transaction_service import TransactionService
from barnabas.broker.unsupported_feature_levels import FeatureNotices
from barnabas.common.topic_name import SHARE_STATE_TOPIC
from barnabas.common.uuid import Uuid
from barnabas.metadata.features import SUPPORTED_FEATURES
from barnabas.network.api_handler import HandlerTable
from barnabas.network.request_dispatcher import RequestDispatcher
from barnabas.server.broker.deferred_fetchers import DeferredFetchers
from barnabas.server.broker.deferred_share_partitions import DeferredSharePartitions
from barnabas.server.broker.inter_broker_requests import OtherBrokers
from barnabas.server.broker.log_dir_service import LogDirService, new_replica_directories
from barnabas.server.broker.log_maintenance import LogMaintenance
from barnabas.server.component_configs import (
    batch_limits,
    broker_settings,
    group_config,
    share_config,
    share_partition_config,
    transaction_config,
)
from barnabas.server.metadata_log.publisher_order import broker_followers
from barnabas.server.settings.dynamic_effects import (
    AssignmentIntervalEffect,
    CleanerEffect,
    ProducerIdEffect,
    VerificationEffect,
)
from barnabas.server.settings.encryption_keys import offered_features
from barnabas.server.settings.endpoints import SECURITY_PROTOCOLS
from barnabas.storage.file_pool import FilePool
from barnabas.storage.log_manager import LogManager

if TYPE_CHECKING:
    from barnabas.broker.broker_settings import BrokerSettings
    from barnabas.broker.isr_maintenance import LeaderReplicas
    from barnabas.broker.ports import ControllerChannel
    from barnabas.broker.share_group_service import ShareGroupService
    from barnabas.coordinator.share.persister import Persister
    from barnabas.metadata.image.cluster import ClusterImage
    from barnabas.network.request_metrics import ApiStats
    from barnabas.protocol.api_keys import ApiKey
    from barnabas.server.listeners.node_listeners import NodeListeners
    from barnabas.server.node_core import NodeCore
    from barnabas.server.settings.endpoints import Endpoint

__all__ = ["BrokerPart"]

_SHUTDOWN_TIMEOUT_S = 300.0
"""How long Kafka waits for a controller that answers. A silent controller is given up sooner."""


class BrokerPart:
    """``publishers`` and ``last_publishers`` are the broker's publishers of the metadata."""

    def __init__(self, core: NodeCore, channel: ControllerChannel) -> None:
        """``channel`` leads to the active controller."""
        config = core.config
        self._core = core
        self.channel = channel
        self.stats: dict[ApiKey, ApiStats] = {}
        self.logs = LogManager(
            config.log_dirs,
            default_config=config.topic_defaults,
            pool=FilePool(core.descriptors.files_max),
            producer_id_expiration_ms=config.producer_id_expiration_ms,
            directory_ids=core.identity.directory_ids,
            offline=core.identity.offline_log_dirs,
        )
        self.logs.startup(now_ms=core.clock.now_ms())
        leader_quota, follower_quota = self._new_replication_quota(), self._new_replication_quota()
        self.fetchers = DeferredFetchers(
            core,
            self.logs,
            broker_epoch=lambda: self.lifecycle.broker_epoch,
            quota=follower_quota,
        )
        self.replicas = ReplicaManager(
            broker_id=config.node_id,
            logs=self.logs,
            clock=core.clock,
            defaults=config.topic_defaults,
            fetchers=self.fetchers,
            leader_quota=leader_quota,
            new_directories=partial(new_replica_directories, core),
            new_leader_replicas=self._leader_replicas,
            threads=core.long_work.threads,
            batch_limits=batch_limits(config),
        )
        self.lifecycle = self._lifecycle()
        self.groups = GroupService(
            group_config(config),
            broker_id=config.node_id,
            replicas=self.replicas,
            clock=core.clock,
            new_uuid=lambda: str(UUID(bytes=os.urandom(16), version=4)),
            lease=self.lifecycle.lease,
            hurry_heartbeat=self.lifecycle.report_now,
        )
        self.others = OtherBrokers(core)
        self.producer_ids = ProducerIdAllocator(
            broker_id=config.node_id, broker_epoch=lambda: self.lifecycle.broker_epoch, controller=self.channel
        )
        self.transactions = TransactionService(
            transaction_config(config),
            broker_id=config.node_id,
            replicas=self.replicas,
            groups=self.groups,
            metadata=core.metadata,
            clock=core.clock,
            others=self.others,
            producer_ids=self.producer_ids,
        )
        self._share_coordinators = OtherBrokers(core)
        """Connections of their own: answers come in order, and writes of share state wait for replicas."""
        self.share_state = ShareStateService(
            share_config(config),
            broker_id=config.node_id,
            replicas=self.replicas,
            metadata=core.metadata,
            clock=core.clock,
            reads=self.groups.reads,
        )
        self.share_partitions = DeferredSharePartitions(
            share_partition_config(config),
            replicas=self.replicas,
            metadata=core.metadata,
            clock=core.clock,
            new_persister=lambda: self.broker.share_persister,
        )
        self.replication_quotas = ReplicationQuotas(
            broker_id=config.node_id,
            leader=leader_quota,
            follower=follower_quota,
            topic_config=self.replicas.topic_config,
        )
        self.log_dirs = LogDirService(core, self.replicas, channel, self.lifecycle)
        core.dynamic_settings.add_effect(self.log_dirs)
        self.maintenance = LogMaintenance(config, self.logs, self.replicas, core.clock)
        settings = broker_settings(config)
        core.dynamic_settings.add_effect(CleanerEffect(self.maintenance))
        core.dynamic_settings.add_effect(self.fetchers)
        core.dynamic_settings.add_effect(ProducerIdEffect(self.logs, settings))
        core.dynamic_settings.add_effect(VerificationEffect(settings))
        core.dynamic_settings.add_effect(AssignmentIntervalEffect(self.groups.coordinator.view.assignment_intervals_ms))
        self.broker = self._broker(settings)
        self.broker.lease = self.lifecycle.lease
        if config.barnabas_describe_configs_of_others:
            self.broker.other_brokers = self.others
        self._comparison: asyncio.Task[None] | None = None
        if config.replica_selector_class == RACK_AWARE_SELECTOR:
            self.broker.replica_selector = RackAwareReplicaSelector(core.metadata, config.node_id)
        self.connections = core.connection_quotas(config.broker_listeners, config.inter_broker_listener_name)
        defaults = TopicDefaultsPublisher(
            broker_id=config.node_id, static_configs=config.static, set_defaults=self.replicas.set_defaults
        )
        self.publishers = broker_followers(
            lifecycle=self.lifecycle,
            topic_defaults=defaults,
            replicas=self.replicas,
            replication_quotas=self.replication_quotas,
            groups=self.groups,
            transactions=self.transactions,
            share_state=self.share_state,
            share_partitions=self.share_partitions,
            log_dirs=self.log_dirs,
            feature_notices=FeatureNotices(is_served=lambda name: is_offered(self.broker, name)),
        )

    def _new_replication_quota(self) -> ReplicationQuota:
        config = self._core.config
        return ReplicationQuota(
            window_count=config.replication_quota_window_num,
            window_ms=config.replication_quota_window_size_seconds * 1000,
        )

    def _lifecycle(self) -> BrokerLifecycle:
        core, config = self._core, self._core.config
        return BrokerLifecycle(
            broker_id=config.node_id,
            cluster_id=core.identity.cluster_id,
            incarnation_id=Uuid(os.urandom(16)),
            rack=config.broker_rack,
            directory_ids=[directory.id for directory in self.logs.directories.online],
            features=offered_features(core.config_cipher),
            heartbeat_interval_ms=config.broker_heartbeat_interval_ms,
            session_timeout_ms=config.broker_session_timeout_ms,
            registration_timeout_ms=config.initial_broker_registration_timeout_ms,
            metadata_offset=lambda: core.applied.offset,
            catch_up=core.catch_up,
            controller=self.channel,
        )

    def _leader_replicas(self, cluster: ClusterImage) -> LeaderReplicas:
        from barnabas.broker.isr_maintenance import LeaderReplicas

        return LeaderReplicas(
            broker_id=self._core.config.node_id,
            broker_epoch=lambda: self.lifecycle.broker_epoch,
            cluster=cluster,
            controller=self.channel,
            clock=self._core.clock,
            replica_lag_time_max_ms=self._core.config.replica_lag_time_max_ms,
        )

    def _broker(self, settings: BrokerSettings) -> Broker:
        core, config = self._core, self._core.config
        topic_creation = AutoTopicCreation(settings=settings, controller=self.channel)
        return Broker(
            broker_id=config.node_id,
            cluster_id=core.identity.cluster_id,
            settings=settings,
            static_configs=config.static,
            served=SERVED_BY_BROKER,
            supported_features=SUPPORTED_FEATURES,
            kraft_version=lambda: core.kraft_version,
            metadata=core.metadata,
            replicas=self.replicas,
            fetch_sessions=FetchSessionCache(
                slots=config.max_incremental_fetch_session_cache_slots,
                eviction_ms=120_000,
                consumer_partitions_max=config.barnabas_fetch_sessions_max_partitions,
                new_session_id=lambda: random.randint(1, 2**31 - 1),
            ),
            controller=self.channel,
            dynamic_settings=core.dynamic_settings,
            producer_ids=self.producer_ids,
            topic_creation=topic_creation,
            groups=self.groups,
            transactions=self.transactions,
            share_state=self.share_state,
            new_share_persister=partial(self._new_share_persister, topic_creation),
            new_share_groups=self._new_share_groups,
            share_partitions=self.share_partitions.get,
            clock=core.clock,
            token_hmacs=core.token_hmacs,
        )

    def _new_share_persister(self, topic_creation: AutoTopicCreation) -> Persister:
        from barnabas.broker.share_persister import SharePersister

        return SharePersister(
            broker_id=self._core.config.node_id,
            service=self.share_state,
            metadata=self._core.metadata,
            others=self._share_coordinators,
            create_topic=partial(topic_creation.create_and_wait, (SHARE_STATE_TOPIC,), None),
        )

    def _new_share_groups(self, persister: Persister) -> ShareGroupService:
        from barnabas.broker.latest_offsets import LatestOffsets
        from barnabas.broker.share_group_service import ShareGroupService

        offsets = LatestOffsets(
            broker_id=self._core.config.node_id,
            replicas=self.replicas,
            metadata=self._core.metadata,
            others=self.others,
        )
        return ShareGroupService(self.groups, persister, offsets)

    # --- life, in the order of the calls

    async def bind(self, listeners: NodeListeners) -> None:
        core = self._core
        handlers = HandlerTable("barnabas.broker.apis", SERVED_BY_BROKER)
        for endpoint in core.config.broker_listeners:
            dispatcher = RequestDispatcher(
                server=self.broker,
                handlers=handlers,
                authorizer=core.authorizer,
                stats=self.stats,
                security_protocol=endpoint.security_protocol,
                limits=core.request_limits,
                work=core.long_work,
            )
            await listeners.open(endpoint, dispatcher, self.connections)

    def advertised(self, listeners: NodeListeners) -> list[Endpoint]:
        """The endpoints that clients receive."""
        return listeners.advertised(self._core.config.advertised_broker_listeners)

    async def join(self, listeners: NodeListeners) -> None:
        """Register and wait until the broker is unfenced. Raise ApiException if the controller refuses."""
        await self.lifecycle.register(
            [
                to_listener(
                    endpoint.listener,
                    endpoint.host,
                    endpoint.port,
                    SECURITY_PROTOCOLS.index(endpoint.security_protocol),
                )
                for endpoint in self.advertised(listeners)
            ],
            self.logs.previous_broker_epoch,
        )

    def start(self) -> None:
        """Start the work on this broker's partitions once the metadata is loaded."""
        self.replicas.settle_strays()
        self.log_dirs.start()
        self.groups.start()
        self.transactions.start()
        self.share_state.start()
        self.fetchers.start()
        self.maintenance.start()
        if len(self._core.metadata.image.cluster.brokers) > 1:
            from barnabas.server.broker.topic_default_check import compare_topic_defaults

            self._comparison = asyncio.get_running_loop().create_task(compare_topic_defaults(self._core, self.others))

    async def leave(self) -> None:
        if self._core.config.controlled_shutdown_enable:
            await self.lifecycle.shut_down(_SHUTDOWN_TIMEOUT_S)
        else:
            self.lifecycle.stop()

    async def stop(self) -> None:
        """Stop. The caller must have ended the requests before."""
        if self._comparison is not None:
            self._comparison.cancel()
        await self.fetchers.close()
        await self.log_dirs.close()
        await self.maintenance.stop()
        self.share_partitions.stop()
        self.replicas.close()
        self.transactions.stop()
        self.share_state.stop()
        await self.others.close()
        await self._share_coordinators.close()
        self.groups.stop()

    def close_logs(self) -> None:
        self.logs.shutdown(now_ms=self._core.clock.now_ms(), broker_epoch=self.lifecycle.broker_epoch)
