"""Derives the configuration of each part of a node from the node's settings: one function per part."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from barnabas.broker.broker_settings import BrokerSettings
from barnabas.broker.internal_topics import InternalTopic
from barnabas.broker.share.share_partition_config import Bounds, SharePartitionConfig
from barnabas.common.topic_name import GROUP_METADATA_TOPIC, SHARE_STATE_TOPIC, TRANSACTION_STATE_TOPIC
from barnabas.controller.controller_config import ControllerConfig
from barnabas.coordinator.group.group_coordinator_config import GroupCoordinatorConfig, MigrationPolicy
from barnabas.coordinator.share.share_coordinator_config import ShareCoordinatorConfig
from barnabas.coordinator.transaction.transaction_coordinator_config import TransactionCoordinatorConfig
from barnabas.network.request_limits import RequestLimits, bytes_by_api
from barnabas.protocol.compression import Compression
from barnabas.protocol.produce_validation import BatchLimits
from barnabas.raft.raft_config import RaftConfig
from barnabas.raft.replica_key import ReplicaKey
from barnabas.raft.voter_set import Endpoint as RaftEndpoint
from barnabas.raft.voter_set import VoterNode, VoterSet
from barnabas.server.controller.quorum_handlers import SERVED_BY_CONTROLLER
from barnabas.server.quorum.raft_recovery import MetadataLogConfig

if TYPE_CHECKING:
    from barnabas.security.config_cipher import ConfigCipher
    from barnabas.server.controller.policy_worker import Policies
    from barnabas.server.node_identity import NodeIdentity
    from barnabas.server.settings.node_config import NodeConfig

__all__ = [
    "batch_limits",
    "broker_settings",
    "controller_config",
    "group_config",
    "metadata_log_config",
    "raft_config",
    "request_limits",
    "share_config",
    "share_partition_config",
    "transaction_config",
]


def request_limits(config: NodeConfig) -> RequestLimits:
    return RequestLimits(
        bytes_max=config.socket_request_max_bytes,
        usual_bytes_max=config.barnabas_request_max_bytes,
        overrides=bytes_by_api(config.barnabas_request_max_bytes_overrides),
        before_login_bytes_max=config.barnabas_request_max_bytes_before_login,
        elements=config.barnabas_request_max_elements,
        elements_in_parts=config.barnabas_request_max_elements_in_parts,
        elements_of_brokers=config.barnabas_request_max_elements_of_brokers,
        tagged_fields=config.barnabas_request_max_tagged_fields,
    )


def batch_limits(config: NodeConfig) -> BatchLimits:
    return BatchLimits(
        headers=config.barnabas_batch_max_headers,
        record_headers=config.barnabas_record_max_headers,
        decompressed_bytes=config.barnabas_batch_max_decompressed_bytes,
    )


def raft_config(config: NodeConfig, identity: NodeIdentity) -> RaftConfig:
    return RaftConfig(
        node_id=config.node_id,
        directory_id=identity.metadata_directory_id,
        cluster_id=identity.cluster_id,
        can_be_voter=config.is_controller,
        listener_name=config.first_controller_listener,
        listeners=_own_endpoints(config),
        bootstrap_servers=_bootstrap_servers(config),
        election_timeout_ms=config.controller_quorum_election_timeout_ms,
        fetch_timeout_ms=config.controller_quorum_fetch_timeout_ms,
        election_backoff_max_ms=config.controller_quorum_election_backoff_max_ms,
        joins_by_itself=config.controller_quorum_auto_join_enable,
        append_linger_ms=config.controller_quorum_append_linger_ms,
        request_timeout_ms=config.controller_quorum_request_timeout_ms,
        retry_backoff_ms=config.controller_quorum_retry_backoff_ms,
        fetch_max_bytes=config.controller_quorum_fetch_max_bytes,
        fetch_snapshot_max_bytes=config.controller_quorum_fetch_snapshot_max_bytes,
        static_voters=_static_voters(config),
    )


def metadata_log_config(config: NodeConfig) -> MetadataLogConfig:
    return MetadataLogConfig(
        directory=config.metadata_log_dir,
        segment_bytes=config.metadata_log_segment_bytes,
        segment_ms=config.metadata_log_segment_ms,
        retention_bytes=config.metadata_max_retention_bytes,
        retention_ms=config.metadata_max_retention_ms,
    )


def controller_config(
    config: NodeConfig, identity: NodeIdentity, policies: Policies | None, config_cipher: ConfigCipher | None
) -> ControllerConfig:
    return ControllerConfig(
        node_id=config.node_id,
        cluster_id=identity.cluster_id,
        num_partitions=config.num_partitions,
        default_replication_factor=config.default_replication_factor,
        min_insync_replicas=config.min_insync_replicas,
        delegation_token_expiry_check_interval_ms=config.delegation_token_expiry_check_interval_ms,
        delegation_token_expiry_time_ms=config.delegation_token_expiry_time_ms,
        delegation_token_max_lifetime_ms=config.delegation_token_max_lifetime_ms,
        delegation_token_secret_key=config.delegation_token_secret_key,
        delegation_token_max_renewers=config.barnabas_delegation_token_max_renewers,
        delegation_tokens_max_per_owner=config.barnabas_delegation_tokens_max_per_owner,
        delete_topic_enable=config.delete_topic_enable,
        broker_session_timeout_ms=config.broker_session_timeout_ms,
        metadata_max_idle_interval_ms=config.metadata_max_idle_interval_ms,
        auto_leader_rebalance_enable=config.auto_leader_rebalance_enable,
        leader_imbalance_check_interval_s=config.leader_imbalance_check_interval_seconds,
        unclean_leader_election_interval_ms=config.unclean_leader_election_interval_ms,
        served=SERVED_BY_CONTROLLER,
        static_configs=config.static,
        legacy_alter_merges=config.barnabas_legacy_alter_mode == "merge",
        create_topic_policy=None if policies is None or policies.create is None else policies.gate,
        alter_config_policy=None if policies is None or policies.alter is None else policies.gate,
        protect_access_audit=config.barnabas_audit_topic_enable,
        config_cipher=config_cipher,
        mutation_quota_window_count=config.controller_quota_window_num,
        mutation_quota_window_s=config.controller_quota_window_size_seconds,
    )


def broker_settings(config: NodeConfig) -> BrokerSettings:
    return BrokerSettings(
        auto_create_topics_enable=config.auto_create_topics_enable,
        autocreate_fails_fast=config.barnabas_metadata_autocreate_fail_fast,
        num_partitions=config.num_partitions if "num.partitions" in config.static else -1,
        default_replication_factor=(
            config.default_replication_factor if "default.replication.factor" in config.static else -1
        ),
        fetch_max_bytes=config.fetch_max_bytes,
        inter_broker_listener_name=config.inter_broker_listener_name,
        legacy_alter_merges=config.barnabas_legacy_alter_mode == "merge",
        max_incremental_fetch_session_cache_slots=config.max_incremental_fetch_session_cache_slots,
        max_request_partition_size_limit=config.max_request_partition_size_limit,
        internal_topics=_internal_topics(config),
        producer_id_expiration_ms=config.producer_id_expiration_ms,
        transaction_partition_verification_enable=config.transaction_partition_verification_enable,
    )


def _internal_topics(config: NodeConfig) -> dict[str, InternalTopic]:
    return {
        GROUP_METADATA_TOPIC: InternalTopic(
            config.offsets_topic_num_partitions,
            config.offsets_topic_replication_factor,
            config.offsets_topic_segment_bytes,
        ),
        TRANSACTION_STATE_TOPIC: InternalTopic(
            config.transaction_state_log_num_partitions,
            config.transaction_state_log_replication_factor,
            config.transaction_state_log_segment_bytes,
            config.transaction_state_log_min_isr,
        ),
        SHARE_STATE_TOPIC: InternalTopic(
            config.share_coordinator_state_topic_num_partitions,
            config.share_coordinator_state_topic_replication_factor,
            config.share_coordinator_state_topic_segment_bytes,
            config.share_coordinator_state_topic_min_isr,
        ),
    }


def group_config(config: NodeConfig) -> GroupCoordinatorConfig:
    return GroupCoordinatorConfig(
        group_initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
        group_min_session_timeout_ms=config.group_min_session_timeout_ms,
        group_max_session_timeout_ms=config.group_max_session_timeout_ms,
        group_max_size=config.group_max_size,
        group_max_pending_members=config.barnabas_group_max_pending_members,
        groups_max_pending_members=config.barnabas_groups_max_pending_members,
        offset_metadata_max_bytes=config.offset_metadata_max_bytes,
        offsets_commit_timeout_ms=config.offsets_commit_timeout_ms,
        offsets_retention_minutes=config.offsets_retention_minutes,
        offsets_retention_check_interval_ms=config.offsets_retention_check_interval_ms,
        offsets_topic_num_partitions=config.offsets_topic_num_partitions,
        serves_consumer_groups="consumer" in config.group_coordinator_rebalance_protocols,
        group_consumer_assignment_interval_ms=config.group_consumer_assignment_interval_ms,
        group_consumer_assignors=tuple(config.group_consumer_assignors),
        group_consumer_heartbeat_interval_ms=config.group_consumer_heartbeat_interval_ms,
        group_consumer_max_assignment_interval_ms=config.group_consumer_max_assignment_interval_ms,
        group_consumer_max_heartbeat_interval_ms=config.group_consumer_max_heartbeat_interval_ms,
        group_consumer_max_session_timeout_ms=config.group_consumer_max_session_timeout_ms,
        group_consumer_max_size=config.group_consumer_max_size,
        group_consumer_migration_policy=MigrationPolicy(config.group_consumer_migration_policy.lower()),
        group_consumer_min_assignment_interval_ms=config.group_consumer_min_assignment_interval_ms,
        group_consumer_min_heartbeat_interval_ms=config.group_consumer_min_heartbeat_interval_ms,
        group_consumer_min_session_timeout_ms=config.group_consumer_min_session_timeout_ms,
        group_consumer_regex_refresh_interval_ms=config.group_consumer_regex_refresh_interval_ms,
        group_consumer_session_timeout_ms=config.group_consumer_session_timeout_ms,
        group_share_assignment_interval_ms=config.group_share_assignment_interval_ms,
        group_share_heartbeat_interval_ms=config.group_share_heartbeat_interval_ms,
        group_share_initialize_retry_interval_ms=config.group_share_initialize_retry_interval_ms,
        group_share_max_assignment_interval_ms=config.group_share_max_assignment_interval_ms,
        group_share_max_heartbeat_interval_ms=config.group_share_max_heartbeat_interval_ms,
        group_share_max_session_timeout_ms=config.group_share_max_session_timeout_ms,
        group_share_max_size=config.group_share_max_size,
        group_share_min_assignment_interval_ms=config.group_share_min_assignment_interval_ms,
        group_share_min_heartbeat_interval_ms=config.group_share_min_heartbeat_interval_ms,
        group_share_min_session_timeout_ms=config.group_share_min_session_timeout_ms,
        group_share_session_timeout_ms=config.group_share_session_timeout_ms,
        serves_streams_groups="streams" in config.group_coordinator_rebalance_protocols,
        group_streams_assignment_interval_ms=config.group_streams_assignment_interval_ms,
        group_streams_heartbeat_interval_ms=config.group_streams_heartbeat_interval_ms,
        group_streams_initial_rebalance_delay_ms=config.group_streams_initial_rebalance_delay_ms,
        group_streams_max_assignment_interval_ms=config.group_streams_max_assignment_interval_ms,
        group_streams_max_heartbeat_interval_ms=config.group_streams_max_heartbeat_interval_ms,
        group_streams_max_session_timeout_ms=config.group_streams_max_session_timeout_ms,
        group_streams_max_size=config.group_streams_max_size,
        group_streams_max_standby_replicas=config.group_streams_max_standby_replicas,
        group_streams_min_assignment_interval_ms=config.group_streams_min_assignment_interval_ms,
        group_streams_min_heartbeat_interval_ms=config.group_streams_min_heartbeat_interval_ms,
        group_streams_min_session_timeout_ms=config.group_streams_min_session_timeout_ms,
        group_streams_num_standby_replicas=config.group_streams_num_standby_replicas,
        group_streams_session_timeout_ms=config.group_streams_session_timeout_ms,
    )


def share_partition_config(config: NodeConfig) -> SharePartitionConfig:
    return SharePartitionConfig(
        record_lock_duration_ms=Bounds(
            config.group_share_record_lock_duration_ms,
            config.group_share_min_record_lock_duration_ms,
            config.group_share_max_record_lock_duration_ms,
        ),
        delivery_count_limit=Bounds(
            config.group_share_delivery_count_limit,
            config.group_share_min_delivery_count_limit,
            config.group_share_max_delivery_count_limit,
        ),
        partition_max_record_locks=Bounds(
            config.group_share_partition_max_record_locks,
            config.group_share_min_partition_max_record_locks,
            config.group_share_max_partition_max_record_locks,
        ),
        max_share_sessions=config.group_share_max_share_sessions,
    )


def transaction_config(config: NodeConfig) -> TransactionCoordinatorConfig:
    return TransactionCoordinatorConfig(
        transaction_max_timeout_ms=config.transaction_max_timeout_ms,
        transactional_id_expiration_ms=config.transactional_id_expiration_ms,
        transaction_abort_timed_out_transaction_cleanup_interval_ms=(
            config.transaction_abort_timed_out_transaction_cleanup_interval_ms
        ),
        transaction_remove_expired_transaction_cleanup_interval_ms=(
            config.transaction_remove_expired_transaction_cleanup_interval_ms
        ),
        transaction_state_log_num_partitions=config.transaction_state_log_num_partitions,
        add_partitions_to_txn_retry_backoff_ms=config.add_partitions_to_txn_retry_backoff_ms,
        add_partitions_to_txn_retry_backoff_max_ms=config.add_partitions_to_txn_retry_backoff_max_ms,
    )


def share_config(config: NodeConfig) -> ShareCoordinatorConfig:
    return ShareCoordinatorConfig(
        share_coordinator_state_topic_num_partitions=config.share_coordinator_state_topic_num_partitions,
        share_coordinator_state_topic_compression_codec=Compression(
            config.share_coordinator_state_topic_compression_codec
        ),
        share_coordinator_snapshot_update_records_per_snapshot=(
            config.share_coordinator_snapshot_update_records_per_snapshot
        ),
        share_coordinator_cold_partition_snapshot_interval_ms=(
            config.share_coordinator_cold_partition_snapshot_interval_ms
        ),
        share_coordinator_state_topic_prune_interval_ms=config.share_coordinator_state_topic_prune_interval_ms,
        share_coordinator_write_timeout_ms=config.share_coordinator_write_timeout_ms,
    )


def _static_voters(config: NodeConfig) -> VoterSet:
    """Return controller.quorum.voters. Empty if the log of the quorum defines its voters."""
    listener = config.first_controller_listener
    return VoterSet(
        VoterNode(ReplicaKey(voter.id), {listener: RaftEndpoint(voter.host, voter.port)})
        for voter in config.quorum_voters
    )


def _own_endpoints(config: NodeConfig) -> dict[str, RaftEndpoint]:
    """Return the endpoints that other replicas receive. Omits a listener whose port the system chooses."""
    return {
        endpoint.listener: RaftEndpoint(endpoint.host or socket.getfqdn(), endpoint.port)
        for endpoint in config.advertised_controller_listeners
        if endpoint.port
    }


def _bootstrap_servers(config: NodeConfig) -> tuple[RaftEndpoint, ...]:
    return tuple(RaftEndpoint(server.host, server.port) for server in config.quorum_bootstrap_servers)
