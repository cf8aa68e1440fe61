"""Converts a group between the protocols while it has members (KIP-848, "Upgrade and downgrade").

A conversion is a part of one batch: it removes the group of one kind and creates that of the other. The batch is
replayed when it is appended, so no request sees a half of it, and a batch that cannot be appended changes nothing.

A classic group becomes a consumer group when the first member of the consumer protocol joins. It becomes classic again
when the last such member leaves, or when a static one returns with the classic protocol.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from barnabas.common.errors import ApiException, ErrorCode, InvariantViolated
from barnabas.coordinator.coordinator_result import CoordinatorRecord, CoordinatorResult
from barnabas.coordinator.group import consumer_protocol
from barnabas.coordinator.group.classic.classic_group import ClassicGroup
from barnabas.coordinator.group.classic.classic_group_member import ClassicGroupMember
from barnabas.coordinator.group.classic.classic_group_rebalance import Rebalance
from barnabas.coordinator.group.classic.converted_group_record import ConvertedGroupRecord
from barnabas.coordinator.group.cluster_view import ClusterView
from barnabas.coordinator.group.consumer.consumer_group import ConsumerGroup
from barnabas.coordinator.group.consumer.consumer_group_member import ClassicMember, ConsumerGroupMember, with_epoch
from barnabas.coordinator.group.consumer.consumer_group_records import (
    current_assignment_record,
    epoch_record,
    group_tombstones,
    member_record,
    target_assignment_epoch_record,
    target_assignment_record,
)
from barnabas.coordinator.group.group import Group
from barnabas.coordinator.group.group_coordinator_config import GroupCoordinatorConfig
from barnabas.coordinator.group.member_timers import MemberTimers
from barnabas.coordinator.group.modern_group import Partitions
from barnabas.protocol.errors import DecodeError

__all__ = ["GroupConversion"]

log = logging.getLogger(__name__)

Nothing = CoordinatorResult[None]

_NO_PARTITIONS: Partitions = {}


class GroupConversion:
    def __init__(
        self, config: GroupCoordinatorConfig, view: ClusterView, timers: MemberTimers, rebalance: Rebalance
    ) -> None:
        """``timers`` are those of members of consumer groups, ``rebalance`` drives classic groups."""
        self._config = config
        self._view = view
        self._timers = timers
        self._rebalance = rebalance

    # -- from classic to consumer

    def upgrade(self, classic: ClassicGroup, records: list[CoordinatorRecord]) -> ConsumerGroup:
        """Return the consumer group that a classic one becomes, and add the records of the conversion.

        Raise GROUP_ID_NOT_FOUND, as Kafka does, if the group must stay classic.
        """
        if classic.is_empty:
            records.append(ConvertedGroupRecord.end_of(classic))
            return ConsumerGroup(classic.group_id)
        self._validate_upgrade(classic)
        try:
            group = self._upgraded(classic)
        except ApiException:
            self._rebalance.refuse_waiting(classic)  # As Kafka does.
            raise
        records.append(ConvertedGroupRecord.end_of(classic))
        records += _records_of(group)
        log.info("Group %s with %d members becomes a consumer group", group.group_id, len(group.members))
        return group

    def _validate_upgrade(self, classic: ClassicGroup) -> None:
        if not self._config.group_consumer_migration_policy.allows_upgrade:
            raise _cannot_upgrade(classic, "online upgrade is disabled")
        if not classic.uses_consumer_protocol:
            raise _cannot_upgrade(classic, "the group does not use the consumer embedded protocol")
        if len(classic.members) > self._config.group_consumer_max_size:
            raise _cannot_upgrade(classic, "the group size exceeds the consumer group maximum size")

    def _upgraded(self, classic: ClassicGroup) -> ConsumerGroup:
        """Its epochs are the generation, and its target is what the classic leader assigned."""
        protocol = classic.protocol_name
        if protocol is None or any(protocol not in member.protocols for member in classic.members.values()):
            # Its first generation, or its next protocol, is not decided yet. Kafka fails in the same way.
            raise ApiException(ErrorCode.UNKNOWN_SERVER_ERROR)
        generation = classic.generation_id
        group = ConsumerGroup(classic.group_id)
        group.epoch = group.assignment_epoch = generation
        try:
            for classic_member in classic.members.values():
                target = self._assignment_of(classic, classic_member)
                member = _consumer_member(classic_member, protocol, generation, target)
                group.target[member.member_id] = target
                group.update_member(member)
        except DecodeError as error:
            raise _cannot_upgrade(classic, "the embedded consumer protocol is malformed") from error
        except InvariantViolated as error:
            # The classic leader assigned a partition to several members.
            raise ApiException(ErrorCode.UNKNOWN_SERVER_ERROR) from error
        group.metadata_hash = self._view.metadata_hash(group.subscribers)
        return group

    def _assignment_of(self, classic: ClassicGroup, member: ClassicGroupMember) -> Partitions:
        if not member.assignment:
            return _NO_PARTITIONS
        assignment = consumer_protocol.read_assignment(member.assignment)
        if assignment.user_data:
            raise _cannot_upgrade(
                classic,
                "an unsupported custom assignor is in use. Please refer to the documentation or switch to a default "
                "assignor before re-attempting the upgrade",
            )
        found = ((self._view.id_of(topic.topic), topic.partitions) for topic in assignment.assigned_partitions)
        return {topic_id: frozenset(partitions) for topic_id, partitions in found if topic_id is not None}

    # -- from consumer to classic

    def empty_classic(self, group: Group, now_ms: int) -> Nothing:
        """Let a group without members become a classic one."""
        begin = ConvertedGroupRecord.begin_of(ClassicGroup(group.group_id, now_ms=now_ms))
        return CoordinatorResult([*group.tombstones(), begin], is_ahead=True)

    def downgrade_without(
        self, group: ConsumerGroup, leaving: list[ConsumerGroupMember], now_ms: int
    ) -> Nothing | None:
        """Let a group become classic if only members of the classic protocol are left: they must join again.

        Return None if it stays a consumer group, also if the subscription of a member cannot be read.
        """
        remaining = len(group.members) - len(leaving)
        if remaining <= 0 or not group.has_only_classic_members_without(leaving) or not self._may_be_classic(remaining):
            return None
        left = {member.member_id for member in leaving}
        members = [member for member in group.members.values() if member.member_id not in left]
        try:
            classic = self._classic_group(group, members, {}, now_ms)
        except ApiException:
            return None
        records = [*group.tombstones(), ConvertedGroupRecord.begin_of(classic)]
        reason = f"Downgrade group {group.group_id} from consumer to classic for member leaving."
        return self._converted(group, classic, records, rebalance_reason=reason)

    def is_downgrade_replacing(self, group: ConsumerGroup, replaced: ConsumerGroupMember) -> bool:
        """Return whether a group becomes classic when this static member returns with the classic protocol."""
        return (
            not replaced.uses_classic_protocol
            and group.has_only_classic_members_without([replaced])
            and self._may_be_classic(len(group.members))
        )

    def downgrade_replacing(
        self,
        group: ConsumerGroup,
        replaced: ConsumerGroupMember,
        joining: ConsumerGroupMember,
        records: list[CoordinatorRecord],
        now_ms: int,
        *,
        must_rebalance: bool,
    ) -> Nothing:
        """Let a group become classic in which a static member has returned with the classic protocol.

        ``records`` are those that the join has made so far. Raise GROUP_ID_NOT_FOUND, as Kafka does, if the
        subscription of a member cannot be read.
        """
        members = [member for member in group.members.values() if member.member_id != replaced.member_id]
        classic = self._classic_group(group, [*members, joining], {joining.member_id: replaced.member_id}, now_ms)
        present = [joining.member_id if found == replaced.member_id else found for found in group.members]
        records += group_tombstones(group.group_id, present, group.resolved)
        records.append(ConvertedGroupRecord.begin_of(classic))
        reason = f"Downgrade group {group.group_id} from consumer to classic with stale assignment."
        return self._converted(group, classic, records, rebalance_reason=reason if must_rebalance else None)

    def _may_be_classic(self, size: int) -> bool:
        config = self._config
        return config.group_consumer_migration_policy.allows_downgrade and size <= config.group_max_size

    def _converted(
        self,
        group: ConsumerGroup,
        classic: ClassicGroup,
        records: list[CoordinatorRecord],
        *,
        rebalance_reason: str | None,
    ) -> Nothing:
        group_id, member_ids = group.group_id, list(group.members)
        log.info("Group %s with %d members becomes a classic group", group_id, len(classic.members))

        def take_over(now_ms: int) -> Nothing:
            self._timers.cancel_all(group_id, member_ids)
            if rebalance_reason is None:
                return CoordinatorResult()
            return self._rebalance.prepare(classic, rebalance_reason, now_ms)

        return CoordinatorResult(records, is_ahead=True, on_append=take_over)

    def _classic_group(
        self, group: ConsumerGroup, members: list[ConsumerGroupMember], former_ids: Mapping[str, str], now_ms: int
    ) -> ClassicGroup:
        """``former_ids`` has the ids of members under which the target knows them."""
        group_id = group.group_id
        try:
            classic = ClassicGroup.of_members(group_id, group.epoch, map(_classic_member, members), now_ms)
            protocol = classic.protocol_name or ""
            for member in classic.members.values():
                target = group.target.get(former_ids.get(member.member_id, member.member_id), _NO_PARTITIONS)
                named = self._view.by_name(target)
                member.assignment = consumer_protocol.write_assignment(named, member.protocols[protocol])
        except (DecodeError, InvariantViolated) as error:
            log.warning("Group %s cannot become a classic group: %s", group_id, error)
            raise ApiException(
                ErrorCode.GROUP_ID_NOT_FOUND, f"Cannot downgrade the classic group {group_id}: {error}."
            ) from error
        return classic


def _cannot_upgrade(classic: ClassicGroup, reason: str) -> ApiException:
    log.info("Group %s cannot become a consumer group because %s", classic.group_id, reason)
    return ApiException(
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Cannot upgrade classic group {classic.group_id} to consumer group because {reason}.",
    )


def _consumer_member(
    member: ClassicGroupMember, protocol: str, generation: int, target: Partitions
) -> ConsumerGroupMember:
    subscription = consumer_protocol.read_subscription(member.protocols[protocol])
    return ConsumerGroupMember(
        member.member_id,
        member_epoch=generation,
        previous_member_epoch=generation,
        instance_id=member.group_instance_id,
        rack_id=subscription.rack_id or None,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        client_id=member.client_id,
        client_host=member.client_host,
        topic_names=frozenset(subscription.topics),
        assigned=with_epoch({topic_id: sorted(of_topic) for topic_id, of_topic in target.items()}, generation),
        classic=ClassicMember(member.session_timeout_ms, tuple(member.protocols.items())),
    )


def _classic_member(member: ConsumerGroupMember) -> ClassicGroupMember:
    classic = member.classic
    if classic is None:
        raise InvariantViolated(f"member {member.member_id} of the consumer protocol stays in a classic group")
    return ClassicGroupMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        session_timeout_ms=classic.session_timeout_ms,
        protocol_type=consumer_protocol.PROTOCOL_TYPE,
        protocols=dict(classic.protocols),
    )


def _records_of(group: ConsumerGroup) -> Iterable[CoordinatorRecord]:
    """Return the records that create a group, in Kafka's order."""
    group_id, members = group.group_id, group.members.values()
    for member in members:
        yield member_record(group_id, member)
    yield epoch_record(group_id, group.epoch, group.metadata_hash)
    for member in members:
        yield target_assignment_record(group_id, member.member_id, group.target[member.member_id])
    yield target_assignment_epoch_record(group_id, group.assignment_epoch, group.assignment_timestamp_ms)
    for member in members:
        yield current_assignment_record(group_id, member)
