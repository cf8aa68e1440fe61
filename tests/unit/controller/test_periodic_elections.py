"""The controller periodically elects preferred leaders, and leaders of leaderless partitions."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.controller import partition_walk, quorum_controller
from barnabas.controller.apis import alter_partition, incremental_alter_configs
from barnabas.metadata.image.partition_registration import PartitionRegistration
from barnabas.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    BrokerState,
)
from barnabas.protocol.messages.create_topics import CreatableReplicaAssignment, CreatableTopic
from tests.peers.admin_requests import SET, TOPIC, alter
from tests.unit.controller.controller_harness import ControllerHarness

MINUTE_MS = 60_000


def cluster(**settings: Any) -> ControllerHarness:
    harness = ControllerHarness(broker_session_timeout_ms=10**9, **settings).activate()
    for broker in (1, 2):
        harness.start_broker(broker)
    return harness


def create(harness: ControllerHarness, partitions: int = 1) -> None:
    replicas = [CreatableReplicaAssignment(partition_index=index, broker_ids=[1, 2]) for index in range(partitions)]
    topic = CreatableTopic(name="orders", num_partitions=-1, replication_factor=-1, assignments=replicas)
    assert harness.create(topic).topics[0].error_code == 0


def partition(harness: ControllerHarness, index: int = 0) -> PartitionRegistration:
    topic = harness.controller.committed_image.topics.get("orders")
    assert topic is not None
    return topic.partitions[index]


def set_isr(harness: ControllerHarness, *members: int) -> None:
    topic = harness.controller.committed_image.topics.get("orders")
    brokers = harness.controller.committed_image.cluster.brokers
    assert topic is not None
    changes = [
        AlterPartitionRequestPartitionData(
            partition_index=index,
            leader_epoch=registration.leader_epoch,
            partition_epoch=registration.partition_epoch,
            new_isr_with_epochs=[BrokerState(broker_id=b, broker_epoch=brokers[b].epoch) for b in members],
        )
        for index, registration in topic.partitions.items()
    ]
    leader = partition(harness).leader
    request = AlterPartitionRequest(
        broker_id=leader,
        broker_epoch=brokers[leader].epoch,
        topics=[AlterPartitionRequestTopicData(topic_id=topic.id, partitions=changes)],
    )
    answer = harness.call(alter_partition.handle, request, 3)
    assert {result.error_code for result in answer.topics[0].partitions} == {0}


def after(harness: ControllerHarness, ms: int) -> None:
    harness.clock.ms += ms
    harness.controller.tick(harness.clock.ms)
    harness.settle()


def the_preferred_replica_comes_back(harness: ControllerHarness) -> None:
    harness.heartbeat(1, want_fence=True)
    harness.heartbeat(1)
    set_isr(harness, 2, 1)
    assert partition(harness).leader == 2


def test_the_preferred_replica_leads_again_after_the_interval() -> None:
    harness = cluster()
    create(harness)
    the_preferred_replica_comes_back(harness)
    after(harness, 5 * MINUTE_MS - 1)
    assert partition(harness).leader == 2
    after(harness, 1)
    assert partition(harness).leader == 1
    end = harness.end_offset
    after(harness, 5 * MINUTE_MS)
    assert harness.end_offset <= end + 1, "only a NoOp is left to write"


def test_a_preferred_replica_that_is_behind_does_not_lead() -> None:
    harness = cluster()
    create(harness)
    harness.heartbeat(1, want_fence=True)
    harness.heartbeat(1)
    after(harness, 5 * MINUTE_MS)
    assert partition(harness).leader == 2


def test_elections_have_the_configured_interval_and_can_be_disabled() -> None:
    often = cluster(leader_imbalance_check_interval_s=2)
    create(often)
    the_preferred_replica_comes_back(often)
    after(often, 2_000)
    assert partition(often).leader == 1
    never = cluster(auto_leader_rebalance_enable=False)
    create(never)
    the_preferred_replica_comes_back(never)
    after(never, 100 * MINUTE_MS)
    assert partition(never).leader == 2


def test_many_elections_are_decided_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = cluster()
    create(harness, 15)
    the_preferred_replica_comes_back(harness)
    monkeypatch.setattr(partition_walk, "PARTITIONS_A_TURN", 10)
    monkeypatch.setattr(quorum_controller, "RECORDS_A_TICK", 1)
    after(harness, 5 * MINUTE_MS)
    assert [partition(harness, index).leader for index in range(15)].count(1) == 10
    assert harness.controller.next_tick_ms() == harness.clock.ms, "the next turn is due immediately"
    after(harness, 0)
    assert [partition(harness, index).leader for index in range(15)].count(1) == 15


def without_a_leader() -> ControllerHarness:
    harness = cluster()
    create(harness)
    set_isr(harness, 1)
    harness.heartbeat(1, want_fence=True)
    assert partition(harness).leader == -1
    return harness


@pytest.mark.parametrize("is_allowed", [True, False])
def test_an_unclean_election_waits_for_the_setting_and_its_interval(is_allowed: bool) -> None:
    harness = without_a_leader()
    if is_allowed:
        change = alter((TOPIC, "orders", ("unclean.leader.election.enable", SET, "true")))
        harness.call(incremental_alter_configs.handle, change, 1)
    assert partition(harness).leader == -1, "the setting alone elects no leader"
    after(harness, 5 * MINUTE_MS)
    found = partition(harness)
    expected = (2, (2,), 1) if is_allowed else (-1, found.isr, 0)
    assert (found.leader, found.isr, found.leader_recovery_state) == expected
    assert harness.controller.elections.unclean == int(is_allowed)


def test_a_standby_elects_no_leader() -> None:
    harness = without_a_leader()
    harness.controller.deactivate()
    assert harness.controller.next_tick_ms() is None


def test_an_election_from_the_elr_is_counted() -> None:
    harness = cluster(min_insync_replicas=2)
    create(harness)
    harness.heartbeat(1, want_fence=True)
    harness.heartbeat(2, want_fence=True)
    assert (partition(harness).isr, partition(harness).elr) == ((), (1, 2))
    harness.heartbeat(1)
    assert (partition(harness).leader, partition(harness).isr) == (1, (1,))
    assert (harness.controller.elections.from_elr, harness.controller.elections.unclean) == (1, 0)
