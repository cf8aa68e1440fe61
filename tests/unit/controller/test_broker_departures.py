"""Brokers that leave many partitions: decided in turns, with the same result as in one decision."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.common.errors import ErrorCode
from barnabas.common.uuid import Uuid
from barnabas.controller import partition_walk
from barnabas.controller.apis import alter_partition, assign_replicas_to_dirs
from barnabas.metadata.bootstrap import bootstrap_records
from barnabas.metadata.image.partition_registration import PartitionRegistration
from barnabas.metadata.metadata_version import LATEST_PRODUCTION
from barnabas.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    BrokerState,
)
from barnabas.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsRequestDirectoryData,
    AssignReplicasToDirsRequestPartitionData,
    AssignReplicasToDirsRequestTopicData,
)
from barnabas.protocol.messages.create_topics import CreatableTopicConfig
from tests.unit.controller.controller_harness import ControllerHarness, directory_of, topic

SESSION_MS = 9_000
PARTITIONS = 10
TWO_IN_SYNC = CreatableTopicConfig(name="min.insync.replicas", value="2")
"""With it a replica that leaves the ISR stays an eligible leader."""


@pytest.fixture(autouse=True)
def _few_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_walk, "PARTITIONS_A_TURN", 4)


@pytest.fixture
def harness() -> ControllerHarness:
    made = ControllerHarness(broker_session_timeout_ms=SESSION_MS).activate()
    for broker_id in (1, 2, 3):
        made.start_broker(broker_id)
    made.create(topic("orders", PARTITIONS, 3))
    return made


def in_turns(harness: ControllerHarness) -> list[list[Any]]:
    """Return the records of each tick until nothing is left to do."""
    turns = []
    while (due_ms := harness.controller.next_tick_ms()) is not None and due_ms <= harness.clock.ms:
        assert len(turns) < 100, "the turns do not end"
        harness.controller.tick(harness.clock.ms)
        before = len(harness.log)
        harness.settle()
        turns.append([record for batch in harness.log[before:] for record in batch.records])
    return turns


def fall_silent(harness: ControllerHarness, *brokers: int) -> None:
    """End the sessions of these brokers, and keep those of the others."""
    harness.clock.ms += SESSION_MS - 1
    for broker_id in {1, 2, 3}.difference(brokers):
        harness.heartbeat(broker_id)
    harness.clock.ms += 1


def partitions(harness: ControllerHarness, name: str = "orders") -> list[PartitionRegistration]:
    found = harness.controller.committed_image.topics.get(name)
    assert found is not None
    return [found.partitions[index] for index in sorted(found.partitions)]


def place_all_in(harness: ControllerHarness, broker_id: int, directory: Uuid) -> None:
    """The broker reports that its replicas of "orders" are in this directory."""
    found = harness.controller.state.image.topics.get("orders")
    assert found is not None
    replicas = [AssignReplicasToDirsRequestPartitionData(partition_index=index) for index in found.partitions]
    topics = [AssignReplicasToDirsRequestTopicData(topic_id=found.id, partitions=replicas)]
    request = AssignReplicasToDirsRequest(
        broker_id=broker_id,
        broker_epoch=harness.controller.state.image.cluster.brokers[broker_id].epoch,
        directories=[AssignReplicasToDirsRequestDirectoryData(id=directory, topics=topics)],
    )
    assert harness.call(assign_replicas_to_dirs.handle, request, 0).error_code == 0


def propose(harness: ControllerHarness, index: int, *isr: int) -> int:
    """Send the leader's proposal, and return the controller's result."""
    found = harness.controller.state.image.topics.get("orders")
    assert found is not None
    partition, brokers = found.partitions[index], harness.controller.state.image.cluster.brokers
    data = AlterPartitionRequestPartitionData(
        partition_index=index,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        new_isr_with_epochs=[BrokerState(broker_id=member, broker_epoch=brokers[member].epoch) for member in isr],
    )
    request = AlterPartitionRequest(
        broker_id=partition.leader,
        broker_epoch=brokers[partition.leader].epoch,
        topics=[AlterPartitionRequestTopicData(topic_id=found.id, partitions=[data])],
    )
    answer = harness.call(alter_partition.handle, request, 3)
    return int(answer.topics[0].partitions[0].error_code)


def test_a_broker_whose_session_ends_leaves_in_turns_and_is_fenced_with_the_last(harness: ControllerHarness) -> None:
    fall_silent(harness, 1)
    turns = in_turns(harness)
    assert [len(turn) for turn in turns] == [4, 4, 3]
    assert turns[-1][-1].fenced == 1
    assert all(sorted(partition.isr) == [2, 3] for partition in partitions(harness))
    assert all(partition.leader in (2, 3) for partition in partitions(harness))


def test_decisions_in_turns_equal_a_single_decision(
    harness: ControllerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    fall_silent(harness, 1)
    in_parts = [record for turn in in_turns(harness) for record in turn]
    monkeypatch.setattr(partition_walk, "PARTITIONS_A_TURN", 2_000)
    at_once = ControllerHarness(broker_session_timeout_ms=SESSION_MS).activate()
    for broker_id in (1, 2, 3):
        at_once.start_broker(broker_id)
    at_once.create(topic("orders", PARTITIONS, 3))
    fall_silent(at_once, 1)
    assert in_turns(at_once) == [in_parts]


def test_a_turn_sees_decisions_made_since_the_previous_turn(harness: ControllerHarness) -> None:
    fall_silent(harness, 1)
    harness.controller.tick(harness.clock.ms)
    harness.settle()
    assert 1 not in partitions(harness)[0].isr
    assert propose(harness, 0, 1, 2, 3) == ErrorCode.INELIGIBLE_REPLICA, "it would have to leave again"
    assert 1 not in partitions(harness)[0].isr
    harness.create(topic("bills", 3, 3))
    assert all(sorted(partition.isr) == [2, 3] for partition in partitions(harness, "bills"))
    in_turns(harness)
    assert not [
        partition_state
        for name in ("orders", "bills")
        for partition_state in partitions(harness, name)
        if 1 in partition_state.isr
    ]
    assert harness.controller.committed_image.cluster.brokers[1].fenced


def test_two_brokers_whose_sessions_end_together_do_not_elect_each_other(
    harness: ControllerHarness,
) -> None:
    harness.create(topic("pairs", 4 * PARTITIONS, 2, configs=[TWO_IN_SYNC]))
    fall_silent(harness, 1, 2)
    in_turns(harness)
    brokers = harness.controller.committed_image.cluster.brokers
    assert brokers[1].fenced
    assert brokers[2].fenced
    for name in ("orders", "pairs"):
        for partition in partitions(harness, name):
            assert partition.leader == (3 if 3 in partition.replicas else -1)
            assert not {1, 2} & set(partition.isr)


def test_brokers_that_lose_directories_together_do_not_elect_each_other() -> None:
    harness = ControllerHarness(broker_session_timeout_ms=SESSION_MS).activate()
    for broker_id in (1, 2):
        harness.start_broker(broker_id, log_dirs=[directory_of(broker_id, 0), directory_of(broker_id, 1)])
    harness.create(topic("orders", PARTITIONS, 2, configs=[TWO_IN_SYNC]))
    for broker_id in (1, 2):
        place_all_in(harness, broker_id, directory_of(broker_id, 1))
    for broker_id in (1, 2):
        harness.heartbeat(broker_id, offline_log_dirs=[directory_of(broker_id, 1)])
    in_turns(harness)
    brokers = harness.controller.committed_image.cluster.brokers
    assert [brokers[broker_id].directories for broker_id in (1, 2)] == [(directory_of(1, 0),), (directory_of(2, 0),)]
    assert all(partition.leader == -1 for partition in partitions(harness))


def test_a_new_process_of_the_broker_is_not_affected(harness: ControllerHarness) -> None:
    fall_silent(harness, 1)
    harness.controller.tick(harness.clock.ms)
    harness.settle()
    harness.start_broker(1, incarnation_id=harness._new_uuid())
    assert propose(harness, 0, 1, 2, 3) == 0
    in_turns(harness)
    assert not harness.controller.committed_image.cluster.brokers[1].fenced
    assert 1 in partitions(harness)[0].isr


def test_a_broker_that_shuts_down_waits_for_its_last_turn(harness: ControllerHarness) -> None:
    assert not harness.heartbeat(1, want_shut_down=True).should_shut_down
    assert sum(1 in partition.isr for partition in partitions(harness)) == PARTITIONS - 4
    assert not harness.heartbeat(1, want_shut_down=True).should_shut_down
    turns = in_turns(harness)
    assert [len(turn) for turn in turns] == [4, 2]
    assert not [partition for partition in partitions(harness) if 1 in partition.isr]
    assert not harness.heartbeat(1, want_shut_down=True).should_shut_down, "the others don't know yet"
    harness.heartbeat(2)
    harness.heartbeat(3)
    assert harness.heartbeat(1, want_shut_down=True).should_shut_down


def test_a_new_controller_continues_the_shutdown_of_a_broker(harness: ControllerHarness) -> None:
    harness.heartbeat(1, want_shut_down=True)
    successor = ControllerHarness(log=harness.log, broker_session_timeout_ms=SESSION_MS)
    successor.epoch = 2
    successor.activate()
    successor.heartbeat(1, want_shut_down=True)
    in_turns(successor)
    for broker_id in (2, 3):
        successor.heartbeat(broker_id)
    successor.heartbeat(1, want_shut_down=True)
    for broker_id in (2, 3):
        successor.heartbeat(broker_id)
    assert successor.heartbeat(1, want_shut_down=True).should_shut_down
    assert not [partition for partition in partitions(successor) if 1 in partition.isr]


def test_a_replica_alone_in_sync_without_elr_is_decided_once() -> None:
    bootstrap = bootstrap_records(LATEST_PRODUCTION, {"eligible.leader.replicas.version": 0})
    harness = ControllerHarness(broker_session_timeout_ms=SESSION_MS, bootstrap=bootstrap).activate()
    harness.start_broker(1)
    harness.create(topic("orders", PARTITIONS))
    harness.clock.ms += SESSION_MS
    turns = in_turns(harness)
    assert [len(turn) for turn in turns] == [4, 4, 3]
    assert all(partition.leader == -1 for partition in partitions(harness))
