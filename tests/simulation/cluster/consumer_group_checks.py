"""Checks of groups of the consumer protocol, by what their members were answered and believe.

A partition belongs to one member at a time: to the one that received it, until it has given it up. The observer does
not believe a member that the coordinator may have removed, because it hears nothing of the member for too long, because
it waits too long for partitions of the member, or because it decided a request that the member had given up. All others
are safe (``Membership.is_safe``): no other member receives their partitions, and they are not refused.

A loss of more replicas than a partition of ``__consumer_offsets`` has (``lost``) voids what was answered before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas.common.errors import ErrorCode

if TYPE_CHECKING:
    from tests.simulation.cluster.checks import Checks
    from tests.simulation.cluster.consumer_group_shape import Subscription
    from tests.simulation.cluster.observed_client import Attempt

__all__ = ["REMOVED", "ConsumerGroupChecks", "Membership", "Moment", "TopicPartition"]

REMOVED = frozenset(
    {
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.UNKNOWN_MEMBER_ID,
    }
)
"""Errors for a member that the group does not have, or that has fallen behind."""
MARGIN_S = 0.01
"""Clocks have milliseconds."""


class TopicPartition(NamedTuple):
    topic_id: Any
    partition: int


class Moment(NamedTuple):
    """The state of a group when a member sent a request."""

    epoch: int
    """The greatest epoch that a member has received."""
    losses: int


class Membership:
    """A process of a member with its id, as it sees itself."""

    def __init__(self, group: str, name: str, member_id: str, instance_id: str | None, losses: int) -> None:
        self.group = group
        self.name = name
        self.member_id = member_id
        self.instance_id = instance_id
        self.losses = losses
        self.joined_s = -1.0
        """When it asked for the membership that it has; negative while it has none."""
        self.epoch = 0
        self.held: dict[TopicPartition, float] = {}
        """Its partitions, and when it received each. It has them until it has given them up."""
        self.wanted: frozenset[TopicPartition] = frozenset()
        """What it shall have, as last answered."""
        self.told: Subscription | None = None
        """The subscription in its last request that had one."""
        self.unknown_outcomes = 0
        """Requests since the last answer that may have been decided."""
        self._confused_s: float | None = None
        """When a request was decided that it had given up, or one by a broker that was not the coordinator any more.
        It is believed again when the coordinator has told it everything."""
        self._decided_s = -1.0
        self._must_give_up_from_s: float | None = None

    @property
    def is_confused(self) -> bool:
        return self._confused_s is not None

    @property
    def must_give_up(self) -> frozenset[TopicPartition]:
        return frozenset(self.held) - self.wanted

    def is_safe(self, at_s: float, safe_ms: int) -> bool:
        """Return whether the coordinator cannot have removed this member at that time."""
        since_s = self._decided_s if self._must_give_up_from_s is None else self._must_give_up_from_s
        return self.joined_s >= 0 and not self.is_confused and at_s < since_s + safe_ms / 1000 - MARGIN_S

    def decided(self, attempt: Attempt, *, is_full: bool) -> None:
        """Record an answer of the coordinator, after ``wanted`` was set from it."""
        assert attempt.decided_s is not None
        if not self.must_give_up:
            self._must_give_up_from_s = None
        elif self._must_give_up_from_s is None:
            self._must_give_up_from_s = self._decided_s
        self._decided_s = attempt.decided_s
        if not attempt.is_current:
            self._confused_s = attempt.decided_s
        elif is_full and self._confused_s is not None and attempt.decided_s > self._confused_s:
            self._confused_s = None

    def decided_late(self, attempt: Attempt) -> None:
        self._confused_s = attempt.decided_s

    def forget(self) -> None:
        """End the membership: its process has ended, has left, or was told that it is no member."""
        self.joined_s, self.epoch, self.held, self.wanted = -1.0, 0, {}, frozenset()
        self.unknown_outcomes, self._decided_s = 0, -1.0
        self._confused_s = self._must_give_up_from_s = None


class ConsumerGroupChecks:
    def __init__(self, checks: Checks) -> None:
        self._checks = checks
        self._members: dict[str, list[Membership]] = {}
        self._epochs: dict[str, int] = {}
        self._losses: dict[str, int] = {}
        self._committed: dict[tuple[str, int], int] = {}
        """The greatest acknowledged offset of ``data``, by group and partition."""
        self._sent: dict[tuple[str, int], set[int]] = {}
        self._loose: dict[tuple[str, int], set[int]] = {}
        """Offsets in requests that were decided late, but accepted."""

    @property
    def _now_s(self) -> float:
        return self._checks.world.loop.now_s

    @property
    def _safe_ms(self) -> int:
        shape = self._checks.world.shape.consumer_groups
        assert shape is not None
        return shape.safe_ms

    def lost(self, groups: list[str]) -> None:
        """Forget these groups: their records were lost with all replicas, or may have been."""
        for group in groups:
            self._losses[group] = self._losses.get(group, 0) + 1
            self._epochs.pop(group, None)
            self._committed = {key: offset for key, offset in self._committed.items() if key[0] != group}

    def moment(self, group: str) -> Moment:
        """Return the current state of the group. Call this before a request is sent."""
        return Moment(self._epochs.get(group, 0), self._losses.get(group, 0))

    def begun(self, group: str, name: str, member_id: str, instance_id: str | None) -> Membership:
        found = Membership(group, name, member_id, instance_id, self._losses.get(group, 0))
        self._members.setdefault(group, []).append(found)
        return found

    def ended(self, me: Membership) -> None:
        me.forget()
        self._members[me.group].remove(me)

    def _is_void(self, me: Membership, moment: Moment) -> bool:
        losses = self._losses.get(me.group, 0)
        return moment.losses != losses or me.losses != losses

    # --- heartbeats

    def joined(self, me: Membership, attempt: Attempt, answer: Any, moment: Moment) -> None:
        """Check the answer to a join, which begins the membership."""
        me.losses, me.joined_s = moment.losses, attempt.sent_s
        if attempt.is_current and not self._is_void(me, moment) and answer.member_epoch < moment.epoch:
            self._checks.fail(f"{me.name} joins in epoch {answer.member_epoch}, but {moment.epoch} was reached before")
        self._checks.counts["consumer group joins"] += 1

    def answered(self, me: Membership, attempt: Attempt, answer: Any, moment: Moment) -> None:
        """Check an accepted heartbeat of a member against what it had before."""
        if self._is_void(me, moment):
            return
        self._checks.counts["consumer group heartbeats"] += 1
        if answer.member_epoch < me.epoch:
            self._checks.fail(f"{me.name} returns from epoch {me.epoch} to {answer.member_epoch}")
        self._epochs[me.group] = max(self._epochs.get(me.group, 0), answer.member_epoch)
        if me.is_confused or not attempt.is_current:
            return
        keeps = self._assigned(answer)
        revoked = set() if keeps is None else set(me.held) - keeps
        if revoked and not me.unknown_outcomes and answer.member_epoch != me.epoch:
            self._checks.fail(
                f"{me.name} advances to epoch {answer.member_epoch} before it has given up {self._named(revoked)}"
            )
        for partition in keeps or ():
            name = self._name_of(partition.topic_id)
            if me.told is not None and name is not None and not me.told.covers(name):
                self._checks.fail(f"{me.name} subscribes to {me.told}, but receives {name}-{partition.partition}")

    def holds(self, me: Membership, attempt: Attempt, moment: Moment) -> None:
        """Check that no other member has the partitions that this one has, as the coordinator has just confirmed."""
        if self._is_void(me, moment) or not attempt.is_current or not me.is_safe(self._now_s, self._safe_ms):
            return  # The answer may be old: it waited for its commit.
        for other in self._members[me.group]:
            if other is me or other.losses != me.losses or not other.is_safe(self._now_s, self._safe_ms):
                continue
            both = me.held.keys() & other.held.keys()
            if both:
                self._checks.fail(f"{me.name} and {other.name} both have {self._named(both)}")

    def refused(self, me: Membership, attempt: Attempt, code: ErrorCode, moment: Moment) -> None:
        """Check that a member is refused only if the coordinator may have removed it."""
        if code not in REMOVED or self._is_void(me, moment) or not attempt.is_current:
            return
        assert attempt.decided_s is not None
        if me.unknown_outcomes <= 1 and me.is_safe(attempt.decided_s, self._safe_ms):
            self._checks.fail(f"{me.name} receives {code.name} in epoch {me.epoch}, but its session has not expired")

    @staticmethod
    def _assigned(answer: Any) -> set[TopicPartition] | None:
        if answer.assignment is None:
            return None
        return {
            TopicPartition(topic.topic_id, index)
            for topic in answer.assignment.topic_partitions
            for index in topic.partitions
        }

    def _name_of(self, topic_id: Any) -> str | None:
        for name, spans in self._checks.model.topic_spans.items():
            if any(found == topic_id for _, _, found in spans):
                return name
        return None

    def _named(self, partitions: set[TopicPartition]) -> str:
        return ", ".join(sorted(f"{self._name_of(found.topic_id)}-{found.partition}" for found in partitions))

    # --- offsets of the topic that is never deleted

    def commit_sent(self, group: str, offsets: dict[int, int]) -> None:
        for index, offset in offsets.items():
            self._sent.setdefault((group, index), set()).add(offset)

    def committed(self, me: Membership, attempt: Attempt, offsets: dict[TopicPartition, int], moment: Moment) -> None:
        """Check acknowledged offsets: no member that received a partition later has it."""
        if self._is_void(me, moment):
            return
        for other in self._members[me.group]:
            for partition in offsets:
                received_s = other.held.get(partition, -1.0)
                if me.held.get(partition, received_s) < received_s < attempt.sent_s and not other.is_confused:
                    self._checks.fail(
                        f"{me.name} commits an offset of {self._named({partition})}, which {other.name} has"
                    )
        for partition, offset in offsets.items():
            key = (me.group, partition.partition)
            self._committed[key] = max(self._committed.get(key, -1), offset)
        self._checks.counts["consumer group commits"] += 1

    def commit_decided_late(self, me: Membership, epoch: int, offsets: dict[TopicPartition, int]) -> None:
        """Note offsets of a late request, if the coordinator cannot tell it from one in time: the member still has the
        partition, or has its epoch, or has ended, and no other member has received the partition yet."""
        others = [other for other in self._members.get(me.group, ()) if other is not me]
        for partition, offset in offsets.items():
            is_taken = any(partition in other.held for other in others)
            if partition in me.held or epoch == me.epoch or (me.joined_s < 0 and not is_taken):
                self._loose.setdefault((me.group, partition.partition), set()).add(offset)

    def floor(self, group: str, indexes: list[int]) -> dict[int, int]:
        """Return the acknowledged offsets: a request that is sent from now on must return at least these."""
        return {index: self._committed.get((group, index), -1) for index in indexes}

    def fetched(self, me: Membership, offsets: dict[int, int], floor: dict[int, int]) -> None:
        for index, offset in offsets.items():
            key = (me.group, index)
            least = min(floor[index], self._committed.get(key, -1))
            if offset < least and offset in self._loose.get(key, ()):
                self._committed[key] = offset
            elif offset < least:
                self._checks.fail(f"{me.group} has offset {offset} for {index}, but {least} was acknowledged before")
            if offset != -1 and offset not in self._sent.get(key, ()):
                self._checks.fail(f"{me.group} has offset {offset} for {index}, which no member has committed")
        self._checks.counts["consumer group offsets fetched"] += 1
