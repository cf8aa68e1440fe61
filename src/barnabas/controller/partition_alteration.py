"""Applies brokers' reports about their partitions: ISRs from leaders, directories from all replicas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.uuid import Uuid
from barnabas.controller import partition_walk
from barnabas.controller.cluster_control_manager import ClusterControlManager
from barnabas.controller.controller_result import ControllerResult
from barnabas.controller.controller_state import ControllerState
from barnabas.controller.decision_turns import Turns
from barnabas.controller.partition_election import PartitionElection
from barnabas.controller.partition_walk import PartitionOf
from barnabas.metadata.image.partition_registration import (
    DIRECTORY_LOST,
    NO_LEADER,
    NO_LEADER_CHANGE,
    LeaderRecoveryState,
    PartitionRegistration,
)
from barnabas.metadata.image.record_writer import ApiMessageAndVersion
from barnabas.protocol.records.partition_change_record import PartitionChangeRecord

__all__ = ["ANY_EPOCH", "IsrChange", "PartitionAlteration", "PartitionState"]

ANY_EPOCH = -1


class IsrChange(NamedTuple):
    """The ISR that a leader proposes, each member with the broker epoch that it knows (-1: don't check)."""

    topic_id: Uuid
    partition_id: int
    leader_epoch: int
    partition_epoch: int
    isr: Sequence[tuple[int, int]]
    leader_recovery_state: int


class PartitionState(NamedTuple):
    """The answer for one partition: an error, or its state after the change."""

    error: ErrorCode
    partition: PartitionRegistration | None = None


class PartitionAlteration:
    def __init__(
        self,
        state: ControllerState,
        cluster: ClusterControlManager,
        election: PartitionElection,
    ) -> None:
        self._state = state
        self._cluster = cluster
        self._election = election

    def alter_partitions(
        self, broker_id: int, broker_epoch: int, changes: Sequence[IsrChange]
    ) -> Turns[list[PartitionState]]:
        """Each partition succeeds or fails on its own; raises STALE_BROKER_EPOCH for the whole request."""
        self._cluster.check_broker_epoch(broker_id, broker_epoch)
        records: list[ApiMessageAndVersion] = []
        states: list[PartitionState] = []
        for number, change in enumerate(changes, start=1):
            if number % partition_walk.PARTITIONS_A_TURN == 0:
                yield ControllerResult(records, None, is_atomic=False)
                records = []
                self._cluster.check_broker_epoch(broker_id, broker_epoch)
            states.append(self._alter(broker_id, change, records))
        return ControllerResult(records, states, is_atomic=False)

    def _alter(self, broker_id: int, change: IsrChange, records: list[ApiMessageAndVersion]) -> PartitionState:
        topic = self._state.image.topics.by_id.get(change.topic_id)
        if topic is None:
            return PartitionState(ErrorCode.UNKNOWN_TOPIC_ID)
        partition = topic.partitions.get(change.partition_id)
        if partition is None:
            return PartitionState(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        error = self._reason_against(broker_id, partition, change)
        if error != ErrorCode.NONE:
            return PartitionState(error)
        builder = self._election.builder_for(
            topic, change.partition_id, partition, self._cluster.is_active, may_be_unclean=True
        )
        builder.target_isr = [replica for replica, _ in change.isr]
        builder.target_recovery_state = change.leader_recovery_state
        record = builder.build()
        if record is not None:
            records.append(record)
            message: PartitionChangeRecord = record.message
            partition = partition.merge(message)
            if message.leader not in (NO_LEADER_CHANGE, broker_id):
                # The change completed a reassignment, which removed the leadership of the requesting broker.
                return PartitionState(ErrorCode.NEW_LEADER_ELECTED)
        return PartitionState(ErrorCode.NONE, partition)

    def _reason_against(self, broker_id: int, partition: PartitionRegistration, change: IsrChange) -> ErrorCode:
        if change.leader_epoch > partition.leader_epoch or change.partition_epoch > partition.partition_epoch:
            return ErrorCode.NOT_CONTROLLER  # The broker's state is newer than ours.
        if change.leader_epoch < partition.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if broker_id != partition.leader:
            return ErrorCode.INVALID_REQUEST
        if change.partition_epoch < partition.partition_epoch:
            return ErrorCode.INVALID_UPDATE_VERSION
        isr = [replica for replica, _ in change.isr]
        if len(set(isr)) != len(isr) or not set(isr) <= set(partition.replicas) or partition.leader not in isr:
            return ErrorCode.INVALID_REQUEST
        recovers = change.leader_recovery_state == LeaderRecoveryState.RECOVERING
        if recovers and (len(isr) > 1 or partition.leader_recovery_state == LeaderRecoveryState.RECOVERED):
            return ErrorCode.INVALID_REQUEST
        if not all(self._is_eligible(partition, replica, epoch) for replica, epoch in change.isr):
            return ErrorCode.INELIGIBLE_REPLICA
        return ErrorCode.NONE

    def _is_eligible(self, partition: PartitionRegistration, replica: int, epoch: int) -> bool:
        """A leader may rely on a fetch that was in flight when the replica's disk failed; Kafka accepts its report."""
        broker = self._state.image.cluster.brokers.get(replica)
        if broker is None or not self._cluster.is_active(replica) or epoch not in (ANY_EPOCH, broker.epoch):
            return False
        return self._cluster.has_online_directory(replica, partition.directory_of(replica))

    def assign_replicas_to_directories(
        self, broker_id: int, broker_epoch: int, directories: Mapping[tuple[Uuid, int], Uuid]
    ) -> Turns[dict[tuple[Uuid, int], ErrorCode]]:
        """Assign the directory of the broker's replica of each (topic id, partition)."""
        broker = self._cluster.check_broker_epoch(broker_id, broker_epoch)
        if not self._state.image.features.metadata_version_or_throw().is_directory_assignment_supported:
            raise ApiException(ErrorCode.UNSUPPORTED_VERSION, "Directory assignment is not supported yet.")
        records: list[ApiMessageAndVersion] = []
        results: dict[tuple[Uuid, int], ErrorCode] = {}
        offline: list[PartitionOf] = []
        for number, (key, directory) in enumerate(directories.items(), start=1):
            if number % partition_walk.PARTITIONS_A_TURN == 0:
                records.extend(self._election.directories_are_unknown(broker.id, offline))
                yield ControllerResult(records, None, is_atomic=False)
                records, offline = [], []
                broker = self._cluster.check_broker_epoch(broker_id, broker_epoch)
            topic = self._state.image.topics.by_id.get(key[0])
            partition = None if topic is None else topic.partitions.get(key[1])
            if topic is None:
                results[key] = ErrorCode.UNKNOWN_TOPIC_ID
            elif partition is None:
                results[key] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif broker.id not in partition.replicas:
                results[key] = ErrorCode.NOT_LEADER_OR_FOLLOWER
            else:
                results[key] = ErrorCode.NONE
                records.extend(self._assignment((topic, key[1], partition), broker.id, directory))
                if not self._cluster.has_online_directory(broker.id, directory):
                    offline.append((topic, key[1], partition))
        records.extend(self._election.directories_are_unknown(broker.id, offline))
        return ControllerResult(records, results, is_atomic=False)

    def _assignment(self, of: PartitionOf, broker_id: int, directory: Uuid) -> list[ApiMessageAndVersion]:
        partition = of[2]
        if partition.directory_of(broker_id) == directory:
            return []
        # An abandoned replica may be the only one left: then it leads again, where Kafka waits for an election.
        is_back = partition.leader == NO_LEADER and partition.directory_of(broker_id) == DIRECTORY_LOST
        moved = {broker_id: directory} if is_back else {}
        builder = self._election.builder_for(*of, self._cluster.is_active, moved=moved)
        builder.target_directories[partition.replicas.index(broker_id)] = directory
        record = builder.build()
        return [] if record is None else [record]
