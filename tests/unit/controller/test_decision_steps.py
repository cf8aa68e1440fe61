"""Long decisions that take effect as a whole: which requests are handled between their steps."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.steps import whole
from barnabas.controller import decision_steps
from barnabas.controller.apis import (
    alter_configs,
    broker_heartbeat,
    create_partitions,
    create_topics,
    delete_topics,
    incremental_alter_configs,
)
from barnabas.controller.controller_result import ControllerResult
from barnabas.controller.decision_steps import Pace
from barnabas.controller.policies import PolicyGate, PolicySession
from barnabas.controller.prepared_decision import PreparedDecision, within
from barnabas.controller.quorum_controller import QuorumController
from barnabas.coordinator.deferred import Deferred
from barnabas.metadata.image.record_writer import ApiMessageAndVersion
from barnabas.protocol.messages.alter_configs import AlterConfigsRequest
from barnabas.protocol.messages.alter_configs import AlterConfigsResource as LegacyAlterConfigsResource
from barnabas.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from barnabas.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from barnabas.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.protocol.record_serde import encode_metadata_record
from barnabas.protocol.records.no_op_record import NoOpRecord
from barnabas.protocol.records.partition_record import PartitionRecord
from barnabas.security.authorizer.authorizer import Authorizer
from tests.unit.controller.controller_harness import ControllerHarness, context, submitted, topic

SESSION_MS = 9_000
MANY = 3 * decision_steps.UNITS_A_STEP


def _with_brokers(*broker_ids: int, **settings: Any) -> ControllerHarness:
    harness = ControllerHarness(broker_session_timeout_ms=SESSION_MS, **settings).activate()
    for broker_id in broker_ids:
        harness.start_broker(broker_id)
    return harness


def _many_topics(harness: ControllerHarness, prefix: str = "many") -> Deferred[CreateTopicsResponse]:
    request = CreateTopicsRequest(topics=[topic(f"{prefix}-{number}") for number in range(MANY)])
    return submitted(create_topics.handle(harness.controller, context(), request, harness.authorizer))


def _a_topic(harness: ControllerHarness, name: str) -> Deferred[CreateTopicsResponse]:
    request = CreateTopicsRequest(topics=[topic(name)])
    return submitted(create_topics.handle(harness.controller, context(), request, harness.authorizer))


def _heartbeat(harness: ControllerHarness, broker_id: int, **fields: Any) -> Deferred[Any]:
    request = BrokerHeartbeatRequest(
        broker_id=broker_id,
        broker_epoch=harness.controller.state.image.cluster.brokers[broker_id].epoch,
        current_metadata_offset=harness.controller.committed_image.offset,
        **fields,
    )
    return broker_heartbeat.handle(harness.controller, context(), request, harness.authorizer)


def _finish(harness: ControllerHarness) -> int:
    """Return the number of ticks until nothing is left to do immediately."""
    ticks = 0
    while (due_ms := harness.controller.next_tick_ms()) is not None and due_ms <= harness.clock.ms:
        harness.controller.tick(harness.clock.ms)
        harness.settle()
        ticks += 1
        assert ticks < 1_000, "the controller never becomes idle"
    harness.settle()
    return ticks


def _finish_with(harness: ControllerHarness, answer: Deferred[Any]) -> Any:
    _finish(harness)
    return answer.value


def test_a_long_creation_is_decided_in_steps_and_written_as_one_batch() -> None:
    harness = _with_brokers(1)
    batches = len(harness.log)
    answer = _many_topics(harness)
    harness.settle()
    assert not answer.is_complete
    assert len(harness.log) == batches
    assert _finish(harness) > MANY // decision_steps.UNITS_A_STEP
    assert [result.error_code for result in answer.value.topics] == [0] * MANY
    assert len(harness.log) == batches + 1
    assert len(harness.log[-1].records) == 2 * MANY
    assert len(harness.controller.committed_image.topics) == MANY


def test_decisions_in_steps_equal_a_single_decision() -> None:
    in_steps, at_once = _with_brokers(1, 2, 3), _with_brokers(1, 2, 3)
    large = CreateTopicsRequest(topics=[topic("a", 1, 2), topic("large", MANY, 3), topic("a.b"), topic("a_b")])
    answer = submitted(create_topics.handle(in_steps.controller, context(), large, in_steps.authorizer))
    _finish(in_steps)
    result = whole(at_once.controller.replication.create_topics(large.topics, None, validate_only=False))
    assert in_steps.log[-1].records == [message for message, _ in result.records]
    assert answer.value.topics == result.response


def test_the_log_receives_the_values_that_were_encoded_in_steps() -> None:
    harness = _with_brokers(1)
    _many_topics(harness)
    appends: list[Any] = []
    while not appends:
        harness.controller.tick(harness.clock.ms)
        appends = harness.controller.take_appends()
    (append,) = appends
    assert append.values == [encode_metadata_record(*record) for record in append.records]


def test_other_decisions_wait_in_order_until_the_long_one_is_made() -> None:
    harness = _with_brokers(1)
    long = _many_topics(harness)
    first, second = _a_topic(harness, "later"), _a_topic(harness, "later")
    harness.settle()
    assert [first.is_complete, second.is_complete] == [False, False]
    _finish(harness)
    assert long.is_complete
    assert first.value.topics[0].error_code == 0
    assert second.value.topics[0].error_code == int(ErrorCode.TOPIC_ALREADY_EXISTS)
    offsets = [harness.controller.committed_image.topics.get(name) is not None for name in ("many-0", "later")]
    assert offsets == [True, True]


def test_a_later_decision_waits_after_the_waiting_ones() -> None:
    harness = _with_brokers(1)
    _many_topics(harness, "first")
    _many_topics(harness, "second")
    third = _a_topic(harness, "second-0")
    while harness.controller.state.image.topics.get("first-0") is None:
        harness.controller.tick(harness.clock.ms)
    fourth = _a_topic(harness, "second-1")
    _finish(harness)
    assert [answer.value.topics[0].error_code for answer in (third, fourth)] == [36, 36]


def test_a_heartbeat_that_changes_nothing_is_answered_between_the_steps() -> None:
    harness = _with_brokers(1, 2)
    _many_topics(harness)
    assert not _heartbeat(harness, 1).value.is_fenced
    assert harness.controller.state.image.topics.get("many-0") is None


def test_a_heartbeat_that_changes_the_state_waits() -> None:
    harness = _with_brokers(1, 2)
    long = _many_topics(harness)
    wants_fence = _heartbeat(harness, 2, want_fence=True)
    harness.settle()
    assert not wants_fence.is_complete
    _finish(harness)
    assert long.is_complete
    assert wants_fence.value.is_fenced
    brokers = harness.controller.committed_image.cluster.brokers
    assert brokers[2].fenced
    assert 2 not in {
        partition.leader
        for created in harness.controller.committed_image.topics.by_id.values()
        for partition in created.partitions.values()
    }


def test_a_broker_with_a_heartbeat_between_the_steps_is_not_fenced_after_them() -> None:
    harness = _with_brokers(1, 2)
    _many_topics(harness)
    harness.clock.ms += SESSION_MS
    harness.controller.tick(harness.clock.ms)
    _heartbeat(harness, 1)
    _finish(harness)
    brokers = harness.controller.committed_image.cluster.brokers
    assert not brokers[1].fenced
    assert brokers[2].fenced


def test_a_controller_deposed_between_the_steps_writes_nothing() -> None:
    harness = _with_brokers(1)
    end_offset = harness.end_offset
    long, behind = _many_topics(harness), _a_topic(harness, "later")
    harness.controller.deactivate()
    codes = {result.error_code for answer in (long, behind) for result in answer.value.topics}
    assert codes == {int(ErrorCode.NOT_CONTROLLER)}
    harness.settle()
    assert harness.end_offset == end_offset
    assert not harness.controller.has_steps


def test_a_controller_that_is_active_again_has_no_old_decisions() -> None:
    harness = _with_brokers(1)
    _many_topics(harness)
    harness.controller.tick(harness.clock.ms)
    harness.controller.deactivate()
    harness.epoch += 1
    harness.controller.activate(harness.epoch, harness.end_offset)
    _finish(harness)
    assert len(harness.controller.committed_image.topics) == 0
    assert _finish_with(harness, _a_topic(harness, "fresh")).topics[0].error_code == 0


def test_a_numbered_call_is_marked_in_the_batch_of_its_last_step() -> None:
    harness = _with_brokers(1)
    call_id = bytes(range(16))
    harness.controller.calls.begin(call_id, 7)
    _many_topics(harness)
    harness.controller.calls.end()
    other = _a_topic(harness, "later")
    _finish(harness)
    assert other.is_complete
    assert type(harness.log[-2].records[-1]) is NoOpRecord
    assert not any(type(record) is NoOpRecord for record in harness.log[-1].records)
    assert harness.controller.calls.find(call_id) is not None


def test_later_steps_know_the_policys_decision_about_their_request() -> None:
    gate = PolicyGate()
    harness = _with_brokers(1, create_topic_policy=gate)
    session = PolicySession()

    class Everything(dict[Any, ApiException | None]):
        def get(self, key: object, default: Any = None) -> Any:
            return None

    session._verdicts = Everything()
    with gate.opened(session):
        answer = _many_topics(harness)
    unasked = _a_topic(harness, "unasked")
    _finish(harness)
    assert {result.error_code for result in answer.value.topics} == {0}
    assert unasked.value.topics[0].error_code == int(ErrorCode.POLICY_VIOLATION)
    assert gate.session is None


def test_a_fault_in_a_later_step_fails_only_its_caller() -> None:
    harness = _with_brokers(1)

    def fails(controller: QuorumController) -> Any:
        yield
        raise ZeroDivisionError

    broken = harness.controller.submit_in_steps(fails(harness.controller), lambda error: error)
    later = _a_topic(harness, "later")
    _finish(harness)
    assert isinstance(broken.value, ApiException)
    assert broken.value.code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert later.value.topics[0].error_code == 0
    assert [type(fault) for fault in harness.faults] == [ZeroDivisionError]


def test_a_decision_that_turns_out_to_write_waits_in_order() -> None:
    harness = _with_brokers(1)
    _many_topics(harness)
    result = ControllerResult((ApiMessageAndVersion(NoOpRecord(), 0),), None)
    answer = harness.controller.submit(lambda: result, lambda error: None, only_reads=lambda: True)
    assert not answer.is_complete
    _finish(harness)
    assert answer.is_complete
    assert [len(append.records) for append in harness.log[-2:]] == [2 * MANY, 1]
    assert harness.faults == []


def test_a_first_report_of_no_cordoned_directories_is_a_change() -> None:
    harness = _with_brokers(1)
    image = harness.controller.state.image.cluster.brokers[1]
    request = BrokerHeartbeatRequest(broker_id=1, broker_epoch=image.epoch, cordoned_log_dirs=[])
    assert image.cordoned_directories is None
    assert not harness.controller.replication.changes_nothing(request)


def test_settings_of_many_topics_change_in_steps_and_together() -> None:
    harness = _with_brokers(1)
    _finish_with(harness, _many_topics(harness))
    change = AlterableConfig(name="retention.ms", config_operation=0, value="86400000")
    resources = [
        AlterConfigsResource(resource_type=2, resource_name=f"many-{number}", configs=[change])
        for number in range(MANY)
    ]
    request = IncrementalAlterConfigsRequest(resources=resources)
    answer = submitted(incremental_alter_configs.handle(harness.controller, context(), request, harness.authorizer))
    assert not answer.is_complete
    assert harness.controller.state.image.configs.of_topic("many-0") == {}
    _finish(harness)
    assert len(harness.log[-1].records) == MANY
    assert {response.error_code for response in answer.value.responses} == {0}


def test_partitions_of_one_large_topic_are_placed_in_steps() -> None:
    harness = _with_brokers(1, 2, 3)
    request = CreateTopicsRequest(topics=[topic("large", MANY, 3)])
    create_topics.handle(harness.controller, context(), request, harness.authorizer)
    assert harness.controller.has_steps
    _finish(harness)
    assert sum(type(record) is PartitionRecord for record in harness.log[-1].records) == MANY


def test_a_pace_counts_from_zero_after_each_step() -> None:
    pace = Pace(3)
    assert [pace.is_reached() for _ in range(7)] == [False, False, True, False, False, True, False]
    assert pace.is_reached(5)


class _Watching(Authorizer):
    """Denies everything, and counts the checks."""

    is_absent = False

    def __init__(self) -> None:
        self.check_count = 0

    def authorize(self, *args: Any, **options: Any) -> bool:
        self.check_count += 1
        return False


@pytest.mark.parametrize(
    ("api", "request_"),
    [
        (create_topics, CreateTopicsRequest(topics=[topic(f"t{number}") for number in range(MANY)])),
        (
            create_partitions,
            CreatePartitionsRequest(topics=[CreatePartitionsTopic(name=f"t{n}", count=2) for n in range(MANY)]),
        ),
        (
            incremental_alter_configs,
            IncrementalAlterConfigsRequest(
                resources=[
                    AlterConfigsResource(resource_type=2, resource_name=f"t{n}", configs=[]) for n in range(MANY)
                ]
            ),
        ),
        (
            alter_configs,
            AlterConfigsRequest(
                resources=[
                    LegacyAlterConfigsResource(resource_type=2, resource_name=f"t{n}", configs=[]) for n in range(MANY)
                ]
            ),
        ),
        (delete_topics, DeleteTopicsRequest(topics=[DeleteTopicState(name=f"t{number}") for number in range(MANY)])),
    ],
)
def test_the_rights_on_many_topics_are_checked_in_steps(api: Any, request_: Any) -> None:
    """A client without a right used to name 20,000 topics and hold the loop for up to 120 ms."""
    harness = _with_brokers(1)
    rights = _Watching()
    decision = api.handle(harness.controller, context(), request_, rights)
    assert rights.check_count <= decision_steps.UNITS_A_STEP + 1
    answer = submitted(decision)
    _finish(harness)
    results = next(
        getattr(answer.value, name) for name in ("topics", "results", "responses") if hasattr(answer.value, name)
    )
    assert {result.error_code for result in results} == {int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)}
    assert len(results) == MANY


def test_a_prepared_decision_belongs_to_its_numbered_call() -> None:
    harness = _with_brokers(1)
    call_id = bytes(range(16))
    request = CreateTopicsRequest(topics=[topic(f"t{number}") for number in range(MANY)])
    in_call = partial(harness.controller.calls.deciding_for, (call_id, 7))
    with in_call():
        decision = within(in_call, create_topics.handle(harness.controller, context(), request, harness.authorizer))
    assert isinstance(decision, PreparedDecision)
    _finish_with(harness, submitted(decision))
    assert harness.controller.calls.find(call_id) is not None
