"""Among replicating Kafka brokers, barnabas brokers that can't replicate hold partitions alone."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.common.errors import ErrorCode
from barnabas.controller.apis import alter_partition_reassignments, create_partitions
from barnabas.metadata.features import NO_REPLICATION, SUPPORTED_FEATURES
from barnabas.protocol.messages.broker_registration import Feature
from barnabas.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from barnabas.protocol.messages.create_topics import CreatableReplicaAssignment
from tests.peers.mutation_requests import reassign
from tests.unit.controller.controller_harness import ControllerHarness, topic

OURS, KAFKAS = (1, 2), (3, 4)
FEATURES = [
    Feature(name=name, min_supported_version=levels.min, max_supported_version=levels.max)
    for name, levels in SUPPORTED_FEATURES.items()
]


@pytest.fixture
def harness() -> ControllerHarness:
    started = ControllerHarness().activate()
    for broker_id in OURS:
        started.start_broker(broker_id, features=[*FEATURES, Feature(name=NO_REPLICATION)])
    for broker_id in KAFKAS:
        started.start_broker(broker_id)
    return started


def placed(harness: ControllerHarness, name: str) -> list[set[int]]:
    found: Any = harness.controller.committed_image.topics.get(name)
    return [set(found.partitions[index].replicas) for index in sorted(found.partitions)]


def created(harness: ControllerHarness, *args: Any, **fields: Any) -> tuple[int, str | None]:
    result = harness.create(topic(*args, **fields)).topics[0]
    return result.error_code, result.error_message


def test_single_replicas_are_placed_on_all_brokers(harness: ControllerHarness) -> None:
    assert created(harness, "alone", 8) == (0, None)
    assert set().union(*placed(harness, "alone")) == {*OURS, *KAFKAS}


def test_several_replicas_are_placed_on_replicating_brokers(harness: ControllerHarness) -> None:
    assert created(harness, "shared", 8, 2) == (0, None)
    assert placed(harness, "shared") == [set(KAFKAS)] * 8
    grown = CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="shared", count=10, assignments=None)])
    assert harness.call(create_partitions.handle, grown, 3).results[0].error_code == 0
    assert placed(harness, "shared") == [set(KAFKAS)] * 10


def test_more_replicas_than_brokers_that_replicate_are_refused_with_the_reason(harness: ControllerHarness) -> None:
    code, message = created(harness, "wide", 1, 3)
    assert code == ErrorCode.INVALID_REPLICATION_FACTOR
    assert message == (
        "Unable to replicate the partition 3 time(s): Replication factor 3 is not possible: brokers 1, 2 run a release "
        "of barnabas that can't replicate. Upgrade there, use replication factor 1, or name other brokers."
    )


def test_more_replicas_than_brokers_are_refused_as_kafka_does(harness: ControllerHarness) -> None:
    code, message = created(harness, "wider", 1, 5)
    assert code == ErrorCode.INVALID_REPLICATION_FACTOR
    assert "only 4 broker(s) are registered" in (message or "")


@pytest.mark.parametrize("replicas", [[1, 3], [3, 1], [1, 2]])
def test_manual_assignments_to_them_with_other_replicas_are_refused(
    harness: ControllerHarness, replicas: list[int]
) -> None:
    by_hand = [CreatableReplicaAssignment(partition_index=0, broker_ids=replicas)]
    code, message = created(harness, "by-hand", -1, -1, assignments=by_hand)
    assert code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert "can't share a partition" in (message or "")
    assert created(harness, "shared", 1, 2) == (0, None)
    grown = CreatePartitionsTopic(name="shared", count=2, assignments=[CreatePartitionsAssignment(broker_ids=replicas)])
    result = harness.call(create_partitions.handle, CreatePartitionsRequest(topics=[grown]), 3).results[0]
    assert result.error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT


@pytest.mark.parametrize(("before", "after"), [(1, [3]), (3, [1]), (1, [2]), (3, [3, 1])])
def test_partitions_are_not_moved_to_or_from_them(harness: ControllerHarness, before: int, after: list[int]) -> None:
    by_hand = [CreatableReplicaAssignment(partition_index=0, broker_ids=[before])]
    assert created(harness, "orders", -1, -1, assignments=by_hand) == (0, None)
    response = harness.call(alter_partition_reassignments.handle, reassign(("orders", [(0, after)])), 1)
    refused = response.responses[0].partitions[0]
    assert refused.error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert "of barnabas that can't replicate" in (refused.error_message or "")
    same = harness.call(alter_partition_reassignments.handle, reassign(("orders", [(0, [before])])), 1)
    assert same.responses[0].partitions[0].error_code == 0


def test_partitions_move_between_replicating_brokers(harness: ControllerHarness) -> None:
    by_hand = [CreatableReplicaAssignment(partition_index=0, broker_ids=[3])]
    assert created(harness, "orders", -1, -1, assignments=by_hand) == (0, None)
    response = harness.call(alter_partition_reassignments.handle, reassign(("orders", [(0, [4])])), 1)
    assert response.responses[0].partitions[0].error_code == 0
