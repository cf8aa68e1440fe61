"""Decides by ACLs, at a cost that does not grow with their number (KIP-801).

Three layers, each built from the one below on demand:

- ``AclRules``: every rule once, by id, principal and pattern.
- ``PrincipalMasks``: the rules of one principal as bits by pattern.
- ``AclView``: what concerns one principal at one host, and the decisions made so far.

A change is applied to all three where they exist. Nothing is rebuilt, except earlier decisions about exactly the names
that the changed pattern covers. Views are bounded in number and in what they remember: the young half becomes the old
one when it is full, and unused entries are dropped with the old half.

Callers that need one name read ``views`` themselves first, see ``mask``.
"""

from __future__ import annotations

from operator import le
from typing import TYPE_CHECKING

from barnabas.common.acl import WILDCARD_HOST, WILDCARD_PRINCIPAL, AclPermissionType
from barnabas.common.errors import InvariantViolated
from barnabas.security.authorizer.acl_masks import ALL_OPERATIONS, PrincipalMasks, deny_bits, effective, raw_bit
from barnabas.security.authorizer.acl_rules import AclRules
from barnabas.security.authorizer.acl_slices import scan_order
from barnabas.security.authorizer.acl_view import AclView
from barnabas.security.principal import Principal

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from barnabas.common.acl import AclBinding, AclBindingFilter
    from barnabas.common.uuid import Uuid

__all__ = ["AclIndex", "MatchingRules"]

_SAMPLE_NAME = "hardcode"
"""The name that Kafka uses when it queries any resource of a type."""

_VIEWS_MAX = 8_192
_REMEMBERED_MAX = 131_072
"""Views, and decisions in them, of the young half."""

_NAME_LENGTH_MAX = 255
"""Decisions about longer names (group ids may have 32 KiB) are not cached."""

_CHEAP_TO_COMPILE = 256
"""The masks of principals with fewer rules are not kept; they are compiled again on the next use."""

_REPEATS_SEARCHED_MAX = 64
"""The most rules that are searched one by one for an equal rule; beyond that the principal is compiled."""


class MatchingRules:
    """The rules that apply to one decision, each list in the order in which Kafka evaluates them."""

    __slots__ = ("allowing", "denying", "is_any_on_resource")

    def __init__(self, *, is_any_on_resource: bool) -> None:
        self.allowing: list[tuple[Uuid, AclBinding]] = []
        self.denying: list[tuple[Uuid, AclBinding]] = []
        self.is_any_on_resource = is_any_on_resource
        """Whether any rule covers the resource, for any principal."""


class AclIndex:
    __slots__ = ("_allow_if_no_rule", "_compiled", "_old_views", "_remembered", "_rules", "_view_count", "views")

    def __init__(
        self,
        acls_by_id: Mapping[Uuid, AclBinding] | None = None,
        *,
        allow_if_no_rule: bool = False,
        rules: AclRules | None = None,
    ) -> None:
        """``allow_if_no_rule``: resources that no rule covers are open to all principals.

        ``rules`` replaces ``acls_by_id`` if the rules have been loaded already.
        """
        self._rules = AclRules(acls_by_id) if rules is None else rules
        self._allow_if_no_rule = allow_if_no_rule
        self._compiled: dict[str, PrincipalMasks] = {}
        self.views: dict[Principal, dict[str, AclView]] = {}
        self._old_views: dict[Principal, dict[str, AclView]] = {}
        self._view_count = 0
        self._remembered = 0

    def __len__(self) -> int:
        return len(self._rules)

    @property
    def rules_by_id(self) -> Mapping[Uuid, AclBinding]:
        return self._rules.by_id

    def find(self, acl_filter: AclBindingFilter) -> Iterator[tuple[Uuid, AclBinding]]:
        """Return the rules that match the filter, in Kafka's order."""
        return self._rules.find(acl_filter)

    def slices(self, acl_filter: AclBindingFilter) -> Iterator[Sequence[AclBinding]]:
        """Yield the same rules without ids, in slices; the rules may change meanwhile."""
        return self._rules.slices(acl_filter)

    # ---- changes -------------------------------------------------------------------------------

    def add(self, acl_id: Uuid, binding: AclBinding) -> None:
        """Add a rule. Raises InvariantViolated for an id or a rule that exists."""
        masks = self._compiled.get(binding.principal)
        if masks is None and self._rules.group_size(binding) > _REPEATS_SEARCHED_MAX:
            masks = self._masks_of(binding.principal)
        is_in_masks = masks is not None and raw_bit(binding) != 0
        already_exists = masks.has(binding) if masks is not None and is_in_masks else self._rules.contains(binding)
        if already_exists:
            raise InvariantViolated(f"the rule of ACL {acl_id} exists already under another id: {binding}")
        is_first = self._rules.add(acl_id, binding)
        if masks is not None:
            masks.add(binding)
        self._forget(binding, everywhere=is_first and self._allow_if_no_rule)

    def remove(self, acl_id: Uuid) -> AclBinding:
        """Remove a rule. Raises InvariantViolated for an unknown id."""
        binding, is_last = self._rules.remove(acl_id)
        masks = self._compiled.get(binding.principal)
        if masks is not None:
            masks.remove(binding)
        self._forget(binding, everywhere=is_last and self._allow_if_no_rule)
        return binding

    def _forget(self, binding: AclBinding, *, everywhere: bool) -> None:
        """Drop cached decisions that the rule may have changed; with ``everywhere``, those of all principals."""
        resource_type, name, pattern_type, text, host, _, _ = binding
        kind, _, principal_name = text.partition(":")
        for views in (self.views, self._old_views):
            if everywhere or text == WILDCARD_PRINCIPAL:
                concerned = list(views.values())
            else:
                own = (views.get(Principal(kind, principal_name, is_token)) for is_token in (False, True))
                concerned = [by_host for by_host in own if by_host is not None]
            for by_host in concerned:
                if everywhere or host == WILDCARD_HOST:
                    for view in by_host.values():
                        view.forget(resource_type, pattern_type, name)
                elif host in by_host:
                    by_host[host].forget(resource_type, pattern_type, name)

    # ---- decisions -----------------------------------------------------------------------------

    def mask(self, principal: Principal, host: str, resource_type: int, name: str) -> int:
        """The operations that are allowed on the resource: bit n for the operation with code n.

        It may already be in ``views[principal][host].masks[resource_type][name]``: fast paths look there first and
        call this method upon a KeyError.
        """
        view = self._view(principal, host)
        by_name = view.masks.get(resource_type)
        mask = None if by_name is None else by_name.get(name)
        if mask is None:
            mask = self._decide(view, resource_type, name)
            if len(name) <= _NAME_LENGTH_MAX:
                if by_name is None:
                    by_name = view.masks[resource_type] = {}
                by_name[name] = mask
                self._remembered += 1
                if self._remembered > _REMEMBERED_MAX:
                    self._age()
        return mask

    def _decide(self, view: AclView, resource_type: int, name: str) -> int:
        raw = view.raw_mask(resource_type, name)
        if not raw and self._allow_if_no_rule and not self._rules.is_any_on(resource_type, name):
            return ALL_OPERATIONS
        return effective(raw)

    def masks(
        self, principal: Principal, host: str, resource_type: int, names: Sequence[str], *, among: int = ALL_OPERATIONS
    ) -> Sequence[int]:
        """Return ``mask`` for each of many names, limited to operations in ``among``; fastest for sorted names."""
        if not all(map(le, names, names[1:])):
            in_order = sorted(set(names))
            by_name = dict(
                zip(in_order, self.masks(principal, host, resource_type, in_order, among=among), strict=True)
            )
            return [by_name[name] for name in names]
        raws = self._view(principal, host).raw_masks(resource_type, names)
        table = {raw: effective(raw) & among for raw in set(raws)}
        if self._allow_if_no_rule and 0 in table:
            is_any_on = self._rules.is_any_on
            return [
                table[raw] if raw or is_any_on(resource_type, name) else among
                for raw, name in zip(raws, names, strict=True)
            ]
        if len(table) == 1:
            return list(table.values()) * len(raws)
        return list(map(table.__getitem__, raws))

    def allows_any(self, principal: Principal, host: str, operation: int, resource_type: int) -> bool:
        """Whether the operation is allowed on some resource of the type (KIP-679)."""
        if self.mask(principal, host, resource_type, _SAMPLE_NAME) >> operation & 1:
            return True
        return self._view(principal, host).allows_any(operation, resource_type)

    def matching(self, principal: Principal, host: str, operation: int, resource_type: int, name: str) -> MatchingRules:
        """Return the rules that made the decision, or would have. Reads rules one by one: not for the request path."""
        rules = self._rules
        positions = {pattern: index for index, pattern in enumerate(rules.patterns_matching(resource_type, name))}
        result = MatchingRules(is_any_on_resource=bool(positions))
        principals = _texts_of(principal)
        found: list[tuple[int, Uuid, AclBinding]] = []
        for acl_id in rules.candidates(resource_type, name, principals):
            binding = rules.by_id[acl_id]
            position = positions.get((binding.pattern_type, binding.name))
            if (
                position is not None
                and binding.resource_type == resource_type
                and binding.principal in principals
                and binding.host in (host, WILDCARD_HOST)
                and _speaks_about(binding, operation)
            ):
                found.append((position, acl_id, binding))
        found.sort(key=lambda item: (item[0], scan_order(item[2])))
        for _, acl_id, binding in found:
            is_allowing = binding.permission == AclPermissionType.ALLOW
            (result.allowing if is_allowing else result.denying).append((acl_id, binding))
        return result

    # ---- views ---------------------------------------------------------------------------------

    def _view(self, principal: Principal, host: str) -> AclView:
        by_host = self.views.get(principal)
        view = None if by_host is None else by_host.get(host)
        if view is None:
            old = self._old_views.get(principal)
            view = None if old is None else old.pop(host, None)
            if view is None:
                view = AclView(host, [self._masks_of(text) for text in _texts_of(principal)])
            if self._view_count >= _VIEWS_MAX:
                self._age()
            key = Principal(principal.type, principal.name, principal.token_authenticated)
            self.views.setdefault(key, {})[host] = view
            self._view_count += 1
            self._remembered += sum(map(len, view.masks.values()))
        return view

    def _masks_of(self, principal: str) -> PrincipalMasks:
        """Return the principal's masks: compiled on first use, then kept up to date while a view refers to them."""
        masks = self._compiled.get(principal)
        if masks is None:
            masks = self._compiled[principal] = PrincipalMasks(self._rules.bindings_of_principal(principal))
        return masks

    def _age(self) -> None:
        """Drop the entries that were not used since the last call."""
        self._old_views, self.views = self.views, {}
        self._view_count = self._remembered = 0
        in_use = {text for principal in self._old_views for text in _texts_of(principal)}
        self._compiled = {
            principal: masks
            for principal, masks in self._compiled.items()
            if principal in in_use or masks.rule_count > _CHEAP_TO_COMPILE
        }


def _texts_of(principal: Principal) -> tuple[str, ...]:
    """Return the principal's text in rules. A rule's text is split at its first colon: a type never has one."""
    if ":" in principal.type:
        return (WILDCARD_PRINCIPAL,)
    return f"{principal.type}:{principal.name}", WILDCARD_PRINCIPAL


def _speaks_about(binding: AclBinding, operation: int) -> bool:
    """Whether the rule allows or denies the operation."""
    bit = raw_bit(binding)
    if binding.permission == AclPermissionType.DENY:
        return bool(bit & deny_bits(operation))
    return bool(effective(bit) >> operation & 1)
