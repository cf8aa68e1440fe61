"""ACL bindings as text, and the matches of a filter."""

from __future__ import annotations

import pytest

from barnabas.common.acl import AclBinding, AclBindingFilter

LITERAL, PREFIXED, ANY, MATCH = 3, 4, 1, 2
ORDERS = AclBinding(2, "orders", LITERAL, "User:alice", "10.0.0.1", 3, 3)
ORD = AclBinding(2, "ord", PREFIXED, "User:*", "*", 2, 2)
EVERY = AclBinding(2, "*", LITERAL, "User:alice", "*", 3, 3)
ASTERISK = AclBinding(2, "*", PREFIXED, "User:alice", "*", 3, 3)
RULES = {"orders": ORDERS, "ord": ORD, "every": EVERY, "asterisk": ASTERISK}


def found(acl_filter: AclBindingFilter) -> set[str]:
    return {name for name, rule in RULES.items() if acl_filter.matches(rule)}


def test_a_binding_has_a_readable_text() -> None:
    assert str(ORDERS) == "ALLOW User:alice from 10.0.0.1 to READ on TOPIC:LITERAL:orders"
    assert str(ORD._replace(operation=77)) == "DENY User:* from * to UNKNOWN(77) on TOPIC:PREFIXED:ord"


@pytest.mark.parametrize(
    ("acl_filter", "expected"),
    [
        (AclBindingFilter(), {"orders", "ord", "every", "asterisk"}),
        (AclBindingFilter(resource_type=3), set()),
        (AclBindingFilter(name="*", pattern_type=LITERAL), {"every"}),
        (AclBindingFilter(name="*", pattern_type=PREFIXED), {"asterisk"}),
        (AclBindingFilter(name="*", pattern_type=ANY), {"every", "asterisk"}),
        (AclBindingFilter(name="*x", pattern_type=MATCH), {"every", "asterisk"}),
        (AclBindingFilter(name="orders", pattern_type=LITERAL), {"orders"}),
        (AclBindingFilter(name="orders", pattern_type=PREFIXED), set()),
        (AclBindingFilter(name="ord", pattern_type=PREFIXED), {"ord"}),
        (AclBindingFilter(name="orders", pattern_type=MATCH), {"orders", "ord", "every"}),
        (AclBindingFilter(pattern_type=MATCH), {"orders", "ord", "every", "asterisk"}),
        (AclBindingFilter(pattern_type=PREFIXED), {"ord", "asterisk"}),
        (AclBindingFilter(principal="User:*"), {"ord"}),
        (AclBindingFilter(principal="User:alice"), {"orders", "every", "asterisk"}),
        (AclBindingFilter(host="*"), {"ord", "every", "asterisk"}),
        (AclBindingFilter(host="10.0.0.1"), {"orders"}),
        (AclBindingFilter(operation=2), {"ord"}),
        (AclBindingFilter(permission=2), {"ord"}),
    ],
)
def test_a_filter_matches_literally_and_expands_nothing(acl_filter: AclBindingFilter, expected: set[str]) -> None:
    assert found(acl_filter) == expected


def test_only_a_complete_filter_equals_one_binding() -> None:
    assert AclBindingFilter(*ORDERS).is_one_binding
    assert AclBindingFilter(*ORDERS).matches(ORDERS)
    for change in (
        {"name": None},
        {"host": None},
        {"operation": 1},
        {"pattern_type": MATCH},
        {"permission": 1},
    ):
        open_filter: AclBindingFilter = AclBindingFilter._make(
            {**AclBindingFilter(*ORDERS)._asdict(), **change}.values()
        )
        assert not open_filter.is_one_binding
