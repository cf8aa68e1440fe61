from __future__ import annotations

from typing import Any

import pytest

from barnabas.common.errors import ErrorCode
from barnabas.common.uuid import Uuid
from barnabas.controller.apis import alter_partition, assign_replicas_to_dirs
from barnabas.metadata.image.partition_registration import DIRECTORY_LOST, DIRECTORY_UNASSIGNED, PartitionRegistration
from barnabas.metadata.image.topics import TopicImage
from barnabas.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    AlterPartitionResponsePartitionData,
    BrokerState,
)
from barnabas.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsRequestDirectoryData,
    AssignReplicasToDirsRequestPartitionData,
    AssignReplicasToDirsRequestTopicData,
)
from barnabas.protocol.messages.create_topics import CreatableReplicaAssignment
from tests.unit.controller.controller_harness import ControllerHarness, directory_of, topic


@pytest.fixture
def harness() -> ControllerHarness:
    harness = ControllerHarness().activate()
    for broker in (1, 2, 3):
        harness.start_broker(broker)
    wanted = topic("orders", -1, -1)
    wanted.assignments = [CreatableReplicaAssignment(partition_index=0, broker_ids=[1, 2])]
    harness.create(wanted)
    return harness


def orders(harness: ControllerHarness) -> TopicImage:
    found = harness.controller.committed_image.topics.get("orders")
    assert found is not None
    return found


def partition(harness: ControllerHarness) -> PartitionRegistration:
    return orders(harness).partitions[0]


def alter(
    harness: ControllerHarness, isr: list[int], broker: int = 1, epochs: dict[int, int] | None = None, **changes: Any
) -> AlterPartitionResponsePartitionData:
    known = harness.controller.committed_image.cluster.brokers
    topic_id = changes.pop("topic_id", orders(harness).id)
    fields: dict[str, Any] = {
        "partition_index": 0,
        "leader_epoch": partition(harness).leader_epoch,
        "partition_epoch": partition(harness).partition_epoch,
        "new_isr_with_epochs": [
            BrokerState(broker_id=b, broker_epoch=(epochs or {}).get(b, known[b].epoch if b in known else 1))
            for b in isr
        ],
    }
    data = AlterPartitionRequestPartitionData(**{**fields, **changes})
    request = AlterPartitionRequest(
        broker_id=broker,
        broker_epoch=known[broker].epoch,
        topics=[AlterPartitionRequestTopicData(topic_id=topic_id, partitions=[data])],
    )
    response = harness.call(alter_partition.handle, request, 3)
    assert response.error_code == 0
    return response.topics[0].partitions[0]


def test_the_leader_shrinks_and_grows_its_isr(harness: ControllerHarness) -> None:
    shrunk = alter(harness, [1])
    assert (shrunk.error_code, shrunk.isr, shrunk.leader_id, shrunk.partition_epoch) == (0, [1], 1, 1)
    assert partition(harness).isr == (1,)
    grown = alter(harness, [1, 2])
    assert (grown.isr, grown.partition_epoch, grown.leader_epoch) == ([1, 2], 2, 0)


def test_below_the_minimum_a_removed_replica_stays_eligible(harness: ControllerHarness) -> None:
    harness.controller.configs._config.min_insync_replicas = 1
    alter(harness, [1])
    assert partition(harness).elr == (), "one in sync is enough here"


@pytest.mark.parametrize(
    ("isr", "changes", "error"),
    [
        ([1, 2], {"topic_id": Uuid.from_int(9)}, ErrorCode.UNKNOWN_TOPIC_ID),
        ([1, 2], {"partition_index": 7}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ([1, 2], {"leader_epoch": 5}, ErrorCode.NOT_CONTROLLER),
        ([1, 2], {"partition_epoch": 5}, ErrorCode.NOT_CONTROLLER),
        ([1, 2], {"leader_epoch": -1}, ErrorCode.FENCED_LEADER_EPOCH),
        ([1, 2], {"partition_epoch": -1}, ErrorCode.INVALID_UPDATE_VERSION),
        ([1, 2], {"broker": 2}, ErrorCode.INVALID_REQUEST),
        ([2], {}, ErrorCode.INVALID_REQUEST),
        ([1, 3], {}, ErrorCode.INVALID_REQUEST),
        ([1, 2], {"leader_recovery_state": 1}, ErrorCode.INVALID_REQUEST),
        ([1], {"leader_recovery_state": 1}, ErrorCode.INVALID_REQUEST),
        ([1, 2], {"epochs": {2: 3}}, ErrorCode.INELIGIBLE_REPLICA),
    ],
    ids=[
        "unknown topic",
        "unknown partition",
        "leader epoch of the future",
        "partition epoch of the future",
        "old leader epoch",
        "old partition epoch",
        "not the leader",
        "without the leader",
        "no replica",
        "recovering together",
        "recovered before",
        "another process of a member",
    ],
)
def test_an_impossible_change_is_refused(
    harness: ControllerHarness, isr: list[int], changes: dict[str, Any], error: ErrorCode
) -> None:
    assert alter(harness, isr, **changes).error_code == error
    assert partition(harness).partition_epoch == 0


def test_a_member_that_is_fenced_or_leaving_is_ineligible(harness: ControllerHarness) -> None:
    alter(harness, [1])
    harness.heartbeat(2, want_fence=True)
    assert alter(harness, [1, 2], epochs={2: -1}).error_code == ErrorCode.INELIGIBLE_REPLICA


def test_a_recovering_leader_reports_when_it_has_recovered(harness: ControllerHarness) -> None:
    again = ControllerHarness(log=harness.log).activate()
    wanted = topic("alone", -1, -1)
    wanted.assignments = [CreatableReplicaAssignment(partition_index=0, broker_ids=[1])]
    again.create(wanted)
    again.register(1, incarnation_id=Uuid.from_int(999))
    again.heartbeat(1)
    alone = again.controller.committed_image.topics.get("alone")
    assert alone is not None
    recovering = alone.partitions[0]
    assert recovering.leader_recovery_state == 1
    answer = alter(
        again,
        [1],
        topic_id=alone.id,
        leader_epoch=recovering.leader_epoch,
        partition_epoch=recovering.partition_epoch,
        leader_recovery_state=0,
    )
    assert (answer.error_code, answer.leader_recovery_state) == (0, 0)


def test_a_replica_moves_to_the_directory_that_its_broker_names(harness: ControllerHarness) -> None:
    harness.start_broker(4, log_dirs=[directory_of(4, 0), directory_of(4, 1)])
    wanted = topic("wide", -1, -1)
    wanted.assignments = [CreatableReplicaAssignment(partition_index=0, broker_ids=[4])]
    harness.create(wanted)
    wide = harness.controller.committed_image.topics.get("wide")
    assert wide is not None
    assert wide.partitions[0].directories == (DIRECTORY_UNASSIGNED,)
    places = [(wide.id, 0), (wide.id, 5), (Uuid.from_int(9), 0), (orders(harness).id, 0)]
    request = AssignReplicasToDirsRequest(
        broker_id=4,
        broker_epoch=harness.controller.committed_image.cluster.brokers[4].epoch,
        directories=[
            AssignReplicasToDirsRequestDirectoryData(
                id=directory_of(4, 1),
                topics=[
                    AssignReplicasToDirsRequestTopicData(
                        topic_id=topic_id, partitions=[AssignReplicasToDirsRequestPartitionData(partition_index=index)]
                    )
                    for topic_id, index in places
                ],
            )
        ],
    )
    response = harness.call(assign_replicas_to_dirs.handle, request, 0)
    assert [t.partitions[0].error_code for t in response.directories[0].topics] == [0, 3, 100, 6]
    moved = harness.controller.committed_image.topics.get("wide")
    assert moved is not None
    assert moved.partitions[0].directories == (directory_of(4, 1),)


def test_a_replica_given_up_as_lost_leads_again_when_it_is_found(harness: ControllerHarness) -> None:
    """A broker may give up a damaged replica just when the others leave the ISR; it then takes the replica back."""
    harness.start_broker(4, log_dirs=[directory_of(4, 0), directory_of(4, 1)])
    wanted = topic("wide", -1, -1)
    wanted.assignments = [CreatableReplicaAssignment(partition_index=0, broker_ids=[4])]
    harness.create(wanted)

    def assign(directory: Uuid) -> tuple[int, int]:
        wide = harness.controller.committed_image.topics.get("wide")
        assert wide is not None
        partition = AssignReplicasToDirsRequestPartitionData(partition_index=0)
        request = AssignReplicasToDirsRequest(
            broker_id=4,
            broker_epoch=harness.controller.committed_image.cluster.brokers[4].epoch,
            directories=[
                AssignReplicasToDirsRequestDirectoryData(
                    id=directory,
                    topics=[AssignReplicasToDirsRequestTopicData(topic_id=wide.id, partitions=[partition])],
                )
            ],
        )
        response = harness.call(assign_replicas_to_dirs.handle, request, 0)
        wide = harness.controller.committed_image.topics.get("wide")
        assert wide is not None
        return response.directories[0].topics[0].partitions[0].error_code, wide.partitions[0].leader

    assert assign(DIRECTORY_LOST) == (0, -1)
    assert assign(directory_of(4, 0)) == (0, 4)
