"""After CreateAcls or DeleteAcls is answered, the answering node applies the change: never earlier, never later."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.common.acl import AclBinding, AclOperation
from barnabas.common.resource import ResourceType
from barnabas.controller.apis import create_acls, delete_acls
from barnabas.coordinator.deferred import Deferred
from barnabas.metadata.loader import MetadataLoader
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.create_acls import CreateAclsRequest
from barnabas.protocol.messages.delete_acls import DeleteAclsRequest
from barnabas.security.authorizer.acl_publisher import AclPublisher
from barnabas.security.authorizer.standard_authorizer import StandardAuthorizer
from barnabas.security.principal import Principal
from barnabas.security.request_context import RequestContext
from barnabas.server.metadata_log.commit_listener import MetadataListener
from tests.unit.controller.controller_harness import ControllerHarness
from tests.unit.controller.test_acls import ANY, creating, deleting

ADMIN, ALICE = Principal("User", "admin"), Principal("User", "alice")
RULE = AclBinding(2, "orders", 3, "User:alice", "*", 3, 3)


def context(principal: Principal) -> RequestContext:
    return RequestContext(api_key=ApiKey.CREATE_ACLS, api_version=3, principal=principal)


class CombinedNode(ControllerHarness):
    """Broker and controller follow one log through the node's own listener."""

    def __init__(self) -> None:
        super().__init__()
        self.acl_authorizer = StandardAuthorizer()
        self.acl_authorizer.configure({"super.users": str(ADMIN)})
        self.acl_authorizer.complete_initial_load()
        loader = MetadataLoader()
        loader.install(AclPublisher(self.acl_authorizer))
        self.listener = MetadataListener(
            node_id=1,
            loader=loader,
            controller=self.controller,
            serde=None,
            next_offset=lambda: self.end_offset,
            kraft_version=lambda: 1,
        )

    def commit(self, count: int | None = None) -> None:
        for _ in range(len(self._uncommitted) if count is None else count):
            batch = self._uncommitted.pop(0)
            self.log.append(batch)
            for _ in self.listener.handle_commit([batch]):
                pass

    def ask(self, handle: Any, request: Any) -> tuple[Deferred[Any], list[bool]]:
        """Return the response, and alice's rights at the moment when it is sent."""
        deferred = handle(self.controller, context(ADMIN), request, self.acl_authorizer)
        seen: list[bool] = []
        deferred.on_complete(lambda _: seen.append(self.alice_reads()))
        return deferred, seen

    def alice_reads(self) -> bool:
        return self.acl_authorizer.authorize(context(ALICE), AclOperation.READ, ResourceType.TOPIC, "orders")


@pytest.fixture
def node() -> CombinedNode:
    made = CombinedNode()
    made.activate()
    return made


CREATE: CreateAclsRequest = creating(RULE)
DELETE: DeleteAclsRequest = deleting(ANY)


def test_an_acl_is_in_force_when_its_creation_is_answered_and_not_before(node: CombinedNode) -> None:
    deferred, seen = node.ask(create_acls.handle, CREATE)
    node.append()
    assert not deferred.is_complete
    assert not node.alice_reads()
    node.commit()
    assert deferred.value.results[0].error_code == 0
    assert seen == [True]


def test_an_acl_is_removed_when_its_deletion_is_answered_and_not_before(node: CombinedNode) -> None:
    node.ask(create_acls.handle, CREATE)
    node.settle()
    deferred, seen = node.ask(delete_acls.handle, DELETE)
    node.append()
    assert node.alice_reads()
    node.commit()
    assert len(deferred.value.filter_results[0].matching_acls) == 1
    assert seen == [False]


def test_a_response_without_a_record_waits_for_the_acl_that_it_depends_on(node: CombinedNode) -> None:
    _, first = node.ask(create_acls.handle, CREATE)
    again, second = node.ask(create_acls.handle, CREATE)
    node.append()
    assert not again.is_complete
    node.commit()
    assert (first, second) == ([True], [True])
