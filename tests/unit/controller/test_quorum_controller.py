from __future__ import annotations

import pytest

from barnabas.common.errors import ErrorCode, InvariantViolated
from barnabas.common.uuid import Uuid
from barnabas.controller import append_limits
from barnabas.controller.apis import create_topics
from barnabas.controller.controller_result import ControllerResult
from barnabas.coordinator.deferred import Deferred
from barnabas.metadata.image.record_writer import ApiMessageAndVersion
from barnabas.metadata.loader import CommittedBatch
from barnabas.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from barnabas.protocol.records.begin_transaction_record import BeginTransactionRecord
from barnabas.protocol.records.config_record import ConfigRecord
from barnabas.protocol.records.end_transaction_record import EndTransactionRecord
from barnabas.protocol.records.no_op_record import NoOpRecord
from barnabas.protocol.records.remove_topic_record import RemoveTopicRecord
from tests.unit.controller.controller_harness import ControllerHarness, context, topic


@pytest.fixture
def harness() -> ControllerHarness:
    return ControllerHarness().activate()


def test_the_first_activation_writes_the_bootstrap_as_one_transaction(harness: ControllerHarness) -> None:
    (batch,) = harness.log
    assert batch.base_offset == 3
    assert isinstance(batch.records[0], BeginTransactionRecord)
    assert batch.records[0].name == "Bootstrap records"
    assert [r.name for r in batch.records[1:-2]] == [
        "metadata.version",
        "eligible.leader.replicas.version",
        "group.version",
        "share.version",
        "streams.version",
        "transaction.version",
    ]
    assert batch.records[-2] == ConfigRecord(resource_type=4, resource_name="", name="min.insync.replicas", value="1")
    assert isinstance(batch.records[-1], EndTransactionRecord)


def test_a_later_activation_writes_nothing(harness: ControllerHarness) -> None:
    again = ControllerHarness(log=harness.log).activate()
    assert len(again.log) == 1


def decided(harness: ControllerHarness, request: CreateTopicsRequest) -> Deferred[CreateTopicsResponse]:
    deferred = create_topics.handle(harness.controller, context(), request, harness.authorizer)
    assert isinstance(deferred, Deferred), "the few topics are decided immediately"
    return deferred


def test_an_answer_waits_for_the_commit(harness: ControllerHarness) -> None:
    harness.start_broker(1)
    request = CreateTopicsRequest(topics=[topic("orders")])
    deferred = decided(harness, request)
    harness.append()
    assert not deferred.is_complete
    assert harness.controller.committed_image.topics.get("orders") is None
    harness.commit()
    assert deferred.value.topics[0].error_code == 0
    assert harness.controller.committed_image.topics.get("orders") is not None


def test_a_decision_sees_earlier_uncommitted_decisions(harness: ControllerHarness) -> None:
    harness.start_broker(1)
    request = CreateTopicsRequest(topics=[topic("orders")])
    first = decided(harness, request)
    second = decided(harness, request)
    assert not second.is_complete, "its response depends on an uncommitted topic"
    harness.settle()
    assert first.value.topics[0].error_code == 0
    assert second.value.topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS


def test_lost_leadership_discards_uncommitted_decisions(harness: ControllerHarness) -> None:
    harness.start_broker(1)
    before = harness.controller.committed_image
    request = CreateTopicsRequest(topics=[topic("orders")])
    deferred = decided(harness, request)
    harness.append()
    harness.controller.deactivate()
    assert deferred.value.topics[0].error_code == ErrorCode.NOT_CONTROLLER
    assert harness.controller.state.image is before
    assert not harness.controller.take_appends()


def test_a_standby_refuses_and_names_the_active_controller() -> None:
    harness = ControllerHarness()
    harness.controller.handle_leader_change(7)
    result = harness.create(topic("orders")).topics[0]
    assert result.error_code == ErrorCode.NOT_CONTROLLER
    assert result.error_message == "The active controller appears to be node 7."


def test_a_standby_that_replays_the_same_log_is_equal(harness: ControllerHarness) -> None:
    harness.start_broker(1)
    harness.create(topic("orders", 3), topic("payments"))
    standby = ControllerHarness()
    standby.controller.handle_commit(harness.log)
    assert standby.controller.committed_image == harness.controller.committed_image
    assert standby.controller.state.registration_offsets == harness.controller.state.registration_offsets


def test_an_idle_controller_keeps_the_log_moving(harness: ControllerHarness) -> None:
    harness.clock.ms += 499
    harness.controller.tick(harness.clock.ms)
    assert not harness.controller.take_appends()
    harness.clock.ms += 1
    harness.controller.tick(harness.clock.ms)
    (append,) = harness.controller.take_appends()
    assert append.records[0].message == NoOpRecord()


def test_many_requests_share_one_append(harness: ControllerHarness) -> None:
    harness.start_broker(1)
    answers = [decided(harness, CreateTopicsRequest(topics=[topic(f"t{i}")])) for i in range(20)]
    assert len(harness.controller._appends) == 20
    harness.settle()
    assert all(answer.value.topics[0].error_code == 0 for answer in answers)


def test_a_controller_deposed_by_its_own_append_has_correct_offsets_when_it_leads_again(
    harness: ControllerHarness,
) -> None:
    """Seed 392 of the simulator: its decisions had other offsets than the log."""
    harness.start_broker(1)
    request = CreateTopicsRequest(topics=[topic("orders")])
    decided(harness, request)
    appends = harness.controller.take_appends()
    harness.controller.deactivate()
    harness.controller.handle_appended(appends, harness.end_offset)
    harness.epoch = 2
    harness.controller.activate(2, harness.end_offset)
    assert harness.create(topic("orders")).topics[0].error_code == 0
    assert harness.controller.next_write_offset == harness.end_offset


def test_a_decision_is_not_committed_by_control_records_at_the_offsets_where_it_was_expected(
    harness: ControllerHarness,
) -> None:
    """Seed 505158758 of the simulator: the decision was answered before it was in the log."""
    harness.start_broker(1)
    before = harness.controller.committed_image
    deferred = decided(harness, CreateTopicsRequest(topics=[topic("orders")]))
    end = harness.end_offset
    voters = CommittedBatch(
        base_offset=end, last_offset=end + 9, epoch=harness.epoch, append_time_ms=harness.clock.ms, records=[]
    )
    harness.log.append(voters)
    harness.controller.handle_commit([voters])
    assert not deferred.is_complete
    assert harness.controller.committed_image.topics is before.topics
    harness.append()
    assert not deferred.is_complete
    harness.commit()
    assert deferred.value.topics[0].error_code == 0
    assert harness.controller.committed_image.topics.get("orders") is not None
    assert harness.controller.next_write_offset == harness.end_offset


def test_an_unexpected_error_is_answered_and_keeps_the_controller_active(harness: ControllerHarness) -> None:
    def decide() -> None:
        raise ZeroDivisionError

    answer = harness.controller.submit(decide, lambda error: error.code)
    assert answer.value == ErrorCode.UNKNOWN_SERVER_ERROR
    assert isinstance(harness.faults[0], ZeroDivisionError)
    assert harness.controller.is_active


def large(name: str) -> CreatableTopic:
    value = "0:1," * 8_000 + "0:1"
    configs = [CreatableTopicConfig(name=f"{side}.replication.throttled.replicas", value=value) for side in SIDES]
    return topic(name, configs=configs)


SIDES = ("leader", "follower")


def test_a_decision_too_large_for_a_batch_is_refused_before_replay(
    harness: ControllerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(append_limits, "BATCH_MAX_BYTES", 100_000)
    harness.start_broker(1)
    before = harness.controller.state.image
    results = harness.create(large("a"), large("b")).topics
    assert {result.error_code for result in results} == {ErrorCode.POLICY_VIOLATION}
    assert harness.controller.state.image is before
    assert harness.create(large("a")).topics[0].error_code == 0


def test_a_fenced_broker_may_leave_more_partitions_than_a_batch_holds() -> None:
    harness = ControllerHarness(max_records_per_batch=40).activate()
    harness.start_broker(1)
    for number in range(5):
        harness.create(topic(f"t{number}", 10))
    harness.clock.ms += 10_000
    harness.controller.tick(harness.clock.ms)
    fencing = harness.controller.take_appends()[0]
    assert len(fencing.records) == 51
    assert not fencing.is_atomic
    base = harness.end_offset
    harness.controller.handle_appended([fencing], base)
    messages = [message for message, _ in fencing.records]
    halves = [
        CommittedBatch(base_offset=base, last_offset=base + 39, epoch=1, append_time_ms=0, records=messages[:40]),
        CommittedBatch(base_offset=base + 40, last_offset=base + 50, epoch=1, append_time_ms=0, records=messages[40:]),
    ]
    standby = ControllerHarness()
    standby.controller.handle_commit(harness.log)
    for half in halves:
        harness.controller.handle_commit([half])
        standby.controller.handle_commit([half])
        assert harness.controller.committed_image == standby.controller.committed_image
    assert not harness.controller.committed_image.cluster.is_alive(1)


def test_a_killed_broker_returns_however_many_partitions_it_had() -> None:
    first = ControllerHarness(max_records_per_batch=40).activate()
    first.start_broker(1)
    for number in range(5):
        first.create(topic(f"t{number}", 10))
    again = ControllerHarness(log=first.log, max_records_per_batch=40).activate()
    again.start_broker(1, incarnation_id=Uuid.from_int(999))
    partitions = [p for t in again.controller.committed_image.topics.by_id.values() for p in t.partitions.values()]
    assert [partition.leader for partition in partitions] == [1] * 50


def test_records_that_contradict_the_state_are_a_fault_and_leave_it_unchanged(harness: ControllerHarness) -> None:
    unknown = RemoveTopicRecord(topic_id=Uuid.from_int(999))
    before = harness.controller.state.image
    answer = harness.controller.submit(
        lambda: ControllerResult([ApiMessageAndVersion(unknown, 0)], ErrorCode.NONE), lambda error: error.code
    )
    assert answer.value == ErrorCode.UNKNOWN_SERVER_ERROR
    assert isinstance(harness.faults[0], InvariantViolated)
    assert harness.controller.state.image is before
    assert not harness.controller.take_appends()
    assert harness.start_broker(1)
