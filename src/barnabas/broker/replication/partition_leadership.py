"""Decides a partition leader's high watermark and ISR.

The high watermark is the least log end of the maximal ISR: the committed ISR, and replicas proposed to join it. A
proposal may be committed before the leader learns of it, so a record counts as committed only if every replica that
could then be elected has it. The high watermark also waits for a caught-up replica that is about to join. Otherwise the
replica could never join while records arrive.

One proposal is in flight at a time. It ends with the controller's answer or with a newer state from the metadata log,
whichever is first. Each applies only if it is not older than the known state.
"""

from __future__ import annotations

from enum import Enum, auto
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from barnabas.broker.replication.replica_state import ANY_BROKER_EPOCH, ReplicaState
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.metadata.image.partition_registration import LeaderRecoveryState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from barnabas.broker.replication.replica_state import FollowerContact
    from barnabas.metadata.image.cluster import ClusterImage
    from barnabas.metadata.image.partition_registration import PartitionRegistration

__all__ = ["CommittedState", "IsrProposal", "LeadershipContext", "PartitionLeadership", "ProposalKind"]

_UNDO = frozenset({ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA})
"""The controller's refusal is final: the committed ISR applies, and another proposal is possible."""
_WAIT_FOR_THE_LOG = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
    }
)
"""The controller knows a newer state, which the metadata log will deliver."""


class LeadershipContext:
    """State shared by all partitions that a broker leads. ``cluster`` and the time limit change while it runs."""

    __slots__ = ("broker_epoch", "broker_id", "cluster", "replica_lag_time_max_ms")

    def __init__(
        self,
        *,
        broker_id: int,
        broker_epoch: Callable[[], int],
        cluster: ClusterImage,
        replica_lag_time_max_ms: int,
    ) -> None:
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch
        self.cluster = cluster
        self.replica_lag_time_max_ms = replica_lag_time_max_ms

    @property
    def is_known(self) -> bool:
        """Whether the metadata has reached the registration of this process.

        A broker that starts replays its earlier leaderships and their ISRs; other brokers may have led since.
        """
        broker = self.cluster.broker(self.broker_id)
        return broker is not None and broker.epoch == self.broker_epoch()

    def may_join(self, replica: ReplicaState, registration: PartitionRegistration) -> bool:
        """Return whether the broker and its log directory are active, and the fetching process is the registered one.

        The records that a replica had fetched are lost when its log directory fails.
        """
        broker = self.cluster.broker(replica.broker_id)
        return (
            broker is not None
            and broker.is_active
            and replica.broker_epoch in (ANY_BROKER_EPOCH, broker.epoch)
            and broker.has_online_directory(registration.directory_of(replica.broker_id))
        )

    def check_is_current(self, replica_id: int, broker_epoch: int) -> None:
        """Raise NOT_LEADER_OR_FOLLOWER for a broker process that a newer one has replaced."""
        broker = self.cluster.broker(replica_id)
        if broker is not None and not broker.fenced and ANY_BROKER_EPOCH != broker_epoch < broker.epoch:
            raise ApiException(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"Received stale fetch state update. broker epoch={broker_epoch} vs expected={broker.epoch}",
            )


class ProposalKind(Enum):
    EXPAND = auto()
    SHRINK = auto()


class IsrProposal(NamedTuple):
    """A proposal for the controller, with the epochs that it is based on."""

    kind: ProposalKind
    isr: tuple[tuple[int, int], ...]
    """(broker id, broker epoch) of each member; -1 for an unknown epoch."""
    leader_epoch: int
    partition_epoch: int
    leader_recovery_state: int

    @property
    def members(self) -> tuple[int, ...]:
        return tuple(broker_id for broker_id, _ in self.isr)


class CommittedState(NamedTuple):
    """A partition's state in the controller's answer."""

    leader_id: int
    leader_epoch: int
    isr: tuple[int, ...]
    partition_epoch: int
    leader_recovery_state: int = LeaderRecoveryState.RECOVERED


@lru_cache(maxsize=4_096)
def _members(isr: tuple[int, ...]) -> frozenset[int]:
    """Return a set of members. It is cached, because thousands of partitions have the same few brokers."""
    return frozenset(isr)


class PartitionLeadership:
    """``replicas`` has all replicas except the leader's own."""

    __slots__ = (
        "committed_ms",
        "context",
        "epoch_start_offset",
        "is_incomplete",
        "isr",
        "leader_epoch",
        "leader_recovery_state",
        "maximal_isr",
        "partition_epoch",
        "proposal",
        "registration",
        "replicas",
    )

    def __init__(
        self, context: LeadershipContext, registration: PartitionRegistration, *, log_end_offset: int, now_ms: int
    ) -> None:
        self.context = context
        self.replicas: dict[int, ReplicaState] = {}
        self.leader_epoch = registration.leader_epoch
        self.partition_epoch = -1
        self.registration = registration
        self.epoch_start_offset = log_end_offset
        self.committed_ms = now_ms
        """The time at which the ISR last changed or became free to change."""
        self.isr = _members(())
        self.maximal_isr = self.isr
        self.is_incomplete = False
        """Whether some replicas are out of sync."""
        self.proposal: IsrProposal | None = None
        self.leader_recovery_state = int(LeaderRecoveryState.RECOVERED)
        self.update(registration, log_end_offset=log_end_offset, now_ms=now_ms)
        for broker_id, replica in self.replicas.items():
            replica.last_caught_up_ms = now_ms if broker_id in self.isr else None

    def update(self, registration: PartitionRegistration, *, log_end_offset: int, now_ms: int) -> bool:
        """Apply the metadata log's state. Return False if it is older than the controller's last answer.

        A leader marked as recovering needs only the log recovery that ran when its log was opened. It reports the end
        of the recovery with the next change of its ISR.
        """
        if registration.partition_epoch < self.partition_epoch:
            return False
        self.registration = registration
        self._assign(registration.replicas)
        is_new_epoch = registration.leader_epoch != self.leader_epoch
        if registration.partition_epoch > self.partition_epoch or is_new_epoch:
            self._commit(registration.isr, now_ms)
        self.partition_epoch = registration.partition_epoch
        if is_new_epoch:
            self.leader_epoch = registration.leader_epoch
            self.epoch_start_offset = log_end_offset
            for broker_id, replica in self.replicas.items():
                replica.begin_epoch(leader_end_offset=log_end_offset, now_ms=now_ms, is_in_sync=broker_id in self.isr)
        return True

    def _assign(self, replicas: Iterable[int]) -> None:
        others = [broker_id for broker_id in replicas if broker_id != self.context.broker_id]
        if others != list(self.replicas):
            known = self.replicas
            self.replicas = {broker_id: known.get(broker_id) or ReplicaState(broker_id) for broker_id in others}
            self.is_incomplete = len(self.isr) <= len(self.replicas)

    def _commit(self, isr: Iterable[int], now_ms: int) -> None:
        self.committed_ms = now_ms
        self.isr = self.maximal_isr = _members(tuple(isr))
        self.proposal = None
        self.is_incomplete = len(self.isr) <= len(self.replicas)

    @property
    def is_reassigning(self) -> bool:
        return bool(self.registration.adding_replicas or self.registration.removing_replicas)

    @property
    def is_under_replicated(self) -> bool:
        """Whether replicas are out of sync; those that are being added do not count."""
        registration = self.registration
        return len(self.isr) < len(set(registration.replicas).difference(registration.adding_replicas))

    # State of the followers

    def follower(self, replica_id: int, current_leader_epoch: int) -> ReplicaState:
        """Return the state of a follower. Raise an error for a broker without a replica. Epoch -1 means unknown."""
        replica = self.replicas.get(replica_id)
        if replica is None:
            # With a known epoch it may know an assignment that this broker has not received yet: let it retry.
            code = ErrorCode.UNKNOWN_LEADER_EPOCH if current_leader_epoch >= 0 else ErrorCode.NOT_LEADER_OR_FOLLOWER
            raise ApiException(code, f"Broker {replica_id} is not a replica of this partition.")
        return replica

    def fetched(
        self,
        replica: ReplicaState,
        *,
        log_end_offset: int,
        log_start_offset: int,
        leader_end_offset: int,
        broker_epoch: int,
        now_ms: int,
        contact: FollowerContact | None = None,
    ) -> bool:
        """Apply a fetch. Return whether the replica's log end moved.

        Raise NOT_LEADER_OR_FOLLOWER for a broker process that was replaced.
        """
        self.context.check_is_current(replica.broker_id, broker_epoch)
        before = replica.log_end_offset
        replica.fetched(
            log_end_offset=log_end_offset,
            log_start_offset=log_start_offset,
            leader_end_offset=leader_end_offset,
            broker_epoch=broker_epoch,
            now_ms=now_ms,
            contact=contact,
        )
        return log_end_offset != before

    def leader_appends(self, leader_end_offset: int) -> None:
        """Called before each append of the leader with the log end before it."""
        for replica in self.replicas.values():
            replica.leader_appends(leader_end_offset)

    def is_followed_since(self, read_round: int) -> bool:
        """Return whether every other broker that could be elected has fetched from this broker since that round began.

        A replica that left the ISR may still be eligible. The controller's answer does not contain that; the metadata
        log does, later.
        """
        registration = self.registration
        for broker_id in self.maximal_isr.union(registration.isr, registration.elr):
            if broker_id != self.context.broker_id:
                replica = self.replicas.get(broker_id)
                if replica is None or not replica.has_followed_since(read_round):
                    return False
        return True

    # Decisions

    def required_in_sync(self, min_insync_replicas: int) -> int:
        """Return the required number of replicas in sync, at most the number of replicas."""
        return min(min_insync_replicas, len(self.replicas) + 1)

    def high_watermark(self, leader_end_offset: int, min_insync_replicas: int, now_ms: int) -> int:
        """Return the new high watermark; -1 if unknown. The caller ignores a lower one, because it never decreases."""
        if len(self.isr) < self.required_in_sync(min_insync_replicas) or not self.context.is_known:
            return -1
        offset = leader_end_offset
        for replica in self.replicas.values():
            if replica.log_end_offset < offset and (
                replica.broker_id in self.maximal_isr or self._is_about_to_join(replica, leader_end_offset, now_ms)
            ):
                offset = replica.log_end_offset
        return offset

    def _is_about_to_join(self, replica: ReplicaState, leader_end_offset: int, now_ms: int) -> bool:
        limit_ms = self.context.replica_lag_time_max_ms
        return replica.is_caught_up(leader_end_offset, now_ms, limit_ms) and self._may_join(replica)

    def _may_join(self, replica: ReplicaState) -> bool:
        return self.context.may_join(replica, self.registration)

    def low_watermark(self, log_start_offset: int) -> int:
        """Return the least log start of the live replicas: all of them have deleted the records below."""
        cluster = self.context.cluster
        starts = [replica.log_start_offset for replica in self.replicas.values() if cluster.is_alive(replica.broker_id)]
        return min(starts, default=log_start_offset) if not starts else min(*starts, log_start_offset)

    def has_caught_up(self, replica: ReplicaState, high_watermark: int) -> bool:
        """Return whether the follower has all committed records, and all records from before this leader epoch."""
        return replica.log_end_offset >= high_watermark and replica.log_end_offset >= self.epoch_start_offset

    def propose_to_expand(self, replica: ReplicaState, high_watermark: int) -> IsrProposal | None:
        """Return a proposal to add the replica; None if it may not join, or another proposal is in flight."""
        if (
            self.proposal is not None
            or replica.broker_id in self.isr
            or not self.has_caught_up(replica, high_watermark)
            or not self._may_join(replica)
        ):
            return None
        return self._propose(ProposalKind.EXPAND, self.isr | {replica.broker_id})

    def propose_to_shrink(self, leader_end_offset: int, now_ms: int) -> IsrProposal | None:
        """Return a proposal to remove lagging replicas.

        Return None if all replicas in sync have caught up within ``replica.lag.time.max.ms``, or if another proposal is
        in flight.
        """
        if self.proposal is not None:
            return None
        behind = self.out_of_sync(leader_end_offset, now_ms)
        return self._propose(ProposalKind.SHRINK, self.isr.difference(behind)) if behind else None

    def out_of_sync(self, leader_end_offset: int, now_ms: int) -> list[int]:
        limit_ms = self.context.replica_lag_time_max_ms
        return [
            broker_id
            for broker_id in sorted(self.isr)
            if broker_id != self.context.broker_id
            and not (
                broker_id in self.replicas
                and self.replicas[broker_id].is_caught_up(leader_end_offset, now_ms, limit_ms)
            )
        ]

    def _propose(self, kind: ProposalKind, members: frozenset[int]) -> IsrProposal:
        proposal = IsrProposal(
            kind,
            tuple((broker_id, self._epoch_of(broker_id)) for broker_id in sorted(members)),
            self.leader_epoch,
            self.partition_epoch,
            self.leader_recovery_state,
        )
        self.proposal = proposal
        self.maximal_isr = self.isr | members
        return proposal

    def _epoch_of(self, broker_id: int) -> int:
        if broker_id == self.context.broker_id:
            return self.context.broker_epoch()
        replica = self.replicas.get(broker_id)
        return ANY_BROKER_EPOCH if replica is None or replica.broker_epoch is None else replica.broker_epoch

    # Answers of the controller

    def accepted(self, proposal: IsrProposal, state: CommittedState, now_ms: int) -> bool:
        """Apply the controller's answer. Return False if it is outdated."""
        if (
            self.proposal is not proposal
            or state.leader_epoch != self.leader_epoch
            or state.partition_epoch < self.partition_epoch
        ):
            return False
        self._commit(state.isr, now_ms)
        self.partition_epoch = state.partition_epoch
        return True

    def refused(self, proposal: IsrProposal, error: ErrorCode, now_ms: int) -> bool:
        """Handle a refusal. Return whether to send the same proposal again."""
        if self.proposal is not proposal:
            return False
        if error in _UNDO:
            self._commit(self.isr, now_ms)
            return False
        return error not in _WAIT_FOR_THE_LOG
