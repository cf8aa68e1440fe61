"""The ACLs of the cluster by id, and the ids by ACL.

Every creation of a rule checks whether the rule exists, so an image also has the ids by rule. Only an active controller
needs them: the second map is built on first use, and from then on every following image updates its own.

Replay follows the controller, which is more tolerant than an authorizer: here an existing id is replaced, and a rule
may have several ids; for an authorizer both are faults. Removing an unknown id is a fault for both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from sys import intern

from barnabas.common.acl import AclBinding, AclBindingFilter
from barnabas.common.errors import invariant
from barnabas.common.resource import PatternType
from barnabas.common.stepped_sort import sorted_in_pieces
from barnabas.common.uuid import Uuid
from barnabas.metadata.image.record_writer import RecordWriter
from barnabas.metadata.persistent_map import PersistentMap
from barnabas.protocol.records.access_control_entry_record import AccessControlEntryRecord
from barnabas.protocol.records.remove_access_control_entry_record import RemoveAccessControlEntryRecord

__all__ = ["AclsDelta", "AclsImage", "acl_record", "binding_of_record", "matching_rules"]


_new_tuple: Callable[[type[AclBinding], tuple[object, ...]], AclBinding] = tuple.__new__
"""A named tuple's own constructor takes twice as long, and a log may have a million rules."""


def acl_record(acl_id: Uuid, binding: AclBinding) -> AccessControlEntryRecord:
    return AccessControlEntryRecord(
        id=acl_id,
        resource_type=binding.resource_type,
        resource_name=binding.name,
        pattern_type=binding.pattern_type,
        principal=binding.principal,
        host=binding.host,
        operation=binding.operation,
        permission_type=binding.permission,
    )


def binding_of_record(record: AccessControlEntryRecord) -> AclBinding:
    """Names, principals and hosts repeat in many rules, so each text is stored once: half the memory of a million."""
    return _new_tuple(
        AclBinding,
        (
            record.resource_type,
            intern(record.resource_name),
            record.pattern_type,
            intern(record.principal),
            intern(record.host),
            record.operation,
            record.permission_type,
        ),
    )


class AclsImage:
    __slots__ = ("_ids", "by_id")

    def __init__(
        self, by_id: PersistentMap[Uuid, AclBinding] | None = None, ids: PersistentMap[AclBinding, Uuid] | None = None
    ) -> None:
        self.by_id: PersistentMap[Uuid, AclBinding] = PersistentMap() if by_id is None else by_id
        self._ids = ids

    def __len__(self) -> int:
        return len(self.by_id)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, AclsImage) and self.by_id == other.by_id)

    __hash__ = None  # type: ignore[assignment]

    @property
    def ids(self) -> PersistentMap[AclBinding, Uuid]:
        """An id of each rule. The first access takes long (a second for a million rules)."""
        if self._ids is None:
            pairs = ((binding, acl_id) for acl_id, binding in self.by_id.items())
            self._ids = PersistentMap.of(pairs, len(self.by_id))
        return self._ids

    @property
    def known_ids(self) -> PersistentMap[AclBinding, Uuid] | None:
        """``ids`` if it has been computed already."""
        return self._ids

    def find(self, acl_filter: AclBindingFilter) -> Iterator[tuple[Uuid, AclBinding]]:
        """Return the rules that match the filter, unordered; without a search if it names one rule."""
        if acl_filter.is_one_binding and len(self.ids) == len(self.by_id):
            binding = AclBinding(*acl_filter)  # type: ignore[arg-type]
            acl_id = self.ids.get(binding)
            return iter(() if acl_id is None else ((acl_id, binding),))
        return matching_rules(acl_filter, self.by_id.items())

    def write(self, writer: RecordWriter) -> None:
        for acl_id in sorted_in_pieces(self.by_id):
            writer.write(acl_record(acl_id, self.by_id[acl_id]), 0)


def matching_rules(
    acl_filter: AclBindingFilter, items: Iterable[tuple[Uuid, AclBinding]]
) -> Iterator[tuple[Uuid, AclBinding]]:
    """Yield those of ``rules`` that match the filter."""
    for index, value in acl_filter.demands():
        items = _with_field(items, index, value)
    if acl_filter.name is None or acl_filter.pattern_type != PatternType.MATCH:
        return iter(items)
    matches = acl_filter.matches_pattern
    return ((acl_id, binding) for acl_id, binding in items if matches(binding.name, binding.pattern_type))


def _with_field(
    items: Iterable[tuple[Uuid, AclBinding]], index: int, value: int | str
) -> Iterator[tuple[Uuid, AclBinding]]:
    """Compare field by field, rare values first, which takes a fraction of a call of the filter for every rule."""
    return (item for item in items if item[1][index] == value)


class AclsDelta:
    """``changes`` maps an id to its new rule, or to None when it was deleted, in the order of the log.

    An id that was added and removed in between leaves no trace.
    """

    __slots__ = ("changes", "image")

    def __init__(self, image: AclsImage) -> None:
        self.image = image
        self.changes: dict[Uuid, AclBinding | None] = {}

    def replay(self, record: AccessControlEntryRecord) -> None:
        if record.id in self.changes:
            del self.changes[record.id]
        self.changes[record.id] = binding_of_record(record)

    def replay_remove(self, record: RemoveAccessControlEntryRecord) -> None:
        acl_id = record.id
        was_there = acl_id in self.image.by_id
        changed_to = self.changes.pop(acl_id, None) if acl_id in self.changes else self.image.by_id.get(acl_id)
        invariant(changed_to is not None, f"no ACL has the id {acl_id}")
        if was_there:
            self.changes[acl_id] = None

    def finish_snapshot(self) -> None:
        for acl_id in self.image.by_id:
            self.changes.setdefault(acl_id, None)

    def apply(self) -> AclsImage:
        put = {acl_id: binding for acl_id, binding in self.changes.items() if binding is not None}
        gone = [acl_id for acl_id, binding in self.changes.items() if binding is None]
        before = self.image.by_id
        by_id = before.updated(put, gone) if len(before) else PersistentMap(put)
        return AclsImage(by_id, self._updated_ids(put))

    def _updated_ids(self, put: dict[Uuid, AclBinding]) -> PersistentMap[AclBinding, Uuid] | None:
        ids = self.image.known_ids
        if ids is None:
            return None
        before = self.image.by_id
        replaced: Iterable[AclBinding] = [before[acl_id] for acl_id in self.changes if acl_id in before]
        if replaced and len(ids) != len(before):
            return None  # A rule with several ids may keep one of them: compute the map again on the next use.
        return ids.updated({binding: acl_id for acl_id, binding in put.items()}, replaced)
