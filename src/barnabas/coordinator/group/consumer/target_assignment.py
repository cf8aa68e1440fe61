"""The target assignment of a consumer group, computed by one of the coordinator's assignors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.uuid import Uuid
from barnabas.coordinator.group.assignor.assignors import assignor_named
from barnabas.coordinator.group.assignor.group_spec import (
    GroupSpec,
    MemberSubscription,
    PartitionAssignor,
    PartitionAssignorError,
    Steps,
    WorkMeter,
)
from barnabas.coordinator.group.assignor.hash_order import names_in_order, ordered
from barnabas.coordinator.group.assignor.member_assignment import iterated
from barnabas.coordinator.group.cluster_view import ClusterView
from barnabas.coordinator.group.consumer.consumer_group import ConsumerGroup
from barnabas.coordinator.group.consumer.consumer_group_member import ConsumerGroupMember
from barnabas.coordinator.group.consumer.consumer_group_records import (
    target_assignment_epoch_record,
    target_assignment_record,
)
from barnabas.coordinator.group.consumer.regular_expression import ResolvedRegularExpression, subscribed_topics
from barnabas.coordinator.group.large_target import TargetKind
from barnabas.coordinator.group.modern_group import NO_PARTITIONS, Partitions

__all__ = ["TARGETS", "AssignmentInput", "Targets"]

Targets = Mapping[str, Partitions]
"""The partitions of members; one that is absent has none."""


class AssignmentInput(NamedTuple):
    """What a target is computed from. Nothing of it may change while that is done in steps."""

    epoch: int
    """The group epoch that the target is for."""
    assignor: PartitionAssignor
    view: ClusterView
    members: Mapping[str, ConsumerGroupMember]
    target: Mapping[str, Partitions]
    resolved: Mapping[str, ResolvedRegularExpression]
    member_count_max: int
    is_homogeneous: bool
    changed: ConsumerGroupMember | None
    """A member that joins or replaces the one of its id."""
    replaced: str | None
    """The id of the static member whose place it takes."""

    @classmethod
    def of(
        cls,
        group: ConsumerGroup,
        epoch: int,
        assignor: str,
        view: ClusterView,
        before: ConsumerGroupMember,
        changed: ConsumerGroupMember,
    ) -> AssignmentInput:
        """Return the input of a computation in one step, with a member that joins or changes."""
        replaced = None if changed.instance_id is None else group.static_members.get(changed.instance_id)
        return cls(
            epoch,
            _assignor(assignor),
            view,
            group.members,
            group.target,
            group.resolved,
            group.member_count_max,
            group.is_homogeneous_with(before, changed),
            changed,
            None if replaced == changed.member_id else replaced,
        )

    @classmethod
    def copied(cls, group: ConsumerGroup, assignor: str, view: ClusterView) -> AssignmentInput:
        """Return an input that stays as it is."""
        return cls(
            group.epoch,
            _assignor(assignor),
            ClusterView(view.image),
            dict(group.members),
            dict(group.target),
            dict(group.resolved),
            group.member_count_max,
            group.is_homogeneous,
            None,
            None,
        )

    def held(self, group: ConsumerGroup, targets: Targets) -> Iterator[tuple[str, Partitions]]:
        """Return the targets by the ids of present members: a static one may have been replaced, others have left."""
        for member_id, target in targets.items():
            if member_id in group.members:
                yield member_id, target
                continue
            member = self.members.get(member_id)
            successor = None if member is None else group.static_members.get(member.instance_id or "")
            if successor is not None and successor not in targets:
                yield successor, target

    def targets_in_steps(self) -> Steps[Targets]:
        """Compute the targets in steps of a few milliseconds; those of the members in Kafka's order."""
        spec = yield from self._spec()
        try:
            assigned = yield from self.assignor.assign_in_steps(spec, self.view)
        except PartitionAssignorError as error:
            message = f"Failed to compute a new target assignment for epoch {self.epoch}: {error}"
            raise ApiException(ErrorCode.UNKNOWN_SERVER_ERROR, message) from error
        if len(assigned) == len(spec.members) + sum(update is not None for update in spec.updates.values()):
            return assigned
        members = yield from spec.ordered_members()
        return {member_id: assigned.get(member_id, NO_PARTITIONS) for member_id in members}

    def _spec(self) -> Steps[GroupSpec]:
        subscriptions = _Subscriptions(self.resolved, self.view)
        members: dict[str, MemberSubscription] = {}
        meter = WorkMeter()
        for member_id, member in self.members.items():
            members[member_id] = subscriptions.of(member, self.target.get(member_id, NO_PARTITIONS))
            if meter.is_full(1):
                yield
        updates: dict[str, MemberSubscription | None] = {}
        changed, replaced = self.changed, self.replaced
        if changed is not None and replaced is None:
            updates[changed.member_id] = subscriptions.of(changed, self.target.get(changed.member_id, NO_PARTITIONS))
        elif changed is not None and replaced is not None:
            updates[changed.member_id] = subscriptions.of(changed, iterated(self.target.get(replaced, NO_PARTITIONS)))
            updates[replaced] = None
        return GroupSpec(
            members,
            updates=updates,
            member_count_max=self.member_count_max,
            is_homogeneous=self.is_homogeneous,
        )


class _Subscriptions:
    """Members with equal subscriptions share one set of topic ids."""

    def __init__(self, resolved: Mapping[str, ResolvedRegularExpression], view: ClusterView) -> None:
        self._resolved = resolved
        self._view = view
        self._by_subscription: dict[tuple[frozenset[str], str | None], frozenset[Uuid]] = {}

    def of(self, member: ConsumerGroupMember, assigned: Partitions) -> MemberSubscription:
        key = (member.topic_names, member.topic_regex)
        topic_ids = self._by_subscription.get(key)
        if topic_ids is None:
            names = sorted(subscribed_topics(member.topic_names, member.topic_regex, self._resolved))
            found = (self._view.id_of(name) for name in names_in_order(names))
            topic_ids = ordered([topic_id for topic_id in found if topic_id is not None], len(names))
            self._by_subscription[key] = topic_ids
        return MemberSubscription(member.rack_id, member.instance_id, topic_ids, assigned)


def _kept(before: Partitions, target: Partitions) -> Partitions:
    if before == target:
        return before
    kept = {topic_id: of_topic & target.get(topic_id, frozenset()) for topic_id, of_topic in before.items()}
    return {topic_id: of_topic for topic_id, of_topic in kept.items() if of_topic}


def _size(target: Partitions) -> int:
    return sum(map(len, target.values()))


TARGETS: TargetKind[Partitions] = TargetKind(
    NO_PARTITIONS, target_assignment_record, target_assignment_epoch_record, _size, _kept
)


def _assignor(name: str) -> PartitionAssignor:
    found = assignor_named(name)
    if found is None:  # A record names it.
        raise ApiException(ErrorCode.UNSUPPORTED_ASSIGNOR, f"ServerAssignor {name} is not supported.")
    return found
