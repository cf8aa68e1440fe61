"""What a history reports as opened and closed is what the authorizer decides differently before and after."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from itertools import groupby, product
from typing import Any

import pytest

from barnabas.access.acl_text import Resource, parse_principal
from barnabas.access.history import AccessStep, AclRecord, Settings, access_history
from barnabas.access.history_json import history_json
from barnabas.access.name_classes import does_match
from barnabas.access.rule_set import Policy, Rule
from barnabas.common.acl import AclBinding
from barnabas.common.resource import ResourceType
from barnabas.common.uuid import Uuid

NAMES = ("a", "ab", "abc", "b", "*")
PRINCIPALS = ("User:alice", "User:bob", "User:*")
HOSTS = ("*", "10.0.0.1")
OPERATIONS = (2, 3, 4, 8)
DECIDED = (3, 4, 5, 8)


def rule(
    principal: str, name: str = "orders", *, pattern: int = 3, operation: int = 3, permission: int = 3
) -> AclBinding:
    return AclBinding(2, name, pattern, principal, "*", operation, permission)


def record(change: int, number: int, binding: AclBinding | None) -> AclRecord:
    return AclRecord(change, 10 * change + number, 1000 * change, Uuid.from_int(100 + number), binding)


def random_records(generator: random.Random) -> Iterator[AclRecord]:
    present: set[int] = set()
    for change in range(12):
        for _ in range(generator.randint(1, 3)):
            number = generator.randrange(7)
            if number in present and generator.random() < 0.5:
                present.discard(number)
                yield record(change, number, None)
            else:
                present.add(number)
                yield record(change, number, AclBinding(
                    2, generator.choice(NAMES), generator.choice((3, 4)), generator.choice(PRINCIPALS),
                    generator.choice(HOSTS), generator.choice(OPERATIONS), generator.choice((2, 3, 3)),
                ))  # fmt: skip


def states(records: list[AclRecord]) -> Iterator[tuple[int, dict[Uuid, AclBinding], dict[Uuid, AclBinding]]]:
    state: dict[Uuid, AclBinding] = {}
    for change, group in groupby(records, key=lambda item: item.change):
        before = dict(state)
        for item in group:
            if item.binding is None:
                del state[item.acl_id]
            else:
                state[item.acl_id] = item.binding
        yield change, before, dict(state)


def decided(rules: Mapping[Uuid, AclBinding], settings: Settings, principal: str, host: str, name: str) -> set[int]:
    policy = Policy(
        [Rule(binding) for binding in rules.values()],
        super_users=settings.super_users,
        allow_everyone=settings.allow_everyone,
    )
    who = parse_principal(principal)
    return {code for code in DECIDED if policy.is_allowed(who, host, code, ResourceType.TOPIC, name)}


def reported(step: AccessStep | None, principal: str, host: str, name: str) -> tuple[set[int], set[int]]:
    """Return what a step says about one cell: the nearest class of the principal that has the name, and its host."""
    if step is None:
        return set(), set()
    mine = [change for change in step.changes if change.principal == principal]
    for change in mine or [change for change in step.changes if change.principal == "*"]:
        has_host = host in change.hosts or ("*" in change.hosts and host not in change.hosts_except)
        if has_host and change.name == name:
            return set(change.opened) & set(DECIDED), set(change.closed) & set(DECIDED)
    return set(), set()


@pytest.mark.parametrize("allow_everyone", [False, True])
@pytest.mark.parametrize("seed", range(25))
def test_changes_on_a_resource_equal_the_decisions(seed: int, allow_everyone: bool) -> None:
    generator = random.Random(seed)
    records, settings = list(random_records(generator)), Settings(frozenset({"User:root"}), allow_everyone)
    name = generator.choice((*NAMES[:4], "zz"))
    resource = Resource(ResourceType.TOPIC, name)
    everyone = {step.time_ms: step for step in access_history({}, records, settings, resource=resource)}
    assert not any(step.changes for step in access_history({}, records, settings, principal="User:root"))
    for principal in ("User:alice", "User:carol"):
        steps = {
            step.time_ms: step for step in access_history({}, records, settings, principal=principal, resource=resource)
        }
        for (change, before, after), host in product(list(states(records)), ("10.0.0.1", "10.9.9.9")):
            was, is_now = (decided(rules, settings, principal, host, name) for rules in (before, after))
            context = f"{principal} at {host} on {name}, change {change}"
            if principal not in ("User:root",):
                assert reported(steps.get(1000 * change), principal, host, name) == (is_now - was, was - is_now), (
                    context
                )
            own = {
                rule.principal
                for rules in (before, after)
                for rule in rules.values()
                if does_match(rule.name, rule.pattern_type, name)
            }
            shown = principal if principal in own else "*"
            step = everyone.get(1000 * change)
            if step is not None:
                step = step._replace(changes=tuple(item for item in step.changes if item.principal == shown))
            assert reported(step, shown, host, name) == (is_now - was, was - is_now), context


@pytest.mark.parametrize("allow_everyone", [False, True])
@pytest.mark.parametrize("seed", range(25))
def test_changes_of_a_principal_equal_the_decisions_for_every_name(seed: int, allow_everyone: bool) -> None:
    records, settings = list(random_records(random.Random(seed))), Settings(frozenset(), allow_everyone)
    for principal in ("User:alice", "User:carol"):
        steps = {step.time_ms: step for step in access_history({}, records, settings, principal=principal)}
        for change, before, after in states(records):
            step = steps.get(1000 * change)
            for name, host in product((*NAMES[:4], "abcd", "zz"), ("10.0.0.1", "10.9.9.9")):
                was, is_now = (decided(rules, settings, principal, host, name) for rules in (before, after))
                assert of_name(step, host, name) == (is_now - was, was - is_now), f"{principal} {host} {name} {change}"


def of_name(step: AccessStep | None, host: str, name: str) -> tuple[set[int], set[int]]:
    """Return the change of the only class of a step that has the name; a class without a change is not there."""
    found = [
        change
        for change in (() if step is None else step.changes)
        if (host in change.hosts or ("*" in change.hosts and host not in change.hosts_except))
        and does_match(change.name, change.pattern_type, name)
        and not any(does_match(*pattern, name) for pattern in change.names_except)
    ]
    assert len(found) <= 1
    opened, closed = (set(found[0].opened), set(found[0].closed)) if found else (set(), set())
    return opened & set(DECIDED), closed & set(DECIDED)


def test_records_of_one_change_are_one_step() -> None:
    records = [record(1, 0, rule("User:alice", permission=2)), record(1, 1, rule("User:alice", operation=2))]
    (step,) = access_history({}, records, Settings(), principal="User:alice")
    assert (step.offsets, step.time_ms, len(step.added)) == ((10, 11), 1000, 2)
    (change,) = step.changes
    assert 3 not in change.opened
    assert 4 in change.opened


def test_a_rule_that_changes_no_decision_is_a_step_without_changes() -> None:
    records = [record(1, 0, rule("User:alice", operation=2)), record(2, 1, rule("User:alice"))]
    first, second = access_history({}, records, Settings(), principal="User:alice")
    assert first.changes
    assert (second.changes, second.added[0].id) == ((), Uuid.from_int(101))


def test_a_replaced_rule_is_removed_and_added() -> None:
    old, new = rule("User:alice"), rule("User:alice", operation=4)
    (step,) = access_history({Uuid.from_int(100): old}, [record(1, 0, new)], Settings(), principal="User:alice")
    assert [(item.binding, item.id) for item in (*step.removed, *step.added)] == [
        (old, Uuid.from_int(100)), (new, Uuid.from_int(100))
    ]  # fmt: skip


def test_others_rules_are_steps_only_if_they_end_what_the_default_allows() -> None:
    records = [record(1, 0, rule("User:bob"))]
    assert list(access_history({}, records, Settings(), principal="User:alice")) == []
    (step,) = access_history({}, records, Settings(allow_everyone=True), principal="User:alice")
    assert step.changes[0].closed
    assert step.added[0].binding.principal == "User:bob"


def test_the_json_form_has_the_records_and_the_access() -> None:
    (step,) = access_history({}, [record(1, 0, rule("User:alice"))], Settings(), principal="User:alice")
    document: list[dict[str, Any]] = history_json([step])
    assert document[0]["offsets"] == [10]
    assert document[0]["access"][0] == {
        "principal": "User:alice", "hosts": ["*"], "hosts_except": [], "resource_type": "TOPIC", "name": "orders",
        "pattern_type": "LITERAL", "except": [], "opened": ["READ", "DESCRIBE"], "closed": [],
    }  # fmt: skip
    assert document[0]["added"][0]["operation"] == "READ"
