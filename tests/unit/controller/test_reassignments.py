"""Reassignments and elections with several brokers, which a recorded cluster of one broker can't show."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.common.errors import ErrorCode
from barnabas.controller import partition_reassignment, reassignment_listing
from barnabas.controller.apis import (
    alter_partition_reassignments,
    elect_leaders,
    incremental_alter_configs,
    list_partition_reassignments,
    unregister_broker,
)
from barnabas.metadata.image.partition_registration import PartitionRegistration
from barnabas.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from barnabas.protocol.messages.unregister_broker import UnregisterBrokerRequest
from tests.peers.admin_requests import SET, TOPIC
from tests.peers.admin_requests import alter as alter_configs
from tests.peers.mutation_requests import PREFERRED, UNCLEAN, elect, ongoing, reassign
from tests.unit.controller.controller_harness import ControllerHarness, directory_of, topic
from tests.unit.controller.test_partition_alteration import alter, harness, partition

__all__ = ["harness"]

OK = int(ErrorCode.NONE)


def start(harness: ControllerHarness, replicas: list[int] | None, **fields: Any) -> tuple[int, str | None]:
    response = harness.call(alter_partition_reassignments.handle, reassign(("orders", [(0, replicas)]), **fields), 1)
    answer = response.responses[0].partitions[0]
    return answer.error_code, answer.error_message


def under_way(harness: ControllerHarness) -> list[tuple[int, list[int], list[int], list[int]]]:
    response = harness.call(list_partition_reassignments.handle, ongoing(("orders", [0, 7]), ("nope", [0])), 0)
    return [
        (partition.partition_index, partition.replicas, partition.adding_replicas, partition.removing_replicas)
        for topic in response.topics
        for partition in topic.partitions
    ]


def election(harness: ControllerHarness, kind: int) -> int:
    response = harness.call(elect_leaders.handle, elect(kind, ("orders", [0])), 2)
    return response.replica_election_results[0].partition_result[0].error_code


def test_a_new_replica_is_adding_until_it_is_in_sync(harness: ControllerHarness) -> None:
    assert start(harness, [3, 1]) == (OK, None)
    assert under_way(harness) == [(0, [3, 1, 2], [3], [2])]
    assert partition(harness).isr == (1, 2)
    done = alter(harness, [1, 2, 3])
    assert done.error_code == OK
    assert under_way(harness) == []
    after = partition(harness)
    assert (after.replicas, sorted(after.isr), after.adding_replicas, after.removing_replicas) == (
        (3, 1),
        [1, 3],
        (),
        (),
    )
    assert len(after.directories) == 2


def test_a_broker_with_only_cordoned_directories_may_be_named(harness: ControllerHarness) -> None:
    """As Kafka's controller allows it: cordoning restricts only placement by the controller."""
    harness.heartbeat(3, cordoned_log_dirs=[directory_of(3)])
    assert harness.create(topic("bills", 1, 3)).topics[0].error_code == ErrorCode.INVALID_REPLICATION_FACTOR
    assert start(harness, [3, 1]) == (OK, None)
    assert under_way(harness) == [(0, [3, 1, 2], [3], [2])]


def test_reassigning_to_the_current_replicas_changes_nothing(harness: ControllerHarness) -> None:
    end = harness.end_offset
    assert start(harness, [1, 2]) == (OK, None)
    assert harness.end_offset == end
    assert start(harness, [2, 1]) == (OK, None)
    assert partition(harness).replicas == (2, 1), "another order, for another preferred leader"


def test_a_reassignment_can_be_cancelled(harness: ControllerHarness) -> None:
    start(harness, [3, 1])
    assert start(harness, None) == (OK, None)
    assert (partition(harness).replicas, partition(harness).isr) == ((1, 2), (1, 2))
    assert under_way(harness) == []
    assert start(harness, None) == (int(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS), None)


def test_a_reassignment_back_to_the_original_replicas_completes_immediately(harness: ControllerHarness) -> None:
    """Kafka keeps waiting for the replica that it is about to remove."""
    start(harness, [3])
    start(harness, [1, 2])
    assert under_way(harness) == []
    assert partition(harness).replicas == (1, 2)


def test_a_removing_replica_that_is_named_again_stays(harness: ControllerHarness) -> None:
    """Kafka would still remove the replicas of the earlier request."""
    start(harness, [3])
    assert start(harness, [3, 1, 2]) == (OK, None)
    assert under_way(harness) == [(0, [3, 1, 2], [3], [])]
    alter(harness, [1, 2, 3])
    assert (under_way(harness), partition(harness).replicas) == ([], (3, 1, 2))


def test_removing_replicas_waits_until_the_remaining_ones_are_in_sync(harness: ControllerHarness) -> None:
    alter(harness, [1])
    start(harness, [2])
    assert under_way(harness) == [(0, [2, 1], [], [1])]
    alter(harness, [1, 2])
    assert (under_way(harness), partition(harness).replicas) == ([], (2,))


def test_cancelling_must_not_lose_records_that_only_the_new_replica_has(harness: ControllerHarness) -> None:
    harness.start_broker(4)
    start(harness, [3, 4])
    alter(harness, [1, 2, 3])
    for broker_id in (1, 2):
        harness.heartbeat(broker_id, want_fence=True)
    assert partition(harness).isr == (3,)
    code, text = start(harness, None)
    assert code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert text is not None
    assert "it would require an unclean leader election" in text
    harness.heartbeat(1)
    alter(harness, [1, 3], broker=3)
    assert start(harness, None) == (OK, None)
    assert (partition(harness).replicas, partition(harness).leader) == ((1, 2), 1)


def test_a_last_known_leader_without_a_replica_is_not_kept(harness: ControllerHarness) -> None:
    """A Kafka controller that finds one fails, and so does the next."""
    allow = alter_configs((TOPIC, "orders", ("unclean.leader.election.enable", SET, "true")))
    harness.call(incremental_alter_configs.handle, allow, 1)
    start(harness, [3])
    for broker_id in (2, 1):
        harness.heartbeat(broker_id, want_fence=True)
    assert partition(harness).leader == 3
    assert start(harness, None) == (OK, None)
    assert (partition(harness).replicas, partition(harness).leader) == ((1, 2), -1)
    assert partition(harness).last_known_elr == ()


def test_the_replication_factor_may_be_fixed(harness: ControllerHarness) -> None:
    fixed = {"allow_replication_factor_change": False}
    assert start(harness, [3], **fixed)[0] == ErrorCode.INVALID_REPLICATION_FACTOR
    assert start(harness, [3, 2], **fixed) == (OK, None)
    assert start(harness, [3, 1], **fixed) == (OK, None), "a replaced replica is not counted twice"


def test_a_preferred_election_restores_the_preferred_leader(harness: ControllerHarness) -> None:
    assert election(harness, PREFERRED) == ErrorCode.ELECTION_NOT_NEEDED
    alter(harness, [1, 2])
    harness.heartbeat(1, want_fence=True)
    assert partition(harness).leader == 2
    assert election(harness, PREFERRED) == ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    harness.heartbeat(1)
    alter(harness, [1, 2], broker=2)
    assert election(harness, PREFERRED) == OK
    assert partition(harness).leader == 1


def test_an_out_of_sync_replica_leads_only_after_an_unclean_election(harness: ControllerHarness) -> None:
    alter(harness, [1])
    harness.call(unregister_broker.handle, UnregisterBrokerRequest(broker_id=1), 0)
    assert partition(harness).leader == -1
    assert election(harness, PREFERRED) == ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    assert election(harness, UNCLEAN) == OK
    assert (partition(harness).leader, partition(harness).isr) == (2, (2,))
    assert election(harness, UNCLEAN) == ErrorCode.ELECTION_NOT_NEEDED


def test_an_election_for_all_partitions_returns_only_affected_ones(harness: ControllerHarness) -> None:
    harness.heartbeat(1, want_fence=True)
    harness.heartbeat(1)
    alter(harness, [1, 2], broker=2)
    request = elect(PREFERRED)
    request.topic_partitions = None
    response = harness.call(elect_leaders.handle, request, 2)
    found = [
        (result.partition_id, result.error_code) for result in response.replica_election_results[0].partition_result
    ]
    assert found == [(0, OK)]


def everything_under_way(harness: ControllerHarness) -> dict[str, list[int]]:
    request = ListPartitionReassignmentsRequest(topics=None, timeout_ms=10_000)
    response = harness.call(list_partition_reassignments.handle, request, 0)
    return {topic.name: [partition.partition_index for partition in topic.partitions] for topic in response.topics}


def test_many_reassignments_are_listed_in_steps_with_the_same_result(
    harness: ControllerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"many-{number}" for number in range(6)]
    harness.create(*(topic(name, 5, 2) for name in names))
    for name in names[1:]:
        targets = [[6 - sum(partition.replicas), partition.replicas[0]] for partition in parts(harness, name)]
        moves: list[tuple[int, list[int] | None]] = [
            (index, target) for index, target in enumerate(targets) if index != 3
        ]
        harness.call(alter_partition_reassignments.handle, reassign((name, moves)), 1)
    expected = {name: [0, 1, 2, 4] for name in names[1:]}
    assert everything_under_way(harness) == expected
    for module in (reassignment_listing, partition_reassignment):
        monkeypatch.setattr(module, "LOOKS_A_STEP", 3)
    listing = harness.controller.replication.reassignment.long_listing(None)
    assert listing is not None
    steps = 1
    while listing.advance():
        steps += 1
    assert steps > 20 / 3
    assert everything_under_way(harness) == expected
    assert len(under_way_of(harness, names[1], [0, 1, 2, 3, 4, 5])) == 4


def parts(harness: ControllerHarness, name: str) -> list[PartitionRegistration]:
    found = harness.controller.committed_image.topics.get(name)
    assert found is not None
    return [found.partitions[index] for index in sorted(found.partitions)]


def under_way_of(harness: ControllerHarness, name: str, indexes: list[int]) -> list[int]:
    response = harness.call(list_partition_reassignments.handle, ongoing((name, indexes)), 0)
    return [partition.partition_index for found in response.topics for partition in found.partitions]
