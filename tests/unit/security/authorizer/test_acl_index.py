"""The index against a simple linear reference: any ACLs, any order of changes, every kind of query.

``make fuzz`` runs each of these with 100,000 examples.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from barnabas.common.acl import AclBinding, AclBindingFilter
from barnabas.common.errors import InvariantViolated
from barnabas.common.uuid import Uuid
from barnabas.protocol.api_keys import ApiKey
from barnabas.security.authorizer import acl_index
from barnabas.security.authorizer.acl_index import AclIndex
from barnabas.security.authorizer.authorized_operations import SUPPORTED_MASKS, supported_operations
from barnabas.security.authorizer.authorizer import Authorizer
from barnabas.security.authorizer.standard_authorizer import StandardAuthorizer
from barnabas.security.principal import Principal
from barnabas.security.request_context import RequestContext
from tests.unit.security.authorizer.linear_authorizer import LinearAuthorizer, covers_resource, units

pytestmark = pytest.mark.hypothesis

CI_EXAMPLES = 2_000
FUZZ_EXAMPLES = 100_000

PRINCIPALS = ("User:alice", "User:bob", "User:*", "Group:*", "Group:alice", "User:a:b", "User:é")
CALLERS = ("User:alice", "User:bob", "Group:*", "Group:alice", "User:a:b", "User:é", "User:nobody")
HOSTS = ("*", "10.0.0.1", "10.0.0.2", "0:0:0:0:0:0:0:1")
CALLER_HOSTS = ("10.0.0.1", "10.0.0.2", "0:0:0:0:0:0:0:1", "*")
# Names that are prefixes of each other, start with wildcard characters, and sort as in Java.
NAMES = (
    *("*", "**", "*a", "a", "ab", "abc", "abd", "b", "!", "!a", " ", "~", "hard", "hardcode"),
    *("\uffee", "\U0001f600", "\U0001f600a"),
)
TYPES = (2, 2, 2, 3, 5)
OPERATIONS = (2, 3, 4, 5, 6, 7, 8, 10, 11, 15)

many = settings(
    max_examples=FUZZ_EXAMPLES if settings.default.max_examples >= 20_000 else CI_EXAMPLES,
    suppress_health_check=[HealthCheck.too_slow],
)


def rule_of(number: int) -> AclBinding:
    """Map every number to an ACL."""
    fields: list[Any] = []
    for choices in (TYPES, NAMES, (3, 4), PRINCIPALS, HOSTS, OPERATIONS, (2, 3, 3)):
        number, index = divmod(number, len(choices))
        fields.append(choices[index])
    return AclBinding(*fields)


def rules_of(data: bytes) -> list[AclBinding]:
    """Three bytes for each ACL: one draw for all of them is much faster than seven fields for each."""
    numbers = (int.from_bytes(data[start : start + 3], "little") for start in range(0, len(data) - 2, 3))
    return list(dict.fromkeys(map(rule_of, numbers)))


few_rules = st.binary(max_size=24).map(rules_of)
rule_sets = few_rules | st.binary(min_size=30, max_size=75).map(rules_of)
names = st.sampled_from(NAMES)
callers = st.tuples(st.sampled_from(CALLERS), st.sampled_from(CALLER_HOSTS))
seeds = st.integers(0, 2**32)


def principal_of(text: str, *, by_token: bool = False) -> Principal:
    kind, _, name = text.partition(":")
    return Principal(kind, name, by_token)


def ids_of(bindings: list[AclBinding]) -> dict[Uuid, AclBinding]:
    return {Uuid.from_int(1000 + number): binding for number, binding in enumerate(bindings)}


class Pair:
    """The index and the reference with the same ACLs, changed and queried together."""

    def __init__(self, bindings: list[AclBinding], *, allow_if_no_rule: bool = False) -> None:
        self.ids = ids_of(bindings)
        self.reference = LinearAuthorizer(bindings, allow_if_no_rule=allow_if_no_rule)
        self.authorizer = StandardAuthorizer()
        self.authorizer.configure({"allow.everyone.if.no.acl.found": str(allow_if_no_rule)})
        self.authorizer.load_snapshot(self.ids)
        self.authorizer.complete_initial_load()
        self.next_id = 5000

    def add(self, binding: AclBinding) -> None:
        self.next_id += 1
        acl_id = Uuid.from_int(self.next_id)
        if binding in self.reference.rules:
            with pytest.raises(InvariantViolated, match="exists already"):
                self.authorizer.add_acl(acl_id, binding)
            return
        self.ids[acl_id] = binding
        self.reference.rules.append(binding)
        self.authorizer.add_acl(acl_id, binding)

    def remove(self, position: int) -> None:
        if self.ids:
            acl_id = list(self.ids)[position % len(self.ids)]
            self.reference.rules.remove(self.ids.pop(acl_id))
            self.authorizer.remove_acl(acl_id)

    def context(self, caller: tuple[str, str], *, by_token: bool = False) -> RequestContext:
        return RequestContext(
            api_key=ApiKey.METADATA,
            api_version=12,
            principal=principal_of(caller[0], by_token=by_token),
            client_host=caller[1],
        )

    def check_decision(self, caller: tuple[str, str], operation: int, type_: int, name: str, *, by_token: bool) -> None:
        context: Any = self.context(caller, by_token=by_token)
        expected = self.reference.allows(*caller, operation, type_, name)
        for _ in ("decided", "remembered"):
            assert self.authorizer.authorize(context, operation, type_, name) is expected  # type: ignore[arg-type]

    def check_some(self, draw: random.Random) -> None:
        """Compare queries of every kind."""
        caller = (draw.choice(CALLERS), draw.choice(CALLER_HOSTS))
        for _ in range(4):
            self.check_decision(
                caller,
                draw.randrange(2, 16),
                draw.choice((2, 2, 3, 5)),
                draw.choice(NAMES),
                by_token=draw.random() < 0.3,
            )
        context: Any = self.context(caller)
        operation, type_ = draw.randrange(2, 16), draw.choice(TYPES)
        expected = self.reference.allows_any(*caller, operation, type_)
        assert self.authorizer.authorize_by_resource_type(context, operation, type_) is expected  # type: ignore[arg-type]
        names = draw.choices(NAMES, k=3)
        allowed = [name for name in names if self.reference.allows(*caller, operation, type_, name)]
        assert list(self.authorizer.filter_authorized(context, operation, type_, names)) == allowed  # type: ignore[arg-type]


@many
@given(rule_sets, few_rules, st.booleans(), seeds)
def test_every_decision_equals_the_linear_references_after_any_changes(
    before: list[AclBinding], added: list[AclBinding], allow_if_no_rule: bool, seed: int
) -> None:
    draw = random.Random(seed)
    pair = Pair(before, allow_if_no_rule=allow_if_no_rule)
    pair.check_some(draw)
    for binding in added:
        if draw.random() < 0.4:
            pair.remove(draw.randrange(1000))
        pair.add(binding)
        pair.check_some(draw)
    while pair.ids and draw.random() < 0.7:
        pair.remove(draw.randrange(1000))
        pair.check_some(draw)
    assert pair.authorizer.acl_count == len(pair.ids)


@many
@given(rule_sets, callers, st.sampled_from((2, 3, 5)), st.lists(names, max_size=12), st.booleans(), st.booleans())
def test_masks_equal_the_decisions_about_every_operation(
    bindings: list[AclBinding],
    caller: tuple[str, str],
    type_: int,
    resource_names: list[str],
    is_sorted: bool,
    allow_if_no_rule: bool,
) -> None:
    pair = Pair(bindings, allow_if_no_rule=allow_if_no_rule)
    context: Any = pair.context(caller)
    resource_type: Any = type_
    if is_sorted:
        resource_names = sorted(resource_names)
    expected = [
        sum(1 << code for code in supported_operations(type_) if pair.reference.allows(*caller, code, type_, name))
        for name in resource_names
    ]
    authorizer = pair.authorizer
    assert list(authorizer.authorized_operations_many(context, resource_type, resource_names)) == expected
    assert [authorizer.authorized_operations(context, resource_type, name) for name in resource_names] == expected
    by_loop = Authorizer.authorized_operations_many(authorizer, context, resource_type, resource_names)
    assert list(by_loop) == expected


@many
@given(
    rule_sets,
    st.builds(
        AclBindingFilter,
        resource_type=st.sampled_from((1, 1, 2, 3, 5, 0)),
        name=st.none() | names,
        pattern_type=st.sampled_from((1, 2, 3, 4, 0)),
        principal=st.none() | st.sampled_from(PRINCIPALS),
        host=st.none() | st.sampled_from(HOSTS),
        operation=st.sampled_from((1, 1, 2, 3, 8)),
        permission=st.sampled_from((1, 1, 2, 3)),
    ),
    seeds,
)
def test_filters_find_their_matches_in_kafkas_order(
    bindings: list[AclBinding], acl_filter: AclBindingFilter, seed: int
) -> None:
    draw = random.Random(seed)
    pair = Pair(bindings)
    for _ in range(2):
        expected = [rule for rule in pair.reference.in_order() if acl_filter.matches(rule)]
        found = list(pair.authorizer.acls(acl_filter))
        assert [rule for _, rule in found] == expected
        assert all(pair.ids[acl_id] == rule for acl_id, rule in found)
        pair.remove(draw.randrange(1000))
        pair.add(draw.choice(bindings) if bindings else AclBinding(2, "a", 3, "User:bob", "*", 3, 3))


@many
@given(rule_sets, callers, st.integers(2, 15), st.sampled_from((2, 3, 5)), names, st.booleans())
def test_the_explanation_agrees_with_the_decision_and_names_every_acl(
    bindings: list[AclBinding],
    caller: tuple[str, str],
    operation: int,
    type_: int,
    name: str,
    allow_if_no_rule: bool,
) -> None:
    pair = Pair(bindings, allow_if_no_rule=allow_if_no_rule)
    decision = pair.authorizer.explain(principal_of(caller[0]), caller[1], operation, type_, name)
    assert decision.allowed is pair.reference.allows(*caller, operation, type_, name)
    matching = pair.reference.matching(*caller, operation, type_, name)
    assert {rule for _, rule in decision.denying} == {rule for rule in matching if rule.permission == 2}
    assert {rule for _, rule in decision.allowing} == {rule for rule in matching if rule.permission == 3}
    if matching:
        assert decision.rule == "MatchingAcl"
        assert decision.binding is not None
        assert decision.id is not None
        assert pair.ids[decision.id] == decision.binding
        assert decision.binding == first_denial_or_last_allow(matching, name)
    else:
        assert decision.rule in ("DefaultAllow", "DefaultDeny")


def first_denial_or_last_allow(matching: list[AclBinding], name: str) -> AclBinding:
    """The audit names the first denial in the order of names, the last name first, and then the wildcard."""
    scanned = sorted(
        matching, key=lambda r: (r.pattern_type, r.operation, units(r.principal), units(r.host), r.permission)
    )
    scanned.sort(key=lambda rule: units(rule.name), reverse=True)
    scanned.sort(key=lambda rule: rule.pattern_type == 3 and rule.name == "*")
    return next((rule for rule in scanned if rule.permission == 2), scanned[-1])


@pytest.mark.parametrize("character", [chr(code) for code in range(0x20, 0x7F)])
def test_a_name_may_begin_with_any_printable_character(character: str) -> None:
    others = [chr(code) + "x" for code in range(0x20, 0x7F)]
    bindings = [AclBinding(3, name, 4, "User:bob", "*", 3, 3) for name in others]
    bindings += [AclBinding(3, "*", 3, "User:*", "*", 8, 3), AclBinding(3, character + "xy", 3, "User:*", "*", 8, 2)]
    pair = Pair(bindings)
    for name in (character, character + "x", character + "xy", character + "xyz", character * 3):
        for caller in (("User:bob", "10.0.0.1"), ("User:carol", "10.0.0.1")):
            for operation in (3, 4, 8):
                pair.check_decision(caller, operation, 3, name, by_token=False)
        expected = sum(1 << code for code in (3, 6, 8, 10, 11) if pair.reference.allows("User:bob", "h", code, 3, name))
        context: Any = pair.context(("User:bob", "h"))
        assert pair.authorizer.authorized_operations(context, 3, name) == expected  # type: ignore[arg-type]


@pytest.mark.parametrize("allow_if_no_rule", [False, True])
def test_the_cache_is_bounded_and_stays_correct(allow_if_no_rule: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acl_index, "_VIEWS_MAX", 3)
    monkeypatch.setattr(acl_index, "_REMEMBERED_MAX", 10)
    monkeypatch.setattr(acl_index, "_CHEAP_TO_COMPILE", 2)
    draw = random.Random(7)
    pool = [
        AclBinding(
            2,
            draw.choice(NAMES),
            draw.choice((3, 4)),
            principal,
            draw.choice(HOSTS),
            draw.choice((3, 4, 8)),
            permission,
        )
        for principal in PRINCIPALS
        for permission in (2, 3, 3)
        for _ in range(6)
    ]
    pair = Pair(list(dict.fromkeys(pool[:60])), allow_if_no_rule=allow_if_no_rule)
    for _ in range(400):
        pair.check_some(draw)
        pair.remove(draw.randrange(1000))
        pair.add(draw.choice(pool))
        index = pair.authorizer._index
        assert sum(map(len, index.views.values())) <= 3
        assert len(index._compiled) <= len(PRINCIPALS) + 2


def test_adding_an_existing_acl_and_removing_a_missing_one_are_faults() -> None:
    rule, other = AclBinding(2, "a", 3, "User:bob", "*", 3, 3), AclBinding(2, "a", 3, "User:bob", "*", 4, 3)
    index = AclIndex({Uuid.from_int(1000): rule})
    with pytest.raises(InvariantViolated, match="exists already"):
        index.add(Uuid.from_int(1000), other)
    with pytest.raises(InvariantViolated, match="exists already under another id"):
        index.add(Uuid.from_int(1001), rule)
    with pytest.raises(InvariantViolated, match="no ACL has the id"):
        index.remove(Uuid.from_int(1001))
    assert len(index) == 1


def test_an_acl_that_a_snapshot_contains_twice_applies_until_both_are_removed() -> None:
    rule = AclBinding(2, "a", 3, "User:bob", "*", 3, 3)
    index = AclIndex({Uuid.from_int(1000 + number): rule for number in range(3)})
    bob = Principal("User", "bob")
    for number in range(3):
        assert index.mask(bob, "h", 2, "a") >> 3 & 1
        index.remove(Uuid.from_int(1000 + number))
    assert index.mask(bob, "h", 2, "a") == 0


def test_codes_of_a_later_version_have_no_effect_but_are_kept() -> None:
    later = [
        AclBinding(2, "a", 3, "User:bob", "*", 77, 3),
        AclBinding(2, "a", 9, "User:bob", "*", 3, 3),
        AclBinding(2, "a", 3, "User:bob", "*", 3, 9),
    ]
    index = AclIndex(ids_of(later), allow_if_no_rule=True)
    assert index.mask(Principal("User", "bob"), "h", 2, "a") == 0
    assert len(list(index.find(AclBindingFilter()))) == 3
    with pytest.raises(InvariantViolated):
        index.add(Uuid.from_int(1), later[0])
    for acl_id in ids_of(later):
        index.remove(acl_id)
    assert index.mask(Principal("User", "bob"), "h", 2, "a") == -1


def test_a_principal_whose_type_has_a_colon_is_not_confused_with_another() -> None:
    index = AclIndex({Uuid.from_int(1000): AclBinding(2, "*", 3, "User:a:b", "*", 2, 3)})
    assert index.mask(Principal("User", "a:b"), "h", 2, "t") == -1
    assert index.mask(Principal("User:a", "b"), "h", 2, "t") == 0


def test_long_names_are_decided_and_not_cached() -> None:
    index = AclIndex({Uuid.from_int(1000): AclBinding(3, "x", 4, "User:bob", "*", 3, 3)})
    bob = Principal("User", "bob")
    assert index.mask(bob, "h", 3, "x" * 30_000) >> 3 & 1
    assert not index.views[bob]["h"].masks.get(3)


def test_a_change_for_a_principal_with_many_acls_reads_few_entries() -> None:
    """Counted, not timed: a hundred thousand ACLs must not be read again."""
    acls = {
        Uuid.from_int(1000 + number): AclBinding(2, f"topic-{number}", 3 + number % 2, "User:bob", "*", 3, 3)
        for number in range(100_000)
    }
    index = AclIndex(acls)
    bob = Principal("User", "bob")
    assert index.mask(bob, "h", 2, "topic-4") >> 3 & 1
    masks = index._compiled["User:bob"]
    index.mask(bob, "h", 2, "unrelated")
    index.add(Uuid.from_int(1), AclBinding(2, "topic-4", 3, "User:bob", "*", 3, 2))
    assert index._compiled["User:bob"] is masks
    assert index.views[bob]["h"].masks[2].keys() == {"unrelated"}
    assert index.mask(bob, "h", 2, "topic-4") >> 3 & 1 == 0
    index.remove(Uuid.from_int(1))
    assert index.mask(bob, "h", 2, "topic-4") >> 3 & 1


def test_supported_masks_equal_those_of_the_reference() -> None:
    assert SUPPORTED_MASKS == {2: 3576, 3: 3400, 4: 8096, 5: 33040, 6: 256, 7: 24576}
    assert covers_resource(AclBinding(2, "*", 4, "", "", 2, 3), 2, "*a")
