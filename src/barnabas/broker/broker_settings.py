"""The settings that a broker's request handlers read, built from the node's configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from barnabas.broker.internal_topics import InternalTopic

__all__ = ["BrokerSettings"]


class BrokerSettings:
    """Names are Kafka's with underscores; units are in the names."""

    __slots__ = (
        "auto_create_topics_enable",
        "autocreate_fails_fast",
        "default_replication_factor",
        "fetch_max_bytes",
        "inter_broker_listener_name",
        "internal_topics",
        "legacy_alter_merges",
        "max_incremental_fetch_session_cache_slots",
        "max_request_partition_size_limit",
        "num_partitions",
        "producer_id_expiration_ms",
        "request_timeout_ms",
        "transaction_partition_verification_enable",
    )

    def __init__(
        self,
        *,
        auto_create_topics_enable: bool = True,
        autocreate_fails_fast: bool = False,
        num_partitions: int = -1,
        default_replication_factor: int = -1,
        fetch_max_bytes: int = 57671680,
        inter_broker_listener_name: str = "PLAINTEXT",
        internal_topics: Mapping[str, InternalTopic] | None = None,
        legacy_alter_merges: bool = False,
        max_incremental_fetch_session_cache_slots: int = 1000,
        max_request_partition_size_limit: int = 2000,
        producer_id_expiration_ms: int = 86400000,
        request_timeout_ms: int = 30000,
        transaction_partition_verification_enable: bool = True,
    ) -> None:
        self.auto_create_topics_enable = auto_create_topics_enable
        self.autocreate_fails_fast = autocreate_fails_fast
        self.num_partitions = num_partitions
        """The number of partitions of topics that are created on demand; -1 lets the controller choose."""
        self.default_replication_factor = default_replication_factor
        self.fetch_max_bytes = fetch_max_bytes
        self.inter_broker_listener_name = inter_broker_listener_name
        self.internal_topics = internal_topics or {}
        """Partitions and replicas of internal topics, by name. Other internal topics have Kafka's defaults."""
        self.legacy_alter_merges = legacy_alter_merges
        """Whether AlterConfigs keeps the configs that the request does not name."""
        self.max_incremental_fetch_session_cache_slots = max_incremental_fetch_session_cache_slots
        self.max_request_partition_size_limit = max_request_partition_size_limit
        self.producer_id_expiration_ms = producer_id_expiration_ms
        self.request_timeout_ms = request_timeout_ms
        self.transaction_partition_verification_enable = transaction_partition_verification_enable
