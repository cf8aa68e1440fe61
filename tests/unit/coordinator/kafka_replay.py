"""What Kafka 4.3.1 demands of the order of records when it reads a log of groups; it does not load a log that fails."""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.coordinator.group.group_records import AnyGroupRecord, GroupMetadataRecord, KeyedRecord
from barnabas.protocol.records.consumer_group_current_member_assignment_value import (
    ConsumerGroupCurrentMemberAssignmentValue,
)


class _Group:
    def __init__(self) -> None:
        self.members: dict[str, int] = {}
        """The epochs of members."""
        self.targets: set[str] = set()
        self.assignment_epoch = 1
        self.owners: dict[tuple[bytes, int], int] = {}
        self.held: dict[str, list[tuple[bytes, int]]] = {}


def check(records: Iterable[AnyGroupRecord]) -> None:
    """Fail where Kafka would raise."""
    groups: dict[str, _Group] = {}
    classic: dict[str, bool] = {}
    """Whether a classic group has members."""
    for record in records:
        if isinstance(record, GroupMetadataRecord):
            groups.pop(record.group_id, None)
            classic.pop(record.group_id, None)
            if record.value is not None and (record.value.members or record.value.protocol_type):
                classic[record.group_id] = True
        elif isinstance(record, KeyedRecord):
            group = groups.get(record.group_id)
            if record.value is not None:
                assert record.group_id not in classic, f"{record} in a classic group"
                group = groups.setdefault(record.group_id, _Group())
            if group is not None:
                _replay(group, record)
                if record.value is None and type(record.key).__name__ == "ConsumerGroupMetadataKey":
                    del groups[record.group_id]


def _replay(group: _Group, record: KeyedRecord) -> None:
    kind = type(record.key).__name__.removeprefix("ConsumerGroup").removesuffix("Key")
    member_id = getattr(record.key, "member_id", "")
    if kind == "CurrentMemberAssignment":
        _replay_assignment(group, member_id, record)
    elif kind == "MemberMetadata" and record.value is not None:
        group.members.setdefault(member_id, 0)
    elif kind == "MemberMetadata" and member_id in group.members:
        assert group.members[member_id] == -1, f"{record} without the tombstone of its assignment"
        assert member_id not in group.targets, f"{record} without the tombstone of its target"
        del group.members[member_id]
    elif kind == "TargetAssignmentMember":
        (group.targets.discard if record.value is None else group.targets.add)(member_id)
    elif kind == "TargetAssignmentMetadata":
        assert record.value is not None or not group.targets, f"{record} with targets of members"
        group.assignment_epoch = -1 if record.value is None else 1
    elif kind == "Metadata" and record.value is None:
        assert not group.members, f"{record} with members"
        assert not group.targets, f"{record} with targets"
        assert group.assignment_epoch == -1, f"{record} without the tombstone of the assignment epoch"


def _replay_assignment(group: _Group, member_id: str, record: KeyedRecord) -> None:
    for partition in group.held.pop(member_id, []):
        if group.owners.get(partition) == group.members[member_id]:
            del group.owners[partition]
    value = record.value
    if value is None:
        if member_id in group.members:
            group.members[member_id] = -1
        return
    assert isinstance(value, ConsumerGroupCurrentMemberAssignmentValue)
    held = [
        (bytes(topic.topic_id), partition)
        for topic in (*value.assigned_partitions, *value.partitions_pending_revocation)
        for partition in topic.partitions
    ]
    for partition in held:
        assert group.owners.get(partition, -(2**31)) < value.member_epoch, f"{record}: still owned"
        group.owners[partition] = value.member_epoch
    group.members[member_id] = value.member_epoch
    group.held[member_id] = held
