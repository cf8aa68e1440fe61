"""Group two sets of rules by resource type and principal to compare them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from itertools import count
from typing import NamedTuple

from barnabas.common.acl import AclBinding
from barnabas.common.resource import PatternType
from barnabas.common.uuid import Uuid
from barnabas.security.authorizer.acl_index import AclIndex
from barnabas.security.principal import Principal

__all__ = ["OTHER_PRINCIPALS", "AccessRules", "RulesBeforeAndAfter", "Side"]

OTHER_PRINCIPALS = "*"

_FIRST_ID = 1 << 64


class AccessRules(NamedTuple):
    """The input of all decisions: the ACLs, the super users and the default of the authorizer."""

    bindings: frozenset[AclBinding]
    super_users: frozenset[str] = frozenset()
    allow_everyone: bool = False

    def to_index(self) -> AclIndex:
        by_id = {Uuid.from_int(_FIRST_ID + number): binding for number, binding in enumerate(self.bindings)}
        return AclIndex(by_id, allow_if_no_rule=self.allow_everyone)


class Side:
    """One of the two states, with its index. The index of many rules takes long to build."""

    def __init__(self, rules: AccessRules) -> None:
        self.rules = rules

    @staticmethod
    def of(rules: AccessRules | Side) -> Side:
        return rules if isinstance(rules, Side) else Side(rules)

    @cached_property
    def index(self) -> AclIndex:
        return self.rules.to_index()

    def is_super(self, principal: Principal) -> bool:
        return f"{principal.type}:{principal.name}" in self.rules.super_users

    def mask(self, principal: Principal, host: str, resource_type: int, name: str) -> int:
        if self.is_super(principal):
            return -1
        return self.index.mask(principal, host, resource_type, name)

    def allows_any(self, principal: Principal, host: str, operation: int, resource_type: int) -> bool:
        if self.is_super(principal):
            return True
        return self.index.allows_any(principal, host, operation, resource_type)


class RulesBeforeAndAfter:
    """Rules by resource type and principal, without rules with unknown codes, which have no effect."""

    def __init__(self, rules_before: AccessRules | Side, rules_after: AccessRules | Side) -> None:
        self.before, self.after = Side.of(rules_before), Side.of(rules_after)
        before, after = self.before.rules, self.after.rules
        changed, everything = before.bindings ^ after.bindings, before.bindings | after.bindings
        self.special = before.super_users | after.super_users
        self.is_default_open = before.allow_everyone or after.allow_everyone
        self.is_default_changed = before.allow_everyone != after.allow_everyone
        self.by_type = _grouped(everything)
        self.changed_by_type = _grouped(changed)
        taken = {text for group in self.by_type.values() for text in group} | self.special
        self._other_principal = Principal("User", _unused(taken, "User:"))
        self.other_host = _unused({binding.host for binding in everything})
        """A host that no rule names."""

    def principal_of(self, principal: str) -> Principal:
        """Return the principal to decide about, for a principal of a result. It may be ``*``, without a colon."""
        if principal == OTHER_PRINCIPALS:
            return self._other_principal
        kind, _, name = principal.partition(":")
        return Principal(kind, name)

    def rules_for(self, resource_type: int, principal: str) -> list[AclBinding]:
        """Return the rules of both sides for this principal."""
        return self.by_type.get(resource_type, {}).get(principal, [])


def _grouped(bindings: Iterable[AclBinding]) -> dict[int, dict[str, list[AclBinding]]]:
    groups: dict[int, dict[str, list[AclBinding]]] = {}
    for binding in bindings:
        if binding.pattern_type in (PatternType.LITERAL, PatternType.PREFIXED):
            groups.setdefault(binding.resource_type, {}).setdefault(binding.principal, []).append(binding)
    return groups


def _unused(taken: Iterable[str], prefix: str = "") -> str:
    known = set(taken)
    return next(name for number in count() if prefix + (name := f"(other{number or ''})") not in known)
