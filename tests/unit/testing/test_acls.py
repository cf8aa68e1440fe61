"""Short forms of ACLs."""

from __future__ import annotations

import pytest

from barnabas.common.acl import AclBinding, AclOperation, AclPermissionType
from barnabas.common.resource import PatternType, ResourceType
from barnabas.testing import NotPossible, allow, deny


def test_one_rule_for_each_resource_and_operation() -> None:
    rules = allow("alice", "read", "describe", topic="orders", group="g")
    assert [(rule.resource_type, rule.name, rule.operation) for rule in rules] == [
        (ResourceType.TOPIC, "orders", AclOperation.READ),
        (ResourceType.TOPIC, "orders", AclOperation.DESCRIBE),
        (ResourceType.GROUP, "g", AclOperation.READ),
        (ResourceType.GROUP, "g", AclOperation.DESCRIBE),
    ]
    assert {(rule.principal, rule.host, rule.permission) for rule in rules} == {
        ("User:alice", "*", AclPermissionType.ALLOW)
    }


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("orders", ("orders", PatternType.LITERAL)),
        ("orders-*", ("orders-", PatternType.PREFIXED)),
        ("*", ("*", PatternType.LITERAL)),
    ],
)
def test_a_star_at_the_end_is_a_prefix(name: str, pattern: tuple[str, PatternType]) -> None:
    (rule,) = deny("alice", "write", topic=name)
    assert (rule.name, rule.pattern_type) == pattern
    assert rule.permission == AclPermissionType.DENY


def test_a_principal_and_the_cluster() -> None:
    assert allow("User:CN=alice", "cluster-action", cluster=True, host="127.0.0.1") == [
        AclBinding(
            ResourceType.CLUSTER, "kafka-cluster", PatternType.LITERAL, "User:CN=alice", "127.0.0.1",
            AclOperation.CLUSTER_ACTION, AclPermissionType.ALLOW,
        )
    ]  # fmt: skip


def test_an_unknown_operation_and_a_missing_resource_are_refused() -> None:
    with pytest.raises(NotPossible, match="operation 'reed' does not exist; the operations are all, read"):
        allow("alice", "reed", topic="orders")
    with pytest.raises(NotPossible, match="an ACL needs an operation"):
        allow("alice", topic="orders")
    with pytest.raises(NotPossible, match="an ACL needs a resource: topic="):
        allow("alice", "read")
