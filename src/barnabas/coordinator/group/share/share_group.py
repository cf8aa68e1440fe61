"""A share group: its members, their subscriptions, and the share-partitions that may be assigned to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.uuid import Uuid
from barnabas.coordinator.coordinator_result import CoordinatorRecord
from barnabas.coordinator.group.cluster_view import ClusterView
from barnabas.coordinator.group.group import CheckPartition, OffsetCommitter, OffsetExpiry
from barnabas.coordinator.group.group_state import GroupType
from barnabas.coordinator.group.modern_group import NO_PARTITIONS, ModernGroup, Partitions
from barnabas.coordinator.group.share.share_group_member import ShareGroupMember
from barnabas.coordinator.group.share.share_group_records import group_tombstones
from barnabas.coordinator.group.share.state_partitions import SharedTopic, StatePartitions

__all__ = ["ShareGroup", "ShareGroupState"]

_NO_COUNTS: Mapping[int, int] = {}
_NO_STATE = StatePartitions()


class ShareGroupState(Enum):
    """The value is the name that ListGroups and ShareGroupDescribe show."""

    EMPTY = "Empty"
    STABLE = "Stable"
    DEAD = "Dead"


class ShareGroup(ModernGroup[ShareGroupMember, Partitions]):
    group_type = GroupType.SHARE

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.subscribers: dict[str, int] = {}
        """How many members subscribe to a topic."""
        self.member_count_max = 0
        """The largest number of members since the group was loaded: Kafka's assignor depends on it."""
        self._partitions: StatePartitions | None = None
        self._assigned: dict[Uuid, dict[int, int]] = {}
        """To how many members a partition is assigned."""
        self._waits_for_target: bool | None = None
        """None: must be determined again."""
        self._complete_for: tuple[object, object] | None = None
        """The topics and the partitions for which nothing is left to initialize."""

    # -- Group

    @property
    def state(self) -> ShareGroupState:
        return ShareGroupState.STABLE if self.members else ShareGroupState.EMPTY

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def listed_protocol_type(self) -> str:
        return "share"

    @property
    def may_be_removed(self) -> bool:
        """A share group without members stays until it is deleted, because its offsets are kept elsewhere."""
        return False

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.subscribers

    def validate_offset_commit(self, committer: OffsetCommitter) -> CheckPartition | None:
        raise self._has_no_offsets()

    def validate_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Any client may learn that the group has no committed offsets."""

    def validate_offset_delete(self) -> None:
        raise self._has_no_offsets()

    def _has_no_offsets(self) -> ApiException:
        return ApiException(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {self.group_id} is not a consumer group.")

    def offset_expiry(self) -> OffsetExpiry | None:
        return None

    def tombstones(self) -> Sequence[CoordinatorRecord]:
        return group_tombstones(self.group_id, self.members)

    # -- members

    def update_member(self, member: ShareGroupMember) -> None:
        before = self.members.get(member.member_id)
        self.members[member.member_id] = member
        self.member_count_max = max(self.member_count_max, len(self.members))
        if before is None or before.topic_names != member.topic_names:
            self._subscribe(before, member)

    def remove_member(self, member_id: str) -> None:
        self._subscribe(self.members.pop(member_id), None)

    def _subscribe(self, before: ShareGroupMember | None, member: ShareGroupMember | None) -> None:
        _count_names(self.subscribers, before, member)
        self._waits_for_target = self._complete_for = None

    def subscribers_with(self, before: ShareGroupMember | None, member: ShareGroupMember | None) -> Mapping[str, int]:
        """Return the subscribers as they are when ``member`` replaces ``before``, which is the one of its id."""
        names_before = frozenset() if before is None else before.topic_names
        if names_before == (frozenset() if member is None else member.topic_names):
            return self.subscribers
        counts = dict(self.subscribers)
        _count_names(counts, before, member)
        return counts

    # -- partitions with a state

    @property
    def partitions(self) -> StatePartitions | None:
        """None before the first record of them."""
        return self._partitions

    @partitions.setter
    def partitions(self, partitions: StatePartitions | None) -> None:
        self._partitions = partitions
        self._waits_for_target = None

    @property
    def known_partitions(self) -> StatePartitions:
        return self._partitions or _NO_STATE

    def missing_partitions(
        self, view: ClusterView, subscribers: Mapping[str, int], now_ms: int, retry_ms: int
    ) -> Mapping[Uuid, SharedTopic]:
        """Return the partitions of subscribed topics whose state must be initialized."""
        partitions = self.known_partitions
        if subscribers is not self.subscribers:
            return partitions.missing(view, subscribers, now_ms, retry_ms)
        present = (view.image.topics, self._partitions)
        known = self._complete_for
        if known is not None and known[0] is present[0] and known[1] is present[1]:
            return {}
        missing = partitions.missing(view, subscribers, now_ms, retry_ms)
        if not missing and not partitions.initializing:
            self._complete_for = present
        return missing

    @property
    def assignable(self) -> Mapping[Uuid, frozenset[int]]:
        return {topic_id: topic.partitions for topic_id, topic in self.known_partitions.initialized.items()}

    # -- targets

    def set_target(self, member_id: str, target: Partitions | None) -> None:
        self._count(self.target.pop(member_id, NO_PARTITIONS), -1)
        if target is not None:
            self.target[member_id] = target
            self._count(target, 1)
        self._waits_for_target = None

    def _count(self, target: Partitions, change: int) -> None:
        for topic_id, partitions in target.items():
            counts = self._assigned.setdefault(topic_id, {})
            for partition in partitions:
                count = counts.get(partition, 0) + change
                if count:
                    counts[partition] = count
                else:
                    counts.pop(partition, None)
            if not counts:
                del self._assigned[topic_id]

    @property
    def waits_for_target(self) -> bool:
        """Whether the assigned partitions of a subscribed topic are not those whose state is initialized."""
        waits = self._waits_for_target
        if waits is None:
            waits = self._waits_for_target = any(
                topic.name in self.subscribers and self._assigned.get(topic_id, _NO_COUNTS).keys() != topic.partitions
                for topic_id, topic in self.known_partitions.initialized.items()
            )
        return waits


def _count_names(counts: dict[str, int], before: ShareGroupMember | None, member: ShareGroupMember | None) -> None:
    for topic in () if before is None else before.topic_names:
        counts[topic] -= 1
        if not counts[topic]:
            del counts[topic]
    for topic in () if member is None else member.topic_names:
        counts[topic] = counts.get(topic, 0) + 1
