"""Plan the steps from a cluster's state to the desired state, in a safe order, and prove which access they open.

The kinds of steps, in order:

1. Removed users lose their login first, and removed topics are deleted before the rules that protect them.
2. Rules: see ``rule_order``.
3. Settings and quotas, so that limits apply before new clients connect.
4. More partitions, and new topics, whose rules exist at this point.
5. New users and new passwords, when all other steps are complete.

Each step can be repeated, and none depends on an earlier run. After an interruption, a new plan has the other steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import NamedTuple

from barnabas.access.cluster_state import (
    TOPIC,
    ClusterState,
    ConfigTarget,
    Credential,
    QuotaEntity,
    TopicState,
)
from barnabas.access.desired_state import DesiredState
from barnabas.access.desired_state_notation import Secret
from barnabas.access.desired_state_scope import Scope
from barnabas.access.name_classes import NameClass
from barnabas.access.proof import Proof, prove
from barnabas.access.rule_comparison import AccessRules, Side
from barnabas.access.rule_order import order_rules
from barnabas.common.acl import AclBinding

__all__ = [
    "Change",
    "ConfigChange",
    "Deletion",
    "Impossible",
    "PartitionsChange",
    "Plan",
    "QuotaChange",
    "Step",
    "StepKind",
    "TopicCreation",
    "UserChange",
    "Verdict",
    "make_plan",
    "owned_part",
    "verdict",
]

RECORDS_PER_STEP = 2_000
"""Kafka refuses a request that creates more than 10,000 records. Smaller steps show progress and limit a failure."""

_DEFAULT_PARTITION_RECORDS = 50


class StepKind(Enum):
    """The values are part of the JSON form."""

    DELETE_USERS = "delete-users"
    DELETE_TOPICS = "delete-topics"
    CREATE_ACLS = "create-acls"
    DELETE_ACLS = "delete-acls"
    ALTER_CONFIGS = "alter-configs"
    ALTER_QUOTAS = "alter-quotas"
    CREATE_PARTITIONS = "create-partitions"
    CREATE_TOPICS = "create-topics"
    ALTER_USERS = "alter-users"


class TopicCreation(NamedTuple):
    name: str
    topic: TopicState


class PartitionsChange(NamedTuple):
    name: str
    before: int
    after: int


class ConfigChange(NamedTuple):
    target: ConfigTarget
    values: tuple[tuple[str, str | None, str | None], ...]
    """Key, value before and value after. None: the resource does not set the key."""


class QuotaChange(NamedTuple):
    entity: QuotaEntity
    values: tuple[tuple[str, float | None, float | None], ...]


class UserChange(NamedTuple):
    credential: Credential
    before: int | None
    iterations: int | None
    """None: the default of a new credential."""
    password: Secret | None
    is_new: bool


class Deletion(NamedTuple):
    """Deletes a topic or a credential."""

    what: str
    name: str
    item: str | Credential


Change = TopicCreation | PartitionsChange | ConfigChange | QuotaChange | UserChange | Deletion | AclBinding


class Step(NamedTuple):
    """One request."""

    kind: StepKind
    changes: tuple[Change, ...]


class Impossible(NamedTuple):
    """A difference between file and cluster that no step can resolve."""

    what: str
    why: str


class Plan(NamedTuple):
    steps: tuple[Step, ...]
    withheld: tuple[Step, ...]
    """Deletions that the caller did not allow."""
    impossible: tuple[Impossible, ...]
    notes: tuple[str, ...]
    proof: Proof
    gaps: tuple[NameClass, ...]
    """See ``RuleOrder.gaps``."""
    before: AccessRules
    after: AccessRules
    """The rules when the steps are done, without what is withheld."""

    @property
    def is_empty(self) -> bool:
        return not self.steps

    @property
    def change_count(self) -> int:
        return sum(len(step.changes) for step in self.steps)


def make_plan(
    current: ClusterState,
    desired: DesiredState,
    *,
    super_users: frozenset[str] = frozenset(),
    allow_everyone: bool = False,
    allow_delete: bool = False,
) -> Plan:
    """Plan the steps. ``current`` may exceed the scope. ``super_users`` and ``allow_everyone`` are the cluster's."""
    owned = owned_part(current, desired.scope)
    difference = _Difference(owned, desired)
    steps, withheld = difference.before_rules(), difference.after_rules()
    removed = owned.acls - desired.state.acls
    before = AccessRules(current.acls, super_users, allow_everyone)
    kept = before.bindings - removed if allow_delete else before.bindings
    after = before._replace(bindings=kept | desired.state.acls)
    sides = Side(before), Side(after)
    order = order_rules(*sides)
    rules = [_acl_steps(StepKind.CREATE_ACLS, order.created), _acl_steps(StepKind.DELETE_ACLS, order.deleted)]
    every = [*steps, *rules[0], *rules[1], *withheld]
    if not allow_delete and removed:
        every += _acl_steps(StepKind.DELETE_ACLS, [tuple(sorted(removed))])
    done, kept_back = [], []
    for step in every:
        allowed, refused = (step, None) if allow_delete else _without_deletions(step)
        if allowed is not None:
            done.append(allowed)
        if refused is not None:
            kept_back.append(refused)
    return Plan(
        tuple(done), tuple(kept_back), tuple(difference.impossible), tuple(difference.notes), prove(*sides),
        order.gaps, before, after,
    )  # fmt: skip


class Verdict(Enum):
    """The result of a plan. The values are part of the JSON form."""

    NOTHING_TO_DO = "nothing-to-do"
    CHANGES_PENDING = "changes-pending"
    NEW_ACCESS = "new-access"
    """The plan opens access, which the caller forbids."""
    IMPOSSIBLE = "impossible"


def verdict(plan: Plan, *, forbid_new_access: bool = False) -> Verdict:
    """Return the most severe verdict that applies."""
    if plan.impossible:
        return Verdict.IMPOSSIBLE
    if forbid_new_access and plan.proof.opens:
        return Verdict.NEW_ACCESS
    return Verdict.NOTHING_TO_DO if plan.is_empty else Verdict.CHANGES_PENDING


def owned_part(state: ClusterState, scope: Scope) -> ClusterState:
    """Return the part of a cluster's state that is in the scope."""
    return ClusterState(
        {name: topic for name, topic in state.topics.items() if scope.has_topic(name)},
        {target: values for target, values in state.configs.items() if scope.has_config(target)},
        frozenset(binding for binding in state.acls if scope.has_acl(binding)) if scope.acls else frozenset(),
        {key: iterations for key, iterations in state.users.items() if scope.has_user(key.user)},
        {entity: limits for entity, limits in state.quotas.items() if scope.has_quota(entity)},
    )


class _Difference:
    """Compares everything except the rules."""

    def __init__(self, owned: ClusterState, desired: DesiredState) -> None:
        self._owned = owned
        self._desired = desired
        self._wanted = desired.state
        self.impossible: list[Impossible] = []
        self.notes: list[str] = []

    def before_rules(self) -> list[Step]:
        users = [Deletion("user", str(key), key) for key in sorted(self._owned.users) if key not in self._wanted.users]
        topics = [
            Deletion("topic", name, name) for name in sorted(self._owned.topics) if name not in self._wanted.topics
        ]
        return [*_steps(StepKind.DELETE_USERS, users), *_steps(StepKind.DELETE_TOPICS, topics)]

    def after_rules(self) -> list[Step]:
        created, grown, configs = self._topics()
        return [
            *_steps(StepKind.ALTER_CONFIGS, [*self._configs(), *configs]),
            *_steps(StepKind.ALTER_QUOTAS, self._quotas()),
            *_steps(StepKind.CREATE_PARTITIONS, grown),
            *_steps(StepKind.CREATE_TOPICS, created),
            *_steps(StepKind.ALTER_USERS, self._users()),
        ]

    def _topics(self) -> tuple[list[TopicCreation], list[PartitionsChange], list[ConfigChange]]:
        created: list[TopicCreation] = []
        grown: list[PartitionsChange] = []
        configs: list[ConfigChange] = []
        for name, wanted in sorted(self._wanted.topics.items()):
            there = self._owned.topics.get(name)
            if there is None:
                created.append(TopicCreation(name, wanted))
                continue
            if wanted.partitions is not None and there.partitions is not None:
                if wanted.partitions > there.partitions:
                    grown.append(PartitionsChange(name, there.partitions, wanted.partitions))
                elif wanted.partitions < there.partitions:
                    why = f"it has {there.partitions} partitions, and Kafka can't remove partitions; create a new topic"
                    self.impossible.append(Impossible(f"topic {name}: partitions: {wanted.partitions}", why))
            if wanted.replication_factor not in (None, there.replication_factor):
                why = f"it is {there.replication_factor}; to change it, use 'barnabas reassign'"
                what = f"topic {name}: replication-factor: {wanted.replication_factor}"
                self.impossible.append(Impossible(what, why))
            configs += self._config_change(ConfigTarget(TOPIC, name), there.configs, wanted.configs)
        return created, grown, configs

    def _configs(self) -> list[ConfigChange]:
        found: list[ConfigChange] = []
        for target in sorted({*self._owned.configs, *self._wanted.configs}):
            there, wanted = self._owned.configs.get(target, {}), self._wanted.configs.get(target, {})
            found += self._config_change(target, there, wanted)
        return found

    def _config_change(
        self, target: ConfigTarget, there: Mapping[str, str | None], wanted: Mapping[str, str | None]
    ) -> list[ConfigChange]:
        values = []
        for key in sorted({*there, *wanted}):
            if key in there and there[key] is None and key in wanted:
                self.notes.append(f"{_target_text(target)}: {key} is secret: the plan can't compare its value")
            elif not _is_same_setting(there.get(key), wanted.get(key)) or (key in there) != (key in wanted):
                values.append((key, there.get(key), wanted.get(key)))
        return [ConfigChange(target, tuple(values))] if values else []

    def _quotas(self) -> list[QuotaChange]:
        found = []
        for entity in sorted({*self._owned.quotas, *self._wanted.quotas}, key=repr):
            there, wanted = self._owned.quotas.get(entity, {}), self._wanted.quotas.get(entity, {})
            values = tuple(
                (key, there.get(key), wanted.get(key))
                for key in sorted({*there, *wanted})
                if there.get(key) != wanted.get(key)
            )
            if values:
                found.append(QuotaChange(entity, values))
        return found

    def _users(self) -> list[UserChange]:
        found = []
        for key, iterations in sorted(self._wanted.users.items()):
            is_new = key not in self._owned.users
            before = self._owned.users.get(key)
            if not is_new and iterations in (None, before):
                continue
            password = self._desired.passwords.get(key)
            if password is None:
                why = "this needs the password; add password: ${env:NAME} or ${file:PATH}"
                what = f"user {key}: " + ("a new credential" if is_new else f"iterations: {iterations}")
                self.impossible.append(Impossible(what, why))
                continue
            found.append(UserChange(key, before, iterations, password, is_new))
        return found


def _target_text(target: ConfigTarget) -> str:
    return f"topic {target.name}" if target.type == TOPIC else str(target)


def _acl_steps(kind: StepKind, batches: Iterable[tuple[AclBinding, ...]]) -> list[Step]:
    """Return steps of which none combines two batches, because the order of batches matters."""
    return [
        Step(kind, batch[start : start + RECORDS_PER_STEP])
        for batch in batches
        for start in range(0, len(batch), RECORDS_PER_STEP)
    ]


def _steps(kind: StepKind, changes: Iterable[Change]) -> list[Step]:
    steps: list[Step] = []
    part: list[Change] = []
    size = 0
    for change in changes:
        weight = _records(change)
        if part and size + weight > RECORDS_PER_STEP:
            steps.append(Step(kind, tuple(part)))
            part, size = [], 0
        part.append(change)
        size += weight
    return [*steps, Step(kind, tuple(part))] if part else steps


def _records(change: Change) -> int:
    """Return the approximate number of records that the change creates."""
    if isinstance(change, TopicCreation):
        partitions = change.topic.partitions or _DEFAULT_PARTITION_RECORDS
        return 1 + partitions + len(change.topic.configs)
    if isinstance(change, PartitionsChange):
        return change.after - change.before
    if isinstance(change, ConfigChange | QuotaChange):
        return len(change.values)
    return 1


def _without_deletions(step: Step) -> tuple[Step | None, Step | None]:
    """Split a step into the part that deletes nothing, and the deletions."""
    if step.kind in (StepKind.DELETE_ACLS, StepKind.DELETE_TOPICS, StepKind.DELETE_USERS):
        return None, step
    if step.kind not in (StepKind.ALTER_CONFIGS, StepKind.ALTER_QUOTAS):
        return step, None
    done = [part for change in step.changes if (part := _part(change, is_going=False)) is not None]
    kept = [part for change in step.changes if (part := _part(change, is_going=True)) is not None]
    return Step(step.kind, tuple(done)) if done else None, Step(step.kind, tuple(kept)) if kept else None


def _part(change: Change, *, is_going: bool) -> Change | None:
    """Return the part of the change that deletes values, or the part that sets them."""
    if isinstance(change, ConfigChange):
        settings = tuple(value for value in change.values if (value[2] is None) == is_going)
        return change._replace(values=settings) if settings else None
    if isinstance(change, QuotaChange):
        limits = tuple(value for value in change.values if (value[2] is None) == is_going)
        return change._replace(values=limits) if limits else None
    return None if is_going else change


def _is_same_setting(reported: str | None, given: str | None) -> bool:
    """Return whether values are equal. Nodes reformat some: 0100 as 100, TRUE as true, lists without spaces."""
    if reported is None or given is None or reported == given:
        return reported == given
    forms: tuple[Callable[[str], object], ...] = (int, float, _truth)
    for form in forms:
        try:
            return form(reported) == form(given)
        except ValueError:
            continue
    return [item.strip() for item in reported.split(",")] == [item.strip() for item in given.split(",")]


def _truth(text: str) -> str:
    if text.strip().lower() not in ("true", "false"):
        raise ValueError(text)
    return text.strip().lower()
