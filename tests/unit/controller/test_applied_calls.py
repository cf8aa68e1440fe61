"""A call with a number is known from the log: to who decided it, and to who becomes active later."""

from __future__ import annotations

from typing import Any

from barnabas.common.config_value import Password
from barnabas.common.errors import ErrorCode
from barnabas.controller.apis import create_delegation_token, create_topics
from barnabas.controller.applied_calls import BODY_BYTES_MAX, KEEP_MS
from barnabas.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from barnabas.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
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


def test_what_was_applied_is_known_with_its_answer_when_it_is_committed() -> None:
    harness = started()
    answer = create(harness, "orders")
    known = harness.controller.calls.find(CALL)
    assert known is not None
    assert known.api_version == 7
    assert CreateTopicsResponse.decode(known.body or b"", 7) == answer
    mark = harness.log[-1].records[-1]
    assert isinstance(mark, NoOpRecord)
    assert decode_metadata_record(encode_metadata_record(mark, 0)) == (mark, 0), "others read it back, and us"


def test_before_it_is_committed_nothing_is_known() -> None:
    harness = started()
    harness.controller.calls.begin(CALL, 7)
    request = CreateTopicsRequest(topics=[topic("orders")])
    create_topics.handle(harness.controller, _context(), request, harness.authorizer)
    harness.controller.calls.end()
    harness.append()
    assert harness.controller.calls.find(CALL) is None
    harness.controller.deactivate()
    assert harness.controller.calls.find(CALL) is None


def test_a_controller_that_follows_knows_it_too() -> None:
    harness = started()
    create(harness, "orders")
    successor = ControllerHarness(log=harness.log).activate()
    assert successor.controller.calls.find(CALL) == harness.controller.calls.find(CALL)


def test_the_image_is_the_same_with_and_without() -> None:
    harness, plain = started(), started()
    create(harness, "orders")
    plain.create(topic("orders"))
    assert harness.controller.committed_image.topics.get("orders") is not None
    ours, theirs = (each.controller.committed_image.topics.get("orders") for each in (harness, plain))
    assert ours is not None
    assert theirs is not None
    assert ours.partitions == theirs.partitions


def test_what_changed_nothing_leaves_no_trace() -> None:
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


def test_a_very_long_answer_is_not_kept() -> None:
    harness = started()
    names = [f"{'x' * 200}-{number}" for number in range(100)]
    assert len(create(harness, *names).encode(7)) > BODY_BYTES_MAX
    known = harness.controller.calls.find(CALL)
    assert known is not None
    assert known.body is None


def test_calls_are_forgotten_when_nobody_can_ask_any_more() -> None:
    harness = started()
    create(harness, "first")
    harness.clock.ms += KEEP_MS
    create(harness, "second", call=bytes(16))
    assert harness.controller.calls.find(CALL) is None
    assert harness.controller.calls.find(bytes(16)) is not None


def test_a_result_that_fills_a_batch_alone_has_no_mark() -> None:
    harness = started(max_records_per_batch=4)
    assert create(harness, "two", "more").topics[0].error_code == 0
    assert len(harness.log[-1].records) == 4
    assert harness.controller.calls.find(CALL) is None
