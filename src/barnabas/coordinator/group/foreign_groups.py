"""Groups of kinds that this coordinator does not run, in a log that Kafka wrote: share groups.

Their records stay in the log. The existing keys are tracked, so that a group can be listed, and so that deleting it
writes Kafka's tombstones, in an order that Kafka can replay: assignments before members, and the group itself, which
must have neither, last.
"""

from __future__ import annotations

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.coordinator.group.group import CheckPartition, Group, OffsetCommitter, OffsetExpiry
from barnabas.coordinator.group.group_records import ForeignGroupRecord
from barnabas.coordinator.group.group_state import GroupState, GroupType
from barnabas.coordinator.group.groups import Groups

__all__ = ["ForeignGroup", "replay_foreign"]


_TOMBSTONE_ORDER = {record_type: rank for rank, record_type in enumerate((14, 13, 12, 10, 15, 11))}
"""Current and target assignments, members, states, the group."""


class ForeignGroup(Group):
    """A group whose members another broker served. It counts as empty."""

    __slots__ = ("group_id", "group_type", "keys")

    def __init__(self, group_id: str, group_type: GroupType) -> None:
        self.group_id = group_id
        self.group_type = group_type
        self.keys: dict[bytes, None] = {}

    @property
    def state_name(self) -> str:
        return GroupState.EMPTY.value

    @property
    def listed_protocol_type(self) -> str:
        return self.group_type.value

    @property
    def is_empty(self) -> bool:
        return True

    @property
    def may_be_removed(self) -> bool:
        return False

    def is_subscribed_to(self, topic: str) -> bool:
        return False

    def validate_offset_commit(self, committer: OffsetCommitter) -> CheckPartition | None:
        if committer.epoch >= 0:
            raise ApiException(ErrorCode.UNKNOWN_MEMBER_ID)
        return None

    def validate_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        return

    def validate_offset_delete(self) -> None:
        return

    def validate_delete(self) -> None:
        return

    def offset_expiry(self) -> OffsetExpiry | None:
        return None

    def tombstones(self) -> list[ForeignGroupRecord]:
        return [ForeignGroupRecord(self.group_id, self.group_type, key, None) for key in sorted(self.keys, key=_rank)]


def replay_foreign(groups: Groups, record: ForeignGroupRecord) -> None:
    group = groups.find(record.group_id)
    if record.value is not None:
        if not isinstance(group, ForeignGroup):
            if group is not None and not group.is_simple:
                return
            group = ForeignGroup(record.group_id, record.group_type)  # Its offsets may precede it in the log.
            groups.put(group)
        group.keys[record.key] = None
    elif isinstance(group, ForeignGroup):
        group.keys.pop(record.key, None)
        if not group.keys:
            groups.remove(record.group_id)


def _rank(key: bytes) -> int:
    return _TOMBSTONE_ORDER[int.from_bytes(key[:2], "big")]
