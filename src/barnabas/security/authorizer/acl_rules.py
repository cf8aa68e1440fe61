"""Stores all rules by id, and finds them by principal and by resource pattern.

This index holds the rules themselves; decisions use masks (``acl_masks``) that are compiled from it. A million rules
must fit, so a rule has no object of its own: a group with one id is that id, a small group a list, a large group a dict
from which an id is removed in constant time.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from barnabas.common.acl import WILDCARD_NAME
from barnabas.common.errors import InvariantViolated
from barnabas.common.resource import PatternType, ResourceType
from barnabas.common.uuid import Uuid
from barnabas.security.authorizer.acl_slices import SLICE, in_order, scan_order, utf16_order

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from barnabas.common.acl import AclBinding, AclBindingFilter

__all__ = ["AclRules"]

RULES_A_STEP: Final = 2_000
"""Takes some 5 ms to load."""
_LIST_LENGTH_MAX = 64

_FEW = 2_048
"""The most rules that are found and sorted in one go."""

_LOOKED_UP_MAX = 50_000
"""Above this number of ids, finding their rules takes longer in one go than reading all rules."""

_Group = Uuid | list[Uuid] | dict[Uuid, None]
_Pattern = tuple[int, int]
"""Resource type and pattern type."""


class AclRules:
    """All rules. Adding a known rule or removing an unknown one raises; a snapshot is not checked."""

    __slots__ = ("_by_pattern", "_by_principal", "_changes", "_in_order", "_lengths", "by_id")

    def __init__(self, acls_by_id: Mapping[Uuid, AclBinding] | None = None) -> None:
        self.by_id: dict[Uuid, AclBinding] = {}
        self._by_principal: dict[str, _Group] = {}
        self._by_pattern: dict[_Pattern, dict[str, _Group]] = {}
        self._lengths: dict[int, Counter[int]] = {}
        self._changes = 0
        self._in_order: list[AclBinding] | None = None
        """All rules in Kafka's order, cached from a listing until a rule is added or removed."""
        for _ in self.load_in_steps(() if acls_by_id is None else acls_by_id.items()):
            pass

    def load_in_steps(self, acls: Iterable[tuple[Uuid, AclBinding]]) -> Iterator[None]:
        """Load the rules of a snapshot into an empty index."""
        by_id = self.by_id
        by_principal = self._by_principal
        patterns = self._by_pattern
        for acl_id, binding in acls:
            if len(by_id) % RULES_A_STEP == RULES_A_STEP - 1:
                yield
            by_id[acl_id] = binding
            resource_type, name, pattern_type, principal, _, _, _ = binding
            _put(by_principal, principal, acl_id)
            by_name = patterns.get((resource_type, pattern_type))
            if by_name is None:
                by_name = patterns[resource_type, pattern_type] = {}
            _put(by_name, name, acl_id)
        for (resource_type, pattern_type), by_name in patterns.items():
            if pattern_type == PatternType.PREFIXED:
                self._lengths[resource_type] = Counter(map(len, by_name))

    def __len__(self) -> int:
        return len(self.by_id)

    def add(self, acl_id: Uuid, binding: AclBinding) -> bool:
        """Add a rule; return whether it is the first of its pattern. The caller has verified that the rule is new."""
        if acl_id in self.by_id:
            raise InvariantViolated(f"ACL {acl_id} exists already")
        self._in_order = None
        self._changes += 1
        self.by_id[acl_id] = binding
        _put(self._by_principal, binding.principal, acl_id)
        by_name = self._by_pattern.setdefault((binding.resource_type, binding.pattern_type), {})
        is_first = binding.name not in by_name
        _put(by_name, binding.name, acl_id)
        if is_first:
            if binding.pattern_type == PatternType.PREFIXED:
                self._lengths.setdefault(binding.resource_type, Counter())[len(binding.name)] += 1
        return is_first

    def remove(self, acl_id: Uuid) -> tuple[AclBinding, bool]:
        """Remove a rule; return it, and whether it was the last one of its pattern."""
        if acl_id not in self.by_id:
            raise InvariantViolated(f"no ACL has the id {acl_id}")
        self._in_order = None
        self._changes += 1
        binding = self.by_id.pop(acl_id)
        _take(self._by_principal, binding.principal, acl_id)
        by_name = self._by_pattern[binding.resource_type, binding.pattern_type]
        _take(by_name, binding.name, acl_id)
        is_last = binding.name not in by_name
        if is_last:
            if binding.pattern_type == PatternType.PREFIXED:
                counts = self._lengths[binding.resource_type]
                counts[len(binding.name)] -= 1
                if not counts[len(binding.name)]:
                    del counts[len(binding.name)]
        return binding, is_last

    def contains(self, binding: AclBinding) -> bool:
        """Return whether a rule that is equal in all fields exists under some id. Reads the smaller of its groups."""
        by_id = self.by_id
        return any(by_id[acl_id] == binding for acl_id in self._smallest_group(binding))

    def group_size(self, binding: AclBinding) -> int:
        """How many rules ``contains`` would read."""
        return len(self._smallest_group(binding))

    def _smallest_group(self, binding: AclBinding) -> Collection[Uuid]:
        return min(
            self.ids_of_principal(binding.principal),
            self._ids_on(binding.resource_type, binding.pattern_type, binding.name),
            key=len,
        )

    def ids_of_principal(self, principal: str) -> Collection[Uuid]:
        return _ids(self._by_principal.get(principal))

    def bindings_of_principal(self, principal: str) -> Iterator[AclBinding]:
        return map(self.by_id.__getitem__, self.ids_of_principal(principal))

    def _ids_on(self, resource_type: int, pattern_type: int, name: str) -> Collection[Uuid]:
        by_name = self._by_pattern.get((resource_type, pattern_type))
        return () if by_name is None else _ids(by_name.get(name))

    def patterns_matching(self, resource_type: int, name: str) -> Iterator[tuple[int, str]]:
        """Return pattern type and name of each pattern with rules that matches a resource of this name.

        The order is that in which a decision names its rule: from the name itself to its shorter prefixes, then
        the wildcard. (``*`` as a prefix is not the wildcard; the wildcard of a resource named ``*`` occurs once.)
        """
        literals = self._by_pattern.get((resource_type, PatternType.LITERAL), {})
        prefixes = self._by_pattern.get((resource_type, PatternType.PREFIXED), {})
        if name in literals and name != WILDCARD_NAME:
            yield PatternType.LITERAL, name
        for length in sorted(self._lengths.get(resource_type, ()), reverse=True):
            if length <= len(name) and name[:length] in prefixes:
                yield PatternType.PREFIXED, name[:length]
        if WILDCARD_NAME in literals:
            yield PatternType.LITERAL, WILDCARD_NAME

    def is_any_on(self, resource_type: int, name: str) -> bool:
        """Whether a rule exists whose pattern matches the resource, for any principal and operation."""
        literals = self._by_pattern.get((resource_type, PatternType.LITERAL), {})
        if name in literals or WILDCARD_NAME in literals:
            return True
        prefixes = self._by_pattern.get((resource_type, PatternType.PREFIXED), {})
        return any(name[:length] in prefixes for length in self._lengths.get(resource_type, ()))

    def candidates(self, resource_type: int, name: str, principals: Iterable[str]) -> Iterator[Uuid]:
        """Return a superset of the ids of rules for one of the principals on the resource; reads as few as possible."""
        patterns = list(self.patterns_matching(resource_type, name))
        on_resource = [self._ids_on(resource_type, pattern, found) for pattern, found in patterns]
        of_principals = [self.ids_of_principal(principal) for principal in principals]
        fewer = min(on_resource, of_principals, key=lambda groups: sum(map(len, groups)))
        return (acl_id for group in fewer for acl_id in group)

    def find(self, acl_filter: AclBindingFilter) -> Iterator[tuple[Uuid, AclBinding]]:
        """Return the rules that match the filter, with ids, in Kafka's order, in one step; ``slices`` is for many."""
        by_id, matches = self.by_id, acl_filter.matches
        found = [(acl_id, by_id[acl_id]) for acl_id in self._candidates(acl_filter) if matches(by_id[acl_id])]
        # Three stable sorts: the less significant parts are sorted first, and one part descends.
        found.sort(key=lambda item: (item[1].pattern_type, scan_order(item[1])))
        found.sort(key=lambda item: utf16_order(item[1].name), reverse=True)
        found.sort(key=lambda item: item[1].resource_type)
        return iter(found)

    def slices(self, acl_filter: AclBindingFilter) -> Iterator[Sequence[AclBinding]]:
        """Yield the rules that match the filter, in Kafka's order; see ``AclAuthorizer.acl_slices``."""
        ids = self._candidates(acl_filter)
        if len(ids) <= _FEW:
            few = list(map(self.by_id.__getitem__, ids))
            found = [binding for part in in_order(few, acl_filter) for binding in part]
            if found:
                yield found
            return
        del ids
        yield ()
        known = self._in_order
        if known is not None:
            for start in range(0, len(known), SLICE):
                yield acl_filter.among(known[start : start + SLICE])
            return
        order: list[AclBinding] = []
        is_kept = acl_filter.finds_all
        changes = self._changes
        for part in in_order(self._snapshot(acl_filter), acl_filter):
            if is_kept:
                order += part
            yield part
        if is_kept and changes == self._changes:
            self._in_order = order

    def _snapshot(self, acl_filter: AclBindingFilter) -> list[AclBinding]:
        """Return a superset of the rules that match the filter, in their present state."""
        ids = self._candidates(acl_filter)
        return list(self.by_id.values() if len(ids) > _LOOKED_UP_MAX else map(self.by_id.__getitem__, ids))

    def _candidates(self, acl_filter: AclBindingFilter) -> Collection[Uuid]:
        """Return a superset, as small as possible, of the ids of rules that match the filter."""
        of_principal = None if acl_filter.principal is None else self.ids_of_principal(acl_filter.principal)
        if acl_filter.name is not None:
            ids = self._ids_by_name(acl_filter, acl_filter.name)
            return ids if of_principal is None else min(ids, of_principal, key=len)
        return self.by_id if of_principal is None else of_principal

    def _ids_by_name(self, acl_filter: AclBindingFilter, name: str) -> Collection[Uuid]:
        ids: list[Uuid] = []
        for resource_type, pattern_type in self._by_pattern:
            if acl_filter.resource_type not in (ResourceType.ANY, resource_type):
                continue
            names: Iterable[str] = (name,)
            if acl_filter.pattern_type == PatternType.MATCH:
                names = (found for kind, found in self.patterns_matching(resource_type, name) if kind == pattern_type)
            for found in names:
                ids += self._ids_on(resource_type, pattern_type, found)
        return ids


def _put(groups: dict[str, _Group], key: str, acl_id: Uuid) -> None:
    group = groups.get(key)
    if group is None:
        groups[key] = acl_id
    elif type(group) is list:
        if len(group) < _LIST_LENGTH_MAX:
            group.append(acl_id)
        else:
            large = groups[key] = dict.fromkeys(group)
            large[acl_id] = None
    elif type(group) is dict:
        group[acl_id] = None
    else:
        groups[key] = [group, acl_id]  # type: ignore[list-item]


def _take(groups: dict[str, _Group], key: str, acl_id: Uuid) -> None:
    group = groups[key]
    if type(group) is list:
        group.remove(acl_id)
    elif type(group) is dict:
        del group[acl_id]
    if not group or group is acl_id or group == acl_id:
        del groups[key]


def _ids(group: _Group | None) -> Collection[Uuid]:
    if group is None:
        return ()
    return group if type(group) is list or type(group) is dict else (group,)  # type: ignore[return-value]
