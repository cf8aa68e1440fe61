"""Without an authorizer everything is allowed, and describe calls report this (KIP-430)."""

from __future__ import annotations

import pytest

from barnabas.common.acl import AclOperation
from barnabas.common.resource import ResourceType
from barnabas.protocol.api_keys import ApiKey
from barnabas.security.authorizer.authorizer import AllowAllAuthorizer
from barnabas.security.request_context import RequestContext

CONTEXT = RequestContext(api_key=ApiKey.METADATA, api_version=12)


@pytest.mark.parametrize(
    ("resource_type", "mask"),
    [
        (ResourceType.TOPIC, 3576),
        (ResourceType.GROUP, 3400),
        (ResourceType.CLUSTER, 8096),
        (ResourceType.TRANSACTIONAL_ID, 33040),
        (ResourceType.DELEGATION_TOKEN, 256),
        (ResourceType.USER, 24576),
    ],
)
def test_every_operation_that_the_resource_supports_is_reported(resource_type: ResourceType, mask: int) -> None:
    authorizer = AllowAllAuthorizer()
    assert authorizer.authorized_operations(CONTEXT, resource_type, "any") == mask
    assert authorizer.authorized_operations_many(CONTEXT, resource_type, ["a", "b"]) == [mask, mask]


def test_everything_is_allowed() -> None:
    authorizer = AllowAllAuthorizer()
    assert authorizer.authorize(CONTEXT, AclOperation.ALTER, ResourceType.CLUSTER, "kafka-cluster")
    assert authorizer.authorize_by_resource_type(CONTEXT, AclOperation.WRITE, ResourceType.TOPIC)
    assert authorizer.filter_authorized(CONTEXT, AclOperation.READ, ResourceType.TOPIC, ["b", "a"]) == ["b", "a"]
