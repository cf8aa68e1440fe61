"""Brokers that return to many leaderless partitions: decided in turns, with the same result as in one decision."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from barnabas.common.uuid import Uuid
from barnabas.controller import partition_walk, quorum_controller
from barnabas.controller.apis import elect_leaders, unregister_broker
from barnabas.controller.partition_walk import PartitionOf
from barnabas.metadata import persistent_map
from barnabas.metadata.image.partition_index import PartitionKey
from barnabas.metadata.image.partition_registration import PartitionRegistration
from barnabas.metadata.image.topics import TopicsImage
from barnabas.protocol.messages.create_topics import CreatableReplicaAssignment
from barnabas.protocol.messages.elect_leaders import ElectLeadersRequest
from barnabas.protocol.messages.unregister_broker import UnregisterBrokerRequest
from tests.unit.controller.controller_harness import ControllerHarness, topic

SESSION_MS = 9_000
PARTITIONS = 10
LEADERLESS = -1


@pytest.fixture(autouse=True)
def _few_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_walk, "PARTITIONS_A_TURN", 4)
    monkeypatch.setattr(quorum_controller, "RECORDS_A_TICK", 1)


def alone(name: str, broker_id: int, count: int = PARTITIONS) -> Any:
    assignments = [CreatableReplicaAssignment(partition_index=i, broker_ids=[broker_id]) for i in range(count)]
    return topic(name, -1, -1, assignments=assignments)


@pytest.fixture
def harness() -> ControllerHarness:
    """Only brokers 1 and 2 hold ten partitions each, and their sessions have ended; that of broker 3 has not."""
    made = ControllerHarness(broker_session_timeout_ms=SESSION_MS).activate()
    for broker_id in (1, 2, 3):
        made.start_broker(broker_id)
    made.create(alone("first", 1), alone("second", 2))
    fall_silent(made, 1, 2)
    in_turns(made)
    assert leaders(made, "first") == leaders(made, "second") == [LEADERLESS] * PARTITIONS
    return made


def fall_silent(harness: ControllerHarness, *brokers: int) -> None:
    """End the sessions of these brokers, and keep those of the others."""
    harness.clock.ms += SESSION_MS - 1
    for broker_id in {1, 2, 3}.difference(brokers):
        harness.heartbeat(broker_id)
    harness.clock.ms += 1


def a_turn(harness: ControllerHarness) -> list[Any]:
    before = len(harness.log)
    harness.controller.tick(harness.clock.ms)
    harness.settle()
    return [record for batch in harness.log[before:] for record in batch.records]


def in_turns(harness: ControllerHarness) -> list[list[Any]]:
    turns = []
    while (due_ms := harness.controller.next_tick_ms()) is not None and due_ms <= harness.clock.ms:
        turns.append(a_turn(harness))
    return turns


def partitions(harness: ControllerHarness, name: str) -> list[PartitionRegistration]:
    found = harness.controller.committed_image.topics.get(name)
    assert found is not None
    return [found.partitions[index] for index in sorted(found.partitions)]


def leaders(harness: ControllerHarness, name: str) -> list[int]:
    return [partition.leader for partition in partitions(harness, name)]


def test_a_returning_broker_leads_again_in_turns(harness: ControllerHarness) -> None:
    before = len(harness.log)
    assert not harness.heartbeat(1).is_fenced
    first = [record for batch in harness.log[before:] for record in batch.records]
    assert first[0].fenced == -1, "it is unfenced before it leads"
    assert len(first) == 5
    assert leaders(harness, "first").count(1) == 4
    assert [len(turn) for turn in in_turns(harness)][:2] == [4, 2]
    assert leaders(harness, "first") == [1] * PARTITIONS
    assert leaders(harness, "second") == [LEADERLESS] * PARTITIONS


def test_decisions_in_turns_equal_a_single_decision(
    harness: ControllerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness.heartbeat(1)
    in_turns(harness)
    changes = [record for batch in harness.log for record in batch.records if hasattr(record, "partition_id")]
    in_parts = [(change.partition_id, change.leader, change.isr) for change in changes[-PARTITIONS:]]
    monkeypatch.setattr(partition_walk, "PARTITIONS_A_TURN", 250)
    harness.heartbeat(2)
    changes = [record for batch in harness.log for record in batch.records if hasattr(record, "partition_id")]
    at_once = [(change.partition_id, change.leader, change.isr) for change in changes[-PARTITIONS:]]
    assert sorted(in_parts, key=repr) == sorted(
        ((index, 1, None if isr is None else [1]) for index, _, isr in at_once), key=repr
    )


def test_other_requests_are_decided_between_two_turns(harness: ControllerHarness) -> None:
    harness.heartbeat(1)
    assert not harness.heartbeat(2).is_fenced
    assert leaders(harness, "second").count(2) == 4
    assert leaders(harness, "first").count(1) == 4
    in_turns(harness)
    assert leaders(harness, "first") == [1] * PARTITIONS
    assert leaders(harness, "second") == [2] * PARTITIONS


def test_a_topic_deleted_between_two_turns_is_skipped(harness: ControllerHarness) -> None:
    harness.heartbeat(1)
    found = harness.controller.committed_image.topics.get("first")
    assert found is not None
    harness.answer(
        harness.controller.submit_in_steps(harness.controller.replication.delete_topics([found.id]), lambda error: {})
    )
    in_turns(harness)
    assert harness.controller.committed_image.topics.get("first") is None
    assert harness.faults == []


def test_a_broker_that_leaves_between_two_turns_leads_nothing_in_the_end(harness: ControllerHarness) -> None:
    harness.heartbeat(1)
    fall_silent(harness, 1)
    in_turns(harness)
    assert leaders(harness, "first") == [LEADERLESS] * PARTITIONS
    assert harness.controller.committed_image.cluster.brokers[1].fenced


def test_a_broker_that_leaves_and_returns_between_two_turns_leads_everything(harness: ControllerHarness) -> None:
    harness.heartbeat(1)
    harness.heartbeat(1, want_fence=True)
    in_turns(harness)
    assert leaders(harness, "first") == [LEADERLESS] * PARTITIONS
    harness.heartbeat(1)
    in_turns(harness)
    assert leaders(harness, "first") == [1] * PARTITIONS


def test_a_new_controller_finishes_an_arrival(harness: ControllerHarness) -> None:
    harness.heartbeat(1)
    successor = ControllerHarness(log=harness.log, broker_session_timeout_ms=SESSION_MS)
    successor.epoch = 2
    successor.activate()
    in_turns(successor)
    assert leaders(successor, "first") == [1] * PARTITIONS
    assert leaders(successor, "second") == [LEADERLESS] * PARTITIONS


def test_a_new_controller_finishes_the_arrival_of_a_last_known_leader(harness: ControllerHarness) -> None:
    """After a kill no replica is in sync or eligible: only the last leader may lead again, by an unclean election."""
    for broker_id in (1, 2):
        harness.register(broker_id, incarnation_id=Uuid.from_int(70 + broker_id), previous_broker_epoch=-1)
    assert {(found.isr, found.elr, found.last_known_elr) for found in partitions(harness, "first")} == {((), (), (1,))}
    harness.heartbeat(1)
    assert leaders(harness, "first").count(1) == 4
    successor = ControllerHarness(log=harness.log, broker_session_timeout_ms=SESSION_MS)
    successor.epoch = 2
    successor.activate()
    in_turns(successor)
    assert leaders(successor, "first") == [1] * PARTITIONS
    assert leaders(successor, "second") == [LEADERLESS] * PARTITIONS


def test_a_deposed_controller_forgets_an_arrival(harness: ControllerHarness) -> None:
    harness.heartbeat(1)
    harness.controller.deactivate()
    assert harness.controller.next_tick_ms() is None
    harness.controller.tick(harness.clock.ms)
    assert harness.controller.take_appends() == []


def test_heartbeats_are_answered_between_the_turns_of_another_broker(harness: ControllerHarness) -> None:
    harness.heartbeat(1)
    for _ in range(2):
        harness.clock.ms += 1
        assert harness.heartbeat(3).error_code == 0
        a_turn(harness)
    in_turns(harness)
    assert leaders(harness, "first") == [1] * PARTITIONS


def test_a_new_process_of_a_broker_registers_when_its_partitions_have_moved(harness: ControllerHarness) -> None:
    harness.heartbeat(1)
    in_turns(harness)
    successor = ControllerHarness(log=harness.log, broker_session_timeout_ms=SESSION_MS)
    successor.epoch = 2
    successor.activate()
    before = len(successor.log)
    successor.start_broker(1, incarnation_id=Uuid.from_int(77), previous_broker_epoch=-1)
    written = [record for batch in successor.log[before:] for record in batch.records]
    kinds = [type(record).__name__ for record in written]
    assert kinds.index("RegisterBrokerRecord") == PARTITIONS, "no partition of the former process is left"


def test_a_broker_is_unregistered_when_its_partitions_have_moved(harness: ControllerHarness) -> None:
    before = len(harness.log)
    answer = harness.call(unregister_broker.handle, UnregisterBrokerRequest(broker_id=1), 0)
    assert answer.error_code == 0
    written = [record for batch in harness.log[before:] for record in batch.records]
    assert type(written[-1]).__name__ == "UnregisterBrokerRecord"
    assert 1 not in harness.controller.committed_image.cluster.brokers


def test_many_leaders_are_elected_in_turns_with_a_response_at_the_end(harness: ControllerHarness) -> None:
    harness.heartbeat(1)
    in_turns(harness)
    request = ElectLeadersRequest(election_type=0, topic_partitions=None)
    answer = harness.call(elect_leaders.handle, request, 2)
    results = {result.topic: result.partition_result for result in answer.replica_election_results}
    assert results["first"] == []
    assert len(results["second"]) == PARTITIONS


def test_requests_waiting_for_turns_fail_when_the_controller_is_deposed(harness: ControllerHarness) -> None:
    harness.heartbeat(1)
    in_turns(harness)
    successor = ControllerHarness(log=harness.log, broker_session_timeout_ms=SESSION_MS)
    successor.epoch = 2
    successor.activate()
    answers: list[Any] = []
    registration = successor.registration(1, incarnation_id=Uuid.from_int(77))

    def decide() -> Any:
        return (
            yield from successor.controller.replication.register_broker(
                registration, new_epoch=lambda: 0, now_ms=successor.clock.monotonic_ms
            )
        )

    successor.controller.submit_in_turns(decide(), lambda error: error.code.value).on_complete(answers.append)
    assert answers == []
    successor.controller.deactivate()
    assert answers == [41]


def test_a_heartbeat_of_an_old_epoch_is_refused_between_turns(harness: ControllerHarness) -> None:
    harness.heartbeat(1)
    stale = harness.heartbeat(1, broker_epoch=1)
    assert stale.error_code != 0


def test_a_turn_processes_topic_by_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each topic that changes is copied in every image, so partitions spread over many topics make a turn expensive."""
    monkeypatch.setattr(persistent_map, "_SORTED_MAX", 0)
    harness = ControllerHarness(broker_session_timeout_ms=SESSION_MS).activate()
    for broker_id in (1, 2, 3):
        harness.start_broker(broker_id)
    harness.create(*(alone(f"t{number}", 1) for number in range(20)))
    fall_silent(harness, 1)
    in_turns(harness)
    harness.heartbeat(1)
    turns = in_turns(harness)
    assert sum(map(len, turns)) == 20 * PARTITIONS - 4, "the heartbeat took the first turn"
    assert max(len({record.topic_id for record in turn}) for turn in turns) == 2


def test_few_leaderless_partitions_are_found_without_a_walk_over_those_that_others_lead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(partition_walk, "PARTITIONS_A_TURN", 250)
    harness = ControllerHarness(broker_session_timeout_ms=SESSION_MS).activate()
    for broker_id in (1, 2, 3):
        harness.start_broker(broker_id)
    with_follower = CreatableReplicaAssignment(partition_index=0, broker_ids=[1, 3])
    harness.create(topic("led-by-3", -1, -1, assignments=[with_follower]), alone("first", 1))
    fall_silent(harness, 1)
    in_turns(harness)
    assert leaders(harness, "led-by-3") == [3]
    assert len(harness.controller.committed_image.topics.imbalanced) == PARTITIONS + 1
    looked_at: list[str] = []
    partitions_of = TopicsImage.partitions_of

    def watched(topics: TopicsImage, keys: Iterable[PartitionKey]) -> Iterator[PartitionOf]:
        for found in partitions_of(topics, keys):
            looked_at.append(found[0].name)
            yield found

    monkeypatch.setattr(TopicsImage, "partitions_of", watched)
    harness.heartbeat(1)
    assert leaders(harness, "first") == [1] * PARTITIONS
    assert looked_at == ["first"] * PARTITIONS
