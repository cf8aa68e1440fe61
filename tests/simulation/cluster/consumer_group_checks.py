"""Checks of groups of the consumer protocol, by what their members were answered and believe. Those of streams groups
are the same, with tasks instead of partitions.

A partition belongs to one member at a time: to the one that received it, until it has given it up. The observer does
not believe a member that the coordinator may have removed, because it hears nothing of the member for too long, because
it waits too long for partitions of the member, or because it decided a request that the member had given up. All others
are safe (``Membership.is_safe``): no other member receives their partitions, and they are not refused.

A loss of more replicas than a partition of ``__consumer_offsets`` has (``lost``) voids what was answered before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from barnabas.common.errors import ErrorCode

if TYPE_CHECKING:
    from tests.simulation.cluster.checks import Checks
    from tests.simulation.cluster.consumer_group_shape import Subscription
    from tests.simulation.cluster.observed_client import Attempt

__all__ = ["REMOVED", "ConsumerGroupChecks", "GroupMember", "GroupSettings", "Membership", "Moment", "TopicPartition"]

REMOVED = frozenset(
    {
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.UNKNOWN_MEMBER_ID,
    }
)
"""Errors for a member that the group does not have, or that has fallen behind."""
MARGIN_S = 0.01
"""Clocks have milliseconds."""


class GroupMember(Protocol):
    """A member of a group, as its shape describes it."""

    @property
    def group(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def instance_id(self) -> str | None: ...

    @property
    def may_begin_again(self) -> bool:
        """Whether the epochs of its group may begin again."""


class GroupSettings(Protocol):
    """The settings of all groups of one kind."""

    @property
    def groups(self) -> list[str]: ...

    @property
    def session_ms(self) -> int: ...

    @property
    def rebalance_ms(self) -> int: ...

    @property
    def is_in_step(self) -> bool:
        """Whether the processes of all members begin together, and send their heartbeats together."""

    @property
    def safe_ms(self) -> int:
        """A member is not removed earlier after its last heartbeat, and not before it knows what to give up."""


class TopicPartition(NamedTuple):
    topic: Any
    """The topic id, or its name. For a task of a streams group, its subtopology and role."""
    partition: int


class Moment(NamedTuple):
    """The state of a group when a member sent a request."""

    epoch: int
    """The greatest epoch that a member has received."""
    losses: int


class Membership:
    """A process of a member with its id, as it sees itself."""

    def __init__(self, shape: GroupMember, member_id: str, losses: int, *, uses_classic: bool) -> None:
        self.shape = shape
        self.group = shape.group
        self.name = shape.name
        self.member_id = member_id
        self.instance_id = shape.instance_id
        self.uses_classic = uses_classic
        """Whether it speaks the classic protocol. Its epoch is then its generation."""
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
        self.is_replaced = False
        """Whether another process with its instance id has joined, which may take its place."""
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
        is_safe = self.joined_s >= 0 and not self.is_confused and not self.is_replaced
        return is_safe and at_s < since_s + safe_ms / 1000 - MARGIN_S

    def decided(self, attempt: Attempt, *, is_full: bool, must_rejoin: bool = False) -> None:
        """Record an answer of the coordinator, after ``wanted`` was set from it. ``must_rejoin``: the coordinator waits
        for a JoinGroup."""
        assert attempt.decided_s is not None
        if not self.must_give_up and not must_rejoin:
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
        self.is_replaced = False


class ConsumerGroupChecks:
    kind = "consumer group"
    epochs_while_revoking = 0
    """By how many epochs a member advances that has given up something, and must then give up more."""

    def __init__(self, checks: Checks, settings: GroupSettings | None) -> None:
        """``settings`` is None in a run without such groups."""
        self._checks = checks
        self._settings = settings
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
        assert self._settings is not None
        return self._settings.safe_ms

    @property
    def groups(self) -> list[str]:
        return [] if self._settings is None else self._settings.groups

    def lost(self, groups: list[str]) -> None:
        """Forget these groups: their records were lost with all replicas, or may have been."""
        for group in groups:
            self._losses[group] = self._losses.get(group, 0) + 1
            self._epochs.pop(group, None)
            self._committed = {key: offset for key, offset in self._committed.items() if key[0] != group}

    def moment(self, group: str) -> Moment:
        """Return the current state of the group. Call this before a request is sent."""
        return Moment(self._epochs.get(group, 0), self._losses.get(group, 0))

    def begun(self, shape: GroupMember, member_id: str, *, uses_classic: bool) -> Membership:
        found = Membership(shape, member_id, self._losses.get(shape.group, 0), uses_classic=uses_classic)
        self._members.setdefault(shape.group, []).append(found)
        return found

    def join_decided(self, me: Membership) -> None:
        """Note that a process may take the place of another one with its instance id.

        A process of the consumer protocol does not take the place of another one that has not left.
        """
        me.is_replaced = False
        for other in self._members.get(me.group, ()):
            if other is not me and me.instance_id is not None and other.instance_id == me.instance_id:
                other.is_replaced = other.is_replaced or me.uses_classic or other.uses_classic

    def ended(self, me: Membership) -> None:
        me.forget()
        self._members[me.group].remove(me)

    def _is_void(self, me: Membership, moment: Moment) -> bool:
        losses = self._losses.get(me.group, 0)
        return moment.losses != losses or me.losses != losses

    # --- heartbeats

    def joined(self, me: Membership, attempt: Attempt, epoch: int, moment: Moment) -> None:
        """Check the answer to a join, which begins the membership."""
        me.losses, me.joined_s = moment.losses, attempt.sent_s
        if self._is_void(me, moment) or not attempt.is_current:
            return
        reached = moment.epoch
        if me.shape.may_begin_again:
            epochs = [other.epoch for other in self._safe_others(me) if other.joined_s < attempt.sent_s]
            reached = min(reached, max(epochs, default=0))
        if epoch < reached:
            self._checks.fail(f"{me.name} joins in epoch {epoch}, but {reached} was reached before")
        self._checks.counts[f"{self.kind} joins{', classic' if me.uses_classic else ''}"] += 1

    def _safe_others(self, me: Membership) -> Iterator[Membership]:
        for other in self._members[me.group]:
            if other is not me and other.losses == me.losses and other.is_safe(self._now_s, self._safe_ms):
                yield other

    def reached(self, me: Membership, epoch: int, moment: Moment) -> None:
        """Check the epoch that an accepted request returns."""
        if self._is_void(me, moment):
            return
        if epoch < me.epoch:
            self._checks.fail(f"{me.name} returns from epoch {me.epoch} to {epoch}")
        self._epochs[me.group] = max(self._epochs.get(me.group, 0), epoch)
        self._checks.counts[f"{self.kind} steps{', classic' if me.uses_classic else ''}"] += 1

    def assigned(
        self, me: Membership, attempt: Attempt, epoch: int, wanted: frozenset[TopicPartition], moment: Moment
    ) -> None:
        """Check an assignment against what the member had before."""
        if self._is_void(me, moment) or me.is_confused or not attempt.is_current:
            return
        revoked = set(me.held) - wanted
        if revoked and not me.unknown_outcomes and epoch > me.epoch + self.epochs_while_revoking:
            self._checks.fail(f"{me.name} advances to epoch {epoch} before it has given up {self._named(revoked)}")
        for partition in wanted:
            name = self.name_of(partition)
            if me.told is not None and name is not None and not me.told.covers(name):
                self._checks.fail(f"{me.name} subscribes to {me.told}, but receives {name}-{partition.partition}")

    def holds(self, me: Membership, attempt: Attempt, moment: Moment) -> None:
        """Check that no other member has the partitions that this one has, as the coordinator has just confirmed."""
        if self._is_void(me, moment) or not attempt.is_current or not me.is_safe(self._now_s, self._safe_ms):
            return  # The answer may be old: it waited for its commit.
        for other in self._safe_others(me):
            both = self.contested(me, other)
            if both:
                self._checks.fail(f"{me.name} and {other.name} both have {self._named(both)}")

    def contested(self, me: Membership, other: Membership) -> set[TopicPartition]:
        """Return what both members have, although only one of them may."""
        return me.held.keys() & other.held.keys()

    def refused(self, me: Membership, attempt: Attempt, code: ErrorCode, moment: Moment) -> None:
        """Check that a member is refused only if the coordinator may have removed it.

        A generation may end without its members, when their group changes its protocol.
        """
        if code not in REMOVED or code is ErrorCode.ILLEGAL_GENERATION or self._is_void(me, moment):
            return
        if not attempt.is_current:
            return
        assert attempt.decided_s is not None
        if me.unknown_outcomes <= 1 and me.is_safe(attempt.decided_s, self._safe_ms):
            self._checks.fail(f"{me.name} receives {code.name} in epoch {me.epoch}, but its session has not expired")

    def name_of(self, partition: TopicPartition) -> str | None:
        """Return the name of a partition's topic, which may have been deleted."""
        if isinstance(partition.topic, str):
            return partition.topic
        for name, spans in self._checks.model.topic_spans.items():
            if any(found == partition.topic for _, _, found in spans):
                return name
        return None

    def partition_of(self, topic: str, index: int) -> TopicPartition:
        """Return a partition that a broker has named. Its topic is known only by name if that had several topics."""
        ids = [topic_id for _, _, topic_id in self._checks.model.topic_spans.get(topic, ())]
        return TopicPartition(ids[0] if len(ids) == 1 else topic, index)

    def _named(self, partitions: Iterable[TopicPartition]) -> str:
        return ", ".join(sorted(f"{self.name_of(found)}-{found.partition}" for found in partitions))

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
        self._checks.counts[f"{self.kind} commits"] += 1

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
        self._checks.counts[f"{self.kind} offsets fetched"] += 1
