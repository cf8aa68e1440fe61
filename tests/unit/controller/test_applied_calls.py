"""A numbered call is known from the log, both to the controller that decided it and to later active controllers."""

from __future__ import annotations

from typing import Any, cast

from barnabas.common.config_value import Password
from barnabas.common.errors import ErrorCode
from barnabas.common.steps import whole
from barnabas.controller.apis import create_delegation_token, create_topics
from barnabas.controller.applied_calls import KEEP_MS, AppliedCalls
from barnabas.controller.controller_result import ControllerResult
from barnabas.metadata.image.record_writer import ApiMessageAndVersion
from barnabas.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from barnabas.protocol.messages.create_topics import (
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from barnabas.protocol.record_serde import decode_metadata_record, encode_metadata_record
from barnabas.protocol.records.no_op_record import NoOpRecord
from tests.unit.controller.controller_harness import ControllerHarness, topic
from tests.unit.controller.controller_harness import context as _context

CALL = bytes(range(16))


def started(**settings: Any) -> ControllerHarness:
    harness = ControllerHarness(**settings).activate()
    harness.start_broker(1)
    return harness


def create(harness: ControllerHarness, *names: str, call: bytes = CALL, **fields: Any) -> CreateTopicsResponse:
    request = CreateTopicsRequest(topics=[topic(name) for name in names], **fields)
    harness.controller.calls.begin(call, 7)
    try:
        return harness.call(create_topics.handle, request)
    finally:
        harness.controller.calls.end()


def test_an_applied_call_is_known_with_its_response_when_committed() -> None:
    harness = started()
    answer = create(harness, "orders")
    known = harness.controller.calls.find(CALL)
    assert known is not None
    assert known.api_version == 7
    kept = CreateTopicsResponse.decode(known.body or b"", 7)
    assert kept.topics[0].configs is None, "the largest part of a response"
    assert (
        create_topics.restore_configs(harness.controller, CreateTopicsRequest(topics=[topic("orders")]), kept) == answer
    )
    mark = harness.log[-1].records[-1]
    assert isinstance(mark, NoOpRecord)
    assert decode_metadata_record(encode_metadata_record(mark, 0)) == (mark, 0), (
        "other controllers and this one read it back"
    )


def test_an_uncommitted_call_is_unknown() -> None:
    harness = started()
    harness.controller.calls.begin(CALL, 7)
    request = CreateTopicsRequest(topics=[topic("orders")])
    create_topics.handle(harness.controller, _context(), request, harness.authorizer)
    harness.controller.calls.end()
    harness.append()
    assert harness.controller.calls.find(CALL) is None
    harness.controller.deactivate()
    assert harness.controller.calls.find(CALL) is None


def test_a_standby_controller_knows_the_call_too() -> None:
    harness = started()
    create(harness, "orders")
    successor = ControllerHarness(log=harness.log).activate()
    assert successor.controller.calls.find(CALL) == harness.controller.calls.find(CALL)


def test_marks_of_calls_do_not_change_the_image() -> None:
    harness, plain = started(), started()
    create(harness, "orders")
    plain.create(topic("orders"))
    assert harness.controller.committed_image.topics.get("orders") is not None
    ours, theirs = (decider.controller.committed_image.topics.get("orders") for decider in (harness, plain))
    assert ours is not None
    assert theirs is not None
    assert ours.partitions == theirs.partitions


def test_a_call_without_changes_writes_no_mark() -> None:
    harness = started()
    create(harness, "orders", validate_only=True)
    assert create(harness, "a/b").topics[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert harness.controller.calls.find(CALL) is None


def test_a_secret_in_an_answer_does_not_get_into_the_log() -> None:
    harness = started(delegation_token_secret_key=Password("the secret key"))
    harness.controller.calls.begin(CALL, 3)
    context = _context()
    context.forwarding_principal = context.principal
    request = CreateDelegationTokenRequest(max_lifetime_ms=1000)
    answer: Any = harness.answer(
        create_delegation_token.handle(harness.controller, context, request, harness.authorizer)
    )
    harness.controller.calls.end()
    assert answer.hmac
    known = harness.controller.calls.find(CALL)
    assert known is not None
    assert known.body is None
    assert answer.hmac not in encode_metadata_record(harness.log[-1].records[-1], 0)


def test_the_answer_to_as_many_topics_as_a_call_may_create_is_kept() -> None:
    harness = started()
    names = [f"{'x' * 200}-{number}" for number in range(4999)]
    requested = CreateTopicsRequest(topics=[topic(name) for name in names])
    answer = create(harness, *names)
    assert {created.error_code for created in answer.topics} == {0}
    known = harness.controller.calls.find(CALL)
    assert known is not None
    kept = CreateTopicsResponse.decode(known.body or b"", 7)
    assert create_topics.restore_configs(harness.controller, requested, kept) == answer


def test_configs_set_by_the_client_are_restored_and_hidden_ones_stay_hidden() -> None:
    harness = started()
    requested = CreateTopicsRequest(
        topics=[topic("orders", configs=[CreatableTopicConfig(name="retention.ms", value="1000")]), topic("hidden")]
    )
    response = CreateTopicsResponse(
        topics=[
            CreatableTopicResult(name="orders", configs=None),
            CreatableTopicResult(name="hidden", configs=None, topic_config_error_code=29),
        ]
    )
    orders, hidden = create_topics.restore_configs(harness.controller, requested, response).topics
    values = {config.name: config.value for config in orders.configs or ()}
    assert values["retention.ms"] == "1000"
    assert "cleanup.policy" in values
    assert hidden.configs is None


def test_a_response_that_does_not_fit_into_the_batch_is_not_kept() -> None:
    calls = AppliedCalls(cast("Any", None))
    response = CreateTopicsResponse(topics=[CreatableTopicResult(name="orders")])
    result = ControllerResult([ApiMessageAndVersion(NoOpRecord(), 0)], response)
    with calls.deciding_for((CALL, 7)):
        lengths = [
            [
                len(record.message.unknown_tags[0][1])
                for record in whole(calls.marked(result, room_bytes=room)).records[1:]
            ]
            for room in (0, 64, 10_000)
        ]
    assert lengths[0] == [], "the batch has no room even for the number"
    assert lengths[1] == [18]
    assert lengths[2][0] > 18


def test_calls_are_forgotten_when_they_can_no_longer_be_repeated() -> None:
    harness = started()
    create(harness, "first")
    harness.clock.ms += KEEP_MS
    create(harness, "second", call=bytes(16))
    assert harness.controller.calls.find(CALL) is None
    assert harness.controller.calls.find(bytes(16)) is not None


def test_a_result_that_fills_a_batch_is_marked_too() -> None:
    harness = started(max_records_per_batch=4)
    assert create(harness, "two", "more").topics[0].error_code == 0
    assert len(harness.log[-1].records) == 5
    assert harness.controller.calls.find(CALL) is not None
