"""A group of the consumer protocol: its members, their subscriptions, and the partitions that each has at present."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from enum import Enum
from typing import NamedTuple

from barnabas.common.errors import ApiException, ErrorCode, InvariantViolated
from barnabas.common.uuid import Uuid
from barnabas.coordinator.coordinator_result import CoordinatorRecord
from barnabas.coordinator.group.consumer.consumer_group_member import ConsumerGroupMember, PartitionEpochs
from barnabas.coordinator.group.consumer.consumer_group_records import group_tombstones
from barnabas.coordinator.group.consumer.regular_expression import ResolvedRegularExpression, subscribed_topics
from barnabas.coordinator.group.group import CheckPartition, OffsetCommitter, OffsetExpiry
from barnabas.coordinator.group.group_state import GroupType
from barnabas.coordinator.group.modern_group import NO_PARTITIONS, ModernGroup, Partitions

__all__ = ["ConsumerGroup", "ConsumerGroupState", "Subscribers"]

_COMMIT_WITH_EPOCH_SINCE = 9
_NO_OWNERS: Mapping[int, int] = {}


class ConsumerGroupState(Enum):
    """The value is the name that ListGroups and ConsumerGroupDescribe show."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


class Subscribers(NamedTuple):
    """How many members name a topic, and how many regular expressions match it."""

    by_name: int = 0
    by_regex: int = 0


_ONE_BY_NAME = Subscribers(by_name=1)


class ConsumerGroup(ModernGroup[ConsumerGroupMember, Partitions]):
    group_type = GroupType.CONSUMER

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.member_count_max = 0
        """The largest number of members since the group was loaded: assignors need it to act as Kafka's."""
        self.static_members: dict[str, str] = {}
        """Member ids by instance id."""
        self.subscribers: dict[str, Subscribers] = {}
        """By topic."""
        self.regex_subscribers: dict[str, int] = {}
        """How many members use a regular expression."""
        self.resolved: dict[str, ResolvedRegularExpression] = {}
        self.has_partition_metadata_record = False
        self.classic_member_count = 0
        self.classic_supporters: dict[str, int] = {}
        """How many members of the classic protocol support an assignor."""
        self._assignors: dict[str, int] = {}
        self._owners: dict[Uuid, dict[int, int]] = {}
        """The epoch of the member that has a partition, or must still give it up."""

    # -- Group

    @property
    def state(self) -> ConsumerGroupState:
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.assignment_epoch:
            return ConsumerGroupState.ASSIGNING
        if all(member.is_reconciled_to(self.assignment_epoch) for member in list(self.members.values())):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def listed_protocol_type(self) -> str:
        return "consumer"

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.subscribers

    def validate_offset_commit(self, committer: OffsetCommitter) -> CheckPartition | None:
        """Accept a member's present epoch; an older one only for partitions that it has had since then (KIP-1251)."""
        if committer.epoch < 0 and not self.members:
            return None
        names_nobody = committer.epoch == -1 and not committer.member_id and committer.instance_id is None
        if committer.is_transactional and names_nobody:
            return None
        member = self.member(committer.member_id)
        is_classic = member.uses_classic_protocol
        if not committer.is_transactional and not is_classic and committer.api_version < _COMMIT_WITH_EPOCH_SINCE:
            raise ApiException(
                ErrorCode.UNSUPPORTED_VERSION,
                "OffsetCommit version 9 or above must be used by members using the consumer group protocol",
            )
        if committer.epoch == member.member_epoch:
            return None
        stale = ErrorCode.ILLEGAL_GENERATION if is_classic else ErrorCode.STALE_MEMBER_EPOCH
        if committer.epoch > member.member_epoch:
            raise ApiException(stale)

        def check(topic: str, topic_id: Uuid, partition: int) -> None:
            received_in = member.epoch_of(topic_id, partition)
            if received_in is None or committer.epoch < received_in:
                raise ApiException(stale)

        return check

    def validate_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        if member_id is None and member_epoch < 0:
            return
        member = self.member(member_id or "")
        if member_epoch != member.member_epoch:
            is_classic = member.uses_classic_protocol
            raise ApiException(ErrorCode.ILLEGAL_GENERATION if is_classic else ErrorCode.STALE_MEMBER_EPOCH)

    def validate_offset_delete(self) -> None:
        """Offsets of topics without subscribers can be deleted at any time."""

    def offset_expiry(self) -> OffsetExpiry | None:
        return OffsetExpiry(since_ms=None)

    def tombstones(self) -> Sequence[CoordinatorRecord]:
        return group_tombstones(self.group_id, self.members, self.resolved)

    # -- members

    def static_member(self, instance_id: str | None) -> ConsumerGroupMember | None:
        member_id = None if instance_id is None else self.static_members.get(instance_id)
        return None if member_id is None else self.members[member_id]

    def update_member(self, member: ConsumerGroupMember) -> None:
        before = self.members.get(member.member_id)
        self.members[member.member_id] = member
        self.member_count_max = max(self.member_count_max, len(self.members))
        if before is None or before.topic_names != member.topic_names:
            _count_names(self.subscribers, before, member)
        if before is None or before.topic_regex != member.topic_regex:
            _count_regex(self.regex_subscribers, before, member)
        if before is None or before.server_assignor != member.server_assignor:
            _count(self._assignors, None if before is None else before.server_assignor, -1)
            _count(self._assignors, member.server_assignor, 1)
        if before is None or before.classic != member.classic:
            self._count_classic(before, -1)
            self._count_classic(member, 1)
        if before is not None:
            self._disown(before)
        self._own(member.assigned, member.member_epoch)
        self._own(member.pending_revocation, member.member_epoch)
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id

    def remove_member(self, member_id: str) -> None:
        member = self.members.pop(member_id)
        _count_names(self.subscribers, member, None)
        _count_regex(self.regex_subscribers, member, None)
        _count(self._assignors, member.server_assignor, -1)
        self._count_classic(member, -1)
        self._disown(member)
        if member.instance_id is not None and self.static_members.get(member.instance_id) == member_id:
            del self.static_members[member.instance_id]

    def owners_of(self, topic_id: Uuid) -> Mapping[int, int]:
        """Return the partitions of a topic that a member has, or must still give up, with the member's epoch."""
        return self._owners.get(topic_id, _NO_OWNERS)

    def waits_for_release(self, member: ConsumerGroupMember) -> bool:
        """Whether a partition of the member's target is still with another member."""
        for topic_id, partitions in self.target.get(member.member_id, NO_PARTITIONS).items():
            has, owned = member.assigned.get(topic_id, {}), self.owners_of(topic_id)
            if any(partition not in has and partition in owned for partition in partitions):
                return True
        return False

    def _own(self, partitions: PartitionEpochs, epoch: int) -> None:
        for topic_id, of_topic in partitions.items():
            owners = self._owners.setdefault(topic_id, {})
            if owners.keys().isdisjoint(of_topic):
                owners.update(dict.fromkeys(of_topic, epoch))
                continue
            for partition in of_topic:
                present = owners.get(partition)
                if present is not None and present >= epoch:
                    raise InvariantViolated(
                        f"partition {partition} of {topic_id} is still owned at epoch {present}, "
                        f"and assigned again at epoch {epoch}"
                    )
                owners[partition] = epoch

    def _disown(self, member: ConsumerGroupMember) -> None:
        """Release what the member has, except what another one has received since."""
        for partitions in (member.assigned, member.pending_revocation):
            for topic_id, of_topic in partitions.items():
                owners = self._owners.get(topic_id)
                if owners is None:
                    continue
                for partition in of_topic:
                    if owners.get(partition) == member.member_epoch:
                        del owners[partition]
                if not owners:
                    del self._owners[topic_id]

    def _count_classic(self, member: ConsumerGroupMember | None, change: int) -> None:
        if member is not None and member.classic is not None:
            self.classic_member_count += change
            for name, _ in member.classic.protocols:
                _count(self.classic_supporters, name, change)

    # -- subscriptions

    def resolve(self, pattern: str, resolved: ResolvedRegularExpression | None) -> None:
        """Record the topics of a regular expression, or that no member uses it any more."""
        before = self.resolved.pop(pattern, None)
        if before is not None:
            _count_regex_topics(self.subscribers, before.topics, -1)
        if resolved is not None:
            self.resolved[pattern] = resolved
            _count_regex_topics(self.subscribers, resolved.topics, 1)

    def topics_of(self, member: ConsumerGroupMember) -> Set[str]:
        """Return the topics that a member subscribes to, by name and by its regular expression."""
        return subscribed_topics(member.topic_names, member.topic_regex, self.resolved)

    def topics_with(self, before: ConsumerGroupMember, member: ConsumerGroupMember) -> Iterable[str]:
        """Return the topics of the group as they are when ``member`` replaces ``before``. For a member that joins,
        that is one without a subscription; for a static one that returns, it has that of its predecessor.
        """
        if before.topic_regex and before.topic_regex != member.topic_regex:
            return self._subscribers_with(before, member)
        if before.topic_names == member.topic_names:
            return self.subscribers
        lost = {name for name in before.topic_names - member.topic_names if self.subscribers.get(name) == _ONE_BY_NAME}
        new = [name for name in member.topic_names if name not in self.subscribers]
        return [*(name for name in self.subscribers if name not in lost), *new] if lost or new else self.subscribers

    def _subscribers_with(self, before: ConsumerGroupMember, member: ConsumerGroupMember) -> Mapping[str, Subscribers]:
        counts = self.subscribers
        if before.topic_names != member.topic_names:
            counts = dict(counts)
            _count_names(counts, before, member)
        regex = before.topic_regex
        if regex and member.topic_regex != regex and self.regex_subscribers.get(regex) == 1:
            counts = dict(counts)
            _count_regex_topics(counts, self.resolved_topics(regex), -1)
        return counts

    def resolved_topics(self, pattern: str) -> frozenset[str]:
        resolved = self.resolved.get(pattern)
        return frozenset() if resolved is None else resolved.topics

    def subscribers_resolving(self, resolved: Mapping[str, frozenset[str]]) -> Mapping[str, Subscribers]:
        """Return the subscribers as they are when regular expressions stand for these topics."""
        counts = dict(self.subscribers)
        for pattern, topics in resolved.items():
            _count_regex_topics(counts, self.resolved_topics(pattern), -1)
            _count_regex_topics(counts, topics, 1)
        return counts

    def subscribers_without(
        self, members: Iterable[ConsumerGroupMember], patterns: Iterable[str]
    ) -> Mapping[str, Subscribers]:
        """Return the subscribers as they are without these members and regular expressions."""
        counts = dict(self.subscribers)
        for member in members:
            _count_names(counts, member, None)
        for pattern in patterns:
            _count_regex_topics(counts, self.resolved_topics(pattern), -1)
        return counts

    @property
    def is_homogeneous(self) -> bool:
        """Whether all members have one subscription, by the names that they use."""
        return _is_homogeneous(self.subscribers, self.regex_subscribers, len(self.members))

    def is_homogeneous_with(self, before: ConsumerGroupMember, member: ConsumerGroupMember) -> bool:
        """Return the same when ``member`` replaces ``before``."""
        patterns = dict(self.regex_subscribers)
        _count_regex(patterns, before, member)
        is_new = member.member_id not in self.members and member.instance_id not in self.static_members
        return _is_homogeneous(self._subscribers_with(before, member), patterns, len(self.members) + is_new)

    def preferred_assignor(
        self, before: ConsumerGroupMember | None = None, member: ConsumerGroupMember | None = None
    ) -> str | None:
        """Return the assignor that most members ask for, when ``member`` replaces ``before``; None if none does."""
        counts = self._assignors
        if before is not member:
            counts = dict(counts)
            _count(counts, None if before is None else before.server_assignor, -1)
            _count(counts, None if member is None else member.server_assignor, 1)
        return max(counts, key=counts.__getitem__, default=None)

    # -- members of the classic protocol

    def supports_classic_protocols(self, protocol_type: str, names: Iterable[str]) -> bool:
        if protocol_type != "consumer":
            return False
        if not self.members:
            return any(True for _ in names)
        return any(self.classic_supporters.get(name, 0) == self.classic_member_count for name in names)

    def has_only_classic_members_without(self, members: Iterable[ConsumerGroupMember]) -> bool:
        excluded = list(members)
        excluded_classic = sum(member.uses_classic_protocol for member in excluded)
        return self.classic_member_count - excluded_classic == len(self.members) - len(excluded)


def _is_homogeneous(subscribers: Mapping[str, Subscribers], patterns: Mapping[str, int], member_count: int) -> bool:
    if not patterns:
        return all(found.by_name == member_count for found in subscribers.values())
    if next(iter(patterns.values())) != member_count:
        return False
    return all(found.by_regex == 1 and found.by_name <= 0 for found in subscribers.values())


def _count(counts: dict[str, int], name: str | None, change: int) -> None:
    if not name:
        return
    count = counts.get(name, 0) + change
    if count > 0:
        counts[name] = count
    else:
        counts.pop(name, None)


def _count_names(
    counts: dict[str, Subscribers], before: ConsumerGroupMember | None, member: ConsumerGroupMember | None
) -> None:
    for topic in () if before is None else before.topic_names:
        _change(counts, topic, by_name=-1)
    for topic in () if member is None else member.topic_names:
        _change(counts, topic, by_name=1)


def _count_regex(
    counts: dict[str, int], before: ConsumerGroupMember | None, member: ConsumerGroupMember | None
) -> None:
    _count(counts, None if before is None else before.topic_regex, -1)
    _count(counts, None if member is None else member.topic_regex, 1)


def _count_regex_topics(counts: dict[str, Subscribers], topics: Iterable[str], change: int) -> None:
    for topic in topics:
        _change(counts, topic, by_regex=change)


def _change(counts: dict[str, Subscribers], topic: str, *, by_name: int = 0, by_regex: int = 0) -> None:
    found = counts.get(topic, Subscribers())
    changed = Subscribers(found.by_name + by_name, found.by_regex + by_regex)
    if changed.by_name > 0 or changed.by_regex > 0:
        counts[topic] = changed
    else:
        counts.pop(topic, None)
