"""The settings of a controller's node that its decisions depend on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from barnabas.common.config_value import Password
from barnabas.controller.policies import PolicyGate
from barnabas.metadata.features import SUPPORTED_FEATURES, VersionRange
from barnabas.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from barnabas.security.config_cipher import ConfigCipher

__all__ = ["ControllerConfig"]


class ControllerConfig:
    """``static_configs`` holds what the configuration file sets explicitly, as text by broker setting."""

    __slots__ = (
        "alter_config_policy",
        "auto_leader_rebalance_enable",
        "broker_session_timeout_ms",
        "cluster_id",
        "config_cipher",
        "create_topic_policy",
        "default_replication_factor",
        "delegation_token_expiry_check_interval_ms",
        "delegation_token_expiry_time_ms",
        "delegation_token_max_lifetime_ms",
        "delegation_token_max_renewers",
        "delegation_token_secret_key",
        "delegation_tokens_max_per_owner",
        "delete_topic_enable",
        "leader_imbalance_check_interval_s",
        "legacy_alter_merges",
        "max_records_per_batch",
        "metadata_max_idle_interval_ms",
        "min_insync_replicas",
        "mutation_quota_window_count",
        "mutation_quota_window_s",
        "node_id",
        "num_partitions",
        "protect_access_audit",
        "remote_storage_system_enable",
        "served",
        "static_configs",
        "supported_features",
        "unclean_leader_election_interval_ms",
    )

    def __init__(
        self,
        *,
        node_id: int,
        cluster_id: str,
        num_partitions: int = 1,
        default_replication_factor: int = 1,
        min_insync_replicas: int = 1,
        delegation_token_expiry_check_interval_ms: int = 3_600_000,
        delegation_token_expiry_time_ms: int = 86_400_000,
        delegation_token_max_lifetime_ms: int = 604_800_000,
        delegation_token_secret_key: Password | None = None,
        delegation_token_max_renewers: int = 100,
        delegation_tokens_max_per_owner: int = 500,
        delete_topic_enable: bool = True,
        broker_session_timeout_ms: int = 9_000,
        auto_leader_rebalance_enable: bool = True,
        leader_imbalance_check_interval_s: int = 300,
        unclean_leader_election_interval_ms: int = 300_000,
        metadata_max_idle_interval_ms: int = 500,
        legacy_alter_merges: bool = False,
        max_records_per_batch: int = 10_000,
        mutation_quota_window_count: int = 11,
        mutation_quota_window_s: int = 1,
        remote_storage_system_enable: bool = False,
        served: Mapping[ApiKey, tuple[int, int]] | None = None,
        static_configs: Mapping[str, str] | None = None,
        supported_features: Mapping[str, VersionRange] = SUPPORTED_FEATURES,
        create_topic_policy: PolicyGate | None = None,
        alter_config_policy: PolicyGate | None = None,
        protect_access_audit: bool = False,
        config_cipher: ConfigCipher | None = None,
    ) -> None:
        self.node_id = node_id
        self.cluster_id = cluster_id
        self.num_partitions = num_partitions
        self.default_replication_factor = default_replication_factor
        self.min_insync_replicas = min_insync_replicas
        self.delegation_token_expiry_check_interval_ms = delegation_token_expiry_check_interval_ms
        self.delegation_token_expiry_time_ms = delegation_token_expiry_time_ms
        self.delegation_token_max_lifetime_ms = delegation_token_max_lifetime_ms
        self.delegation_token_secret_key = delegation_token_secret_key
        """Without it delegation tokens are disabled."""
        self.delegation_token_max_renewers = delegation_token_max_renewers
        self.delegation_tokens_max_per_owner = delegation_tokens_max_per_owner
        self.delete_topic_enable = delete_topic_enable
        self.broker_session_timeout_ms = broker_session_timeout_ms
        self.auto_leader_rebalance_enable = auto_leader_rebalance_enable
        self.leader_imbalance_check_interval_s = leader_imbalance_check_interval_s
        self.unclean_leader_election_interval_ms = unclean_leader_election_interval_ms
        self.metadata_max_idle_interval_ms = metadata_max_idle_interval_ms
        self.legacy_alter_merges = legacy_alter_merges
        """Whether AlterConfigs keeps the settings that it does not name."""
        self.max_records_per_batch = max_records_per_batch
        self.mutation_quota_window_count = mutation_quota_window_count
        self.mutation_quota_window_s = mutation_quota_window_s
        self.remote_storage_system_enable = remote_storage_system_enable
        self.served: Mapping[ApiKey, tuple[int, int]] = served or {}
        """The API versions that the controller's listeners advertise."""
        self.static_configs: Mapping[str, str] = static_configs or {}
        self.supported_features = supported_features
        self.create_topic_policy = create_topic_policy
        """Without it every topic may be created; likewise without the policy for configs."""
        self.alter_config_policy = alter_config_policy
        self.config_cipher = config_cipher
        """Encrypts sensitive configs in the log; without it they are stored in clear text."""
        self.protect_access_audit = protect_access_audit
        """Whether the topic of the access audit may not be deleted."""
