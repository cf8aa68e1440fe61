"""The operations that a resource type supports, as bits (KIP-430): bit n means the operation with code n.

The sets are those of Kafka 4.3.1, not those of the KIP: groups have configs, transactional ids two-phase commit.
"""

from __future__ import annotations

from barnabas.common.acl import AclOperation
from barnabas.common.resource import ResourceType

__all__ = ["SUPPORTED_MASKS", "SUPPORTED_OPERATIONS", "supported_mask", "supported_operations"]

SUPPORTED_OPERATIONS: dict[int, tuple[AclOperation, ...]] = {
    ResourceType.TOPIC: (
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.CREATE,
        AclOperation.DELETE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (
        AclOperation.READ,
        AclOperation.DELETE,
        AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        AclOperation.CREATE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        AclOperation.CLUSTER_ACTION,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
        AclOperation.IDEMPOTENT_WRITE,
    ),
    ResourceType.TRANSACTIONAL_ID: (AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.TWO_PHASE_COMMIT),
    ResourceType.DELEGATION_TOKEN: (AclOperation.DESCRIBE,),
    ResourceType.USER: (AclOperation.CREATE_TOKENS, AclOperation.DESCRIBE_TOKENS),
}

SUPPORTED_MASKS: dict[int, int] = {
    int(resource_type): sum(1 << operation for operation in operations)
    for resource_type, operations in SUPPORTED_OPERATIONS.items()
}


def supported_operations(resource_type: int) -> tuple[AclOperation, ...]:
    return SUPPORTED_OPERATIONS.get(resource_type, ())


def supported_mask(resource_type: int) -> int:
    """Return all operations of the type; 0 for an unknown type."""
    return SUPPORTED_MASKS.get(resource_type, 0)
