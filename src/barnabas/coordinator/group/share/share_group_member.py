"""A member of a share group: its subscription, and the partitions that it may fetch records from."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, field, replace

from barnabas.common.uuid import Uuid
from barnabas.coordinator.group.modern_group import Partitions
from barnabas.protocol.records.share_group_current_member_assignment_value import (
    ShareGroupCurrentMemberAssignmentValue,
    TopicPartitions,
)
from barnabas.protocol.records.share_group_member_metadata_value import ShareGroupMemberMetadataValue

__all__ = ["ShareGroupMember"]

_STABLE = 0
"""The only state of a member: it takes its target assignment in one step, because partitions are shared."""


@dataclass(frozen=True, slots=True)
class ShareGroupMember:
    member_id: str
    member_epoch: int = 0
    previous_member_epoch: int = -1
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: frozenset[str] = frozenset()
    assigned: Partitions = field(default_factory=dict)

    def at(self, epoch: int, target: Partitions, subscribed: Set[Uuid], *, has_changed: bool) -> ShareGroupMember:
        """Return the member with its target of this epoch; the same object if it has it already.

        ``subscribed``: the ids of its topics, as others may be in an older target. ``has_changed``: the group's
        subscriptions or topics have changed, even if the target has not been computed since.
        """
        if epoch == self.member_epoch and not has_changed:
            return self
        assigned = target
        if not target.keys() <= subscribed:
            assigned = {topic_id: partitions for topic_id, partitions in target.items() if topic_id in subscribed}
        if epoch == self.member_epoch:
            return self if assigned == self.assigned else replace(self, assigned=assigned)
        return replace(self, member_epoch=epoch, previous_member_epoch=self.member_epoch, assigned=assigned)

    # -- records

    def metadata_value(self) -> ShareGroupMemberMetadataValue:
        return ShareGroupMemberMetadataValue(
            rack_id=self.rack_id,
            client_id=self.client_id,
            client_host=self.client_host,
            subscribed_topic_names=sorted(self.topic_names),
        )

    def current_assignment_value(self) -> ShareGroupCurrentMemberAssignmentValue:
        return ShareGroupCurrentMemberAssignmentValue(
            member_epoch=self.member_epoch,
            previous_member_epoch=self.previous_member_epoch,
            state=_STABLE,
            assigned_partitions=[
                TopicPartitions(topic_id=topic_id, partitions=sorted(partitions))
                for topic_id, partitions in self.assigned.items()
            ],
        )
