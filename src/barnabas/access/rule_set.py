"""A set of rules with the settings that affect decisions, and the decisions of the node's own authorizer.

``StandardAuthorizer`` makes every decision of this package, so an explanation can't differ from a node's decision.
Rules from a log have ids, those from DescribeAcls don't.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import NamedTuple, cast

from barnabas.common.acl import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
)
from barnabas.common.resource import PatternType, ResourceType
from barnabas.common.uuid import Uuid
from barnabas.protocol.api_keys import ApiKey
from barnabas.security.authorizer.standard_authorizer import StandardAuthorizer
from barnabas.security.principal import Principal
from barnabas.security.request_context import RequestContext

__all__ = ["IMPLIED_BY", "Policy", "Rule", "covers"]

IMPLIED_BY: dict[int, frozenset[int]] = {
    AclOperation.DESCRIBE: frozenset({AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER}),
    AclOperation.DESCRIBE_CONFIGS: frozenset({AclOperation.ALTER_CONFIGS}),
}
"""An ALLOW for one of these operations also allows the operation of the key. A DENY implies no other operation."""

_FIRST_MADE_UP_ID = 1 << 64


class Rule(NamedTuple):
    """An ACL. Only rules from a metadata log have an id."""

    binding: AclBinding
    id: Uuid | None = None

    @property
    def is_deny(self) -> bool:
        return self.binding.permission == AclPermissionType.DENY


class Policy:
    """Decides requests. ``rules`` must contain all rules of the cluster that can match these requests."""

    def __init__(
        self, rules: Iterable[Rule], *, super_users: frozenset[str] = frozenset(), allow_everyone: bool = False
    ) -> None:
        by_binding: dict[AclBinding, Rule] = {}
        for rule in rules:
            by_binding.setdefault(rule.binding, rule)
        self.rules: Sequence[Rule] = tuple(by_binding.values())
        self.super_users = super_users
        self.allow_everyone = allow_everyone
        self._by_id = {
            Uuid.from_int(_FIRST_MADE_UP_ID + index) if rule.id is None else rule.id: rule
            for index, rule in enumerate(self.rules)
        }
        self.authorizer = StandardAuthorizer()
        self.authorizer.configure(
            {
                "super.users": ";".join(sorted(super_users)),
                "allow.everyone.if.no.acl.found": "true" if allow_everyone else "false",
            }
        )
        self.authorizer.load_snapshot({acl_id: rule.binding for acl_id, rule in self._by_id.items()})
        self.authorizer.complete_initial_load()

    def rule_of(self, acl_id: Uuid) -> Rule:
        """Return the rule that has this id in the authorizer."""
        return self._by_id[acl_id]

    def rules_on(self, resource_type: int, name: str) -> list[Rule]:
        """Return the rules of all principals whose pattern matches the resource."""
        found = self.authorizer.acls(AclBindingFilter(resource_type, name, PatternType.MATCH))
        return [self._by_id[acl_id] for acl_id, _ in found]

    def rules_for(self, *principals: str) -> list[Rule]:
        """Return the rules for these principals, in the order of the arguments."""
        return [
            self._by_id[acl_id]
            for principal in principals
            for acl_id, _ in self.authorizer.acls(AclBindingFilter(principal=principal))
        ]

    def is_allowed(self, principal: Principal, host: str, operation: int, resource_type: int, name: str) -> bool:
        context = RequestContext(api_key=ApiKey.DESCRIBE_ACLS, api_version=0, principal=principal, client_host=host)
        return self.authorizer.authorize(
            context,
            cast("AclOperation", operation),
            cast("ResourceType", resource_type),
            name,
            log_if_allowed=False,
            log_if_denied=False,
        )

    def unnamed_principal(self, kind: str = "User") -> Principal:
        """Return a principal that no rule names and that is not a super user. It represents all such principals."""
        taken = {rule.binding.principal for rule in self.rules} | self.super_users
        return Principal(kind, _unused(taken, f"{kind}:"))

    @cached_property
    def unnamed_host(self) -> str:
        """A host that no rule names. It represents all such hosts."""
        return _unused({rule.binding.host for rule in self.rules})

    def unused_character(self, resource_type: int) -> str:
        """Return a character that no pattern of the type contains. Names with it match only broader patterns."""
        used = set().union(*(rule.binding.name for rule in self.rules if rule.binding.resource_type == resource_type))
        return next(chr(code) for code in range(0xE000, 0x110000) if chr(code) not in used)


def covers(binding: AclBinding, operation: int) -> bool:
    """Return whether the rule applies to the operation: it names it or All, or (only ALLOW) implies it."""
    if binding.operation in (operation, AclOperation.ALL):
        return True
    return binding.permission == AclPermissionType.ALLOW and binding.operation in IMPLIED_BY.get(operation, ())


def _unused(taken: set[str], prefix: str = "") -> str:
    name = "(other)"
    while prefix + name in taken:
        name += "'"
    return name
