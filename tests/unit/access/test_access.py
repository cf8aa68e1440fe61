"""Explanations and lists of access agree with the authorizer for all names, principals and hosts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.access.acl_text import Resource
from barnabas.access.explain import Reason, explain
from barnabas.access.explanation_json import explanation_json, holders_json, holdings_json
from barnabas.access.listing import Access, access_of_principal, principals_with_access
from barnabas.access.rule_set import Policy, Rule
from barnabas.common.acl import AclBinding, AclOperation, AclPermissionType
from barnabas.common.resource import PatternType, ResourceType
from barnabas.common.uuid import Uuid
from barnabas.security.authorizer.authorized_operations import supported_operations
from barnabas.security.principal import Principal

TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
READ, WRITE, DESCRIBE, ALL = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.ALL
ALICE, BOB, EVE = (Principal("User", name) for name in ("alice", "bob", "eve"))
ORDERS = Resource(TOPIC, "orders")


def allow(principal: str, operation: int, name: str = "orders", **more: object) -> Rule:
    return rule(AclPermissionType.ALLOW, principal, operation, name, **more)


def deny(principal: str, operation: int, name: str = "orders", **more: object) -> Rule:
    return rule(AclPermissionType.DENY, principal, operation, name, **more)


def rule(permission: int, principal: str, operation: int, name: str, **more: object) -> Rule:
    kind: int = more.get("type", TOPIC)  # type: ignore[assignment]
    pattern: int = more.get("pattern", LITERAL)  # type: ignore[assignment]
    return Rule(AclBinding(kind, name, pattern, f"User:{principal}", str(more.get("host", "*")), operation, permission))


def test_an_allow_rule_is_named_with_the_operations_it_implies() -> None:
    read = allow("alice", READ)
    policy = Policy([read])
    found = explain(policy, ALICE, "10.0.0.1", READ, ORDERS)
    assert (found.allowed, found.reason, found.rule, found.is_implied) == (True, Reason.ALLOW_RULE, read, False)
    assert found.text == "ALLOW User:alice Read on Topic:orders from any host"
    found = explain(policy, ALICE, "10.0.0.1", DESCRIBE, ORDERS)
    assert (found.allowed, found.is_implied) == (True, True)
    assert found.text == "ALLOW User:alice Read on Topic:orders from any host; Read implies Describe"


def test_all_includes_everything() -> None:
    found = explain(Policy([allow("*", ALL, "ord", pattern=PREFIXED)]), EVE, "*", AclOperation.ALTER, ORDERS)
    assert found.text == "ALLOW User:* All on Topic:ord* (prefix) from any host; All includes Alter"


def test_a_deny_rule_overrides_allow_rules_and_both_are_shown() -> None:
    by_name, by_prefix, no = allow("bob", WRITE), allow("*", ALL, "ord", pattern=PREFIXED), deny("bob", WRITE, "*")
    found = explain(Policy([by_name, by_prefix, no]), BOB, "10.0.0.1", WRITE, ORDERS)
    assert (found.allowed, found.reason, found.rule) == (False, Reason.DENY_RULE, no)
    assert set(found.overridden) == {by_name, by_prefix}
    assert found.text == "DENY User:bob Write on Topic:* (all) from any host; a DENY overrides every ALLOW"


def test_a_deny_of_read_does_not_deny_describe() -> None:
    policy = Policy([allow("bob", READ), deny("bob", READ)])
    assert not explain(policy, BOB, "*", READ, ORDERS).allowed
    assert explain(policy, BOB, "*", DESCRIBE, ORDERS).allowed


def test_rules_that_miss_by_one_attribute_are_shown() -> None:
    elsewhere, other = allow("bob", READ, host="10.0.0.9"), allow("bob", AclOperation.ALTER_CONFIGS)
    found = explain(Policy([elsewhere, other, allow("alice", READ)]), BOB, "10.0.0.1", READ, ORDERS)
    assert (found.allowed, found.reason, found.rules_for_resource) == (False, Reason.NO_MATCHING_RULE, 3)
    assert (found.other_host, found.other_operation) == ((elsewhere,), (other,))
    assert found.text == "none of the 3 ACLs for Topic:orders allows Read to User:bob"


def test_super_users_bypass_deny_rules() -> None:
    policy = Policy([deny("alice", ALL)], super_users=frozenset({"User:alice"}))
    found = explain(policy, ALICE, "*", READ, ORDERS)
    assert (found.allowed, found.reason, found.rule, len(found.overridden)) == (True, Reason.SUPER_USER, None, 1)


@pytest.mark.parametrize("everyone", [True, False])
def test_the_default_applies_only_while_a_resource_has_no_rules(everyone: bool) -> None:
    found = explain(Policy([], allow_everyone=everyone), BOB, "*", READ, ORDERS)
    assert (found.allowed, found.reason) == (everyone, Reason.NO_RULE_FOR_RESOURCE)
    assert f"allow.everyone.if.no.acl.found is {str(everyone).lower()}" in found.text
    found = explain(Policy([allow("alice", READ)], allow_everyone=everyone), BOB, "*", READ, ORDERS)
    assert (found.allowed, found.reason) == (False, Reason.NO_MATCHING_RULE)


def test_access_who_lists_holders_by_name_prefix_and_wildcard() -> None:
    policy = Policy(
        [
            allow("alice", READ),
            allow("bob", WRITE, "ord", pattern=PREFIXED, host="10.0.0.9"),
            allow("*", DESCRIBE, "*"),
            deny("eve", ALL, "*"),
            allow("carol", READ, "payments"),
        ],
        super_users=frozenset({"User:admin"}),
    )
    rows = {
        (g.principal, g.host): ([AclOperation(o).name for o in g.operations], len(g.denied))
        for g in principals_with_access(policy, ORDERS).grants
    }
    assert rows.pop(("User:admin", "*"))[1] == 0
    assert rows == {
        ("User:alice", "*"): (["READ", "DESCRIBE"], 0),
        ("User:bob", "*"): (["DESCRIBE"], 0),
        ("User:bob", "10.0.0.9"): (["WRITE", "DESCRIBE"], 0),
        ("User:eve", "*"): ([], 8),
        ("*", "*"): (["DESCRIBE"], 0),
    }
    writers = [(g.principal, g.host) for g in principals_with_access(policy, ORDERS, WRITE).grants if g.operations]
    assert writers == [("User:admin", "*"), ("User:bob", "10.0.0.9")]


def test_access_who_reports_that_the_default_opens_the_resource() -> None:
    found = principals_with_access(Policy([], allow_everyone=True), ORDERS)
    assert [(g.principal, len(g.operations)) for g in found.grants] == [("*", 8)]
    assert principals_with_access(Policy([]), ORDERS).grants == ()


def names(operations: Iterable[int]) -> list[str]:
    return [AclOperation(code).name for code in operations]


def test_access_of_lists_patterns_with_the_deny_rules_inside_them() -> None:
    policy = Policy(
        [
            allow("alice", READ, "*"),
            allow("alice", ALL, "pay", pattern=PREFIXED),
            deny("alice", READ, "pay-secret", pattern=PREFIXED),
            deny("*", WRITE, "payments"),
            allow("bob", READ, "other"),
            allow("alice", AclOperation.CREATE, "kafka-cluster", type=CLUSTER),
        ]
    )
    found = {(a.resource_type, a.name, a.pattern_type): a for a in access_of_principal(policy, ALICE).accesses}
    assert list(found) == [
        (TOPIC, "*", LITERAL),
        (TOPIC, "pay", PREFIXED),
        (TOPIC, "pay-secret", PREFIXED),
        (TOPIC, "payments", LITERAL),
        (CLUSTER, "kafka-cluster", LITERAL),
    ]
    assert names(found[TOPIC, "*", LITERAL].operations) == ["READ", "DESCRIBE"]
    assert found[TOPIC, "*", LITERAL].exceptions == (("pay-secret", PREFIXED),)
    assert found[TOPIC, "pay", PREFIXED].exceptions == (("pay-secret", PREFIXED), ("payments", LITERAL))
    assert len(found[TOPIC, "pay", PREFIXED].operations) == 8
    assert "READ" not in names(found[TOPIC, "pay-secret", PREFIXED].operations)
    assert names(found[TOPIC, "pay-secret", PREFIXED].denied) == ["READ"]
    assert "WRITE" not in names(found[TOPIC, "payments", LITERAL].operations)


def test_operations_and_resource_types_of_a_newer_kafka_cause_no_error() -> None:
    policy = Policy(
        [allow("alice", 99), Rule(AclBinding(42, "x", LITERAL, "User:alice", "*", READ, 3)), allow("alice", READ)]
    )
    assert holdings_json(access_of_principal(policy, ALICE))["accesses"]
    assert holders_json(principals_with_access(policy, ORDERS))["grants"]


def test_json_contains_rule_ids_where_they_are_known() -> None:
    acl_id = Uuid.from_int(1 << 90)
    policy = Policy([allow("alice", READ)._replace(id=acl_id), allow("alice", WRITE)])
    found = explanation_json(explain(policy, ALICE, "*", READ, ORDERS))
    assert found["rule"] == {
        "id": str(acl_id),
        "permission": "ALLOW",
        "principal": "User:alice",
        "host": "*",
        "operation": "READ",
        "resource_type": "TOPIC",
        "name": "orders",
        "pattern_type": "LITERAL",
    }
    document: Any = explanation_json(explain(policy, ALICE, "*", WRITE, ORDERS))
    assert document["rule"]["id"] is None


# ---- properties ----------------------------------------------------------------------------------------------------

NAMES = ["a", "ab", "abc", "b", "*", "a*", "-x"]
PRINCIPALS = ["User:alice", "User:bob", "User:*", "Group:alice", "Group:*"]
HOSTS = ["*", "10.0.0.1", "10.0.0.2"]
OPERATIONS = [READ, WRITE, DESCRIBE, ALL, AclOperation.ALTER, AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS]

bindings = st.builds(
    AclBinding,
    st.sampled_from([TOPIC, GROUP]).map(int),
    st.sampled_from(NAMES),
    st.sampled_from([LITERAL, PREFIXED]).map(int),
    st.sampled_from(PRINCIPALS),
    st.sampled_from(HOSTS),
    st.sampled_from(OPERATIONS).map(int),
    st.sampled_from([AclPermissionType.ALLOW, AclPermissionType.ALLOW, AclPermissionType.DENY]).map(int),
)
policies = st.builds(
    lambda rules, supers, everyone: Policy(
        [Rule(b) for b in rules], super_users=frozenset(supers), allow_everyone=everyone
    ),
    st.lists(bindings, max_size=12),
    st.sampled_from([(), ("User:bob",)]),
    st.booleans(),
)
callers = st.sampled_from([ALICE, BOB, EVE, Principal("Group", "alice"), Principal("Role", "r")])
hosts = st.sampled_from(["10.0.0.1", "10.0.0.2", "10.0.0.3"])


@given(policies, callers, hosts, st.sampled_from(OPERATIONS), st.sampled_from([*NAMES, "abcd", "zz"]))
def test_an_explanation_agrees_with_the_authorizer(
    policy: Policy, caller: Principal, host: str, operation: AclOperation, name: str
) -> None:
    found = explain(policy, caller, host, operation, Resource(TOPIC, name))
    assert found.allowed == policy.is_allowed(caller, host, operation, TOPIC, name)
    assert (found.rule is not None) == (found.reason in (Reason.ALLOW_RULE, Reason.DENY_RULE))
    if found.reason is Reason.ALLOW_RULE:
        assert not found.overridden
    assert found.text
    assert explanation_json(found)["allowed"] == found.allowed


@given(policies, callers, hosts, st.sampled_from([*NAMES, "abcd", "zz"]))
def test_the_list_of_holders_agrees_with_the_authorizer(
    policy: Policy, caller: Principal, host: str, name: str
) -> None:
    """The nearest row is for principal and host, for the principal, for all principals at the host, or for all."""
    grants = {(g.principal, g.host): g for g in principals_with_access(policy, Resource(TOPIC, name)).grants}
    names_it = {r.binding.principal for r in policy.rules_on(TOPIC, name)} | policy.super_users
    text = f"{caller.type}:{caller.name}"
    rows = [(text, host), (text, "*")] if text in names_it else [("*", host), ("*", "*")]
    listed = next((grants[row].operations for row in rows if row in grants), ())
    decided = [o for o in supported_operations(TOPIC) if policy.is_allowed(caller, host, o, TOPIC, name)]
    assert sorted(set(listed) & set(supported_operations(TOPIC))) == sorted(decided)


def nearest(accesses: Mapping[tuple[str, int, str], Access], name: str, host: str) -> Access | None:
    literal = [(name, int(LITERAL))]
    prefixes = [(name[:length], int(PREFIXED)) for length in range(len(name), 0, -1)]
    for pattern in [*literal, *prefixes, ("*", int(LITERAL))]:
        for row in ((*pattern, host), (*pattern, "*")):
            if row in accesses:
                return accesses[row]
    return None


@given(policies, callers, hosts, st.sampled_from([*NAMES, "abcd", "abx", "zz"]))
def test_the_access_of_a_principal_agrees_with_the_authorizer(
    policy: Policy, caller: Principal, host: str, name: str
) -> None:
    """The narrowest listed pattern decides. A pattern that is not listed neither removes nor adds access."""
    holdings = access_of_principal(policy, caller)
    decided = [o for o in supported_operations(TOPIC) if policy.is_allowed(caller, host, o, TOPIC, name)]
    if holdings.is_super_user:
        assert len(decided) == len(supported_operations(TOPIC))
        return
    if not policy.rules_on(TOPIC, name):
        assert bool(decided) == holdings.default_allows
        return
    accesses = {(a.name, a.pattern_type, a.host): a for a in holdings.accesses if a.resource_type == TOPIC}
    access = nearest(accesses, name, host)
    listed = set() if access is None else set(access.operations) & set(supported_operations(TOPIC))
    assert sorted(listed) == sorted(decided)
