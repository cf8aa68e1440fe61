"""The changes of a consumer group that requests of both protocols make: subscriptions, epochs, targets, members.

Each adds the records of its change; state changes when they are replayed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import NamedTuple

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.steps import whole
from barnabas.coordinator.coordinator_result import CoordinatorRecord, CoordinatorResult
from barnabas.coordinator.group.cluster_view import ClusterView
from barnabas.coordinator.group.consumer.consumer_group import ConsumerGroup
from barnabas.coordinator.group.consumer.consumer_group_member import ConsumerGroupMember, MemberState
from barnabas.coordinator.group.consumer.consumer_group_records import (
    current_assignment_record,
    epoch_record,
    member_record,
    member_tombstones,
    partition_metadata_tombstone,
    regular_expression_record,
    target_assignment_epoch_record,
    target_assignment_record,
)
from barnabas.coordinator.group.consumer.conversion import GroupConversion
from barnabas.coordinator.group.consumer.current_assignment import Owned, Reconciliation, Target
from barnabas.coordinator.group.consumer.regular_expression import ResolvedRegularExpression
from barnabas.coordinator.group.consumer.target_assignment import TARGETS, AssignmentInput
from barnabas.coordinator.group.group_coordinator_config import GroupCoordinatorConfig
from barnabas.coordinator.group.groups import Groups
from barnabas.coordinator.group.heartbeat_settings import HeartbeatSettings, is_within
from barnabas.coordinator.group.large_target import LargeTargets, is_large
from barnabas.coordinator.group.member_timers import (
    REMOVAL_RETRY_PAUSE_MS,
    MemberAction,
    MemberTimers,
    TimerKind,
)
from barnabas.coordinator.group.metadata_hashes import MetadataHashes
from barnabas.coordinator.group.modern_group import NO_PARTITIONS
from barnabas.coordinator.group.stepped_work import SteppedWork, Work, in_work

__all__ = ["GroupChanges", "MatchTopics", "SubscriptionChange"]

log = logging.getLogger(__name__)

MatchTopics = Callable[[str, frozenset[str]], None]
"""Starts to match the topics that the caller may describe with the regular expressions of a group (its id). The result
comes back to ``GroupChanges.regular_expressions_matched``. Raises INVALID_REGULAR_EXPRESSION."""

_REFRESH_PAUSE_MS = 10_000
"""Regular expressions of a group are not matched again before."""
_FAR_MS = 2_147_483_647
_PATTERNS = "patterns"
Nothing = CoordinatorResult[None]


class SubscriptionChange(NamedTuple):
    has_known_change: bool
    """Whether the topics of the group may have changed already."""
    has_change: bool
    """The same, or the topics of a new regular expression are not known yet."""


class GroupChanges:
    def __init__(
        self,
        config: GroupCoordinatorConfig,
        groups: Groups,
        view: ClusterView,
        timers: MemberTimers,
        work: SteppedWork,
        conversion: GroupConversion,
    ) -> None:
        self.config = config
        self.settings = HeartbeatSettings("consumer", config.consumer_limits, view)
        self.view = view
        self.timers = timers
        self.work = work
        self._hashes = MetadataHashes(view, work)
        self._targets = LargeTargets(groups, ConsumerGroup, TARGETS, work)
        self.rebalance_count = 0
        self._groups = groups
        self._conversion = conversion
        self._end_session: MemberAction = partial(self._remove, TimerKind.SESSION, "its session expired", None)
        self._matching: set[str] = set()
        """Groups whose regular expressions are being matched."""

    def find(self, group_id: str) -> ConsumerGroup | None:
        return self._groups.find_of_kind(group_id, ConsumerGroup)

    def validate_room(self, group: ConsumerGroup, member_id: str) -> None:
        """Raise GROUP_MAX_SIZE_REACHED if a new member would be too many."""
        size_max = self.config.group_consumer_max_size
        if len(group.members) >= size_max and member_id not in group.members:
            raise ApiException(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The consumer group has reached its maximum capacity of {size_max} members.",
            )

    # -- subscriptions

    def update_subscription(
        self,
        group: ConsumerGroup,
        before: ConsumerGroupMember,
        member: ConsumerGroupMember,
        match_topics: MatchTopics | None,
        records: list[CoordinatorRecord],
        now_ms: int,
    ) -> SubscriptionChange:
        """``match_topics`` is None for a request that starts no matching of regular expressions."""
        if member != before:
            records.append(member_record(group.group_id, member))
        has_names = member.topic_names != before.topic_names
        has_regex, is_resolved = self._update_regex(group, before, member, match_topics, records, now_ms)
        return SubscriptionChange(has_names or is_resolved, has_names or has_regex)

    def _update_regex(
        self,
        group: ConsumerGroup,
        before: ConsumerGroupMember,
        member: ConsumerGroupMember,
        match_topics: MatchTopics | None,
        records: list[CoordinatorRecord],
        now_ms: int,
    ) -> tuple[bool, bool]:
        """Return whether the member's regular expression has changed, and whether the topics of the new one are
        known."""
        old, new = before.topic_regex or "", member.topic_regex or ""
        has_changed, is_resolved, is_new = before.topic_regex != member.topic_regex, False, False
        if has_changed:
            if old and group.regex_subscribers.get(old) == 1:
                records.append(regular_expression_record(group.group_id, old, None))
            if new:
                is_new = new not in group.regex_subscribers
                is_resolved = not is_new and new in group.resolved
            else:
                is_resolved = bool(old)
        if match_topics is not None and (is_new or group.regex_subscribers):
            self._match_if_due(group, old, new, match_topics, now_ms, is_new=is_new)
        return has_changed, is_resolved

    def _match_if_due(
        self, group: ConsumerGroup, old: str, new: str, match_topics: MatchTopics, now_ms: int, *, is_new: bool
    ) -> None:
        if group.group_id in self._matching:
            return
        last = next(iter(group.resolved.values()), None)
        if last is not None and is_within(_REFRESH_PAUSE_MS + 1, last.timestamp_ms, now_ms):
            return
        patterns = set(group.regex_subscribers)
        if old and old != new and group.regex_subscribers.get(old) == 1:
            patterns.discard(old)
        if new:
            patterns.add(new)
        is_due = (
            is_new
            or len(patterns) != len(group.resolved)
            or last is None
            or last.version < self.view.newest_topic_offset
            or now_ms > last.timestamp_ms + self.config.group_consumer_regex_refresh_interval_ms
        )
        if is_due and patterns:
            match_topics(group.group_id, frozenset(patterns))
            self._matching.add(group.group_id)

    def regular_expressions_matched(
        self, group_id: str, matched: Mapping[str, frozenset[str]] | None, version: int, now_ms: int
    ) -> Nothing:
        """Store the topics that regular expressions stand for; None if matching failed."""
        group = self.find(group_id)
        if group is None or matched is None:
            self._matching.discard(group_id)
            return CoordinatorResult()
        topics = group.subscribers_resolving(_used(group, matched))
        if not self.view.is_long_to_hash(topics):
            return self._store_matched(group_id, matched, version, now_ms)

        def store_later() -> Work:
            yield from in_work(self.view.prepare_hash_in_steps(topics))
            now_ms = yield None
            yield self._store_matched(group_id, matched, version, now_ms)

        self.work.start((group_id, _PATTERNS), store_later(), now_ms)
        return CoordinatorResult()

    def _store_matched(
        self, group_id: str, matched: Mapping[str, frozenset[str]], version: int, now_ms: int
    ) -> Nothing:
        self._matching.discard(group_id)
        group = self.find(group_id)
        if group is None:
            return CoordinatorResult()
        records: list[CoordinatorRecord] = []
        used = _used(group, matched)
        for pattern, topics in used.items():
            resolved = ResolvedRegularExpression(topics, version, now_ms)
            records.append(regular_expression_record(group_id, pattern, resolved))
        has_changed = any(topics != group.resolved_topics(pattern) for pattern, topics in used.items())
        metadata_hash = self.view.metadata_hash(group.subscribers_resolving(used))
        if has_changed or metadata_hash != group.metadata_hash:
            epoch = group.epoch + 1
            records.append(epoch_record(group_id, epoch, metadata_hash))
            self.rebalance_count += 1
            group.set_metadata_deadline(now_ms + _FAR_MS, epoch)
        return CoordinatorResult(records, is_ahead=True)

    # -- epochs and targets

    def update_epoch(
        self,
        group: ConsumerGroup,
        before: ConsumerGroupMember,
        member: ConsumerGroupMember,
        records: list[CoordinatorRecord],
        now_ms: int,
        *,
        is_bumped: bool,
    ) -> int:
        """Return the group epoch, which a change of subscriptions or of subscribed topics increases."""
        epoch = group.epoch
        if not is_bumped and not group.has_metadata_expired(now_ms):
            return epoch
        metadata_hash = self._hashes.of(group.group_id, group.topics_with(before, member), now_ms)
        if is_bumped or metadata_hash != group.metadata_hash:
            epoch += 1
            records.append(epoch_record(group.group_id, epoch, metadata_hash))
            self.rebalance_count += 1
        group.set_metadata_deadline(now_ms + _FAR_MS, epoch)
        if group.has_partition_metadata_record:
            records.append(partition_metadata_tombstone(group.group_id))
        return epoch

    def update_target(
        self,
        group: ConsumerGroup,
        epoch: int,
        before: ConsumerGroupMember,
        member: ConsumerGroupMember,
        records: list[CoordinatorRecord],
        now_ms: int,
    ) -> Target:
        """Return the member's target, computed for this epoch unless the last computation was just now.

        That of a large group is computed later, between requests.
        """
        if group.assignment_epoch >= epoch or not self._may_assign(group, now_ms):
            return self.present_target(group, member)
        if is_large(len(group.members), self.view.partition_counts(group.topics_with(before, member))):
            assignor = self._assignor_of(group.preferred_assignor())
            self._targets.start(
                group.group_id, lambda found: AssignmentInput.copied(found, assignor, self.view), now_ms
            )
            return self.present_target(group, member)
        assignor = self._assignor_of(group.preferred_assignor(before, member))
        targets = whole(AssignmentInput.of(group, epoch, assignor, self.view, before, member).targets_in_steps())
        for member_id, target in targets.items():
            if group.target.get(member_id) != target:
                records.append(target_assignment_record(group.group_id, member_id, target))
        records.append(target_assignment_epoch_record(group.group_id, epoch, now_ms))
        return Target(epoch, targets[member.member_id])

    def _assignor_of(self, preferred: str | None) -> str:
        return preferred or self.config.group_consumer_assignors[0]

    def _may_assign(self, group: ConsumerGroup, now_ms: int) -> bool:
        if self._targets.is_running(group.group_id):
            return False
        return self.settings.may_assign(group.group_id, group.assignment_timestamp_ms, now_ms)

    def present_target(self, group: ConsumerGroup, member: ConsumerGroupMember) -> Target:
        """Return the member's target as last computed; a static member has that of its predecessor."""
        member_id = member.member_id
        if member.instance_id is not None:
            member_id = group.static_members.get(member.instance_id, member_id)
        return Target(group.assignment_epoch, group.target.get(member_id, NO_PARTITIONS))

    def reconcile(
        self,
        group: ConsumerGroup,
        member: ConsumerGroupMember,
        target: Target,
        records: list[CoordinatorRecord],
        now_ms: int,
        *,
        owned: Owned,
        has_changed: bool,
    ) -> ConsumerGroupMember:
        """Return the member after its next step."""
        if not has_changed and member.is_reconciled_to(target.epoch):
            return member
        step = Reconciliation(target, self.view.ids_of(group.topics_of(member)), has_changed, group.owners_of, owned)
        reached = step.next(member)
        if reached == member:
            return member
        records.append(current_assignment_record(group.group_id, reached))
        if not reached.uses_classic_protocol:
            if reached.state is MemberState.UNREVOKED_PARTITIONS:
                self.start_rebalance_timeout(group.group_id, reached, now_ms)
            else:
                self.timers.cancel(group.group_id, reached.member_id, TimerKind.REBALANCE)
        return reached

    # -- members that leave

    def fence(self, group: ConsumerGroup, members: Iterable[ConsumerGroupMember], now_ms: int) -> Nothing:
        """Remove members; the others receive their partitions with the next target. If only members of the classic
        protocol are left, the group becomes classic."""
        leaving = list(members)
        if not leaving:
            return CoordinatorResult()
        downgrade = self._conversion.downgrade_without(group, leaving, now_ms)
        if downgrade is not None:
            return downgrade
        group_id = group.group_id
        records: list[CoordinatorRecord] = []
        for member in leaving:
            records += member_tombstones(group_id, member.member_id)
        unused = self._unused_patterns(group, leaving)
        records += [regular_expression_record(group_id, pattern, None) for pattern in unused]
        metadata_hash = self._hashes.known(group.subscribers_without(leaving, unused))
        if metadata_hash is None:  # The next heartbeat has it computed.
            metadata_hash = group.metadata_hash
            group.request_metadata_refresh()
        records.append(epoch_record(group_id, group.epoch + 1, metadata_hash))

        def cancel_timers(now_ms: int) -> Nothing:
            self.timers.cancel_all(group_id, [member.member_id for member in leaving])
            return CoordinatorResult()

        return CoordinatorResult(records, is_ahead=True, on_append=cancel_timers)

    def _unused_patterns(self, group: ConsumerGroup, leaving: list[ConsumerGroupMember]) -> list[str]:
        counts: dict[str, int] = {}
        for member in leaving:
            if member.topic_regex:
                counts[member.topic_regex] = counts.get(member.topic_regex, 0) + 1
        return [pattern for pattern, count in counts.items() if group.regex_subscribers.get(pattern) == count]

    # -- deadlines

    def start_session(self, group_id: str, member_id: str, now_ms: int, timeout_ms: int | None = None) -> None:
        if timeout_ms is None:
            timeout_ms = self.settings.session_timeout_ms(group_id)
        self.timers.schedule(group_id, member_id, TimerKind.SESSION, now_ms + timeout_ms, self._end_session)

    def start_join_timeout(self, group_id: str, member: ConsumerGroupMember, now_ms: int) -> None:
        """Let a member of the classic protocol that was requested to join again be removed if it does not."""
        if not self.timers.is_scheduled(group_id, member.member_id, TimerKind.JOIN):
            deadline_ms = now_ms + member.rebalance_timeout_ms
            reason = "it did not join within its rebalance timeout"
            self._schedule(group_id, member.member_id, TimerKind.JOIN, deadline_ms, reason)

    def start_sync_timeout(self, group_id: str, member_id: str, timeout_ms: int, now_ms: int) -> None:
        self._schedule(group_id, member_id, TimerKind.SYNC, now_ms + timeout_ms, "it did not sync in time")

    def start_rebalance_timeout(self, group_id: str, member: ConsumerGroupMember, now_ms: int) -> None:
        """Let a member be removed that does not give up its partitions in time."""
        deadline_ms = now_ms + member.rebalance_timeout_ms
        epoch, reason = member.member_epoch, "it did not give up its partitions within its rebalance timeout"
        self._schedule(group_id, member.member_id, TimerKind.REBALANCE, deadline_ms, reason, in_epoch=epoch)

    def _schedule(
        self,
        group_id: str,
        member_id: str,
        kind: TimerKind,
        deadline_ms: int,
        reason: str,
        *,
        in_epoch: int | None = None,
    ) -> None:
        """Remove the member at the deadline, with ``in_epoch`` only if it is still in that epoch."""
        self.timers.schedule(group_id, member_id, kind, deadline_ms, partial(self._remove, kind, reason, in_epoch))

    def _remove(
        self, kind: TimerKind, reason: str, in_epoch: int | None, group_id: str, member_id: str, now_ms: int
    ) -> Nothing:
        def again(code: ErrorCode, now_ms: int) -> Nothing:
            self._schedule(group_id, member_id, kind, now_ms + REMOVAL_RETRY_PAUSE_MS, reason, in_epoch=in_epoch)
            return CoordinatorResult()

        self.timers.cancel(group_id, member_id, kind)
        group = self.find(group_id)
        member = None if group is None else group.members.get(member_id)
        if group is None or member is None or in_epoch not in (None, member.member_epoch):
            return CoordinatorResult()
        log.info("Member %s of group %s is removed: %s", member_id, group_id, reason)
        result = self.fence(group, [member], now_ms)
        result.on_error = again
        return result


def _used(group: ConsumerGroup, matched: Mapping[str, frozenset[str]]) -> dict[str, frozenset[str]]:
    """Return what is still used of regular expressions that were matched."""
    return {pattern: topics for pattern, topics in matched.items() if pattern in group.regex_subscribers}
