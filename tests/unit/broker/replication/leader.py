"""A leader's replica on a log that consists only of numbers, in virtual time."""

from __future__ import annotations

from typing import NamedTuple

from barnabas.broker.replication.leader_replica import IsrStats, LeaderReplica
from barnabas.broker.replication.partition_leadership import CommittedState, IsrProposal, LeadershipContext
from barnabas.broker.replication.replica_state import FollowerContact
from barnabas.common.errors import ErrorCode
from barnabas.common.topic_partition import TopicPartition
from barnabas.common.uuid import Uuid
from barnabas.metadata.image.cluster import BrokerRegistration, ClusterImage
from barnabas.metadata.image.partition_registration import DIRECTORY_UNASSIGNED, PartitionRegistration

LAG_MS = 30_000
EPOCHS = {1: 101, 2: 102, 3: 103}
"""Broker epochs."""


def broker(
    broker_id: int, *, fenced: bool = False, leaving: bool = False, epoch: int | None = None
) -> BrokerRegistration:
    return BrokerRegistration(
        id=broker_id,
        epoch=EPOCHS[broker_id] if epoch is None else epoch,
        incarnation_id=Uuid.from_int(broker_id),
        listeners={},
        features={},
        rack=None,
        fenced=fenced,
        in_controlled_shutdown=leaving,
    )


def cluster(*brokers: BrokerRegistration) -> ClusterImage:
    """Three brokers, some of them in another state."""
    return ClusterImage(
        {broker_id: broker(broker_id) for broker_id in EPOCHS} | {state.id: state for state in brokers}, {}
    )


def registration(
    *isr: int, leader: int = 1, leader_epoch: int = 5, partition_epoch: int = 10, replicas: tuple[int, ...] = (1, 2, 3)
) -> PartitionRegistration:
    return PartitionRegistration(
        replicas=replicas,
        directories=(DIRECTORY_UNASSIGNED,) * len(replicas),
        isr=isr or replicas,
        leader=leader,
        leader_epoch=leader_epoch,
        partition_epoch=partition_epoch,
    )


class Settings(NamedTuple):
    min_insync_replicas: int = 1


class NumberLog:
    def __init__(self, end: int = 0, high_watermark: int = 0, min_insync_replicas: int = 1) -> None:
        self.log_start_offset = 0
        self.log_end_offset = end
        self.high_watermark = high_watermark
        self.config = Settings(min_insync_replicas)
        self.epoch_starts: list[tuple[int, int]] = []

    def maybe_advance_high_watermark(self, offset: int) -> bool:
        offset = min(offset, self.log_end_offset)
        if offset <= self.high_watermark:
            return False
        self.high_watermark = offset
        return True

    def assign_epoch_start(self, leader_epoch: int) -> None:
        self.epoch_starts.append((leader_epoch, self.log_end_offset))


class Partition:
    def __init__(self, log: NumberLog) -> None:
        self.topic_partition = TopicPartition("orders", 0)
        self.topic_id = Uuid.from_int(7)
        self.isr_count = 0
        self.log_or_none: NumberLog | None = log
        self.committed_bytes: list[int] = []

    def notify(self, appended_bytes: int) -> None:
        self.committed_bytes.append(appended_bytes)


class Leader:
    """Broker 1 leads for 2 and 3."""

    def __init__(
        self,
        log: NumberLog | None = None,
        *,
        state: PartitionRegistration | None = None,
        process_epoch: int = EPOCHS[1],
    ) -> None:
        self.log = log or NumberLog()
        self.partition = Partition(self.log)
        self.now_ms = 1_000_000
        self.stats = IsrStats()
        self.proposals: list[IsrProposal] = []
        self.context = LeadershipContext(
            broker_id=1, broker_epoch=lambda: process_epoch, cluster=cluster(), replica_lag_time_max_ms=LAG_MS
        )
        self.replica = LeaderReplica(
            self.partition,
            state or registration(),
            self.context,
            submit=lambda _, proposal: self.proposals.append(proposal),
            stats=self.stats,
            now_ms=self.now_ms,
        )

    @property
    def high_watermark(self) -> int:
        return self.log.high_watermark

    def append(self, count: int = 1, size: int = 100) -> None:
        self.replica.about_to_append(self.log.log_end_offset)
        self.log.log_end_offset += count
        self.replica.appended(size, self.now_ms)

    def fetch(
        self,
        broker_id: int,
        offset: int,
        *,
        epoch: int | None = None,
        contact: FollowerContact | None = None,
        epoch_of_leader: int = 5,
    ) -> None:
        self.replica.follower_fetched(
            self.replica.follower(broker_id, epoch_of_leader),
            log_end_offset=offset,
            log_start_offset=0,
            broker_epoch=EPOCHS[broker_id] if epoch is None else epoch,
            now_ms=self.now_ms,
            contact=contact,
        )

    def wait(self, offset: int) -> list[ErrorCode]:
        outcomes: list[ErrorCode] = []
        self.replica.wait_for(offset, outcomes.append)
        return outcomes

    def accept(self, *isr: int, proposal: IsrProposal | None = None, partition_epoch: int | None = None) -> None:
        """Let the controller accept a proposal, by default the last."""
        taken = proposal or self.proposals[-1]
        state = CommittedState(
            1,
            taken.leader_epoch,
            isr or taken.members,
            taken.partition_epoch + 1 if partition_epoch is None else partition_epoch,
        )
        self.replica.isr_changed(taken, state, self.now_ms)

    def refuse(self, error: ErrorCode) -> None:
        self.replica.isr_refused(self.proposals[-1], error, self.now_ms)

    def check(self) -> None:
        self.replica.check_isr(self.now_ms)
