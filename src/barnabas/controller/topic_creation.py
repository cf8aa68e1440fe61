"""CreateTopics: each topic is created or refused on its own; all that are created form one atomic batch."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.uuid import Uuid
from barnabas.controller.cluster_control_manager import ClusterControlManager
from barnabas.controller.configuration_control_manager import ConfigurationControlManager
from barnabas.controller.controller_config import ControllerConfig
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
from barnabas.controller.policies import CreateTopicQuestion, NewTopic
from barnabas.controller.topic_name_validation import validate_new_topic_name
from barnabas.metadata.image.partition_registration import PartitionRegistration
from barnabas.metadata.image.record_writer import ApiMessageAndVersion
from barnabas.protocol.messages.create_topics import CreatableTopic, CreatableTopicResult
from barnabas.protocol.records.topic_record import TopicRecord

__all__ = ["TopicCreation"]

_TOO_MANY_PARTITIONS = "Excessively large number of partitions per request."


class TopicCreation:
    def __init__(
        self,
        state: ControllerState,
        config: ControllerConfig,
        cluster: ClusterControlManager,
        configs: ConfigurationControlManager,
        *,
        new_uuid: Callable[[], Uuid],
        random_int: Callable[[int], int],
    ) -> None:
        self._state = state
        self._config = config
        self._cluster = cluster
        self._configs = configs
        self._new_uuid = new_uuid
        self._random_int = random_int

    def create_topics(
        self,
        topics: Sequence[CreatableTopic],
        describable: Collection[str] | None,
        *,
        validate_only: bool,
        allowance: MutationAllowance = UNLIMITED,
    ) -> Steps[ControllerResult[list[CreatableTopicResult]]]:
        """``topics`` have distinct names; ``describable`` (None: all) are those whose configs may be returned."""
        self._validate_partition_count(topics)
        records: list[ApiMessageAndVersion] = []
        results: list[CreatableTopicResult] = []
        pace = Pace()
        for topic in topics:
            if pace.is_reached():
                yield
            try:
                may_describe = describable is None or topic.name in describable
                results.append((yield from self._create(topic, records, may_describe, allowance, pace)))
            except ApiException as error:
                results.append(
                    CreatableTopicResult(name=topic.name, error_code=int(error.code), error_message=error.message)
                )
        result = ControllerResult(records, results)
        return result.without_records() if validate_only else result

    def _validate_partition_count(self, topics: Sequence[CreatableTopic]) -> None:
        """Refuse the whole request before memory is allocated for it."""
        total = 0
        for topic in topics:
            count = topic.num_partitions
            if topic.assignments:
                count = len(topic.assignments)
            elif count == -1:
                count = self._config.num_partitions
            total += max(count, 0)
        if total > self._config.max_records_per_batch:
            raise ApiException(ErrorCode.POLICY_VIOLATION, _TOO_MANY_PARTITIONS)

    def _create(
        self,
        topic: CreatableTopic,
        records: list[ApiMessageAndVersion],
        may_describe: bool,
        allowance: MutationAllowance,
        pace: Pace,
    ) -> Steps[CreatableTopicResult]:
        topics = self._state.image.topics
        if topics.get(topic.name) is not None:
            raise ApiException(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{topic.name}' already exists.")
        validate_new_topic_name(topic.name, topics)
        creation_configs, config_records = self._configs.configs_of_new_topic(topic.name, topic.configs)
        if topic.assignments:
            partitions = yield from self._manual_partitions(topic, pace)
            counts: tuple[int | None, int | None] = (None, None)
            assignments = {index: partitions[index].replicas for index in range(len(partitions))}
        else:
            partitions = yield from self._placed_partitions(topic, pace)
            counts, assignments = (len(partitions), len(partitions[0].replicas)), {}
        policy = self._config.create_topic_policy
        if policy is not None:
            policy.check(CreateTopicQuestion(NewTopic(topic.name, *counts, assignments or None, creation_configs)))
        allowance.use(len(partitions))
        topic_id = self._new_uuid()
        records.append(ApiMessageAndVersion(TopicRecord(name=topic.name, topic_id=topic_id), 0))
        records.extend(config_records)
        metadata_version = self._state.image.features.metadata_version_or_throw()
        record_version = metadata_version.partition_record_version
        for index, partition in enumerate(partitions):
            records.append(ApiMessageAndVersion(partition.to_record(topic_id, index, metadata_version), record_version))
            if pace.is_reached():
                yield
        result = CreatableTopicResult(name=topic.name, topic_id=topic_id, error_message=None)
        if may_describe:
            result.num_partitions = len(partitions)
            result.replication_factor = len(partitions[0].replicas)
            result.configs = self._configs.described_topic_configs(creation_configs)
        else:
            result.topic_config_error_code = int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        return result

    def _manual_partitions(self, topic: CreatableTopic, pace: Pace) -> Steps[list[PartitionRegistration]]:
        if topic.replication_factor != -1:
            raise ApiException(
                ErrorCode.INVALID_REQUEST,
                "A manual partition assignment was specified, but replication factor was not set to -1.",
            )
        if topic.num_partitions != -1:
            raise ApiException(
                ErrorCode.INVALID_REQUEST,
                "A manual partition assignment was specified, but numPartitions was not set to -1.",
            )
        partitions: dict[int, PartitionRegistration] = {}
        replication_factor: int | None = None
        for assignment in topic.assignments:
            index = assignment.partition_index
            if index in partitions:
                raise _invalid_assignment(f"Found multiple manual partition assignments for partition {index}")
            validate_manual_assignment(assignment.broker_ids, replication_factor, self._cluster)
            replication_factor = len(assignment.broker_ids)
            all_inactive = partial(all_assigned_inactive, index)
            partitions[index] = new_partition(assignment.broker_ids, self._cluster, all_inactive)
            if pace.is_reached():
                yield
        if set(partitions) != set(range(len(partitions))):
            raise _invalid_assignment("partitions should be a consecutive 0-based integer sequence")
        return [partitions[index] for index in range(len(partitions))]

    def _placed_partitions(self, topic: CreatableTopic, pace: Pace) -> Steps[list[PartitionRegistration]]:
        if topic.replication_factor < -1 or topic.replication_factor == 0:
            raise ApiException(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                "Replication factor must be larger than 0, or -1 to use the default value.",
            )
        if topic.num_partitions < -1 or topic.num_partitions == 0:
            raise ApiException(
                ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value."
            )
        count = self._config.num_partitions if topic.num_partitions == -1 else topic.num_partitions
        factor = topic.replication_factor
        if factor == -1:
            factor = self._config.default_replication_factor
        try:
            placed = place_on(self._cluster, count, factor, self._random_int)
        except ApiException as error:
            message = f"Unable to replicate the partition {factor} time(s): {error.message}"
            raise ApiException(error.code, message) from error
        all_inactive = partial(all_placed_inactive, factor)
        partitions: list[PartitionRegistration] = []
        for replicas in placed:
            partitions.append(new_partition(replicas, self._cluster, all_inactive))
            if pace.is_reached():
                yield
        return partitions


def _invalid_assignment(message: str) -> ApiException:
    return ApiException(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
