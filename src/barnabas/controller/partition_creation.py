"""CreatePartitions: each topic grows or is refused on its own; all records form one atomic batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.controller.cluster_control_manager import ClusterControlManager
from barnabas.controller.controller_result import ControllerResult
from barnabas.controller.controller_state import ControllerState
from barnabas.controller.decision_steps import Pace, Steps
from barnabas.controller.mutation_quotas import UNLIMITED, MutationAllowance
from barnabas.controller.partition_assignment import (
    all_assigned_inactive,
    all_placed_inactive,
    new_partition,
    place_on,
    validate_manual_assignment,
)
from barnabas.metadata.image.partition_registration import PartitionRegistration
from barnabas.metadata.image.record_writer import ApiMessageAndVersion
from barnabas.metadata.image.topics import TopicImage
from barnabas.protocol.messages.create_partitions import CreatePartitionsTopic, CreatePartitionsTopicResult

__all__ = ["PartitionCreation"]


class PartitionCreation:
    def __init__(
        self, state: ControllerState, cluster: ClusterControlManager, *, random_int: Callable[[int], int]
    ) -> None:
        self._state = state
        self._cluster = cluster
        self._random_int = random_int

    def create_partitions(
        self,
        topics: Sequence[CreatePartitionsTopic],
        *,
        validate_only: bool,
        allowance: MutationAllowance = UNLIMITED,
    ) -> Steps[ControllerResult[list[CreatePartitionsTopicResult]]]:
        """``topics`` have distinct names."""
        records: list[ApiMessageAndVersion] = []
        results: list[CreatePartitionsTopicResult] = []
        pace = Pace()
        for topic in topics:
            if pace.is_reached():
                yield
            result = CreatePartitionsTopicResult(name=topic.name)
            try:
                records.extend((yield from self._grow(topic, allowance, pace)))
            except ApiException as error:
                result.error_code, result.error_message = int(error.code), error.message
            results.append(result)
        decided = ControllerResult(records, results)
        return decided.without_records() if validate_only else decided

    def _grow(
        self, request: CreatePartitionsTopic, allowance: MutationAllowance, pace: Pace
    ) -> Steps[list[ApiMessageAndVersion]]:
        topic = self._state.image.topics.get(request.name)
        if topic is None:
            raise ApiException(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        current = len(topic.partitions)
        additional = request.count - current
        if additional == 0:
            raise ApiException(ErrorCode.INVALID_PARTITIONS, f"Topic already has {current} partition(s).")
        if additional < 0:
            raise ApiException(
                ErrorCode.INVALID_PARTITIONS,
                f"The topic {request.name} currently has {current} partition(s); {request.count} would not be an "
                "increase.",
            )
        if additional > 10_000:
            raise ApiException(ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")
        partitions = yield from self._new_partitions(request, topic, additional, pace)
        allowance.use(additional)
        metadata_version = self._state.image.features.metadata_version_or_throw()
        version = metadata_version.partition_record_version
        records: list[ApiMessageAndVersion] = []
        for index, partition in enumerate(partitions, start=current):
            records.append(ApiMessageAndVersion(partition.to_record(topic.id, index, metadata_version), version))
            if pace.is_reached():
                yield
        return records

    def _new_partitions(
        self, request: CreatePartitionsTopic, topic: TopicImage, additional: int, pace: Pace
    ) -> Steps[list[PartitionRegistration]]:
        factor = len(topic.partitions[0].replicas)
        first = len(topic.partitions)
        partitions: list[PartitionRegistration] = []
        if request.assignments is None:
            placed = place_on(self._cluster, additional, factor, self._random_int)
            all_inactive = partial(all_placed_inactive, factor)
            for replicas in placed:
                partitions.append(new_partition(replicas, self._cluster, all_inactive))
                if pace.is_reached():
                    yield
            return partitions
        if len(request.assignments) != additional:
            raise ApiException(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Attempted to add {additional} additional partition(s), but only {len(request.assignments)} "
                "assignment(s) were specified.",
            )
        for index, assignment in enumerate(request.assignments):
            validate_manual_assignment(assignment.broker_ids, factor, self._cluster)
            inactive = partial(all_assigned_inactive, first + index)
            partitions.append(new_partition(assignment.broker_ids, self._cluster, inactive))
            if pace.is_reached():
                yield
        return partitions
