"""Decide ConsumerGroupHeartbeat: a member joins, changes its subscription, or takes the next step to its target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.uuid import Uuid
from barnabas.coordinator.coordinator_result import CoordinatorRecord, CoordinatorResult
from barnabas.coordinator.group.assignor.hash_order import names_in_order
from barnabas.coordinator.group.consumer.consumer_group import ConsumerGroup
from barnabas.coordinator.group.consumer.consumer_group_member import ConsumerGroupMember
from barnabas.coordinator.group.consumer.current_assignment import Owned
from barnabas.coordinator.group.consumer.group_changes import GroupChanges, MatchTopics
from barnabas.coordinator.group.consumer.static_members import replace_static, require_static
from barnabas.coordinator.group.group_request_context import GroupRequestContext
from barnabas.coordinator.group.heartbeat_request import JOIN_EPOCH, LEAVE_EPOCH, require_text
from barnabas.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

__all__ = ["LEAVE_STATIC_EPOCH", "Heartbeat", "validate_heartbeat"]

LEAVE_STATIC_EPOCH = -2
"""A static member leaves for a short time: its partitions stay with it until its session ends."""

_MEMBER_ID_REQUIRED_SINCE = 1
_UNCHANGED = -1


def validate_heartbeat(request: ConsumerGroupHeartbeatRequest, api_version: int, assignors: tuple[str, ...]) -> None:
    """Raise ApiException for a request that no group could accept."""
    epoch = request.member_epoch
    if api_version >= _MEMBER_ID_REQUIRED_SINCE or epoch > JOIN_EPOCH or epoch == LEAVE_EPOCH:
        require_text(request.member_id, "MemberId can't be empty.")
    require_text(request.group_id, "GroupId can't be empty.")
    require_text(request.instance_id, "InstanceId can't be empty.")
    require_text(request.rack_id, "RackId can't be empty.")
    if epoch == JOIN_EPOCH:
        if request.rebalance_timeout_ms == _UNCHANGED:
            raise ApiException(ErrorCode.INVALID_REQUEST, "RebalanceTimeoutMs must be provided in first request.")
        if request.topic_partitions is None or request.topic_partitions:
            raise ApiException(ErrorCode.INVALID_REQUEST, "TopicPartitions must be empty when (re-)joining.")
        if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
            raise ApiException(
                ErrorCode.INVALID_REQUEST,
                "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
            )
    elif epoch == LEAVE_STATIC_EPOCH and request.instance_id is None:
        raise ApiException(ErrorCode.INVALID_REQUEST, "InstanceId can't be null.")
    elif epoch < LEAVE_STATIC_EPOCH:
        raise ApiException(ErrorCode.INVALID_REQUEST, "MemberEpoch is invalid.")
    assignor = request.server_assignor
    if assignor is not None and assignor not in assignors:
        raise ApiException(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {assignor} is not supported. Supported assignors: {', '.join(names_in_order(assignors))}.",
        )


class Heartbeat:
    """One request of a member that stays, on its way through the decision."""

    def __init__(
        self,
        changes: GroupChanges,
        context: GroupRequestContext,
        request: ConsumerGroupHeartbeatRequest,
        match_topics: MatchTopics,
        records: list[CoordinatorRecord],
        now_ms: int,
        *,
        must_reassign: bool,
    ) -> None:
        """``records`` are those that make the group one of this kind, if it is of another. With ``must_reassign`` its
        target is not complete.
        """
        self._changes = changes
        self._context = context
        self._request = request
        self._match_topics = match_topics
        self._now_ms = now_ms
        self._owned: Owned = (
            None
            if request.topic_partitions is None
            else [(topic.topic_id, topic.partitions) for topic in request.topic_partitions]
        )
        self._records = records
        self._must_reassign = must_reassign

    def decide(self, group: ConsumerGroup, member_id: str) -> CoordinatorResult[ConsumerGroupHeartbeatResponse]:
        request, changes, now_ms = self._request, self._changes, self._now_ms
        before = self._member(group, member_id)
        member = self._updated(before)
        subscription = changes.update_subscription(group, before, member, self._match_topics, self._records, now_ms)
        is_bumped = subscription.has_known_change or self._must_reassign
        epoch = changes.update_epoch(group, before, member, self._records, now_ms, is_bumped=is_bumped)
        target = changes.update_target(group, epoch, before, member, self._records, now_ms)
        reached = changes.reconcile(
            group, member, target, self._records, now_ms, owned=self._owned, has_changed=subscription.has_change
        )
        changes.start_session(group.group_id, member_id, now_ms)
        response = ConsumerGroupHeartbeatResponse(
            member_id=reached.member_id,
            member_epoch=reached.member_epoch,
            heartbeat_interval_ms=changes.settings.heartbeat_interval_ms(group.group_id),
        )
        is_full = (
            request.rebalance_timeout_ms != _UNCHANGED
            and (request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None)
            and request.topic_partitions is not None
        )
        if request.member_epoch == JOIN_EPOCH or is_full or before.assigned != reached.assigned:
            response.assignment = _assignment(reached.assigned)
        return CoordinatorResult(self._records, response, is_ahead=True)

    def _updated(self, member: ConsumerGroupMember) -> ConsumerGroupMember:
        """Return the member with what the request changes; the same object if that is nothing."""
        request, context = self._request, self._context
        names = request.subscribed_topic_names
        updated = replace(
            member,
            instance_id=member.instance_id if request.instance_id is None else request.instance_id,
            rack_id=member.rack_id if request.rack_id is None else request.rack_id,
            rebalance_timeout_ms=(
                member.rebalance_timeout_ms
                if request.rebalance_timeout_ms == _UNCHANGED
                else request.rebalance_timeout_ms
            ),
            server_assignor=member.server_assignor if request.server_assignor is None else request.server_assignor,
            topic_names=member.topic_names if names is None else frozenset(names),
            topic_regex=(
                member.topic_regex if request.subscribed_topic_regex is None else request.subscribed_topic_regex
            ),
            client_id=context.client_id,
            client_host=context.client_host,
            classic=None,
        )
        return member if updated == member else updated

    # -- which member

    def _member(self, group: ConsumerGroup, member_id: str) -> ConsumerGroupMember:
        """Return the member that sends the request; a new one if it joins."""
        request = self._request
        if request.instance_id is not None:
            return self._static_member(group, member_id, request.instance_id)
        member = group.members.get(member_id)
        if member is None:
            if request.member_epoch != JOIN_EPOCH:
                group.member(member_id)
            return ConsumerGroupMember(member_id)
        self._validate_epoch(member)
        return member

    def _static_member(self, group: ConsumerGroup, member_id: str, instance_id: str) -> ConsumerGroupMember:
        request = self._request
        if request.member_epoch != JOIN_EPOCH:
            present = require_static(group, member_id, instance_id)
            self._validate_epoch(present)
            return present
        returning = group.static_member(instance_id)
        if returning is None:
            return group.members.get(member_id) or ConsumerGroupMember(member_id)
        if not returning.uses_classic_protocol and returning.member_epoch != LEAVE_STATIC_EPOCH:
            raise ApiException(
                ErrorCode.UNRELEASED_INSTANCE_ID,
                f"Static member {member_id} with instance id {instance_id} cannot join the group because the instance "
                f"id is owned by {returning.member_id} member.",
            )
        return replace_static(group, returning, member_id, self._records)

    def _validate_epoch(self, member: ConsumerGroupMember) -> None:
        """Raise FENCED_MEMBER_EPOCH, except for a member that missed the answer which advanced its epoch."""
        received = self._request.member_epoch
        if received in (JOIN_EPOCH, member.member_epoch):
            return
        relation = "greater" if received > member.member_epoch else "smaller"
        missed_answer = received == member.previous_member_epoch and self._owns_only(member)
        if relation == "greater" or not missed_answer:
            raise ApiException(
                ErrorCode.FENCED_MEMBER_EPOCH,
                f"The consumer group member has a {relation} member epoch ({received}) than the one known by the group "
                f"coordinator ({member.member_epoch}). The member must abandon all its partitions and rejoin.",
            )

    def _owns_only(self, member: ConsumerGroupMember) -> bool:
        """Return whether the member reports only partitions that are assigned to it."""
        if self._owned is None:
            return False
        for topic_id, partitions in self._owned:
            assigned = member.assigned.get(topic_id)
            if assigned is None or any(partition not in assigned for partition in partitions):
                return False
        return True


def _assignment(assigned: Mapping[Uuid, Mapping[int, int]]) -> Assignment:
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, partitions=sorted(partitions))
            for topic_id, partitions in assigned.items()
        ]
    )
