"""AlterPartitionReassignments: assigns new replicas, and cancels reassignments (KIP-455, KIP-860).

While a partition is reassigned its replicas are the old and the new ones: new ones are "adding", those to drop are
"removing". The reassignment completes when all adding replicas are in sync (``PartitionChangeBuilder``). A new target
may be set meanwhile. It is computed against all present replicas, also removing ones, as in Kafka, except in two cases:

- If the new target adds no replica, Kafka continues to wait for the earlier adding ones, even if they are to be
  removed, and never completes.
- If the new target removes none, Kafka continues to remove replicas that it should keep.
"""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.common.errors import ApiError, ApiException, ErrorCode
from barnabas.common.uuid import Uuid
from barnabas.controller import partition_walk
from barnabas.controller.cluster_control_manager import ClusterControlManager
from barnabas.controller.configuration_control_manager import ConfigurationControlManager
from barnabas.controller.controller_result import ControllerResult
from barnabas.controller.controller_state import ControllerState
from barnabas.controller.decision_turns import Turns
from barnabas.controller.partition_assignment import validate_can_replicate, validate_manual_assignment
from barnabas.controller.partition_election import PartitionElection
from barnabas.controller.reassignment_listing import LOOKS_A_STEP, ReassignmentListing, is_being_reassigned
from barnabas.metadata.image.partition_registration import PartitionRegistration
from barnabas.metadata.image.record_writer import ApiMessageAndVersion
from barnabas.metadata.image.topics import TopicImage

__all__ = ["PartitionReassignment"]

Targets = Sequence[tuple[str, Sequence[tuple[int, Sequence[int] | None]]]]
"""Reassign partitions, by topic, to their new replicas; None restores the earlier ones."""


class PartitionReassignment:
    def __init__(
        self,
        state: ControllerState,
        cluster: ClusterControlManager,
        configs: ConfigurationControlManager,
        election: PartitionElection,
    ) -> None:
        self._state = state
        self._cluster = cluster
        self._configs = configs
        self._election = election

    def alter(self, topics: Targets, *, may_change_factor: bool) -> Turns[list[tuple[str, list[tuple[int, ApiError]]]]]:
        """Each partition succeeds or fails on its own."""
        records: list[ApiMessageAndVersion] = []
        changed: set[tuple[str, int]] = set()
        outcomes = []
        number = 0
        for name, partitions in topics:
            results = []
            for index, replicas in partitions:
                error = ApiError.NONE
                number += 1
                if number % partition_walk.PARTITIONS_A_TURN == 0:
                    yield ControllerResult(records, None, is_atomic=False)
                    records = []
                try:
                    if (name, index) in changed:
                        raise ApiException(ErrorCode.INVALID_REQUEST, "The partition is named more than once.")
                    record = self._alter(name, index, replicas, may_change_factor=may_change_factor)
                    if record is not None:
                        changed.add((name, index))
                        records.append(record)
                except ApiException as exception:
                    error = ApiError.of(exception)
                results.append((index, error))
            outcomes.append((name, results))
        return ControllerResult(records, outcomes, is_atomic=False)

    def listed(self, wanted: Sequence[tuple[str, Sequence[int]]] | None) -> ReassignmentListing:
        """Return the reassignments of those partitions; None selects all."""
        listing = ReassignmentListing(self._state.committed.topics, wanted)
        while listing.advance():
            pass
        return listing

    def long_listing(self, wanted: Sequence[tuple[str, Sequence[int]]] | None) -> ReassignmentListing | None:
        """Return the same listing, not begun; None if it is short."""
        topics = self._state.committed.topics
        count = len(topics.index.reassigning) if wanted is None else sum(len(indexes) for _, indexes in wanted)
        return ReassignmentListing(topics, wanted) if count > LOOKS_A_STEP else None

    def _alter(
        self, name: str, index: int, replicas: Sequence[int] | None, *, may_change_factor: bool
    ) -> ApiMessageAndVersion | None:
        topic = self._state.image.topics.get(name)
        if topic is None:
            raise ApiException(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {name}.")
        partition = topic.partitions.get(index)
        if partition is None:
            raise ApiException(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {name}:{index}.")
        if replicas is None:
            return self._cancel(topic, index, partition)
        validate_manual_assignment(replicas, None, self._cluster)
        factor = len(set(partition.replicas) - set(partition.removing_replicas))
        if not may_change_factor and factor != len(replicas):
            raise ApiException(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"The replication factor is changed from {factor} to {len(replicas)}",
            )
        removing = sorted(set(partition.replicas) - set(replicas))
        adding = sorted(set(replicas) - set(partition.replicas))
        if adding or removing:
            before = [replica for replica in partition.replicas if replica not in partition.adding_replicas]
            validate_can_replicate(list(dict.fromkeys([*before, *replicas])), self._cluster)
        builder = self._election.builder_for(topic, index, partition, self._cluster.is_active)
        builder.target_replicas = [*replicas, *removing]
        builder.target_directories = self._directories(partition, builder.target_replicas)
        builder.target_adding = adding or [replica for replica in partition.adding_replicas if replica in replicas]
        builder.target_removing = removing
        return builder.build()

    def _cancel(self, topic: TopicImage, index: int, partition: PartitionRegistration) -> ApiMessageAndVersion | None:
        if not is_being_reassigned(partition):
            raise ApiException(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
        replicas = [replica for replica in partition.replicas if replica not in partition.adding_replicas]
        isr = [replica for replica in partition.isr if replica in replicas]
        if not isr:
            # Only replicas to be removed are in sync: records that only they have would be lost.
            if not self._configs.election_settings(topic.name).is_unclean_enabled:
                raise ApiException(
                    ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                    f"Unable to revert partition assignment for {topic.name}:{index} because it would require an "
                    "unclean leader election.",
                )
            isr = replicas[:1]
        builder = self._election.builder_for(topic, index, partition, self._cluster.is_active, may_be_unclean=True)
        builder.target_isr = isr
        builder.target_replicas = replicas
        builder.target_directories = self._directories(partition, replicas)
        builder.target_adding = []
        builder.target_removing = []
        return builder.build()

    def _directories(self, partition: PartitionRegistration, replicas: Sequence[int]) -> list[Uuid]:
        return [
            partition.directory_of(replica)
            if replica in partition.replicas
            else self._cluster.directory_for_new_replica(replica)
            for replica in replicas
        ]
