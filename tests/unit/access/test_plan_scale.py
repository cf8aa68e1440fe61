"""The cost of a plan for 100,000 ACLs depends on the changes, not on the number of ACLs."""

from __future__ import annotations

import random
import time

import pytest

from barnabas.access.cluster_state import ClusterState
from barnabas.access.desired_state import DesiredState
from barnabas.access.desired_state_scope import AclScope, NamePattern, Scope
from barnabas.access.plan import make_plan
from barnabas.common.acl import AclBinding

COUNT, CHANGED = 100_000, 150
EVERYTHING = Scope(acls=(AclScope(None, None, NamePattern("", True)),))


def rule(draw: random.Random) -> AclBinding:
    is_prefix = draw.random() < 0.3
    name = f"team{draw.randrange(500)}-" + ("" if is_prefix and draw.random() < 0.5 else str(draw.randrange(20_000)))
    return AclBinding(
        draw.choice([2, 2, 2, 3, 5]),
        name,
        4 if is_prefix else 3,
        "User:*" if draw.random() < 0.01 else f"User:app{draw.randrange(5_000)}",
        "*" if draw.random() < 0.9 else f"10.0.0.{draw.randrange(99)}",
        draw.choice([2, 3, 4, 8]),
        2 if draw.random() < 0.05 else 3,
    )


@pytest.mark.slow
@pytest.mark.parametrize("allow_everyone", [False, True])
def test_a_change_of_a_few_hundred_among_100_000_rules_takes_seconds(allow_everyone: bool) -> None:
    draw = random.Random(1)
    rules: set[AclBinding] = set()
    while len(rules) < COUNT:
        rules.add(rule(draw))
    gone = set(draw.sample(sorted(rules), CHANGED))
    wanted = frozenset(rules - gone | {rule(draw) for _ in range(CHANGED)})
    desired = DesiredState(EVERYTHING, ClusterState(acls=wanted), {}, ())
    start = time.process_time()
    plan = make_plan(ClusterState(acls=frozenset(rules)), desired, allow_delete=True, allow_everyone=allow_everyone)
    assert time.process_time() - start < 10
    assert plan.change_count >= 2 * CHANGED - 5
    assert plan.proof.opens
    assert plan.proof.closes
