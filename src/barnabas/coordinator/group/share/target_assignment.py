"""The target assignment of a share group, computed by the coordinator's assignor of share groups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.uuid import Uuid
from barnabas.coordinator.group.assignor.group_spec import (
    GroupSpec,
    MemberSubscription,
    PartitionAssignorError,
    Steps,
    WorkMeter,
)
from barnabas.coordinator.group.assignor.hash_order import names_in_order, ordered
from barnabas.coordinator.group.assignor.simple_assignor import SimpleAssignor
from barnabas.coordinator.group.cluster_view import ClusterView
from barnabas.coordinator.group.large_target import TargetKind, of_present
from barnabas.coordinator.group.modern_group import NO_PARTITIONS, Partitions
from barnabas.coordinator.group.share.share_group import ShareGroup
from barnabas.coordinator.group.share.share_group_member import ShareGroupMember
from barnabas.coordinator.group.share.share_group_records import (
    target_assignment_epoch_record,
    target_assignment_record,
)

__all__ = ["ASSIGNOR", "TARGETS", "AssignmentInput", "Targets"]

_ASSIGNOR = SimpleAssignor()
ASSIGNOR = _ASSIGNOR.name
Targets = Mapping[str, Partitions]


class AssignmentInput(NamedTuple):
    """What a target is computed from. Nothing of it may change while that is done in steps."""

    epoch: int
    """The group epoch that the target is for."""
    view: ClusterView
    members: Mapping[str, ShareGroupMember]
    target: Mapping[str, Partitions]
    assignable: Mapping[Uuid, frozenset[int]]
    member_count_max: int
    is_homogeneous: bool

    @classmethod
    def of(
        cls,
        group: ShareGroup,
        epoch: int,
        view: ClusterView,
        changed: ShareGroupMember,
        subscribers: Mapping[str, int],
    ) -> AssignmentInput:
        """Return the input of a computation in one step, with a member that joins or changes.

        ``subscribers`` are those of the group with it.
        """
        members = {**group.members, changed.member_id: changed}
        is_homogeneous = all(count == len(members) for count in subscribers.values())
        return cls(epoch, view, members, group.target, group.assignable, group.member_count_max, is_homogeneous)

    @classmethod
    def copied(cls, group: ShareGroup, view: ClusterView) -> AssignmentInput:
        """Return an input that stays as it is."""
        return cls(
            group.epoch,
            ClusterView(view.image),
            dict(group.members),
            dict(group.target),
            group.assignable,
            group.member_count_max,
            all(count == len(group.members) for count in group.subscribers.values()),
        )

    def targets_in_steps(self) -> Steps[Targets]:
        """Compute the target of each member in steps of a few milliseconds."""
        spec = yield from self._spec()
        try:
            assigned = yield from _ASSIGNOR.assign_in_steps(spec, self.view)
        except PartitionAssignorError as error:
            message = f"Failed to compute a new target assignment for epoch {self.epoch}: {error}"
            raise ApiException(ErrorCode.UNKNOWN_SERVER_ERROR, message) from error
        return {member_id: assigned.get(member_id, NO_PARTITIONS) for member_id in self.members}

    def held(self, group: ShareGroup, targets: Targets) -> Iterator[tuple[str, Partitions]]:
        return of_present(group, targets)

    def _spec(self) -> Steps[GroupSpec]:
        subscriptions = _Subscriptions(self.view)
        members: dict[str, MemberSubscription] = {}
        meter = WorkMeter()
        for member_id, member in self.members.items():
            members[member_id] = subscriptions.of(member, self.target.get(member_id, NO_PARTITIONS))
            if meter.is_full(1):
                yield
        return GroupSpec(
            members,
            member_count_max=self.member_count_max,
            is_homogeneous=self.is_homogeneous,
            assignable=self.assignable,
        )


class _Subscriptions:
    """Members with equal subscriptions share one set of topic ids."""

    def __init__(self, view: ClusterView) -> None:
        self._view = view
        self._by_names: dict[frozenset[str], frozenset[Uuid]] = {}

    def of(self, member: ShareGroupMember, assigned: Partitions) -> MemberSubscription:
        topic_ids = self._by_names.get(member.topic_names)
        if topic_ids is None:
            names = names_in_order(sorted(member.topic_names))
            found = [topic_id for name in names if (topic_id := self._view.id_of(name)) is not None]
            topic_ids = self._by_names[member.topic_names] = ordered(found, len(names))
        return MemberSubscription(member.rack_id, None, topic_ids, assigned)


def _size(target: Partitions) -> int:
    return sum(map(len, target.values()))


TARGETS: TargetKind[Partitions] = TargetKind(
    NO_PARTITIONS, target_assignment_record, target_assignment_epoch_record, _size, kept=None
)
