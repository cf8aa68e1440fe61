"""Builds one PartitionChangeRecord: the leader, the ISR and, with ELR, the other eligible leaders.

Eligible leader replicas (KIP-966): while a partition has fewer in-sync replicas than min.insync.replicas,
the replicas that left are stored as ELR. Each of them has all committed data, so one may lead when the ISR is
empty, and only then. ``last_known_elr`` stores the last leader of a partition that lost all replicas: when
ELR is empty, electing it may lose data but is the best remaining choice, so it counts as unclean.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from enum import Enum

from barnabas.common.uuid import Uuid
from barnabas.metadata.image.partition_registration import (
    NO_LEADER,
    NO_LEADER_CHANGE,
    LeaderRecoveryState,
    PartitionRegistration,
)
from barnabas.metadata.image.record_writer import ApiMessageAndVersion
from barnabas.metadata.metadata_version import MetadataVersion
from barnabas.protocol.records.partition_change_record import PartitionChangeRecord

__all__ = ["Election", "PartitionChangeBuilder"]


class Election(Enum):
    PREFERRED = "preferred"
    """The first replica if it can lead; else any replica that can."""
    ONLINE = "online"
    """The present leader if it can lead; else the first replica that can."""
    UNCLEAN = "unclean"
    """As ONLINE, and if no replica can lead, the first live one, in sync or not."""


class PartitionChangeBuilder:
    """Set the targets, then ``build``. Fields without a target stay unchanged."""

    def __init__(
        self,
        partition: PartitionRegistration,
        topic_id: Uuid,
        partition_id: int,
        *,
        is_acceptable_leader: Callable[[int], bool],
        metadata_version: MetadataVersion,
        min_isr: int,
        is_elr_enabled: bool = False,
    ) -> None:
        self._partition = partition
        self._topic_id = topic_id
        self._partition_id = partition_id
        self._is_acceptable_leader = is_acceptable_leader
        self._metadata_version = metadata_version
        self._min_isr = min_isr
        self._is_elr_enabled = is_elr_enabled
        self.election = Election.ONLINE
        self.target_isr: list[int] = list(partition.isr)
        self.target_replicas: list[int] = list(partition.replicas)
        self.target_adding: list[int] = list(partition.adding_replicas)
        self.target_removing: list[int] = list(partition.removing_replicas)
        self.target_recovery_state: int = partition.leader_recovery_state
        self.target_directories: list[Uuid] = list(partition.directories)
        self.unclean_shutdown_replicas: Collection[int] = ()
        self._target_elr: list[int] = list(partition.elr)

    def build(self) -> ApiMessageAndVersion | None:
        """None if nothing changes."""
        record = PartitionChangeRecord(partition_id=self._partition_id, topic_id=self._topic_id)
        self._complete_reassignment()
        self._compute_elr()
        self._elect(record)
        if not self._is_elr_enabled or record.isr is not None:
            self._target_elr = []
        if self._target_elr != list(self._partition.elr):
            record.eligible_leader_replicas = list(self._target_elr)
        may_change_isr = bool(self.target_isr) or self._is_elr_enabled
        if record.isr is None and may_change_isr and self.target_isr != list(self._partition.isr):
            record.isr = list(self.target_isr)
        self._bump_leader_epoch_if_needed(record)
        self._remember_last_leader(record)
        self._set_assignment(record)
        if self.target_recovery_state != self._partition.leader_recovery_state and record.leader_recovery_state < 0:
            record.leader_recovery_state = self.target_recovery_state
        if _changes_nothing(record):
            return None
        return ApiMessageAndVersion(record, self._metadata_version.partition_record_version)

    def _complete_reassignment(self) -> None:
        """Drop the removed replicas once every added replica is in sync.

        If more are removed than added, all remaining ones must be in sync: the last copies could be among the removed.
        """
        if not self.target_adding and not self.target_removing:
            return
        remaining = [r for r in self.target_replicas if r not in self.target_removing]
        isr = [r for r in self.target_isr if r in remaining]
        awaited = set(self.target_adding) - set(self.target_removing)  # Kafka may write some as both.
        if len(self.target_removing) > len(self.target_adding):
            awaited |= set(remaining)
        if not isr or not awaited <= set(isr):
            return
        self.target_directories = [
            directory
            for replica, directory in zip(self.target_replicas, self.target_directories, strict=True)
            if replica in remaining
        ]
        self.target_replicas, self.target_isr = remaining, isr
        self.target_adding, self.target_removing = [], []

    def _compute_elr(self) -> None:
        if not self._is_elr_enabled:
            return
        if len(self.target_isr) >= self._min_isr:
            self._target_elr = []
            return
        candidates = {*self._target_elr, *self._partition.isr}
        self._target_elr = sorted(candidates - {*self.target_isr, *self.unclean_shutdown_replicas})

    def _elect(self, record: PartitionChangeRecord) -> None:
        leader, is_unclean = self._choose_leader()
        if leader == self._partition.leader:
            return
        record.leader = leader
        if is_unclean:
            # Only the new leader's log counts now.
            record.isr = [leader]
            if self._partition.leader_recovery_state != LeaderRecoveryState.RECOVERING:
                record.leader_recovery_state = int(LeaderRecoveryState.RECOVERING)
        elif leader in self._target_elr:
            self.target_isr = [leader]
            self._target_elr = [r for r in self._target_elr if r != leader]

    def _choose_leader(self) -> tuple[int, bool]:
        present = self._partition.leader
        order: Sequence[int] = [present, *self.target_replicas]
        if self.election == Election.PREFERRED and self.target_replicas:
            order = [self.target_replicas[0], present, *self.target_replicas[1:]]
        candidates = self.target_isr
        if not candidates:  # Also if ELR was disabled since: no leader has written anything without them.
            candidates = [r for r in self._target_elr if r in self.target_replicas]
        for replica in order:
            if replica in candidates and self._is_acceptable_leader(replica):
                return replica, False
        if self._can_elect_last_known_leader():
            return self._partition.last_known_elr[0], True
        if self.election == Election.UNCLEAN:
            for replica in self.target_replicas:
                if self._is_acceptable_leader(replica):
                    return replica, True
        return NO_LEADER, False

    def _can_elect_last_known_leader(self) -> bool:
        if not self._is_elr_enabled or self._target_elr or len(self._partition.last_known_elr) != 1:
            return False
        return self._is_acceptable_leader(self._partition.last_known_elr[0])

    def _bump_leader_epoch_if_needed(self, record: PartitionChangeRecord) -> None:
        """A removed replica must not be able to continue fetching in the same leader epoch."""
        if record.leader != NO_LEADER_CHANGE:
            return
        loses_replica = not set(self._partition.replicas) <= set(self.target_replicas)
        shrinks_isr = record.isr is not None and not set(self._partition.isr) <= set(record.isr)
        if loses_replica or (shrinks_isr and self._metadata_version.is_leader_epoch_bump_on_isr_shrink):
            record.leader = self._partition.leader

    def _remember_last_leader(self, record: PartitionChangeRecord) -> None:
        """Keep it only while it is a replica: Kafka's controller fails on an entry that is not assigned.

        An entry from before ELR was disabled is replaced, where Kafka keeps it: it was not the last leader.
        """
        before = self._partition
        if not set(before.last_known_elr) <= set(self.target_replicas):
            record.last_known_elr = []
        if not self._is_elr_enabled:
            return
        if record.leader == NO_LEADER and before.leader in self.target_replicas:
            if before.last_known_elr != (before.leader,):
                record.last_known_elr = [before.leader]
            return
        keeps_leader = before.leader != NO_LEADER and record.leader != NO_LEADER
        if (record.leader >= 0 or keeps_leader) and before.last_known_elr:
            record.last_known_elr = []

    def _set_assignment(self, record: PartitionChangeRecord) -> None:
        before = self._partition
        if self.target_replicas and self.target_replicas != list(before.replicas):
            record.replicas = list(self.target_replicas)
        if self.target_removing != list(before.removing_replicas):
            record.removing_replicas = list(self.target_removing)
        if self.target_adding != list(before.adding_replicas):
            record.adding_replicas = list(self.target_adding)
        directories_change = self.target_directories != list(before.directories)
        if self._metadata_version.is_directory_assignment_supported and directories_change:
            record.directories = list(self.target_directories)


def _changes_nothing(record: PartitionChangeRecord) -> bool:
    return (
        record.leader == NO_LEADER_CHANGE
        and record.leader_recovery_state < 0
        and record.isr is None
        and record.replicas is None
        and record.removing_replicas is None
        and record.adding_replicas is None
        and record.directories is None
        and record.eligible_leader_replicas is None
        and record.last_known_elr is None
    )
