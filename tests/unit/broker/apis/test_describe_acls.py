"""DescribeAcls answers a short request immediately and a long one in steps, on a broker and on a controller."""

from __future__ import annotations

from collections.abc import Awaitable, Iterator
from typing import Any

import pytest

from barnabas.broker.apis import SERVED_BY_BROKER
from barnabas.common.acl import AclBinding, AclBindingFilter
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.uuid import Uuid
from barnabas.network.api_handler import Access, HandlerTable
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from barnabas.security.authorizer.acl_listing import AclListing
from barnabas.security.authorizer.acl_requests import describe_bindings
from barnabas.security.authorizer.guarded_authorizer import guarded
from barnabas.security.authorizer.standard_authorizer import StandardAuthorizer
from barnabas.security.principal import Principal
from barnabas.security.request_context import RequestContext
from barnabas.server.controller.api_handlers import SERVED_ON_CONTROLLER_LISTENERS, ControllerHandlers

HANDLERS = {
    "broker": HandlerTable("barnabas.broker.apis", SERVED_BY_BROKER).handler(ApiKey.DESCRIBE_ACLS),
    "controller": ControllerHandlers(SERVED_ON_CONTROLLER_LISTENERS).handler(ApiKey.DESCRIBE_ACLS),
}
COUNT = 20_000


class Turns:
    """Collects each turn of a coroutine in order, then its result."""

    result: Any = None

    def of(self, answer: Awaitable[Any]) -> Iterator[None]:
        self.result = yield from answer.__await__()


@pytest.fixture(params=HANDLERS)
def server(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def authorizer() -> StandardAuthorizer:
    held = StandardAuthorizer()
    held.configure({"super.users": "User:admin"})
    held.load_snapshot(
        {Uuid.from_int(n): AclBinding(2, f"topic-{n}", 3, f"User:{n % 100}", "*", 3, 3) for n in range(COUNT)}
    )
    held.complete_initial_load()
    return held


def ask(server: str, authorizer: StandardAuthorizer, principal: str | None, *, user: str = "admin") -> Any:
    handler = HANDLERS[server]
    context = RequestContext(api_key=ApiKey.DESCRIBE_ACLS, api_version=3, principal=Principal("User", user))
    request = DescribeAclsRequest(
        resource_type_filter=1,
        resource_name_filter=None,
        pattern_type_filter=1,
        principal_filter=principal,
        host_filter=None,
        operation=1,
        permission_type=1,
    )
    return handler.function(None, request, Access(guarded(authorizer), context, handler.acl))


def test_a_short_response_is_immediate(server: str, authorizer: StandardAuthorizer) -> None:
    answer = ask(server, authorizer, "User:7")
    assert isinstance(answer, DescribeAclsResponse)
    assert len(answer.resources) == 200
    assert ask(server, authorizer, "User:nobody") == DescribeAclsResponse()


@pytest.mark.anyio
async def test_a_long_response_describes_the_moment_when_it_began(server: str, authorizer: StandardAuthorizer) -> None:
    expected = [binding for _, binding in authorizer.acls(AclBindingFilter())]
    answer = ask(server, authorizer, None)
    assert isinstance(answer, Awaitable)
    turns = Turns()
    iterator = turns.of(answer)
    for _ in range(3):
        next(iterator)
    added = Uuid.from_int(COUNT)
    authorizer.add_acl(added, AclBinding(2, "added", 3, "User:1", "*", 3, 3))
    count = 3 + sum(1 for _ in iterator)
    authorizer.remove_acl(added)
    assert count > COUNT / 4_096 * 3, "others have their turn after each few thousand rules"
    listing = turns.result
    assert isinstance(listing, AclListing)
    chunks: list[bytes] = []
    listing.write(3, chunks)
    assert b"".join(chunks) == DescribeAclsResponse(resources=describe_bindings(expected)).encode(3)


def test_a_denied_description_is_answered_immediately(server: str, authorizer: StandardAuthorizer) -> None:
    if server == "controller":
        assert ask(server, authorizer, None, user="bob").error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return
    with pytest.raises(ApiException) as refused:
        ask(server, authorizer, None, user="bob")
    assert refused.value.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
