"""``python -m bench.admin_plan RULES tenant|mixed|broad [everyone]``: plans a change of rules, in a separate process.

- ``tenant``: the rules of a cluster of teams, as the authorizers are compared on.
- ``mixed``: names and prefixes of other teams that contain each other, rules for all users, and hosts.
- ``broad``: 3,000 principals on 50,000 topics, and new rules for all users: on every topic, and on 300 prefixes. So
  nearly every existing rule must be examined.

In the first two 300 rules change.

With ``everyone`` the cluster allows access to resources without rules (``allow.everyone.if.no.acl.found``). Peak
memory is that of the process, with the interpreter and both sets of rules.
"""

from __future__ import annotations

import random
import re
import subprocess
import sys
import time
from pathlib import Path

from barnabas.access.cluster_state import ClusterState
from barnabas.access.desired_state import DesiredState
from barnabas.access.desired_state_scope import AclScope, NamePattern, Scope
from barnabas.access.plan import make_plan
from barnabas.common.acl import AclBinding, AclOperation, AclPermissionType
from barnabas.common.resource import PatternType, ResourceType
from bench.authorizer_shapes import make_shape

__all__ = ["CHANGED_RULES", "PLANNED_RULES", "measure_plans"]

PLANNED_RULES = 100_000
CHANGED_RULES = 300
"""Half of them go, half are new."""

_CASES = tuple((kind, *option) for kind in ("tenant", "mixed", "broad") for option in ((), ("everyone",)))
_EVERYTHING = Scope(acls=(AclScope(None, None, NamePattern("", is_prefix=True)),))
_SEED = 5
_PEAK = re.compile(r"VmHWM:\s+(\d+) kB")


def measure_plans(rules: int = PLANNED_RULES) -> dict[str, dict[str, float]]:
    """Figures by the kind of rules, each from a process of its own."""
    found = {}
    for case in _CASES:
        command = [sys.executable, "-m", "bench.admin_plan", str(rules), *case]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        if done.returncode:
            raise AssertionError(f"{' '.join(command)} failed:\n{done.stderr[-4000:]}")
        lines = (line.split() for line in done.stdout.splitlines())
        name = case[0] + ", what has no rule is open" * (len(case) > 1)
        found[name] = {figure: float(value) for figure, value in lines}
        print(f"plan: {name}: {found[name]}", flush=True)
    return found


def _plan(rules: int, kind: str, *, is_open: bool) -> dict[str, float]:
    kept, gone, added = _broad_change(rules) if kind == "broad" else _narrow_change(rules, kind)
    desired = DesiredState(_EVERYTHING, ClusterState(acls=frozenset([*kept, *added])), {}, ())
    current = ClusterState(acls=frozenset([*kept, *gone]))
    began, cpu = time.perf_counter(), time.process_time()
    plan = make_plan(current, desired, allow_delete=True, allow_everyone=is_open)
    return {
        "plan_s": time.perf_counter() - began,
        "plan_cpu_s": time.process_time() - cpu,
        "peak_mib": int(_PEAK.findall(Path("/proc/self/status").read_text())[0]) / 1024,
        "changes": plan.change_count,
        "access_changes": len(plan.proof.changes),
    }


_Rules = list[AclBinding]


def _narrow_change(rules: int, kind: str) -> tuple[_Rules, _Rules, _Rules]:
    """What stays, what goes and what is new."""
    half = CHANGED_RULES // 2
    acls = make_shape(f"tenant {rules + half}").acls if kind == "tenant" else _mixed_rules(rules + half)
    random.Random(_SEED).shuffle(acls)
    return acls[: rules - half], acls[rules - half : rules], acls[rules:]


def _broad_change(rules: int) -> tuple[_Rules, _Rules, _Rules]:
    draw = random.Random(_SEED)
    kept: dict[AclBinding, None] = {}
    while len(kept) < rules:
        rule = AclBinding(
            ResourceType.TOPIC,
            f"topic{draw.randrange(50_000)}",
            PatternType.LITERAL,
            f"User:app{draw.randrange(3_000)}",
            "*",
            draw.choice((AclOperation.ALL, AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE)),
            AclPermissionType.DENY if draw.random() < 0.05 else AclPermissionType.ALLOW,
        )
        kept[rule] = None
    for_all_users = AclBinding(
        ResourceType.TOPIC, "*", PatternType.LITERAL, "User:*", "*", AclOperation.READ, AclPermissionType.ALLOW
    )
    prefixes = [
        for_all_users._replace(name=f"topic{number}", pattern_type=PatternType.PREFIXED, operation=AclOperation.ALL)
        for number in range(CHANGED_RULES)
    ]
    return list(kept), [], [for_all_users, *prefixes]


def _mixed_rules(count: int) -> list[AclBinding]:
    draw = random.Random(_SEED)
    rules: dict[AclBinding, None] = {}
    while len(rules) < count:
        is_prefix = draw.random() < 0.3
        team = f"team{draw.randrange(500)}-"
        rule = AclBinding(
            draw.choice((ResourceType.TOPIC, ResourceType.TOPIC, ResourceType.TOPIC, ResourceType.GROUP)),
            team if is_prefix and draw.random() < 0.5 else f"{team}{draw.randrange(20_000)}",
            PatternType.PREFIXED if is_prefix else PatternType.LITERAL,
            "User:*" if draw.random() < 0.01 else f"User:app{draw.randrange(5_000)}",
            "*" if draw.random() < 0.9 else f"10.0.0.{draw.randrange(99)}",
            draw.choice((AclOperation.ALL, AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE)),
            AclPermissionType.DENY if draw.random() < 0.05 else AclPermissionType.ALLOW,
        )
        rules[rule] = None
    return list(rules)


def main() -> None:
    rules, kind, *options = sys.argv[1:]
    for name, value in _plan(int(rules), kind, is_open="everyone" in options).items():
        print(name, value)


if __name__ == "__main__":
    main()
