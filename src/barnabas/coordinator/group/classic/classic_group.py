"""A classic consumer group: members, generation, state. It moves only as ``group_state`` allows.

Its durable state (generation, protocol, leader, members with subscriptions and assignments) is that of a
GroupMetadataValue. The state of a rebalance (members that joined, parked requests, votes) is not in the log
and is lost with the coordinator, as in Kafka. So only ``from_record`` and ``replay_assignments`` move a group to
Stable, and all earlier state is soft.

``subscribed_topics`` is None when unknown: no ``consumer`` protocol, or a subscription that can't be read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from barnabas.common.errors import ApiException, ErrorCode, invariant
from barnabas.common.steps import whole
from barnabas.coordinator.coordinator_result import CoordinatorRecord, TimerAction
from barnabas.coordinator.deferred import Deferred
from barnabas.coordinator.group import consumer_protocol
from barnabas.coordinator.group.assignor.group_spec import Steps
from barnabas.coordinator.group.classic.classic_group_member import ClassicGroupMember, Protocols
from barnabas.coordinator.group.group import CheckPartition, Group, OffsetCommitter, OffsetExpiry
from barnabas.coordinator.group.group_records import GroupMetadataRecord
from barnabas.coordinator.group.group_state import PREVIOUS_STATES, GroupState, GroupType
from barnabas.coordinator.partitioner import java_string_hash
from barnabas.coordinator.timer_queue import Timer
from barnabas.protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from barnabas.protocol.messages.sync_group import SyncGroupResponse
from barnabas.protocol.records.group_metadata_value import GroupMetadataValue, MemberMetadata

__all__ = ["ClassicGroup", "PendingTotal"]

_MEMBERS_A_STEP = 1_000


class PendingTotal:
    """The number of members, of several groups, that received an id and have not joined with it yet."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


class ClassicGroup(Group):
    group_type = GroupType.CLASSIC

    def __init__(self, group_id: str, *, now_ms: int, state: GroupState = GroupState.EMPTY) -> None:
        self.group_id = group_id
        self.state = state
        self.previous_state = GroupState.DEAD
        self.state_timestamp_ms: int | None = now_ms
        """When the state was entered; None in a group loaded from an old record without this time."""
        self.generation_id = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.leader_id: str | None = None
        self.subscribed_topics: frozenset[str] | None = None
        self.new_member_added = False
        """A member joined during the initial rebalance delay, which may therefore be extended."""
        self.members: dict[str, ClassicGroupMember] = {}
        self.pending_join_members: dict[str, Timer[TimerAction]] = {}
        """Member ids sent with MEMBER_ID_REQUIRED that have not been used yet."""
        self.pending_total = PendingTotal()
        """Counters of all groups that share it."""
        self.pending_sync_members: set[str] = set()
        self.join_timer: Timer[TimerAction] | None = None
        self.sync_timer: Timer[TimerAction] | None = None
        self._static_members: dict[str, str] = {}
        self._supporters: dict[str, int] = {}
        self._awaiting_join_count = 0

    @classmethod
    def from_record(cls, group_id: str, value: GroupMetadataValue) -> ClassicGroup:
        group = cls(group_id, now_ms=0, state=GroupState.STABLE if value.members else GroupState.EMPTY)
        timestamp_ms = value.current_state_timestamp
        group.state_timestamp_ms = None if timestamp_ms == -1 else timestamp_ms
        group.generation_id = value.generation
        group.protocol_type = value.protocol_type or None
        group.protocol_name = value.protocol
        group.leader_id = value.leader
        for member in value.members:
            group.add(
                ClassicGroupMember(
                    member_id=member.member_id,
                    group_instance_id=member.group_instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    rebalance_timeout_ms=(
                        member.session_timeout if member.rebalance_timeout == -1 else member.rebalance_timeout
                    ),
                    session_timeout_ms=member.session_timeout,
                    protocol_type=value.protocol_type,
                    protocols={value.protocol or "": bytes(member.subscription)},
                    assignment=bytes(member.assignment),
                )
            )
        group.subscribed_topics = group._compute_subscribed_topics()
        return group

    @classmethod
    def of_members(
        cls, group_id: str, generation_id: int, members: Iterable[ClassicGroupMember], now_ms: int
    ) -> ClassicGroup:
        """Return a Stable group of members that use the ``consumer`` protocol; they have no assignments yet."""
        group = cls(group_id, now_ms=now_ms, state=GroupState.STABLE)
        group.generation_id = generation_id
        for member in members:
            group.add(member)
        group.protocol_name = group.select_protocol()
        group.subscribed_topics = group._compute_subscribed_topics()
        return group

    # -- state

    def transition_to(self, state: GroupState, now_ms: int) -> None:
        invariant(
            self.state in PREVIOUS_STATES[state],
            f"group {self.group_id} may not go from {self.state.value} to {state.value}",
        )
        self.previous_state = self.state
        self.state = state
        self.state_timestamp_ms = now_ms

    @property
    def is_simple(self) -> bool:
        return self.protocol_type is None and not self.members and not self.pending_join_members

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def listed_protocol_type(self) -> str:
        return self.protocol_type or ""

    @property
    def is_empty(self) -> bool:
        return self.state is GroupState.EMPTY

    @property
    def may_be_removed(self) -> bool:
        return self.state is GroupState.EMPTY and not self.pending_join_members

    @property
    def can_rebalance(self) -> bool:
        return self.state in PREVIOUS_STATES[GroupState.PREPARING_REBALANCE]

    @property
    def is_rebalancing(self) -> bool:
        return self.state in (GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE)

    @property
    def is_in_initial_delay(self) -> bool:
        return self.state is GroupState.PREPARING_REBALANCE and self.previous_state is GroupState.EMPTY

    def init_next_generation(self, now_ms: int) -> None:
        self.generation_id += 1
        self.pending_sync_members.clear()
        if self.members:
            self.protocol_name = self.select_protocol()
            self.subscribed_topics = self._compute_subscribed_topics()
            self.transition_to(GroupState.COMPLETING_REBALANCE, now_ms)
        else:
            self.protocol_name = None
            self.subscribed_topics = self._compute_subscribed_topics()
            self.transition_to(GroupState.EMPTY, now_ms)

    def replay_assignments(self, value: GroupMetadataValue, now_ms: int) -> bool:
        """Apply the leader's committed assignments; return False if the group has changed since they were decided."""
        if self.state is not GroupState.COMPLETING_REBALANCE or self.generation_id != value.generation:
            return False
        for recorded in value.members:
            member = self.members.get(recorded.member_id)
            invariant(member is not None, f"{recorded.member_id} left generation {value.generation} unnoticed")
            if member is not None:
                member.assignment = bytes(recorded.assignment)
        self.transition_to(GroupState.STABLE, now_ms)
        return True

    # -- members

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    @property
    def awaiting_join_count(self) -> int:
        return self._awaiting_join_count

    @property
    def has_all_members_joined(self) -> bool:
        return len(self.members) == self._awaiting_join_count and not self.pending_join_members

    def is_leader(self, member_id: str) -> bool:
        return self.leader_id is not None and self.leader_id == member_id

    def static_member_id(self, group_instance_id: str) -> str | None:
        return self._static_members.get(group_instance_id)

    def not_yet_rejoined(self) -> Iterator[ClassicGroupMember]:
        return (member for member in list(self.members.values()) if member.awaiting_join is None)

    def add(self, member: ClassicGroupMember, parked: Deferred[JoinGroupResponse] | None = None) -> None:
        if not self.members:
            self.protocol_type = member.protocol_type or None
        if self.leader_id is None:
            self.leader_id = member.member_id
        invariant(member.member_id not in self.members, f"member {member.member_id} is in the group already")
        self.members[member.member_id] = member
        if member.group_instance_id is not None:
            self._static_members[member.group_instance_id] = member.member_id
        self._count_support(member.protocols, 1)
        if parked is not None:
            member.awaiting_join = parked
            self._awaiting_join_count += 1
        member.session_timer = self.pending_join_members.get(member.member_id)
        self.forget_pending(member.member_id)

    def remove(self, member_id: str) -> ClassicGroupMember | None:
        """Remove a member (or a pending one). The caller must first answer its parked requests."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self._count_support(member.protocols, -1)
            if member.awaiting_join is not None:
                self._awaiting_join_count -= 1
            if member.group_instance_id is not None:
                self._static_members.pop(member.group_instance_id, None)
            if member.session_timer is not None:
                member.session_timer.cancel()
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        self.forget_pending(member_id)
        self.pending_sync_members.discard(member_id)
        return member

    def add_pending(self, member_id: str, timer: Timer[TimerAction], total: PendingTotal) -> None:
        """Add a member that received an id and must join with it; ``timer`` expires it."""
        self.pending_total = total
        if member_id not in self.pending_join_members:
            total.count += 1
        self.pending_join_members[member_id] = timer

    def forget_pending(self, member_id: str) -> bool:
        """Remove a pending member; return whether it was pending."""
        timer = self.pending_join_members.pop(member_id, None)
        if timer is None:
            return False
        timer.cancel()
        self.pending_total.count -= 1
        return True

    def replace_static_member(self, old_member_id: str, new_member_id: str) -> ClassicGroupMember:
        """Assign a new id to a static member, in the same place; a client that still uses the old id receives
        FENCED_INSTANCE_ID."""
        old = self.members[old_member_id]
        self.answer_join(
            old, JoinGroupResponse(error_code=ErrorCode.FENCED_INSTANCE_ID, member_id=old_member_id, protocol_name=None)
        )
        old.answer_sync(SyncGroupResponse(error_code=ErrorCode.FENCED_INSTANCE_ID))
        if old.session_timer is not None:
            old.session_timer.cancel()
        new = ClassicGroupMember(
            member_id=new_member_id,
            group_instance_id=old.group_instance_id,
            client_id=old.client_id,
            client_host=old.client_host,
            rebalance_timeout_ms=old.rebalance_timeout_ms,
            session_timeout_ms=old.session_timeout_ms,
            protocol_type=old.protocol_type,
            protocols=old.protocols,
            assignment=old.assignment,
        )
        self.members = {
            (new_member_id if member_id == old_member_id else member_id): (new if member is old else member)
            for member_id, member in self.members.items()
        }
        if self.leader_id == old_member_id:
            self.leader_id = new_member_id
        self.pending_sync_members.discard(old_member_id)
        invariant(old.group_instance_id is not None, f"member {old_member_id} is not static")
        if old.group_instance_id is not None:
            self._static_members[old.group_instance_id] = new_member_id
        return new

    def update(
        self,
        member: ClassicGroupMember,
        protocols: Protocols,
        *,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        parked: Deferred[JoinGroupResponse] | None,
    ) -> None:
        """Apply the JoinGroup of a known member. An older JoinGroup that is still parked must retry."""
        self._count_support(member.protocols, -1)
        member.protocols = protocols
        self._count_support(protocols, 1)
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms
        superseded = member.awaiting_join
        if superseded is not None and parked is not superseded:
            self.answer_join(
                member, JoinGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS, member_id=member.member_id)
            )
        if parked is not None and member.awaiting_join is None:
            member.awaiting_join = parked
            self._awaiting_join_count += 1

    def answer_join(self, member: ClassicGroupMember, response: JoinGroupResponse) -> bool:
        """Answer the parked JoinGroup of a member of this group, if there is one."""
        parked = self.take_join(member)
        if parked is None:
            return False
        parked.complete(response)
        return True

    def take_join(self, member: ClassicGroupMember) -> Deferred[JoinGroupResponse] | None:
        """Return the parked JoinGroup of a member of this group, if any, for the caller to answer."""
        parked, member.awaiting_join = member.awaiting_join, None
        if parked is None:
            return None
        self._awaiting_join_count -= 1
        return None if parked.is_complete else parked  # By the failure of its write.

    def validate_member(self, member_id: str, group_instance_id: str | None) -> ClassicGroupMember:
        """Return the member of a request; raises UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID for a replaced static one."""
        if group_instance_id is not None:
            current = self._static_members.get(group_instance_id)
            if current is None:
                raise ApiException(ErrorCode.UNKNOWN_MEMBER_ID)
            if current != member_id:
                raise ApiException(ErrorCode.FENCED_INSTANCE_ID)
        member = self.members.get(member_id)
        if member is None:
            raise ApiException(ErrorCode.UNKNOWN_MEMBER_ID)
        return member

    def maybe_elect_new_joined_leader(self) -> bool:
        """Ensure that the leader is a member that has joined; return False if no member has."""
        if self.leader_id is None:
            return False
        if self.members[self.leader_id].awaiting_join is not None:
            return True
        for member in self.members.values():
            if member.awaiting_join is not None:
                self.leader_id = member.member_id
                return True
        return False

    # -- protocols

    @property
    def uses_consumer_protocol(self) -> bool:
        return self.protocol_type == consumer_protocol.PROTOCOL_TYPE

    def supports_protocols(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Return whether a joining member has the group's type and a protocol that all members support."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type) and any(True for _ in names)
        if self.protocol_type != protocol_type:
            return False
        member_count = len(self.members)
        return any(self._supporters.get(name, 0) == member_count for name in names)

    def select_protocol(self) -> str:
        """Return the candidate with most votes. Ties are decided by the order of Kafka's hash map: by bucket."""
        invariant(self.members, f"group {self.group_id} does not have a member to select a protocol")
        member_count = len(self.members)
        candidates = {name for name, count in self._supporters.items() if count == member_count}
        if len(candidates) == 1:
            return candidates.pop()
        votes: dict[str, int] = {}
        for member in self.members.values():
            choice = member.vote(candidates)
            votes[choice] = votes.get(choice, 0) + 1
        return min(votes, key=lambda name: (-votes[name], _hash_bucket(name)))

    def is_subscribed_to(self, topic: str) -> bool:
        if self.subscribed_topics is None:
            return self.uses_consumer_protocol
        return topic in self.subscribed_topics

    # -- offsets and removal

    def validate_offset_commit(self, committer: OffsetCommitter) -> CheckPartition | None:
        if self.state is GroupState.DEAD:
            raise ApiException(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if committer.epoch < 0 and self.state is GroupState.EMPTY:
            return None
        if committer.epoch >= 0 or committer.member_id or committer.instance_id is not None:
            self.validate_member(committer.member_id, committer.instance_id)
            if committer.epoch != self.generation_id:
                raise ApiException(ErrorCode.ILLEGAL_GENERATION)
        elif not committer.is_transactional and self.state is not GroupState.EMPTY:
            raise ApiException(ErrorCode.UNKNOWN_MEMBER_ID)
        if not committer.is_transactional and self.state is GroupState.COMPLETING_REBALANCE:
            # The member knows the generation but not yet its assignment: let it sync first.
            raise ApiException(ErrorCode.REBALANCE_IN_PROGRESS)
        return None

    def validate_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Every caller may read the offsets of a classic group."""

    def validate_offset_delete(self) -> None:
        if self.state is not GroupState.EMPTY and not self.uses_consumer_protocol:
            raise ApiException(ErrorCode.NON_EMPTY_GROUP)

    def validate_delete(self) -> None:
        if self.state is not GroupState.EMPTY:
            raise ApiException(ErrorCode.NON_EMPTY_GROUP)

    def offset_expiry(self) -> OffsetExpiry | None:
        if self.protocol_type is None:
            return OffsetExpiry(since_ms=None)
        if self.state is GroupState.EMPTY:
            return OffsetExpiry(self.state_timestamp_ms)
        if self.state is GroupState.STABLE and self.uses_consumer_protocol and self.subscribed_topics is not None:
            return OffsetExpiry(since_ms=None)
        return None

    def tombstones(self) -> list[CoordinatorRecord]:
        return [GroupMetadataRecord(self.group_id, None)]

    def _count_support(self, protocols: Iterable[str], change: int) -> None:
        supporters = self._supporters
        for name in protocols:
            count = supporters.get(name, 0) + change
            if count:
                supporters[name] = count
            else:
                supporters.pop(name, None)

    def _compute_subscribed_topics(self) -> frozenset[str] | None:
        if not self.uses_consumer_protocol:
            return None
        if not self.members:
            return frozenset()
        name = self.protocol_name
        if name is None:
            return None
        return consumer_protocol.subscribed_topics(member.protocols[name] for member in self.members.values())

    # -- views for callers

    def current_join_members(self) -> list[JoinGroupResponseMember]:
        name = self.protocol_name
        invariant(name is not None, f"group {self.group_id} does not have a protocol yet")
        return [
            JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                metadata=member.protocols[name or ""],
            )
            for member in self.members.values()
        ]

    def to_record_value(self, assignments: Mapping[str, bytes]) -> GroupMetadataValue:
        """Return the group's value to commit. The state timestamp is when the group entered its present state."""
        return whole(self.to_record_value_in_steps(assignments))

    def to_record_value_in_steps(self, assignments: Mapping[str, bytes]) -> Steps[GroupMetadataValue]:
        """Return the same in steps of a few milliseconds. The members must not change meanwhile."""
        value = self._record_value_without_members()
        for member in list(self.members.values()):
            value.members.append(self._member_metadata(member, assignments))
            if len(value.members) % _MEMBERS_A_STEP == 0:
                yield
        return value

    def _record_value_without_members(self) -> GroupMetadataValue:
        return GroupMetadataValue(
            protocol_type=self.protocol_type or "",
            generation=self.generation_id,
            protocol=self.protocol_name,
            leader=self.leader_id,
            current_state_timestamp=-1 if self.state_timestamp_ms is None else self.state_timestamp_ms,
        )

    def _member_metadata(self, member: ClassicGroupMember, assignments: Mapping[str, bytes]) -> MemberMetadata:
        return MemberMetadata(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout=member.rebalance_timeout_ms,
            session_timeout=member.session_timeout_ms,
            subscription=member.protocols[self.protocol_name or ""],
            assignment=assignments.get(member.member_id, b""),
        )


def _hash_bucket(name: str) -> int:
    hashed = java_string_hash(name) & 0xFFFFFFFF
    return (hashed ^ hashed >> 16) & 15
