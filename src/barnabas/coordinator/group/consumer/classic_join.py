"""Decide JoinGroup for a consumer group: a member of the classic protocol joins, or takes the next step to its target.

The subscription in the request also has the partitions that the member owns. The answer has the member's epoch as the
generation; the assignment follows with SyncGroup. No member is a leader: the coordinator assigns.
"""

from __future__ import annotations

from dataclasses import replace

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.coordinator.coordinator_result import CoordinatorRecord, CoordinatorResult
from barnabas.coordinator.group import consumer_protocol
from barnabas.coordinator.group.classic.classic_group_member import Protocols, protocols_of
from barnabas.coordinator.group.consumer.consumer_group import ConsumerGroup
from barnabas.coordinator.group.consumer.consumer_group_member import ClassicMember, ConsumerGroupMember
from barnabas.coordinator.group.consumer.conversion import GroupConversion
from barnabas.coordinator.group.consumer.current_assignment import Owned, Target
from barnabas.coordinator.group.consumer.group_changes import GroupChanges
from barnabas.coordinator.group.consumer.static_members import replace_static, require_static
from barnabas.coordinator.group.group_coordinator_config import MigrationPolicy
from barnabas.coordinator.group.group_request_context import GroupRequestContext
from barnabas.coordinator.group.member_timers import TimerKind
from barnabas.protocol.errors import DecodeError
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from barnabas.protocol.records.consumer_protocol_subscription import ConsumerProtocolSubscription

__all__ = ["ClassicJoin"]

Nothing = CoordinatorResult[None]

_MEMBER_ID_REQUIRED_SINCE = 4
_UNCHANGED = -1


class ClassicJoin:
    """One JoinGroup request on its way through the decision. ``member_id`` is that of the request, or a new one."""

    def __init__(
        self,
        changes: GroupChanges,
        conversion: GroupConversion,
        context: GroupRequestContext,
        request: JoinGroupRequest,
        member_id: str,
        now_ms: int,
    ) -> None:
        self._changes = changes
        self._conversion = conversion
        self._context = context
        self._request = request
        self._member_id = member_id
        self._now_ms = now_ms
        self._protocols: Protocols = protocols_of(request.protocols)
        # Version 0 has no rebalance timeout: the session timeout served as both.
        self._rebalance_timeout_ms = (
            request.session_timeout_ms if context.api_version == 0 else request.rebalance_timeout_ms
        )
        self._records: list[CoordinatorRecord] = []

    def decide(self, group: ConsumerGroup) -> CoordinatorResult[JoinGroupResponse]:
        self._validate(group)
        if self._must_learn_its_id:
            refusal = JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id=self._member_id)
            return CoordinatorResult(response=refusal)
        changes, records, now_ms = self._changes, self._records, self._now_ms
        before = self._member(group)
        subscription = self._subscription()
        member = self._updated(before, subscription)
        has_changed = changes.update_subscription(group, before, member, None, records, now_ms).has_change
        epoch = changes.update_epoch(group, before, member, records, now_ms, is_bumped=has_changed)
        owned = [
            (topic_id, topic.partitions)
            for topic in subscription.owned_partitions
            if (topic_id := changes.view.id_of(topic.topic)) is not None
        ]
        replaced = group.static_member(self._request.group_instance_id)
        if replaced is not None and self._conversion.is_downgrade_replacing(group, replaced):
            return self._downgrade(group, replaced, member, epoch, owned, has_changed=has_changed)
        target = changes.update_target(group, epoch, before, member, records, now_ms)
        reached = self._reconcile(group, member, target, owned, has_changed=has_changed)
        return CoordinatorResult(records, self._response(reached), is_ahead=True, on_append=self._start_timers)

    # -- which member

    def _validate(self, group: ConsumerGroup) -> None:
        if self._changes.config.group_consumer_migration_policy is MigrationPolicy.DISABLED:
            raise ApiException(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        self._changes.validate_room(group, self._member_id)
        if not group.supports_classic_protocols(self._request.protocol_type, self._protocols):
            raise ApiException(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)

    @property
    def _must_learn_its_id(self) -> bool:
        request = self._request
        is_unknown = not request.member_id and request.group_instance_id is None
        return is_unknown and self._context.api_version >= _MEMBER_ID_REQUIRED_SINCE

    def _member(self, group: ConsumerGroup) -> ConsumerGroupMember:
        """Return the member that sends the request; a new one if it joins."""
        instance_id, member_id = self._request.group_instance_id, self._member_id
        if instance_id is not None:
            if self._request.member_id:
                return require_static(group, member_id, instance_id)
            present = group.static_member(instance_id)
            if present is not None:
                return replace_static(group, present, member_id, self._records)
        return group.members.get(member_id) or ConsumerGroupMember(member_id)

    def _subscription(self) -> ConsumerProtocolSubscription:
        try:
            return consumer_protocol.read_subscription(next(iter(self._protocols.values())))
        except DecodeError as error:
            raise ApiException(ErrorCode.UNKNOWN_SERVER_ERROR) from error

    def _updated(self, member: ConsumerGroupMember, subscription: ConsumerProtocolSubscription) -> ConsumerGroupMember:
        """Return the member with what the request changes; the same object if that is nothing."""
        request, context, timeout_ms = self._request, self._context, self._rebalance_timeout_ms
        updated = replace(
            member,
            instance_id=member.instance_id if request.group_instance_id is None else request.group_instance_id,
            rack_id=subscription.rack_id or member.rack_id,
            rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == _UNCHANGED else timeout_ms,
            topic_names=frozenset(subscription.topics),
            topic_regex="",
            client_id=context.client_id,
            client_host=context.client_host,
            classic=ClassicMember(request.session_timeout_ms, tuple(self._protocols.items())),
        )
        return member if updated == member else updated

    # -- its next step

    def _reconcile(
        self, group: ConsumerGroup, member: ConsumerGroupMember, target: Target, owned: Owned, *, has_changed: bool
    ) -> ConsumerGroupMember:
        return self._changes.reconcile(
            group, member, target, self._records, self._now_ms, owned=owned, has_changed=has_changed
        )

    def _downgrade(
        self,
        group: ConsumerGroup,
        replaced: ConsumerGroupMember,
        member: ConsumerGroupMember,
        epoch: int,
        owned: Owned,
        *,
        has_changed: bool,
    ) -> CoordinatorResult[JoinGroupResponse]:
        """Let the group become classic. All members must join its first generation if the target is old, or if a
        member has not reached it: in Kafka a partition then has two members until its former one sends a heartbeat.
        """
        others = (found for found in group.members.values() if found is not replaced)
        must_rebalance = group.assignment_epoch < epoch or not all(
            found.is_reconciled_to(group.assignment_epoch) for found in others
        )
        if not must_rebalance:
            target = self._changes.present_target(group, member)
            member = self._reconcile(group, member, target, owned, has_changed=has_changed)
        result = self._conversion.downgrade_replacing(
            group, replaced, member, self._records, self._now_ms, must_rebalance=must_rebalance
        )
        return result.with_response(self._response(member))

    def _response(self, member: ConsumerGroupMember) -> JoinGroupResponse:
        return JoinGroupResponse(
            member_id=member.member_id,
            generation_id=member.member_epoch,
            protocol_type=consumer_protocol.PROTOCOL_TYPE,
            protocol_name=next(iter(self._protocols)),
        )

    def _start_timers(self, now_ms: int) -> Nothing:
        """Let the member be removed if it sends neither SyncGroup nor Heartbeat."""
        changes, group_id = self._changes, self._request.group_id
        changes.timers.cancel(group_id, self._member_id, TimerKind.JOIN)
        changes.start_session(group_id, self._member_id, now_ms, self._request.session_timeout_ms)
        changes.start_sync_timeout(group_id, self._member_id, self._rebalance_timeout_ms, now_ms)
        return CoordinatorResult()
