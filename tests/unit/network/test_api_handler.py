"""The single enforcement point checks only rights that an API module declared."""

from __future__ import annotations

from unittest.mock import Mock

import pytest

from barnabas.common.acl import AclOperation
from barnabas.common.errors import ApiException, ErrorCode, InvariantViolated
from barnabas.common.resource import ResourceType
from barnabas.network.api_handler import Access, AclRule
from barnabas.protocol.api_keys import ApiKey
from barnabas.security.authorizer.authorizer import AllowAllAuthorizer
from barnabas.security.request_context import RequestContext

READ_TOPIC = AclRule(ResourceType.TOPIC, AclOperation.READ)
DESCRIBE_CLUSTER = AclRule(ResourceType.CLUSTER, AclOperation.DESCRIBE)


class OnlyNamed(AllowAllAuthorizer):
    """Allows the named operations, and records the checks."""

    def __init__(self, *allowed: str) -> None:
        self._allowed = set(allowed)
        self.checks: list[tuple[str, bool]] = []

    def authorize(
        self,
        context: RequestContext,
        operation: AclOperation,
        resource_type: ResourceType,
        resource_name: str,
        *,
        log_if_allowed: bool = True,
        log_if_denied: bool = True,
    ) -> bool:
        self.checks.append((resource_name, log_if_denied))
        return resource_name in self._allowed


def access(authorizer: AllowAllAuthorizer, *rules: AclRule) -> Access:
    return Access(authorizer, RequestContext(api_key=ApiKey.FETCH, api_version=12), frozenset(rules))


def test_an_undeclared_right_cannot_be_checked() -> None:
    fetch = access(AllowAllAuthorizer(), READ_TOPIC)
    with pytest.raises(InvariantViolated, match="FETCH did not declare"):
        fetch.allows(ResourceType.TOPIC, AclOperation.WRITE, "orders")
    with pytest.raises(InvariantViolated, match="FETCH did not declare"):
        fetch.allows_any(ResourceType.TOPIC, AclOperation.WRITE)


def test_each_name_is_authorized_once() -> None:
    authorizer = OnlyNamed("orders")
    fetch = access(authorizer, READ_TOPIC)
    names = ["orders", "payments", "orders", "payments"]
    assert fetch.allowed(ResourceType.TOPIC, AclOperation.READ, names, log_if_denied=False) == {"orders"}
    assert sorted(authorizer.checks) == [("orders", False), ("payments", False)]


def test_the_audit_hears_how_often_each_name_occurs() -> None:
    authorizer = OnlyNamed("orders")
    authorizer.audit = Mock()
    fetch = access(authorizer, READ_TOPIC)
    fetch.allowed(ResourceType.TOPIC, AclOperation.READ, ["payments", "payments"])
    fetch.allowed(ResourceType.TOPIC, AclOperation.READ, {"bills": 7})
    heard = [call.args for call in authorizer.audit.decided.call_args_list]
    assert [(name, allowed, references) for *_, name, allowed, references in heard] == [
        ("payments", False, 2),
        ("bills", False, 1),
    ]


def test_a_required_and_denied_right_ends_the_request() -> None:
    with pytest.raises(ApiException) as denied:
        access(OnlyNamed(), DESCRIBE_CLUSTER).require_on_cluster(AclOperation.DESCRIBE)
    assert denied.value.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    access(OnlyNamed("kafka-cluster"), DESCRIBE_CLUSTER).require_on_cluster(AclOperation.DESCRIBE)
