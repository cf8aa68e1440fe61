"""The parts of a broker that its API handlers use, in one object."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from barnabas.broker.unsupported_requests import MissingFeatures

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from barnabas.broker.auto_topic_creation import AutoTopicCreation
    from barnabas.broker.broker_settings import BrokerSettings
    from barnabas.broker.client_quotas import ClientQuotas
    from barnabas.broker.fetch_session import FetchSessionCache
    from barnabas.broker.group_service import GroupService
    from barnabas.broker.metadata_cache import MetadataCache
    from barnabas.broker.ports import ControllerChannel, DynamicSettings, OtherBrokers
    from barnabas.broker.producer_ids import ProducerIdAllocator
    from barnabas.broker.replica_manager import ReplicaManager
    from barnabas.broker.replication.replica_selector import RackAwareReplicaSelector
    from barnabas.broker.session_lease import SessionLease
    from barnabas.broker.share.share_partition_manager import SharePartitionManager
    from barnabas.broker.share_group_service import ShareGroupService
    from barnabas.broker.share_state_service import ShareStateService
    from barnabas.broker.transaction_service import TransactionService
    from barnabas.common.clock import Clock
    from barnabas.coordinator.share.persister import Persister
    from barnabas.protocol.api_keys import ApiKey
    from barnabas.security.delegation_tokens import TokenHmacs

__all__ = ["Broker"]


class Broker:
    """Created by ``server``. Handlers reach all state through it and keep none of their own."""

    def __init__(
        self,
        *,
        broker_id: int,
        cluster_id: str,
        settings: BrokerSettings,
        static_configs: Mapping[str, str],
        served: Mapping[ApiKey, tuple[int, int]],
        supported_features: Mapping[str, tuple[int, int]],
        kraft_version: Callable[[], int],
        metadata: MetadataCache,
        replicas: ReplicaManager,
        fetch_sessions: FetchSessionCache,
        controller: ControllerChannel,
        dynamic_settings: DynamicSettings,
        producer_ids: ProducerIdAllocator,
        topic_creation: AutoTopicCreation,
        groups: GroupService,
        transactions: TransactionService,
        share_state: ShareStateService,
        new_share_persister: Callable[[], Persister],
        new_share_groups: Callable[[Persister], ShareGroupService],
        share_partitions: Callable[[], SharePartitionManager],
        clock: Clock,
        token_hmacs: TokenHmacs | None = None,
    ) -> None:
        self.broker_id = broker_id
        self.cluster_id = cluster_id
        self.settings = settings
        self.static_configs = static_configs
        self.served = served
        self.supported_features = supported_features
        self.kraft_version = kraft_version
        self.metadata = metadata
        self.replicas = replicas
        self.fetch_sessions = fetch_sessions
        self.controller = controller
        self.dynamic_settings = dynamic_settings
        self.producer_ids = producer_ids
        self.topic_creation = topic_creation
        self.groups = groups
        self.transactions = transactions
        self.share_state = share_state
        self._new_share_persister = new_share_persister
        self._new_share_groups = new_share_groups
        self._share_partitions = share_partitions
        self.clock = clock
        self.token_hmacs = token_hmacs
        """None while delegation tokens are disabled."""
        self.lease: SessionLease | None = None
        """None if this broker cannot determine whether another broker leads instead."""
        self.missing_features = MissingFeatures()
        self.other_brokers: OtherBrokers | None = None
        """None if clients may not request the settings of other brokers from this broker."""
        self.quotas: ClientQuotas | None = None
        """None while no client quota is set."""
        self.replica_selector: RackAwareReplicaSelector | None = None
        """Chooses followers that consumers read from. None: consumers read from the leader."""

    @cached_property
    def share_persister(self) -> Persister:
        """Keeps the state of the share-partitions that this broker leads, and of those of the groups it coordinates."""
        return self._new_share_persister()

    @cached_property
    def share_groups(self) -> ShareGroupService:
        """Serves the share groups that this broker coordinates."""
        return self._new_share_groups(self.share_persister)

    @property
    def share_partitions(self) -> SharePartitionManager:
        """They are loaded with the first request of a share group."""
        return self._share_partitions()
