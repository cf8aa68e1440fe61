"""A user's own authorizer may fail; access is then denied, and nothing else happens."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from barnabas.common.acl import AclOperation
from barnabas.common.resource import ResourceType
from barnabas.protocol.api_keys import ApiKey
from barnabas.security.authorizer.authorizer import AclAuthorizer, Authorizer, AuthorizerNotReady
from barnabas.security.authorizer.guarded_authorizer import guarded
from barnabas.security.authorizer.standard_authorizer import StandardAuthorizer
from barnabas.security.principal import Principal
from barnabas.security.request_context import RequestContext

CONTEXT = RequestContext(api_key=ApiKey.METADATA, api_version=12, principal=Principal("User", "bob\n"))
READ, TOPIC = AclOperation.READ, ResourceType.TOPIC


class Answering(Authorizer):
    """Returns its answer, or raises it."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.closed = False

    def authorize(self, context: Any, operation: Any, resource_type: Any, resource_name: str, **flags: bool) -> bool:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def is_ready_for(self, principal: Principal) -> bool:
        if isinstance(self.answer, Exception):
            raise self.answer
        return True

    def close(self) -> None:
        self.closed = True
        raise OSError("disk")


def ask_everything(authorizer: Authorizer) -> list[Any]:
    return [
        authorizer.authorize(CONTEXT, READ, TOPIC, "t"),
        authorizer.authorize_by_resource_type(CONTEXT, READ, TOPIC),
        list(authorizer.filter_authorized(CONTEXT, READ, TOPIC, ["t", "u"])),
        authorizer.authorized_operations(CONTEXT, TOPIC, "t"),
        list(authorizer.authorized_operations_many(CONTEXT, TOPIC, ["t", "u"])),
    ]


def test_results_are_passed_on_and_defaults_build_on_one_method() -> None:
    assert ask_everything(guarded(Answering(True))) == [True, True, ["t", "u"], 3576, [3576, 3576]]
    assert ask_everything(guarded(Answering(False))) == [False, False, [], 0, [0, 0]]


def test_an_exception_denies_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    authorizer = guarded(Answering(RuntimeError("no database")))
    with caplog.at_level(logging.ERROR):
        assert ask_everything(authorizer) == [False, False, [], 0, [0, 0]]
        assert authorizer.is_ready_for(CONTEXT.principal) is False
    refused = "authorizer Answering failed; the access that User:bob\\n requested with METADATA is denied"
    assert any(refused in message for message in caplog.messages)
    assert {str(record.exc_info[1]) for record in caplog.records if record.exc_info} == {"no database"}


def test_a_missing_readiness_is_passed_on() -> None:
    with pytest.raises(AuthorizerNotReady):
        guarded(Answering(AuthorizerNotReady())).authorize(CONTEXT, READ, TOPIC, "t")


@pytest.mark.parametrize("answer", ["yes", 1, None, object()])
def test_only_true_allows(answer: Any) -> None:
    assert guarded(Answering(answer)).authorize(CONTEXT, READ, TOPIC, "t") is False


def test_a_failing_close_does_not_stop_the_node_from_stopping() -> None:
    behind = Answering(True)
    guarded(behind).close()
    assert behind.closed


def test_an_authorizer_with_acls_still_accepts_them_and_explains() -> None:
    class Own(StandardAuthorizer):
        pass

    authorizer: Any = guarded(Own())
    assert isinstance(authorizer, AclAuthorizer)
    authorizer.configure({"super.users": "User:bob"})
    authorizer.load_snapshot({})
    authorizer.complete_initial_load()
    assert authorizer.acl_count == 0
    explain: Any = getattr(authorizer, "explain", None)
    assert explain(Principal("User", "bob"), "h", READ, TOPIC, "t").rule == "SuperUser"
    assert not isinstance(guarded(Answering(True)), AclAuthorizer)
