"""The codes in requests and responses about configs (KIP-133, KIP-226, KIP-339)."""

from __future__ import annotations

from enum import IntEnum

__all__ = ["AlterConfigOpType", "ConfigResourceType", "ConfigSource"]


class ConfigResourceType(IntEnum):
    """Types of resources with settings. The numbers differ from those of ACL resources."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigSource(IntEnum):
    """The source of a value, as DescribeConfigs reports it."""

    UNKNOWN = 0
    TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    CLIENT_METRICS_CONFIG = 7
    GROUP_CONFIG = 8


class AlterConfigOpType(IntEnum):
    """Operations of IncrementalAlterConfigs on a setting."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3
