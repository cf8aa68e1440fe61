"""New partitions of an existing topic: their number of replicas."""

from __future__ import annotations

import pytest

from barnabas.controller.apis import alter_partition_reassignments, create_partitions
from barnabas.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from barnabas.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from tests.unit.controller.controller_harness import ControllerHarness, topic


@pytest.mark.parametrize(("shrunk", "replicas"), [(0, 1), (1, 2), (2, 2)])
def test_new_partitions_have_as_many_replicas_as_partition_0(shrunk: int, replicas: int) -> None:
    harness = ControllerHarness().activate()
    for broker in (1, 2):
        harness.start_broker(broker)
    harness.create(topic("orders", 3, 2))
    partition = ReassignablePartition(partition_index=shrunk, replicas=[1])
    moved = [ReassignableTopic(name="orders", partitions=[partition])]
    harness.call(alter_partition_reassignments.handle, AlterPartitionReassignmentsRequest(topics=moved), 0)
    before = harness.controller.committed_image.topics.get("orders")
    assert before is not None
    assert before.partitions[shrunk].replicas == (1,)
    grown = CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="orders", count=4, assignments=None)])
    assert harness.call(create_partitions.handle, grown, 3).results[0].error_code == 0
    after = harness.controller.committed_image.topics.get("orders")
    assert after is not None
    assert len(after.partitions[3].replicas) == replicas
