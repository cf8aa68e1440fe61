"""The tombstones of members, which the newer kinds of groups write in the same order, each with keys of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeAlias

from barnabas.coordinator.group.group_records import KeyedRecord
from barnabas.coordinator.group.group_state import GroupType
from barnabas.protocol.schema import Message

__all__ = ["MemberTombstones"]

_Key: TypeAlias = Callable[..., Message]


class MemberTombstones(NamedTuple):
    """The types of the keys of one kind of group."""

    group_type: GroupType
    current_assignment: _Key
    target_assignment: _Key
    target_epoch: _Key
    metadata: _Key

    def of_member(self, group_id: str, member_id: str) -> list[KeyedRecord]:
        keys = (self.current_assignment, self.target_assignment, self.metadata)
        return [self._tombstone(key(group_id=group_id, member_id=member_id)) for key in keys]

    def of_all_members(self, group_id: str, member_ids: Iterable[str]) -> list[KeyedRecord]:
        """Remove all members of a group and the epoch of its target. Kafka expects assignments before members."""
        members = list(member_ids)
        return [
            *self._of_each(self.current_assignment, group_id, members),
            *self._of_each(self.target_assignment, group_id, members),
            self._tombstone(self.target_epoch(group_id=group_id)),
            *self._of_each(self.metadata, group_id, members),
        ]

    def _of_each(self, key: _Key, group_id: str, member_ids: Iterable[str]) -> Iterable[KeyedRecord]:
        return (self._tombstone(key(group_id=group_id, member_id=member_id)) for member_id in member_ids)

    def _tombstone(self, key: Message) -> KeyedRecord:
        return KeyedRecord(self.group_type, key, None)
