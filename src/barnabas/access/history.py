"""Each change of access between two points of the metadata log, with the records that caused it.

Records of one batch are one change: no node acts on a state between them. For a resource the authorizer decides about
every principal and host that its rules name, before and after. For a principal the exact difference is computed over
all names (see ``proof``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import NamedTuple

from barnabas.access.acl_text import Resource, pattern_text
from barnabas.access.listing import Grant, principals_with_access
from barnabas.access.name_classes import NameClass, Pattern, PatternTable, does_match, outermost
from barnabas.access.proof import prove
from barnabas.access.rule_comparison import OTHER_PRINCIPALS, AccessRules
from barnabas.access.rule_set import Policy, Rule
from barnabas.common.acl import WILDCARD_HOST, WILDCARD_NAME, WILDCARD_PRINCIPAL, AclBinding
from barnabas.common.resource import PatternType
from barnabas.common.uuid import Uuid

__all__ = ["AccessStep", "AclRecord", "ChangedAccess", "Settings", "access_history"]


class AclRecord(NamedTuple):
    """A record that took effect: it adds the rule, or removes the rule with this id if ``binding`` is None."""

    change: int
    """The same number for records that took effect together."""
    offset: int
    """The record's own offset. In a metadata transaction it took effect later."""
    time_ms: int
    acl_id: Uuid
    binding: AclBinding | None


class Settings(NamedTuple):
    """Settings of nodes that the log does not have. They are taken as constant over time."""

    super_users: frozenset[str] = frozenset()
    allow_everyone: bool = False


class ChangedAccess(NamedTuple):
    principal: str
    """``*``: every principal without rules of its own here."""
    hosts: tuple[str, ...]
    """``*``: every host except ``hosts_except``."""
    hosts_except: tuple[str, ...]
    resource: str
    """``Topic:orders``, or a pattern: ``Topic:pay* (prefix)``."""
    resource_type: int
    name: str
    pattern_type: int
    names_except: tuple[Pattern, ...]
    """Narrower patterns (name, pattern type) to which this does not apply. They may have entries of their own."""
    opened: tuple[int, ...]
    closed: tuple[int, ...]


class AccessStep(NamedTuple):
    """One change of the rules."""

    offsets: tuple[int, ...]
    """Offsets of the records."""
    time_ms: int
    added: tuple[Rule, ...]
    removed: tuple[Rule, ...]
    """Also rules that a record with the same id replaced."""
    changes: tuple[ChangedAccess, ...]
    """Empty: the rules changed, but no decision did, because other rules decide the same."""


def access_history(
    rules: Mapping[Uuid, AclBinding],
    records: Iterable[AclRecord],
    settings: Settings,
    *,
    principal: str | None = None,
    resource: Resource | None = None,
) -> Iterator[AccessStep]:
    """Yield the changes that concern the principal, or the resource, or the principal's access to the resource.

    ``rules``: those in force before the first record. Changes of rules that could not concern them are left out.
    """
    state = dict(rules)
    is_concerned = partial(_concerns, principal=principal, resource=resource)
    may_close_default = settings.allow_everyone and resource is None
    # Others' rules decide only where a name without any rule is open. Few of many rules concern one resource.
    decides: Callable[[AclBinding], bool] = _always if may_close_default else is_concerned
    deciding = {acl_id: rule for acl_id, rule in state.items() if decides(rule)}
    for _, group in groupby(records, key=_change_of):
        records_together = list(group)
        removed, added = _apply(state, records_together)
        step = _step(records_together, removed, added, is_concerned)
        if step is None and not may_close_default:
            continue
        before = list(deciding.values())
        for acl_id in removed:
            deciding.pop(acl_id, None)
        deciding.update((acl_id, rule) for acl_id, rule in added.items() if decides(rule))
        changes = tuple(_changes(before, deciding.values(), settings, principal, resource))
        if step is None and changes:  # Others' rules end or restore what the default allowed.
            step = _step(records_together, removed, added, _always)
        if step is not None:
            yield step._replace(changes=changes)


def _change_of(record: AclRecord) -> int:
    return record.change


def _apply(
    state: dict[Uuid, AclBinding], records: Iterable[AclRecord]
) -> tuple[dict[Uuid, AclBinding], dict[Uuid, AclBinding]]:
    """Change the state; return the rules that the records together removed and added. A replaced rule is in both."""
    old: dict[Uuid, AclBinding | None] = {}
    for record in records:
        old.setdefault(record.acl_id, state.get(record.acl_id))
        if record.binding is None:
            state.pop(record.acl_id, None)
        else:
            state[record.acl_id] = record.binding
    changed = {acl_id: was for acl_id, was in old.items() if was != state.get(acl_id)}
    removed = {acl_id: was for acl_id, was in changed.items() if was is not None}
    return removed, {acl_id: state[acl_id] for acl_id in changed if acl_id in state}


def _step(
    records: Sequence[AclRecord],
    removed: Mapping[Uuid, AclBinding],
    added: Mapping[Uuid, AclBinding],
    is_concerned: Callable[[AclBinding], bool],
) -> AccessStep | None:
    of_interest = {acl_id for rules in (removed, added) for acl_id, binding in rules.items() if is_concerned(binding)}
    if not of_interest:
        return None
    return AccessStep(
        tuple(record.offset for record in records if record.acl_id in of_interest),
        records[-1].time_ms,
        tuple(Rule(binding, acl_id) for acl_id, binding in added.items() if acl_id in of_interest),
        tuple(Rule(binding, acl_id) for acl_id, binding in removed.items() if acl_id in of_interest),
        (),
    )


def _always(_: AclBinding) -> bool:
    return True


def _concerns(binding: AclBinding, *, principal: str | None, resource: Resource | None) -> bool:
    if resource is None:
        return principal is None or binding.principal in (principal, WILDCARD_PRINCIPAL)
    # Rules for others count too: the first one for a resource ends what the default allowed.
    return binding.resource_type == resource.type and does_match(binding.name, binding.pattern_type, resource.name)


def _changes(
    before: Iterable[AclBinding],
    after: Iterable[AclBinding],
    settings: Settings,
    principal: str | None,
    resource: Resource | None,
) -> Iterator[ChangedAccess]:
    if resource is not None:
        yield from _on_resource(before, after, settings, principal, resource)
    elif principal is not None and principal not in settings.super_users:
        yield from _of_principal(before, after, settings, principal)


# ---- one resource -------------------------------------------------------------------------------


def _on_resource(
    before: Iterable[AclBinding],
    after: Iterable[AclBinding],
    settings: Settings,
    principal: str | None,
    resource: Resource,
) -> Iterator[ChangedAccess]:
    old, new = (_grants(bindings, settings, resource) for bindings in (before, after))
    names = sorted({*old, *new}) if principal is None else [principal]
    for name in names:
        if name in settings.super_users:
            continue
        was, is_now = (grants.get(name, grants.get(OTHER_PRINCIPALS, {})) for grants in (old, new))
        hosts = sorted({*was, *is_now, WILDCARD_HOST} - {WILDCARD_HOST})
        wide = _difference(was, is_now, WILDCARD_HOST)
        differing = [host for host in hosts if _difference(was, is_now, host) != wide]
        for host in (WILDCARD_HOST, *differing):
            opened, closed = _difference(was, is_now, host)
            if opened or closed:
                yield ChangedAccess(
                    name,
                    (host,),
                    tuple(differing) if host == WILDCARD_HOST else (),
                    str(resource),
                    resource.type,
                    resource.name,
                    PatternType.LITERAL,
                    (),
                    opened,
                    closed,
                )


def _grants(
    bindings: Iterable[AclBinding], settings: Settings, resource: Resource
) -> dict[str, dict[str, frozenset[int]]]:
    """Return the operations by principal and host, by rules that match. A missing host has those of ``*``."""
    matching = [Rule(binding) for binding in bindings]
    policy = Policy(matching, super_users=settings.super_users, allow_everyone=settings.allow_everyone)
    found: dict[str, dict[str, frozenset[int]]] = {}
    grants: Sequence[Grant] = principals_with_access(policy, resource).grants
    for grant in grants:
        if not grant.is_super_user:
            found.setdefault(grant.principal, {})[grant.host] = frozenset(grant.operations)
    for rule in matching:
        if rule.binding.principal != WILDCARD_PRINCIPAL:  # It has rules, even if they grant nothing.
            found.setdefault(rule.binding.principal, {})
    return found


def _difference(
    was: Mapping[str, frozenset[int]], is_now: Mapping[str, frozenset[int]], host: str
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    nothing: frozenset[int] = frozenset()
    old, new = (access.get(host, access.get(WILDCARD_HOST, nothing)) for access in (was, is_now))
    return tuple(sorted(new - old)), tuple(sorted(old - new))


# ---- one principal ------------------------------------------------------------------------------


def _of_principal(
    before: Iterable[AclBinding], after: Iterable[AclBinding], settings: Settings, principal: str
) -> Iterator[ChangedAccess]:
    old, new = (
        AccessRules(frozenset(bindings), settings.super_users, settings.allow_everyone) for bindings in (before, after)
    )
    own: dict[int, set[Pattern]] = {}
    patterns: dict[int, set[Pattern]] = {}
    for binding in old.bindings | new.bindings:
        pattern = (binding.name, binding.pattern_type)
        patterns.setdefault(binding.resource_type, set()).add(pattern)
        if binding.principal == principal:
            own.setdefault(binding.resource_type, set()).add(pattern)
    tables = {resource_type: PatternTable(found) for resource_type, found in own.items()}
    for change in prove(old, new).changes:
        if change.principal not in (principal, OTHER_PRINCIPALS):
            continue
        table = tables.get(change.resource_type)
        for class_change in change.classes:
            names = class_change.names
            if change.principal == OTHER_PRINCIPALS and table is not None and table.matches(names.example):
                continue  # The principal has rules of its own here, so this is about others.
            yield ChangedAccess(
                principal,
                change.hosts,
                change.hosts_except,
                _class_text(names),
                change.resource_type,
                names.name,
                names.pattern_type,
                tuple(outermost(_inside(names, patterns[change.resource_type]))),
                change.opened,
                change.closed,
            )


def _inside(names: NameClass, patterns: Iterable[Pattern]) -> Iterator[Pattern]:
    """Yield the patterns that have only names that begin as those of the class."""
    if names.pattern_type == PatternType.PREFIXED:
        for name, pattern_type in patterns:
            is_wildcard = pattern_type == PatternType.LITERAL and name == WILDCARD_NAME
            is_itself = (name, pattern_type) == (names.name, PatternType.PREFIXED)
            if name.startswith(names.name) and not is_wildcard and not is_itself:
                yield name, pattern_type


def _class_text(names: NameClass) -> str:
    if names.is_rest:
        return pattern_text(names.resource_type, WILDCARD_NAME, PatternType.LITERAL)
    return pattern_text(names.resource_type, names.name, names.pattern_type)
