"""The authorizer whose rules are the ACLs of the metadata log, as Kafka's StandardAuthorizer (KIP-801).

It decides in this order. Super users may do everything, even while the rules are loading. A session with the principal
``User:*`` is refused, because rules use that name for all principals (Kafka's authorizer raises). Before the rules are
complete, other principals receive AuthorizerNotReady. Then the rules decide (``acl_index``).
"""

from __future__ import annotations

from itertools import compress
from typing import TYPE_CHECKING, NamedTuple

from barnabas.common.acl import AclOperation
from barnabas.common.config_value import ConfigException
from barnabas.common.resource import ResourceType
from barnabas.security.authorizer.acl_index import AclIndex
from barnabas.security.authorizer.acl_masks import ALL_OPERATIONS
from barnabas.security.authorizer.acl_rules import AclRules
from barnabas.security.authorizer.authorized_operations import supported_mask
from barnabas.security.authorizer.authorizer import AclAuthorizer, AuthorizerNotReady
from barnabas.security.principal import Principal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from barnabas.common.acl import AclBinding, AclBindingFilter
    from barnabas.common.uuid import Uuid
    from barnabas.security.request_context import RequestContext

__all__ = [
    "ALLOW_EVERYONE_CONFIG",
    "SUPER_USERS_CONFIG",
    "Decision",
    "StandardAuthorizer",
    "parse_super_users",
]

SUPER_USERS_CONFIG = "super.users"
ALLOW_EVERYONE_CONFIG = "allow.everyone.if.no.acl.found"

_ALL_USERS = ("User", "*")


class Decision(NamedTuple):
    """A decision with its reason. ``rule`` is one of

    - ``MatchingAcl``: the rule in ``binding`` decided;
    - ``SuperUser``: no rule was evaluated;
    - ``DefaultAllow`` or ``DefaultDeny``: no rule matched;
    - ``RefusedPrincipal``: the principal of the session is ``User:*``.
    """

    allowed: bool
    rule: str
    id: Uuid | None = None
    binding: AclBinding | None = None
    allowing: Sequence[tuple[Uuid, AclBinding]] = ()
    """The rules that would allow this without a denial or a more general reason, in the order of evaluation."""
    denying: Sequence[tuple[Uuid, AclBinding]] = ()

    @property
    def acl_id(self) -> str | None:
        return None if self.id is None else str(self.id)

    @property
    def acl_text(self) -> str | None:
        return None if self.binding is None else str(self.binding)


class StandardAuthorizer(AclAuthorizer):
    """``allowed_count`` and ``denied_count`` count decisions, not names that were only listed."""

    def __init__(self) -> None:
        self.super_users: frozenset[Principal] = frozenset()
        """Principals as they occur in a request, authenticated by a token or not."""
        self.allows_everyone_without_acl = False
        self.is_loaded = False
        self.allowed_count = 0
        self.denied_count = 0
        self._index = AclIndex()

    # ---- settings and rules --------------------------------------------------------------------

    def configure(self, configs: Mapping[str, str]) -> None:
        users = parse_super_users(configs.get(SUPER_USERS_CONFIG) or "")
        self.super_users = frozenset(user._replace(token_authenticated=by) for user in users for by in (False, True))
        everyone = configs.get(ALLOW_EVERYONE_CONFIG) or ""
        self.allows_everyone_without_acl = str(everyone).strip().lower() == "true"
        self._index = AclIndex(self._index.rules_by_id, allow_if_no_rule=self.allows_everyone_without_acl)

    def load_snapshot(self, acls_by_id: Mapping[Uuid, AclBinding]) -> None:
        self._index = AclIndex(acls_by_id, allow_if_no_rule=self.allows_everyone_without_acl)

    def load_snapshot_in_steps(self, acls: Iterable[tuple[Uuid, AclBinding]]) -> Iterator[None]:
        """Load a snapshot in steps; the earlier rules stay in force until the end."""
        rules = AclRules()
        yield from rules.load_in_steps(acls)
        self._index = AclIndex(rules=rules, allow_if_no_rule=self.allows_everyone_without_acl)

    def add_acl(self, acl_id: Uuid, binding: AclBinding) -> None:
        self._index.add(acl_id, binding)

    def remove_acl(self, acl_id: Uuid) -> None:
        self._index.remove(acl_id)

    def complete_initial_load(self) -> None:
        self.is_loaded = True

    def is_ready_for(self, principal: Principal) -> bool:
        return self.is_loaded or principal in self.super_users

    def acls(self, acl_filter: AclBindingFilter) -> Iterator[tuple[Uuid, AclBinding]]:
        return self._index.find(acl_filter)

    def acl_slices(self, acl_filter: AclBindingFilter) -> Iterator[Sequence[AclBinding]]:
        return self._index.slices(acl_filter)

    @property
    def acl_count(self) -> int:
        return len(self._index)

    # ---- decisions -----------------------------------------------------------------------------

    def authorize(
        self,
        context: RequestContext,
        operation: AclOperation,
        resource_type: ResourceType,
        resource_name: str,
        *,
        log_if_allowed: bool = True,
        log_if_denied: bool = True,
    ) -> bool:
        try:
            mask = self._index.views[context.principal][context.client_host].masks[resource_type][resource_name]
        except KeyError:
            mask = self._mask(context, resource_type, resource_name)
        if mask >> operation & 1:
            self.allowed_count += 1
            return True
        self.denied_count += 1
        return False

    def _mask(self, context: RequestContext, resource_type: int, name: str) -> int:
        principal = context.principal
        known = self._mask_without_rules(principal)
        if known is not None:
            return known
        return self._index.mask(principal, context.client_host, resource_type, name)

    def _mask_without_rules(self, principal: Principal) -> int | None:
        """Return the decision that needs no rules, if any. Such principals never have a view in the index."""
        if principal in self.super_users:
            return ALL_OPERATIONS
        if principal[:2] == _ALL_USERS:
            return 0
        if not self.is_loaded:
            raise AuthorizerNotReady
        return None

    def authorize_by_resource_type(
        self, context: RequestContext, operation: AclOperation, resource_type: ResourceType
    ) -> bool:
        _require_concrete(operation, resource_type)
        known = self._mask_without_rules(context.principal)
        if known is not None:
            allowed = bool(known)
        else:
            allowed = self._index.allows_any(context.principal, context.client_host, operation, resource_type)
        if allowed:
            self.allowed_count += 1
        else:
            self.denied_count += 1
        return allowed

    def filter_authorized(
        self, context: RequestContext, operation: AclOperation, resource_type: ResourceType, names: Sequence[str]
    ) -> Sequence[str]:
        masks = self._masks(context, resource_type, names, among=1 << operation)
        allowed = list(compress(names, masks))
        return names if len(allowed) == len(names) else allowed

    def authorized_operations(self, context: RequestContext, resource_type: ResourceType, resource_name: str) -> int:
        return self._mask(context, resource_type, resource_name) & supported_mask(resource_type)

    def authorized_operations_many(
        self, context: RequestContext, resource_type: ResourceType, names: Sequence[str]
    ) -> Sequence[int]:
        return self._masks(context, resource_type, names, among=supported_mask(resource_type))

    def _masks(self, context: RequestContext, resource_type: int, names: Sequence[str], *, among: int) -> Sequence[int]:
        known = self._mask_without_rules(context.principal)
        if known is not None:
            return [known & among] * len(names)
        return self._index.masks(context.principal, context.client_host, resource_type, names, among=among)

    def explain(
        self, principal: Principal, host: str, operation: int, resource_type: int, resource_name: str
    ) -> Decision:
        """Decide, and return the deciding rule, with the other rules that apply.

        The rule is the one that Kafka's audit would name: the first denial on the way from the name over its
        prefixes to the wildcard, otherwise the last rule there that allows. Reads rules one by one.
        """
        known = self._mask_without_rules(principal)
        found = self._index.matching(principal, host, operation, resource_type, resource_name)
        if known is not None:
            return Decision(
                bool(known), "SuperUser" if known else "RefusedPrincipal", None, None, found.allowing, found.denying
            )
        if found.denying:
            return Decision(False, "MatchingAcl", *found.denying[0], found.allowing, found.denying)
        if found.allowing:
            return Decision(True, "MatchingAcl", *found.allowing[-1], found.allowing, found.denying)
        if self.allows_everyone_without_acl and not found.is_any_on_resource:
            return Decision(True, "DefaultAllow")
        return Decision(False, "DefaultDeny")


def parse_super_users(text: str) -> list[Principal]:
    """Parse ``User:alice;User:CN=bob,O=example``: semicolons separate users, because certificate names have commas."""
    users = []
    for part in text.split(";"):
        user = part.strip()
        if not user:
            continue
        kind, colon, name = user.partition(":")
        if not (kind and colon):
            raise ConfigException(
                SUPER_USERS_CONFIG,
                text,
                f"{user!r} is not of the form Type:name, as in User:alice; several are separated by semicolons",
            )
        users.append(Principal(kind, name))
    return users


def _require_concrete(operation: int, resource_type: int) -> None:
    if operation <= AclOperation.ANY or resource_type <= ResourceType.ANY:
        raise ValueError(f"operation {operation} on any resource of type {resource_type} can't be authorized")
