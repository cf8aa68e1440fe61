"""Protected resources: their types, pattern types and names."""

from enum import IntEnum

__all__ = ["CLUSTER_NAME", "PatternType", "ResourceType"]

CLUSTER_NAME = "kafka-cluster"
"""The one literal name of the Cluster resource."""


class ResourceType(IntEnum):
    """Resources of ACLs."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4
