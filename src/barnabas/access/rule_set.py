"""A set of rules with everything that decides beside them, and the decisions of the node's own authorizer on it.

Every answer of this package is from ``StandardAuthorizer``, so the explanation can't differ from a node's decision.
Rules are from a log (with ids) or from DescribeAcls (without).
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
"""An ALLOW of one of these operations allows the key too. A DENY implies nothing."""

_FIRST_MADE_UP_ID = 1 << 64


class Rule(NamedTuple):
    """An ACL. The id is known for rules of a metadata log."""

    binding: AclBinding
    id: Uuid | None = None

    @property
    def is_deny(self) -> bool:
        return self.binding.permission == AclPermissionType.DENY


class Policy:
    """``rules`` may be a part of the cluster's: all that can match the requests to decide."""

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
        """Return the rule that the authorizer knows by this id."""
        return self._by_id[acl_id]

    def rules_on(self, resource_type: int, name: str) -> list[Rule]:
        """The rules of all principals whose pattern matches the resource."""
        found = self.authorizer.acls(AclBindingFilter(resource_type, name, PatternType.MATCH))
        return [self._by_id[acl_id] for acl_id, _ in found]

    def rules_for(self, *principals: str) -> list[Rule]:
        """The rules whose principal is one of these, by their text: of the first, then of the next."""
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
        """A principal that no rule names and that is not a super user. It represents all others."""
        taken = {rule.binding.principal for rule in self.rules} | self.super_users
        return Principal(kind, _unused(taken, f"{kind}:"))

    @cached_property
    def unnamed_host(self) -> str:
        """A host that no rule names: every other one."""
        return _unused({rule.binding.host for rule in self.rules})

    def unused_character(self, resource_type: int) -> str:
        """A character that no pattern of the type contains, to make names that only broader patterns match."""
        used = set().union(*(rule.binding.name for rule in self.rules if rule.binding.resource_type == resource_type))
        return next(chr(code) for code in range(0xE000, 0x110000) if chr(code) not in used)


def covers(binding: AclBinding, operation: int) -> bool:
    """Return whether the rule decides the operation: it names it or All, or (only ALLOW) implies it."""
    if binding.operation in (operation, AclOperation.ALL):
        return True
    return binding.permission == AclPermissionType.ALLOW and binding.operation in IMPLIED_BY.get(operation, ())


def _unused(taken: set[str], prefix: str = "") -> str:
    name = "(other)"
    while prefix + name in taken:
        name += "'"
    return name
