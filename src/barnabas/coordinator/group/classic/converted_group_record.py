"""The record of a classic group in the batch that converts it to or from a consumer group."""

from __future__ import annotations

from barnabas.coordinator.group.classic.classic_group import ClassicGroup
from barnabas.coordinator.group.group_records import GroupMetadataRecord
from barnabas.protocol.records.group_metadata_value import GroupMetadataValue

__all__ = ["ConvertedGroupRecord"]


class ConvertedGroupRecord(GroupMetadataRecord):
    """The end of a classic group that becomes a consumer group, or with a value the begin of one that was such.

    It carries the group, which has more than its record: requests that wait, and all protocols of its members.
    """

    __slots__ = ("group",)

    def __init__(self, group: ClassicGroup, value: GroupMetadataValue | None) -> None:
        super().__init__(group.group_id, value)
        self.group = group

    @classmethod
    def end_of(cls, group: ClassicGroup) -> ConvertedGroupRecord:
        return cls(group, None)

    @classmethod
    def begin_of(cls, group: ClassicGroup) -> ConvertedGroupRecord:
        assignments = {member.member_id: member.assignment for member in group.members.values()}
        return cls(group, group.to_record_value(assignments))
