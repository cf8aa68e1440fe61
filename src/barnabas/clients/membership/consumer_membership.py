"""A member of a consumer group (KIP-848): from the assigned partitions to those that the caller reads.

The coordinator names the partitions that a member shall have now. If they differ from those that the caller has,
``next_step`` says which to give up and which to begin. The caller gives up the first (it commits), begins the others,
and calls ``reconciled``. The next heartbeat acknowledges them: only then the coordinator assigns what was given up to
another member. A newer assignment that arrives meanwhile is the next step.

A member that was fenced has lost its partitions: the caller drops them without a commit and calls ``released``.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass

from barnabas.clients.membership.heartbeat_schedule import HeartbeatSchedule
from barnabas.clients.membership.member_state import MemberState
from barnabas.clients.membership.membership import Answer, Assignment, Membership, read_assignment
from barnabas.common.topic_partition import TopicPartition
from barnabas.common.uuid import Uuid
from barnabas.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

__all__ = ["ConsumerMembership", "MemberOptions", "Reconciliation", "Subscription"]

LEAVE_EPOCH = -1
LEAVE_STATIC_EPOCH = -2
"""A static member leaves for a short time: its partitions wait for its return until the session ends."""
_NONE: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Subscription:
    """Topics by name, and those that the coordinator matches with a regular expression (RE2)."""

    topics: frozenset[str] = frozenset()
    pattern: str | None = None


@dataclass(frozen=True, slots=True)
class MemberOptions:
    """What a member reports when it joins. ``rebalance_timeout_ms`` limits the time to give up partitions."""

    subscription: Subscription
    rebalance_timeout_ms: int
    instance_id: str | None = None
    server_assignor: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Reconciliation:
    """A step to ``assignment``: the caller gives up ``revoked``, and then begins ``added``."""

    assignment: Assignment
    revoked: frozenset[TopicPartition]
    added: frozenset[TopicPartition]


class ConsumerMembership(Membership):
    def __init__(self, group_id: str, member_id: str, options: MemberOptions, schedule: HeartbeatSchedule) -> None:
        super().__init__(group_id, member_id, schedule)
        self._options = options
        self._names: dict[Uuid, str] = {}
        self._target: Assignment = {}
        self._owned: Assignment | None = None
        """What the caller has; None until it has begun the first assignment."""
        self._step: Reconciliation | None = None

    # --- heartbeats

    def request(self, now_ms: int) -> ConsumerGroupHeartbeatRequest:
        """Return the heartbeat that is due."""
        options = self._options
        request = self._bare_request(self.epoch)
        is_joining = self.state is MemberState.JOINING
        if is_joining or self._sends_all:
            request.rebalance_timeout_ms = options.rebalance_timeout_ms
            request.subscribed_topic_names = sorted(options.subscription.topics)
            request.subscribed_topic_regex = options.subscription.pattern
            request.server_assignor = options.server_assignor
        if is_joining or self._sends_all or self.state is MemberState.ACKNOWLEDGING:
            request.topic_partitions = self._reported()
        self._sent(now_ms)
        if self.state is MemberState.ACKNOWLEDGING:
            self._move(MemberState.STABLE if self._owned == self._target else MemberState.RECONCILING)
        return request

    def receive(self, response: ConsumerGroupHeartbeatResponse, now_ms: int) -> Answer:
        """Take the answer. Raise AdminError for an error that ends the membership."""
        answer = self._answered(response, now_ms)
        if answer is Answer.ACCEPTED and response.assignment is not None and self.is_member:
            self._target = read_assignment(response.assignment)
            if self._target != self._owned or self._step is not None:
                self._move(MemberState.RECONCILING)
            elif self.state is MemberState.RECONCILING:
                self._move(MemberState.ACKNOWLEDGING)  # It waits for what it assigned meanwhile and has withdrawn.
        return answer

    def leave(self) -> ConsumerGroupHeartbeatRequest | None:
        """Return the last request, if the coordinator knows the member."""
        was_member = self.is_member
        self._move(MemberState.LEFT)
        is_static = self._options.instance_id is not None
        return self._bare_request(LEAVE_STATIC_EPOCH if is_static else LEAVE_EPOCH) if was_member else None

    def _bare_request(self, epoch: int) -> ConsumerGroupHeartbeatRequest:
        return ConsumerGroupHeartbeatRequest(
            group_id=self.group_id, member_id=self.member_id, member_epoch=epoch, instance_id=self._options.instance_id
        )

    def _reported(self) -> list[TopicPartitions]:
        """Return what the caller has, or may begin at any time.

        Kafka's client reports only the first. But the coordinator may give to another member what is not reported,
        while the caller begins it.
        """
        owned, target = self._owned or {}, self._target
        return [
            TopicPartitions(
                topic_id=topic_id, partitions=sorted(owned.get(topic_id, _NONE) | target.get(topic_id, _NONE))
            )
            for topic_id in {**owned, **target}
        ]

    # --- from the assignment to the partitions of the caller

    @property
    def unnamed(self) -> Set[Uuid]:
        """The assigned topics whose names are not known yet."""
        return self._target.keys() - self._names.keys()

    def learn_names(self, names: Mapping[Uuid, str]) -> None:
        self._names |= names

    def next_step(self) -> Reconciliation | None:
        """Return the next step, if one is due and none is under way. Topics without a known name wait."""
        if self.state is not MemberState.RECONCILING or self._step is not None:
            return None
        assignment = {topic_id: self._target[topic_id] for topic_id in self._target if topic_id in self._names}
        if assignment == self._owned:
            return None
        wanted, held = self._named(assignment), self._named(self._owned or {})
        self._step = Reconciliation(assignment, held - wanted, wanted - held)
        return self._step

    def is_current(self, step: Reconciliation) -> bool:
        """Return whether the step is still wanted: the member was not fenced meanwhile."""
        return self._step is step and self.state is MemberState.RECONCILING

    def reconciled(self, step: Reconciliation) -> None:
        """The caller has the partitions of the step, unless it is not current any more."""
        if self.is_current(step):
            self._owned = step.assignment
            self._names = {topic_id: self._names[topic_id] for topic_id in step.assignment}
            self._move(MemberState.ACKNOWLEDGING)
        self._step = None

    def released(self) -> None:
        """The caller has dropped all partitions after the member was fenced."""
        self._target, self._owned, self._step = {}, None, None
        if self.state is MemberState.FENCED:
            self._move(MemberState.JOINING)

    def _named(self, assignment: Assignment) -> frozenset[TopicPartition]:
        return frozenset(
            TopicPartition(self._names[topic_id], partition)
            for topic_id, partitions in assignment.items()
            for partition in partitions
        )
