"""The authorizer around the index: settings, super users, readiness, counters and explanations."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.common.acl import AclBinding, AclBindingFilter, AclOperation
from barnabas.common.config_value import ConfigException
from barnabas.common.errors import ErrorCode, InvariantViolated, Transient
from barnabas.common.resource import ResourceType
from barnabas.common.uuid import Uuid
from barnabas.protocol.api_keys import ApiKey
from barnabas.security.authorizer.authorizer import AuthorizerNotReady
from barnabas.security.authorizer.standard_authorizer import StandardAuthorizer, parse_super_users
from barnabas.security.principal import Principal
from barnabas.security.request_context import RequestContext

READ, WRITE, DESCRIBE = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE
TOPIC = ResourceType.TOPIC
READ_ORDERS = AclBinding(2, "orders", 3, "User:bob", "*", 3, 3)
DENY_PREFIX = AclBinding(2, "ord", 4, "User:bob", "10.0.0.1", 3, 2)
EVERY_TOPIC = AclBinding(2, "*", 3, "User:*", "*", 2, 3)


def ids(*bindings: AclBinding) -> dict[Uuid, AclBinding]:
    return {Uuid.from_int(1000 + number): binding for number, binding in enumerate(bindings)}


def authorizer(*bindings: AclBinding, **settings: str) -> StandardAuthorizer:
    made = StandardAuthorizer()
    made.configure({key.replace("_", "."): value for key, value in settings.items()})
    made.load_snapshot(ids(*bindings))
    made.complete_initial_load()
    return made


def context(name: str = "bob", host: str = "10.0.0.2", *, kind: str = "User", token: bool = False) -> RequestContext:
    principal = Principal(kind, name, token)
    return RequestContext(api_key=ApiKey.METADATA, api_version=12, principal=principal, client_host=host)


def test_super_users_are_separated_by_semicolons_because_names_of_certificates_have_commas() -> None:
    text = " User:bob ; ;User:CN=alice,OU=x;Group:a:b;"
    assert [str(user) for user in parse_super_users(text)] == ["User:bob", "User:CN=alice,OU=x", "Group:a:b"]
    assert parse_super_users("") == []


@pytest.mark.parametrize("text", ["bob", "User:bob,alice;carol", ":bob"])
def test_a_super_user_of_another_form_is_refused_with_what_is_allowed(text: str) -> None:
    with pytest.raises(ConfigException, match=r"configuration super.users: '.*' is not of the form Type:name"):
        StandardAuthorizer().configure({"super.users": text})


def test_super_users_are_allowed_regardless_of_acls_and_before_they_are_loaded() -> None:
    unready = StandardAuthorizer()
    unready.configure({"super.users": "User:bob"})
    for loaded in (unready, authorizer(READ_ORDERS._replace(permission=2), super_users="User:bob")):
        assert loaded.is_ready_for(Principal("User", "bob"))
        assert loaded.authorize(context(), READ, TOPIC, "orders")
        assert loaded.authorize(context(token=True), READ, TOPIC, "orders")
        assert loaded.authorize_by_resource_type(context(), WRITE, TOPIC)
        assert loaded.authorized_operations(context(), TOPIC, "orders") == 3576
        assert loaded.authorized_operations_many(context(), TOPIC, ["a", "b"]) == [3576, 3576]
        names = ["b", "a"]
        assert loaded.filter_authorized(context(), READ, TOPIC, names) is names
        assert loaded.explain(Principal("User", "bob"), "h", READ, TOPIC, "orders").rule == "SuperUser"


def test_other_users_wait_until_all_acls_are_loaded() -> None:
    unready = StandardAuthorizer()
    unready.load_snapshot(ids(READ_ORDERS))
    bob = context()
    assert not unready.is_ready_for(bob.principal)
    questions: list[Any] = [
        lambda: unready.authorize(bob, READ, TOPIC, "orders"),
        lambda: unready.authorize_by_resource_type(bob, READ, TOPIC),
        lambda: unready.filter_authorized(bob, READ, TOPIC, ["orders"]),
        lambda: unready.authorized_operations(bob, TOPIC, "orders"),
        lambda: unready.authorized_operations_many(bob, TOPIC, ["orders"]),
        lambda: unready.explain(bob.principal, "h", READ, TOPIC, "orders"),
    ]
    for question in questions:
        with pytest.raises(AuthorizerNotReady) as waiting:
            question()
        assert waiting.value.code is ErrorCode.UNKNOWN_SERVER_ERROR
        assert isinstance(waiting.value, Transient)
    unready.complete_initial_load()
    assert unready.is_ready_for(bob.principal)
    assert unready.authorize(bob, READ, TOPIC, "orders")


def test_a_session_with_the_wildcard_principal_is_refused() -> None:
    wildcard = context("*")
    open_to_all = authorizer(EVERY_TOPIC, allow_everyone_if_no_acl_found="true")
    assert open_to_all.authorize(context("anybody"), READ, TOPIC, "t")
    assert not open_to_all.authorize(wildcard, READ, TOPIC, "t")
    assert not open_to_all.authorize(wildcard, READ, ResourceType.GROUP, "without-any-rule")
    assert not open_to_all.authorize_by_resource_type(wildcard, READ, TOPIC)
    assert open_to_all.filter_authorized(wildcard, READ, TOPIC, ["t"]) == []
    assert open_to_all.authorized_operations(wildcard, TOPIC, "t") == 0
    decision = open_to_all.explain(wildcard.principal, "h", READ, TOPIC, "t")
    assert (decision.allowed, decision.rule, decision.binding) == (False, "RefusedPrincipal", None)
    assert open_to_all.authorize(context("*", kind="Group"), READ, TOPIC, "t"), "only User:* means all principals"


@pytest.mark.parametrize(("text", "allowed"), [("true", True), (" TRUE ", True), ("yes", False), ("", False)])
def test_without_any_acl_on_a_resource_the_default_decides(text: str, allowed: bool) -> None:
    open_by_default = authorizer(READ_ORDERS, allow_everyone_if_no_acl_found=text)
    assert open_by_default.authorize(context("carol"), READ, TOPIC, "free") is allowed
    assert not open_by_default.authorize(context("carol"), READ, TOPIC, "orders"), (
        "an ACL of any principal replaces the default"
    )
    rule = open_by_default.explain(Principal("User", "carol"), "h", READ, TOPIC, "free").rule
    assert rule == ("DefaultAllow" if allowed else "DefaultDeny")


def test_the_default_depends_on_the_first_and_the_last_acl_of_a_resource() -> None:
    open_by_default = authorizer(allow_everyone_if_no_acl_found="true")
    carol = context("carol")
    for pattern in (3, 4):
        rule = READ_ORDERS._replace(pattern_type=pattern)
        assert open_by_default.authorize(carol, READ, TOPIC, "orders")
        open_by_default.add_acl(Uuid.from_int(1), rule)
        open_by_default.add_acl(Uuid.from_int(2), rule._replace(operation=4))
        assert not open_by_default.authorize(carol, READ, TOPIC, "orders")
        open_by_default.remove_acl(Uuid.from_int(1))
        assert not open_by_default.authorize(carol, READ, TOPIC, "orders")
        open_by_default.remove_acl(Uuid.from_int(2))
    assert open_by_default.authorize(carol, READ, TOPIC, "orders")


def test_a_token_has_the_rights_of_its_owner() -> None:
    some = authorizer(READ_ORDERS)
    assert some.authorize(context(token=True), READ, TOPIC, "orders")
    some.remove_acl(Uuid.from_int(1000))
    assert not some.authorize(context(token=True), READ, TOPIC, "orders")
    assert not some.authorize(context(), READ, TOPIC, "orders")


def test_a_snapshot_replaces_all_acls_and_cached_decisions() -> None:
    some = authorizer(READ_ORDERS)
    assert some.authorize(context(), READ, TOPIC, "orders")
    some.load_snapshot(ids(READ_ORDERS._replace(principal="User:carol")))
    assert not some.authorize(context(), READ, TOPIC, "orders")
    assert some.authorize(context("carol"), READ, TOPIC, "orders")
    assert some.acl_count == 1


def test_impossible_changes_in_the_log_are_faults() -> None:
    some = authorizer(READ_ORDERS)
    with pytest.raises(InvariantViolated):
        some.add_acl(Uuid.from_int(1), READ_ORDERS)
    with pytest.raises(InvariantViolated):
        some.remove_acl(Uuid.from_int(1))
    assert [rule for _, rule in some.acls(AclBindingFilter())] == [READ_ORDERS]


def test_decisions_are_counted_and_filters_are_not() -> None:
    some = authorizer(READ_ORDERS)
    some.authorize(context(), READ, TOPIC, "orders")
    some.authorize(context(), READ, TOPIC, "orders")
    some.authorize(context(), WRITE, TOPIC, "orders")
    some.authorize_by_resource_type(context(), READ, TOPIC)
    some.filter_authorized(context(), READ, TOPIC, ["orders", "other"])
    some.authorized_operations_many(context(), TOPIC, ["orders"])
    assert (some.allowed_count, some.denied_count) == (3, 1)


def test_a_check_without_a_specific_operation_is_an_error() -> None:
    for operation, resource_type in ((AclOperation.ANY, TOPIC), (READ, ResourceType.ANY), (READ, ResourceType.UNKNOWN)):
        with pytest.raises(ValueError, match="can't be authorized"):
            authorizer().authorize_by_resource_type(context(), operation, resource_type)


def test_explain_names_the_denial_and_the_acls_that_it_overrides() -> None:
    some = authorizer(READ_ORDERS, DENY_PREFIX, EVERY_TOPIC)
    bob = Principal("User", "bob")
    denied = some.explain(bob, "10.0.0.1", READ, TOPIC, "orders")
    assert (denied.allowed, denied.rule, denied.binding) == (False, "MatchingAcl", DENY_PREFIX)
    assert denied.acl_id == str(Uuid.from_int(1001))
    assert denied.acl_text == "DENY User:bob from 10.0.0.1 to READ on TOPIC:PREFIXED:ord"
    assert [rule for _, rule in denied.allowing] == [READ_ORDERS, EVERY_TOPIC]
    allowed = some.explain(bob, "10.0.0.2", DESCRIBE, TOPIC, "orders")
    assert (allowed.allowed, allowed.binding, allowed.denying) == (True, EVERY_TOPIC, [])
    assert [rule for _, rule in allowed.allowing] == [READ_ORDERS, EVERY_TOPIC], "Read implies Describe"


def test_configuring_again_keeps_the_acls() -> None:
    some = authorizer(READ_ORDERS)
    some.configure({"allow.everyone.if.no.acl.found": "true"})
    assert some.authorize(context(), READ, TOPIC, "orders")
    assert some.authorize(context(), READ, TOPIC, "free")
