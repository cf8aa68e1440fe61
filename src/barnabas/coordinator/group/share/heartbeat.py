"""Decide ShareGroupHeartbeat: a member joins, changes its subscription, or receives its target assignment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.steps import whole
from barnabas.coordinator.coordinator_result import CoordinatorRecord, CoordinatorResult
from barnabas.coordinator.group.cluster_view import ClusterView
from barnabas.coordinator.group.group_coordinator_config import GroupCoordinatorConfig
from barnabas.coordinator.group.group_request_context import GroupRequestContext
from barnabas.coordinator.group.heartbeat_request import JOIN_EPOCH, LEAVE_EPOCH, require_text
from barnabas.coordinator.group.heartbeat_settings import HeartbeatSettings
from barnabas.coordinator.group.large_target import LargeTargets, is_large
from barnabas.coordinator.group.metadata_hashes import MetadataHashes
from barnabas.coordinator.group.modern_group import NO_PARTITIONS, Partitions
from barnabas.coordinator.group.share.share_group import ShareGroup
from barnabas.coordinator.group.share.share_group_member import ShareGroupMember
from barnabas.coordinator.group.share.share_group_records import (
    current_assignment_record,
    epoch_record,
    member_record,
    state_partitions_record,
    target_assignment_epoch_record,
    target_assignment_record,
)
from barnabas.coordinator.group.share.state_calls import DecidedHeartbeat, InitializeStates
from barnabas.coordinator.group.share.target_assignment import AssignmentInput
from barnabas.coordinator.share.persister import UNINITIALIZED_OFFSET
from barnabas.protocol.messages.share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)

__all__ = ["Heartbeat", "validate_heartbeat"]

_FAR_MS = 2_147_483_647


def validate_heartbeat(request: ShareGroupHeartbeatRequest) -> None:
    """Raise ApiException for a request that no group could accept."""
    require_text(request.member_id, "MemberId can't be empty.")
    require_text(request.group_id, "GroupId can't be empty.")
    require_text(request.rack_id, "RackId can't be empty.")
    if request.member_epoch == JOIN_EPOCH and not request.subscribed_topic_names:
        raise ApiException(ErrorCode.INVALID_REQUEST, "SubscribedTopicNames must be set in first request.")
    if request.member_epoch < LEAVE_EPOCH:
        raise ApiException(ErrorCode.INVALID_REQUEST, "MemberEpoch is invalid.")


class Heartbeat:
    """One request of a member that stays, on its way through the decision."""

    def __init__(
        self,
        config: GroupCoordinatorConfig,
        settings: HeartbeatSettings,
        view: ClusterView,
        hashes: MetadataHashes,
        targets: LargeTargets[ShareGroup, Partitions],
        context: GroupRequestContext,
        request: ShareGroupHeartbeatRequest,
        now_ms: int,
    ) -> None:
        self._config = config
        self._settings = settings
        self._view = view
        self._hashes = hashes
        self._targets = targets
        self._context = context
        self._request = request
        self._now_ms = now_ms
        self._records: list[CoordinatorRecord] = []
        self.has_bumped = False
        """Whether the request has bumped the group epoch."""

    def decide(self, group: ShareGroup) -> CoordinatorResult[DecidedHeartbeat]:
        request, group_id = self._request, group.group_id
        before = self._member(group)
        member = self._updated(before)
        if member is not before:
            self._records.append(member_record(group_id, member))
        is_bumped = member.topic_names != before.topic_names or (
            group.assignment_epoch >= group.epoch and group.waits_for_target
        )
        epoch, subscribers, has_changed = self._update_epoch(group, before, member, is_bumped=is_bumped)
        target_epoch, target = self._update_target(group, epoch, member, subscribers)
        reached = member.at(target_epoch, target, self._view.ids_of(member.topic_names), has_changed=has_changed)
        if reached is not member:
            self._records.append(current_assignment_record(group_id, reached))
        response = ShareGroupHeartbeatResponse(
            member_id=reached.member_id,
            member_epoch=reached.member_epoch,
            heartbeat_interval_ms=self._settings.heartbeat_interval_ms(group_id),
        )
        is_full = request.member_epoch == JOIN_EPOCH or request.subscribed_topic_names is not None
        if is_full or before.assigned != reached.assigned:
            response.assignment = _assignment(reached.assigned)
        initialize = self._initialize(group, epoch, subscribers)
        return CoordinatorResult(self._records, DecidedHeartbeat(response, initialize), is_ahead=True)

    # -- the member

    def _member(self, group: ShareGroup) -> ShareGroupMember:
        """Return the member that sends the request; a new one if it joins."""
        member_id, received = self._request.member_id, self._request.member_epoch
        if received == JOIN_EPOCH:
            return group.members.get(member_id) or ShareGroupMember(member_id)
        member = group.member(member_id)
        if received > member.member_epoch:
            raise ApiException(
                ErrorCode.FENCED_MEMBER_EPOCH,
                f"The share group member has a greater member epoch ({received}) than the one known by the group "
                f"coordinator ({member.member_epoch}). The member must abandon all its partitions and rejoin.",
            )
        if received < member.member_epoch and received != member.previous_member_epoch:
            raise ApiException(
                ErrorCode.FENCED_MEMBER_EPOCH,
                f"The share group member has a smaller member epoch ({received}) than the one known by the group "
                f"coordinator ({member.member_epoch}), and it does not match the previous member epoch "
                f"({member.previous_member_epoch}). The member must abandon all its partitions and rejoin.",
            )
        return member

    def _updated(self, member: ShareGroupMember) -> ShareGroupMember:
        """Return the member with what the request changes; the same object if that is nothing."""
        request, context = self._request, self._context
        names = request.subscribed_topic_names
        updated = replace(
            member,
            rack_id=member.rack_id if request.rack_id is None else request.rack_id,
            topic_names=member.topic_names if names is None else frozenset(names),
            client_id=context.client_id,
            client_host=context.client_host,
        )
        return member if updated == member else updated

    # -- epochs and targets

    def _update_epoch(
        self, group: ShareGroup, before: ShareGroupMember, member: ShareGroupMember, *, is_bumped: bool
    ) -> tuple[int, Mapping[str, int], bool]:
        """Return the group epoch, the group's subscriptions, and whether either they or their topics have changed."""
        epoch = group.epoch
        if not is_bumped and not group.has_metadata_expired(self._now_ms):
            return epoch, group.subscribers, False
        subscribers = group.subscribers_with(before, member)
        metadata_hash = self._hashes.of(group.group_id, subscribers, self._now_ms)
        is_bumped = is_bumped or metadata_hash != group.metadata_hash
        if is_bumped:
            self.has_bumped = True
            epoch += 1
            self._records.append(epoch_record(group.group_id, epoch, metadata_hash))
        group.set_metadata_deadline(self._now_ms + _FAR_MS, epoch)
        return epoch, subscribers, is_bumped

    def _update_target(
        self, group: ShareGroup, epoch: int, member: ShareGroupMember, subscribers: Mapping[str, int]
    ) -> tuple[int, Partitions]:
        """Return the member's target, computed for this epoch unless the last computation was just now.

        That of a large group is computed later, between requests.
        """
        group_id, now_ms = group.group_id, self._now_ms
        present = group.assignment_epoch, group.target.get(member.member_id, NO_PARTITIONS)
        if group.assignment_epoch >= epoch or not self._may_assign(group):
            return present
        if is_large(len(group.members), self._view.partition_counts(subscribers)):
            self._targets.start(group_id, lambda found: AssignmentInput.copied(found, self._view), now_ms)
            return present
        targets = whole(AssignmentInput.of(group, epoch, self._view, member, subscribers).targets_in_steps())
        self._records += [
            target_assignment_record(group_id, member_id, target)
            for member_id, target in targets.items()
            if group.target.get(member_id) != target
        ]
        self._records.append(target_assignment_epoch_record(group_id, epoch, now_ms))
        return epoch, targets[member.member_id]

    def _may_assign(self, group: ShareGroup) -> bool:
        if self._targets.is_running(group.group_id):
            return False
        return self._settings.may_assign(group.group_id, group.assignment_timestamp_ms, self._now_ms)

    # -- state of share-partitions

    def _initialize(self, group: ShareGroup, epoch: int, subscribers: Mapping[str, int]) -> InitializeStates | None:
        retry_ms = self._config.share_initialize_retry_ms
        topics = group.missing_partitions(self._view, subscribers, self._now_ms, retry_ms)
        if not topics:
            return None
        partitions = group.known_partitions.with_initializing(topics)
        self._records.append(state_partitions_record(group.group_id, partitions, self._view.name_of))
        return InitializeStates(
            group.group_id,
            epoch,
            {topic_id: dict.fromkeys(topic.partitions, UNINITIALIZED_OFFSET) for topic_id, topic in topics.items()},
        )


def _assignment(assigned: Partitions) -> Assignment:
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, partitions=sorted(partitions))
            for topic_id, partitions in assigned.items()
        ]
    )
