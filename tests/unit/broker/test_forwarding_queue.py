"""When a request is sent to the controller, when it is retried, and what its sender receives."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.broker.forwarding_queue import Attempt, Call, Fate, ForwardingQueue, verdict_of
from barnabas.common.errors import ErrorCode

LIMIT_MS = 60_000


def queue_with(count: int, **settings: Any) -> tuple[ForwardingQueue[Call], list[Call]]:
    queue, calls = ForwardingQueue(**settings), [Call() for _ in range(count)]
    for call in calls:
        queue.add(call, 0)
    return queue, calls


def sent(queue: ForwardingQueue[Call], now_ms: int) -> list[Call]:
    found = []
    while (call := queue.next_to_send(now_ms)) is not None:
        found.append(call)
    return found


@pytest.mark.parametrize(
    ("attempt", "error", "fate", "expected"),
    [
        (Attempt.ANSWERED, ErrorCode.NONE, Fate.DELIVER, ErrorCode.NONE),
        (Attempt.ANSWERED, ErrorCode.NOT_CONTROLLER, Fate.RETRY, ErrorCode.NONE),
        (Attempt.ANSWERED, ErrorCode.UNSUPPORTED_VERSION, Fate.HANG_UP, ErrorCode.NONE),
        (Attempt.ANSWERED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, Fate.FAIL, ErrorCode.UNKNOWN_SERVER_ERROR),
        (Attempt.ANSWERED, ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE, Fate.FAIL, ErrorCode.UNKNOWN_SERVER_ERROR),
        (Attempt.ANSWERED, ErrorCode.INVALID_REQUEST, Fate.FAIL, ErrorCode.UNKNOWN_SERVER_ERROR),
        (Attempt.ANSWERED, ErrorCode.UNKNOWN_SERVER_ERROR, Fate.FAIL, ErrorCode.UNKNOWN_SERVER_ERROR),
        (Attempt.LOST, ErrorCode.NONE, Fate.RETRY, ErrorCode.NONE),
        (Attempt.NOT_BELIEVED, ErrorCode.NONE, Fate.FAIL, ErrorCode.UNKNOWN_SERVER_ERROR),
        (Attempt.NOT_OFFERED, ErrorCode.NONE, Fate.FAIL, ErrorCode.UNKNOWN_SERVER_ERROR),
        (Attempt.GARBLED, ErrorCode.NONE, Fate.FAIL, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_each_outcome_of_an_attempt_has_its_verdict(
    attempt: Attempt, error: ErrorCode, fate: Fate, expected: ErrorCode
) -> None:
    verdict = verdict_of(attempt, error)
    assert (verdict.fate, verdict.error) == (fate, expected)


@pytest.mark.parametrize("error", list(ErrorCode))
def test_errors_between_broker_and_controller_are_not_reported_as_client_errors(error: ErrorCode) -> None:
    assert verdict_of(Attempt.ANSWERED, error).error in (ErrorCode.NONE, ErrorCode.UNKNOWN_SERVER_ERROR)


def test_each_call_uses_its_own_connection_while_connections_are_free() -> None:
    queue, calls = queue_with(3, connections_max=2)
    assert sent(queue, 0) == calls[:2]
    assert (queue.length, queue.in_flight) == (1, 2)
    queue.completed(calls[1], 10, Attempt.ANSWERED)
    assert sent(queue, 10) == calls[2:], "a slow call delays no other"


@pytest.mark.parametrize("error", [ErrorCode.NONE, ErrorCode.NOT_CONTROLLER])
def test_retried_calls_are_sent_before_later_ones(error: ErrorCode) -> None:
    queue, calls = queue_with(4, connections_max=2)
    sent(queue, 0)
    attempt = Attempt.ANSWERED if error else Attempt.LOST
    for call in (calls[1], calls[0]):
        assert queue.completed(call, 10, attempt, error).forgets_controller
    assert sent(queue, 59) == [], "the controller is left alone for a moment"
    assert queue.wakeup_ms(10, is_controller_known=True) == 60
    assert sent(queue, 60) == calls[:2]


def test_a_call_that_waits_too_long_expires() -> None:
    queue, calls = queue_with(1)
    assert queue.wakeup_ms(0, is_controller_known=False) == 100, "a controller may be active by then"
    assert queue.expired(LIMIT_MS - 1) == []
    assert queue.wakeup_ms(LIMIT_MS - 1, is_controller_known=False) == LIMIT_MS
    assert queue.expired(LIMIT_MS) == calls
    assert calls[0].queued_ms == LIMIT_MS
    assert (queue.length, queue.wakeup_ms(LIMIT_MS, is_controller_known=True)) == (0, None)


def test_a_sender_may_shorten_its_timeout_but_not_extend_it() -> None:
    queue, patient, hasty = ForwardingQueue(), Call(), Call()
    queue.add(patient, 0, timeout_ms=3_600_000)
    queue.add(hasty, 0, timeout_ms=500)
    assert queue.expired(500) == [hasty]
    assert queue.expired(LIMIT_MS) == [patient]


def test_a_call_in_flight_expires_once_and_is_not_sent_again() -> None:
    queue, calls = queue_with(1)
    sent(queue, 0)
    assert queue.wakeup_ms(0, is_controller_known=True) == LIMIT_MS, "its sender waits no longer than that"
    assert queue.expired(LIMIT_MS - 1) == []
    assert queue.expired(LIMIT_MS) == calls
    assert queue.expired(LIMIT_MS) == []
    assert queue.wakeup_ms(LIMIT_MS, is_controller_known=True) is None
    verdict = queue.completed(calls[0], LIMIT_MS, Attempt.LOST)
    assert (verdict.fate, verdict.error) == (Fate.FAIL, ErrorCode.REQUEST_TIMED_OUT)
    assert (queue.length, queue.in_flight) == (0, 0)


def test_the_senders_own_timeout_applies_in_flight_too() -> None:
    queue, call = ForwardingQueue(), Call()
    queue.add(call, 0, timeout_ms=500)
    assert sent(queue, 100) == [call]
    assert queue.wakeup_ms(100, is_controller_known=True) == 500
    assert queue.expired(500) == [call]
    verdict = queue.completed(call, 600, Attempt.ANSWERED, ErrorCode.NOT_CONTROLLER)
    assert (verdict.fate, verdict.error) == (Fate.FAIL, ErrorCode.REQUEST_TIMED_OUT), "no attempt follows later"


def test_a_non_repeatable_call_is_not_sent_again_when_its_response_is_lost() -> None:
    queue, calls = queue_with(2)
    sent(queue, 0)
    verdict = queue.completed(calls[0], 10, Attempt.LOST, is_repeatable=False)
    assert (verdict.fate, verdict.error) == (Fate.FAIL, ErrorCode.REQUEST_TIMED_OUT)
    refused = queue.completed(calls[1], 10, Attempt.ANSWERED, ErrorCode.NOT_CONTROLLER, is_repeatable=False)
    assert refused.fate is Fate.RETRY, "an inactive controller has not accepted it"


def test_a_late_response_is_delivered() -> None:
    queue, calls = queue_with(1)
    sent(queue, 0)
    assert queue.completed(calls[0], 2 * LIMIT_MS, Attempt.ANSWERED).fate is Fate.DELIVER


def test_a_call_whose_sender_left_before_it_was_sent_is_never_sent() -> None:
    queue, calls = queue_with(2, connections_max=1)
    sent(queue, 0)
    for call in calls:
        queue.withdraw(call)
    assert (queue.length, queue.in_flight) == (0, 1)
    assert queue.completed(calls[0], 10, Attempt.LOST, is_wanted=False).fate is Fate.FAIL
    assert sent(queue, 1000) == []


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["add", "send", "answer", "lose", "41", "31", "withdraw", "expire"]), st.integers(0, 20_000)
    ),
    max_size=60,
)


@given(EVENTS, st.integers(1, 3))
def test_every_call_ends_once_and_in_flight_never_exceeds_the_connections(
    events: list[tuple[str, int]], connections: int
) -> None:
    queue, now_ms = ForwardingQueue(connections_max=connections), 0
    waiting: list[Call] = []
    flying: list[Call] = []
    ended: list[Call] = []
    answered: list[Call] = []
    count = 0

    def complete(attempt: Attempt, error: ErrorCode = ErrorCode.NONE) -> None:
        if flying:
            call = flying.pop(0)
            verdict = queue.completed(call, now_ms, attempt, error)
            assert verdict.fate is not Fate.RETRY or call not in answered, "its sender has an answer already"
            (waiting if verdict.fate is Fate.RETRY else ended).append(call)

    for event, elapsed_ms in events:
        now_ms += elapsed_ms
        if event == "add":
            call = Call()
            queue.add(call, now_ms)
            waiting.append(call)
            count += 1
        elif event == "send" and (next_call := queue.next_to_send(now_ms)) is not None:
            assert now_ms < next_call.deadline_ms
            waiting.remove(next_call)
            flying.append(next_call)
        elif event == "withdraw" and waiting:
            call = waiting.pop()
            queue.withdraw(call)
            ended.append(call)
        elif event == "expire":
            for late in queue.expired(now_ms):
                assert now_ms >= late.deadline_ms
                assert late not in answered
                answered.append(late)
                if late in waiting:
                    waiting.remove(late)
                    ended.append(late)
        elif event in ("answer", "lose", "41", "31"):
            attempt = Attempt.LOST if event == "lose" else Attempt.ANSWERED
            complete(attempt, ErrorCode(int(event)) if event.isdigit() else ErrorCode.NONE)
        assert (queue.length, queue.in_flight) == (len(waiting), len(flying))
        assert queue.in_flight <= connections
        due = queue.wakeup_ms(now_ms, is_controller_known=True)
        assert (due is None) == (not waiting and all(call in answered for call in flying))
    for call in flying:
        queue.completed(call, now_ms, Attempt.ANSWERED)
    assert len(ended) + len(flying) + len(waiting) == count
    end_ms = now_ms + LIMIT_MS
    assert len(queue.expired(end_ms)) == len(waiting)
    assert queue.length == queue.in_flight == 0
