"""One step of a member on the way to its target assignment (KIP-848, section "Reconciliation of the group").

A member first gives up what it no longer shall have; only then its epoch advances, and it receives what no other member
has any more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import replace
from typing import NamedTuple

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.uuid import Uuid
from barnabas.coordinator.group.consumer.consumer_group_member import (
    NO_PARTITIONS,
    ConsumerGroupMember,
    MemberState,
    PartitionEpochs,
)

__all__ = ["Owned", "Reconciliation", "Target"]

Owned = Sequence[tuple[Uuid, Iterable[int]]] | None
"""The partitions that a member reports to own; None if its request does not say."""

_NOTHING: frozenset[int] = frozenset()
_NO_EPOCHS: Mapping[int, int] = {}


class Target(NamedTuple):
    epoch: int
    partitions: Mapping[Uuid, frozenset[int]]


class Reconciliation(NamedTuple):
    target: Target
    subscribed: Set[Uuid]
    """The ids of the topics that the member subscribes to now; others may be in an older target."""
    has_subscription_changed: bool
    is_owned: Callable[[Uuid, int], bool]
    """Whether any member has this partition, or must still give it up."""
    owned: Owned

    def next(self, member: ConsumerGroupMember) -> ConsumerGroupMember:
        """Return the member after the step; the same object if it stays."""
        state = member.state
        if state is MemberState.STABLE:
            if member.member_epoch != self.target.epoch:
                return self._advance(member, member.member_epoch)
            return self._drop_unsubscribed(member) if self.has_subscription_changed else member
        if state is MemberState.UNREVOKED_PARTITIONS:
            if not self._reports_any(member.pending_revocation):
                return self._advance(member, member.member_epoch)
            return self._drop_unsubscribed(member) if self.has_subscription_changed else member
        if state is MemberState.UNRELEASED_PARTITIONS:
            return self._advance(member, member.member_epoch)
        if self.owned is None or self.owned:
            raise ApiException(
                ErrorCode.FENCED_MEMBER_EPOCH,
                "The consumer group member is in a unknown state. The member must abandon all its partitions "
                "and rejoin.",
            )
        return self._advance(member, self.target.epoch)

    def _reports_any(self, partitions: PartitionEpochs) -> bool:
        """Return whether the member reports to own any of these; it may, if it reports nothing."""
        if self.owned is None:
            return True
        return any(
            partition in partitions.get(topic_id, _NO_EPOCHS)
            for topic_id, reported in self.owned
            for partition in reported
        )

    def _drop_unsubscribed(self, member: ConsumerGroupMember) -> ConsumerGroupMember:
        """Let the member give up the topics that it no longer subscribes to. It keeps its epoch."""
        dropped = [topic_id for topic_id in member.assigned if topic_id not in self.subscribed]
        drops_everything = not self.subscribed and not member.pending_revocation
        if not dropped and not drops_everything:  # In the latter case Kafka notes the epoch even if it had nothing.
            return member
        assigned = {topic_id: epochs for topic_id, epochs in member.assigned.items() if topic_id in self.subscribed}
        pending = dict(member.pending_revocation)
        for topic_id in dropped:
            pending[topic_id] = {**pending.get(topic_id, _NO_EPOCHS), **member.assigned[topic_id]}
        changed = replace(member, assigned=assigned, previous_member_epoch=member.member_epoch)
        if pending and self._reports_any(pending):
            return replace(changed, state=MemberState.UNREVOKED_PARTITIONS, pending_revocation=pending)
        return changed

    def _advance(self, member: ConsumerGroupMember, present_epoch: int) -> ConsumerGroupMember:
        kept: dict[Uuid, Mapping[int, int]] = {}
        revoked: dict[Uuid, Mapping[int, int]] = {}
        free: dict[Uuid, list[int]] = {}
        is_waiting = False
        for topic_id in dict.fromkeys([*self.target.partitions, *member.assigned]):
            wanted = self.target.partitions.get(topic_id, _NOTHING) if topic_id in self.subscribed else _NOTHING
            current = member.assigned.get(topic_id, _NO_EPOCHS)
            keep = {partition: epoch for partition, epoch in current.items() if partition in wanted}
            if keep:
                kept[topic_id] = keep
            if len(keep) < len(current):
                revoked[topic_id] = {partition: epoch for partition, epoch in current.items() if partition not in keep}
            missing = sorted(partition for partition in wanted if partition not in keep)
            if missing:
                given_up = member.pending_revocation.get(topic_id, _NO_EPOCHS)
                available = [
                    partition
                    for partition in missing
                    if partition in given_up or not self.is_owned(topic_id, partition)
                ]
                is_waiting = is_waiting or len(available) < len(missing)
                if available:
                    free[topic_id] = available
        if revoked and self._reports_any(revoked):
            return replace(
                member,
                state=MemberState.UNREVOKED_PARTITIONS,
                member_epoch=present_epoch,
                previous_member_epoch=member.member_epoch,
                assigned=kept,
                pending_revocation=revoked,
            )
        for topic_id, partitions in free.items():
            kept[topic_id] = {**kept.get(topic_id, _NO_EPOCHS), **dict.fromkeys(partitions, self.target.epoch)}
        return replace(
            member,
            state=MemberState.UNRELEASED_PARTITIONS if is_waiting else MemberState.STABLE,
            member_epoch=self.target.epoch,
            previous_member_epoch=member.member_epoch,
            assigned=kept,
            pending_revocation=NO_PARTITIONS,
        )
