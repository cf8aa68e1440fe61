"""ElectLeaders: elects preferred leaders on request, or any leader of partitions without one."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

from barnabas.common.errors import ApiError, ApiException, ErrorCode
from barnabas.controller import partition_walk
from barnabas.controller.cluster_control_manager import ClusterControlManager
from barnabas.controller.controller_result import ControllerResult
from barnabas.controller.controller_state import ControllerState
from barnabas.controller.decision_turns import Turns
from barnabas.controller.partition_change_builder import Election
from barnabas.controller.partition_election import PartitionElection
from barnabas.controller.partition_walk import LOOKS_A_TURN
from barnabas.metadata.image.partition_registration import NO_LEADER, PartitionRegistration
from barnabas.metadata.image.record_writer import ApiMessageAndVersion
from barnabas.metadata.persistent_map import in_order
from barnabas.protocol.messages.elect_leaders import PartitionResult, ReplicaElectionResult

__all__ = ["ElectionType", "LeaderElection", "partition_result"]

_NOT_NEEDED = ApiError(ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")
_NO_PREFERRED = ApiError(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "The preferred leader was not available.")
_NO_ELIGIBLE_LEADER = ApiError(
    ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "Eligible topic partition leaders are not available."
)


class ElectionType(IntEnum):
    PREFERRED = 0
    UNCLEAN = 1

    @classmethod
    def of(cls, code: int) -> ElectionType:
        """Return the election type; raise INVALID_REQUEST for an unknown code."""
        if code not in cls._value2member_map_:
            raise ApiException(ErrorCode.INVALID_REQUEST, f"Unknown election type {code}")
        return cls(code)


class LeaderElection:
    def __init__(self, state: ControllerState, cluster: ClusterControlManager, election: PartitionElection) -> None:
        self._state = state
        self._cluster = cluster
        self._election = election

    def elect_leaders(
        self, kind: ElectionType, wanted: Iterable[tuple[str, Iterable[int]]] | None
    ) -> Turns[list[ReplicaElectionResult]]:
        """Elect in each partition independently. For all partitions (None) only those that needed it are named.

        The results are built in the turns, because they are many.
        """
        topics = self._state.image.topics
        is_all = wanted is None
        if wanted is None:
            wanted = ((name, sorted(topics.by_name[name].partitions)) for name in in_order(topics.by_name))
        records: list[ApiMessageAndVersion] = []
        outcomes: list[ReplicaElectionResult] = []
        elected: set[tuple[str, int]] = set()
        looks = tries = 0
        for name, indexes in wanted:
            results: list[PartitionResult] = []
            for index in indexes:
                if tries >= partition_walk.PARTITIONS_A_TURN or looks >= LOOKS_A_TURN:
                    yield ControllerResult(records, None, is_atomic=False)
                    records, looks, tries = [], 0, 0
                looks += 1
                error = _NOT_NEEDED if (name, index) in elected else self._elect(name, index, kind, records)
                tries += error is not _NOT_NEEDED
                if error == ApiError.NONE and not is_all:
                    elected.add((name, index))
                if not is_all or error != _NOT_NEEDED:
                    results.append(partition_result(index, error))
            outcomes.append(ReplicaElectionResult(topic=name, partition_result=results))
        return ControllerResult(records, outcomes, is_atomic=False)

    def _elect(self, name: str, index: int, kind: ElectionType, records: list[ApiMessageAndVersion]) -> ApiError:
        topic = self._state.image.topics.get(name)
        if topic is None:
            return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}")
        partition = topic.partitions.get(index)
        if partition is None:
            return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{index}")
        if _is_well_led(partition, kind):
            return _NOT_NEEDED
        builder = self._election.builder_for(topic, index, partition, self._cluster.is_active)
        builder.election = Election.UNCLEAN if kind is ElectionType.UNCLEAN else Election.PREFERRED
        record = builder.build()
        if record is None:
            return _NO_ELIGIBLE_LEADER if kind is ElectionType.UNCLEAN else _NO_PREFERRED
        records.append(record)
        return ApiError.NONE


def partition_result(index: int, error: ApiError) -> PartitionResult:
    return PartitionResult(partition_id=index, error_code=int(error.code), error_message=error.message)


def _is_well_led(partition: PartitionRegistration, kind: ElectionType) -> bool:
    if kind is ElectionType.UNCLEAN:
        return partition.leader != NO_LEADER
    return bool(partition.replicas) and partition.leader == partition.replicas[0]
