"""The proof lists exactly the changes of access: compared point by point with the authorizer, on small universes."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from barnabas.access.name_classes import NameSpace, PatternTable
from barnabas.access.proof import AccessRules, CauseKind, Proof, prove
from barnabas.access.rule_set import Policy, Rule
from barnabas.common.acl import AclBinding, AclOperation, AclPermissionType
from barnabas.common.resource import PatternType, ResourceType
from barnabas.protocol.api_keys import ApiKey
from barnabas.security.authorizer.authorized_operations import supported_operations
from barnabas.security.principal import Principal
from barnabas.security.request_context import RequestContext

TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
READ, WRITE, DESCRIBE, ALL = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.ALL
ALLOW, DENY = AclPermissionType.ALLOW, AclPermissionType.DENY

NAMES = ["a", "b", "aa", "ab", "aaa", "aab", "aba", "ba", "c", "*", "*a"]
PRINCIPALS = ["User:alice", "User:bob", "User:carol", "Group:alice"]
HOSTS = ["10.0.0.1", "10.0.0.2", "10.0.0.3"]
OPERATIONS = [READ, WRITE, DESCRIBE, AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS]

bindings = st.builds(
    AclBinding,
    st.sampled_from([int(TOPIC), int(TOPIC), int(CLUSTER)]),
    st.sampled_from(["a", "aa", "aab", "b", "*", "kafka-cluster", "k"]),
    st.sampled_from([int(LITERAL), int(PREFIXED)]),
    st.sampled_from(["User:alice", "User:bob", "User:*", "Group:*", "alice"]),
    st.sampled_from(["*", "*", "10.0.0.1", "10.0.0.2"]),
    st.sampled_from([int(o) for o in (*OPERATIONS, ALL)]),
    st.sampled_from([int(ALLOW), int(ALLOW), int(DENY)]),
)
supers = st.frozensets(st.sampled_from(PRINCIPALS[:2]), max_size=1)
rule_sets = st.builds(AccessRules, st.frozensets(bindings, max_size=6), supers, st.booleans())


@st.composite
def changes(draw: st.DrawFn) -> tuple[AccessRules, AccessRules]:
    """Draw two states with much in common, like those before and after a change."""
    before = draw(rule_sets)
    bindings_after = before.bindings ^ draw(st.frozensets(bindings, max_size=3))
    if before.bindings:
        bindings_after -= draw(st.frozensets(st.sampled_from(sorted(before.bindings)), max_size=2))
    same = draw(st.booleans())
    super_users = before.super_users if same else draw(supers)
    default = before.allow_everyone if same else draw(st.booleans())
    return before, AccessRules(bindings_after, super_users, default)


def rule(principal: str, operation: int, name: str = "orders", **more: object) -> AclBinding:
    return AclBinding(
        int(more.get("type", TOPIC)),  # type: ignore[call-overload]
        name,
        int(more.get("pattern", LITERAL)),  # type: ignore[call-overload]
        f"User:{principal}",
        str(more.get("host", "*")),
        int(operation),
        int(more.get("permission", ALLOW)),  # type: ignore[call-overload]
    )


def states(before: Iterable[AclBinding], after: Iterable[AclBinding], *, default: bool = False) -> Proof:
    return prove(
        AccessRules(frozenset(before), allow_everyone=default), AccessRules(frozenset(after), allow_everyone=default)
    )


def policy_of(rules: AccessRules) -> Policy:
    return Policy(map(Rule, rules.bindings), super_users=rules.super_users, allow_everyone=rules.allow_everyone)


def is_in(name: str, pattern: tuple[str, int]) -> bool:
    return name.startswith(pattern[0]) if pattern[1] == PREFIXED else pattern[0] in (name, "*")


def class_of(name: str, patterns: set[tuple[str, int]]) -> tuple[str, int]:
    """Return the class by its definition, without the code under test."""
    if (name, LITERAL) in patterns and name != "*":
        return name, LITERAL
    prefixes = [text for text, kind in patterns if kind == PREFIXED and name.startswith(text)]
    return max(prefixes, key=len, default=""), PREFIXED


@settings(max_examples=400, deadline=None)
@given(changes())
@example(
    (  # Two ways to the same change of the same principal.
        AccessRules(frozenset([AclBinding(2, "*", 4, "User:*", "*", 2, 3)]), allow_everyone=True),
        AccessRules(frozenset(), allow_everyone=False),
    )
)
def test_exactly_the_accesses_that_change_are_listed(pair: tuple[AccessRules, AccessRules]) -> None:
    before, after = pair
    proof = prove(before, after)
    policies = policy_of(before), policy_of(after)
    both = before.bindings | after.bindings
    default_open = before.allow_everyone or after.allow_everyone
    listed = {}
    for change in proof.changes:
        assert len(change.classes) == len(list(change.classes))
        for name_class, opened_by, closed_by in change.classes:
            assert bool(opened_by) == bool(change.opened)
            assert bool(closed_by) == bool(change.closed)
            key = (change.resource_type, change.principal, name_class.name, name_class.pattern_type)
            listed.setdefault(key, []).append(change)
    points = [(TOPIC, name) for name in NAMES] + [(CLUSTER, "kafka-cluster")]
    for (kind, name), principal_name in product(points, PRINCIPALS):
        own = {b for b in both if b.principal == principal_name and b.resource_type == kind}
        is_special = principal_name in before.super_users | after.super_users
        has_own = any(is_in(name, (b.name, b.pattern_type)) for b in own)
        shown = principal_name if has_own or is_special else "*"
        visible = (principal_name, "User:*") if shown == principal_name else ("User:*",)
        patterns = {
            (b.name, b.pattern_type)
            for b in both
            if b.resource_type == kind and (b.principal in visible or default_open)
        }
        where = ("kafka-cluster", LITERAL) if kind == CLUSTER else class_of(name, patterns)
        rows = listed.get((kind, shown, *where), [])
        changed = {b.operation for b in before.bindings ^ after.bindings if b.resource_type == kind}
        for host, operation in product(HOSTS, {*supported_operations(kind), *changed} - {ALL}):
            principal = _principal(principal_name)
            was, is_now = (p.is_allowed(principal, host, operation, kind, name) for p in policies)
            mine = [row for row in rows if host in row.hosts or (row.hosts == ("*",) and host not in row.hosts_except)]
            assert len(mine) <= 1
            opened = bool(mine) and operation in mine[0].opened
            closed = bool(mine) and operation in mine[0].closed
            assert (opened, closed) == (is_now and not was, was and not is_now), (
                principal_name,
                host,
                operation,
                name,
                mine,
            )
            if mine:
                assert (operation in mine[0].before, operation in mine[0].after) == (was, is_now)


@settings(max_examples=300, deadline=None)
@given(changes())
def test_rights_to_any_resource_equal_those_that_the_authorizer_grants(pair: tuple[AccessRules, AccessRules]) -> None:
    before, after = pair
    listed = [change for change in prove(before, after).any_resource if change.resource_type == TOPIC]
    policies = policy_of(before), policy_of(after)
    in_use = {b.principal for b in before.bindings | after.bindings if b.resource_type == TOPIC}
    named = in_use | before.super_users | after.super_users
    for principal_name, host in product(PRINCIPALS, HOSTS):
        context = RequestContext(
            api_key=ApiKey.INIT_PRODUCER_ID, api_version=0, principal=_principal(principal_name), client_host=host
        )
        was, is_now = (p.authorizer.authorize_by_resource_type(context, WRITE, TOPIC) for p in policies)
        shown = principal_name if principal_name in named else "*"
        reported = [
            change.is_allowed
            for change in listed
            if change.principal == shown
            and (host in change.hosts or (change.hosts == ("*",) and host not in change.hosts_except))
        ]
        assert reported == ([is_now] if was != is_now else []), (principal_name, host)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(["a", "aa", "aab", "b", "ae", "ax", "*"]), st.sampled_from([LITERAL, PREFIXED])))
)
def test_classes_are_disjoint_and_cover_every_name(patterns: list[tuple[str, int]]) -> None:
    half = len(patterns) // 2
    space = NameSpace(TOPIC, [PatternTable(patterns[:half]), PatternTable(patterns[half:])])
    classes = list(space.classes())
    assert len(set(classes)) == len(classes)
    for found in classes:
        assert class_of(found.example, set(patterns)) == (found.name, found.pattern_type)
    for name in NAMES:
        assert class_of(name, set(patterns)) in {(found.name, found.pattern_type) for found in classes}


def test_a_prefix_rule_opens_its_class_and_names_the_rule() -> None:
    kept = rule("alice", READ, "pay-secret")
    new = rule("alice", READ, "pay-", pattern=PREFIXED)
    (change,) = states([kept], [kept, new]).changes
    assert (change.principal, change.hosts, change.opened) == ("User:alice", ("*",), (READ, DESCRIBE))
    ((found, opened_by, _),) = change.classes
    assert (found.name, found.pattern_type, found.example) == ("pay-", PREFIXED, "pay-example")
    assert [(cause.kind, cause.binding) for cause in opened_by] == [(CauseKind.RULE_ADDED, new)]


def test_removing_a_deny_rule_opens_the_access_that_it_denied() -> None:
    allow, deny = rule("*", ALL, "*"), rule("bob", WRITE, permission=DENY)
    proof = states([allow, deny], [allow])
    (change,) = proof.changes
    assert (change.principal, change.opened, change.closed) == ("User:bob", (WRITE,), ())
    assert change.classes[0].opened_by[0].kind is CauseKind.RULE_REMOVED
    assert proof.opens
    assert not proof.closes


def test_a_change_without_effect_has_an_empty_proof() -> None:
    wide, narrow = rule("*", ALL, "*"), rule("alice", READ)
    proof = states([wide], [wide, narrow])
    assert not proof.changes
    assert not proof.any_resource


def test_the_first_rule_closes_an_open_resource_to_all_other_principals() -> None:
    new = rule("alice", READ)
    proof = states([], [new], default=True)
    by_principal = {change.principal: change for change in proof.changes}
    assert by_principal["*"].classes[0].closed_by[0] == (CauseKind.FIRST_RULE, new)
    assert READ in by_principal["*"].closed
    assert READ not in by_principal["User:alice"].closed
    assert not proof.opens


def test_a_principal_that_may_write_one_topic_may_be_an_idempotent_producer() -> None:
    (found,) = states([], [rule("alice", WRITE)]).any_resource
    assert (found.principal, found.hosts, found.is_allowed, found.operation) == ("User:alice", ("*",), True, WRITE)


def test_equal_changes_on_many_names_are_one_line() -> None:
    names = [f"topic-{number}" for number in range(50)]
    before = [rule("alice", READ, name) for name in names]
    every = rule("alice", WRITE, "topic-", pattern=PREFIXED)
    proof = states(before, [*before, every])
    assert len(proof.changes) == 2  # One where Describe was already implied, one where it was not.
    assert sum(len(change.classes) for change in proof.changes) == 51


def test_a_principal_with_a_rule_for_every_name_has_the_name_classes_of_the_wildcard() -> None:
    """Such principals are handled in buckets; narrower rules of a principal are checked individually."""
    names = [f"topic-{number}" for number in range(2_000)]
    before = [rule("*", READ, name) for name in names]
    before += [rule(f"ops{number}", READ, "*") for number in range(200)]
    before += [rule("ops7", WRITE, "topic-7"), rule("ops7", ALL, "topic-19", pattern=PREFIXED, permission=DENY)]
    new = rule("*", WRITE, "*")
    proof = states(before, [*before, new])
    by_principal = {change.principal: change for change in proof.changes}
    assert len(proof.changes) == len(by_principal) + 1, "all other principals may already Describe some names"
    assert len(by_principal["User:ops1"].classes) == len(names) + 1
    of_seven = {name_class.names.name for name_class in by_principal["User:ops7"].classes}
    assert of_seven == {"", *names} - {name for name in names if name.startswith("topic-19")} - {"topic-7"}
    assert {name_class.opened_by for name_class in by_principal["User:ops7"].classes} == {
        ((CauseKind.RULE_ADDED, new),)
    }
    assert [name_class.names for name_class in by_principal["User:ops1"].classes] == sorted(
        name_class.names for name_class in by_principal["User:ops1"].classes
    )


@pytest.mark.parametrize("name", ["a" + c for c in "ex0abcdefghijklmnopqrstuvwxyz"])
def test_an_example_is_found_where_many_prefixes_are_in_use(name: str) -> None:
    table = PatternTable([(name[:1] + chr(code), PREFIXED) for code in range(33, 0x500)] + [("a", PREFIXED)])
    (found,) = [c for c in NameSpace(TOPIC, [table]).within("a", PREFIXED) if c.name == "a"]
    assert class_of(found.example, {("a", PREFIXED)}) == ("a", PREFIXED)
    assert table.longest_prefix(found.example) == 1


def _principal(text: str) -> Principal:
    kind, _, name = text.partition(":")
    return Principal(kind, name)
