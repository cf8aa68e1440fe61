"""A request between workers of ours counts once, where it was sent to, and for a short time."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.connect.rest.request_freshness import Freshness, FreshnessGuard, SentRequest
from barnabas.connect.rest.request_signature import InvalidSignature

KEY = b"session key"
REQUEST = SentRequest(method="POST", target="/connectors/c/tasks", worker_url="http://127.0.0.1:8083/", body=b"[]")
FRESH = Freshness(1_000_000, b"0123456789abcdef")

users = st.text(max_size=20).filter(lambda text: not any("\ud800" <= each <= "\udfff" for each in text))


@given(st.integers(0, 2**53), st.binary(min_size=12, max_size=64), users, st.sampled_from(["read", "admin"]))
def test_what_is_sent_is_read(time_ms: int, nonce: bytes, user: str, role: str) -> None:
    sent = Freshness(time_ms, nonce, user, role if user else "")
    assert Freshness.verified(sent.header(KEY, REQUEST), KEY, REQUEST) == sent


@pytest.mark.parametrize(
    "other",
    [
        replace(REQUEST, method="PUT"),
        replace(REQUEST, target="/connectors/d/tasks"),
        replace(REQUEST, target="/connectors/c/tasks?forward=false"),
        replace(REQUEST, worker_url="http://127.0.0.1:8084/"),
        replace(REQUEST, body=b"[{}]"),
    ],
)
def test_holds_for_the_request_it_was_made_for_alone(other: SentRequest) -> None:
    with pytest.raises(InvalidSignature):
        Freshness.verified(FRESH.header(KEY, REQUEST), KEY, other)


def test_holds_with_the_key_it_was_made_with_alone() -> None:
    with pytest.raises(InvalidSignature):
        Freshness.verified(FRESH.header(KEY, REQUEST), b"the next key", REQUEST)


@given(st.data())
def test_a_header_in_which_something_changed_is_refused(data: st.DataObject) -> None:
    header = replace(FRESH, user="alice", role="read").header(KEY, REQUEST)
    index = data.draw(st.integers(0, len(header) - 1))
    letter = data.draw(st.characters(min_codepoint=32, max_codepoint=255).filter(lambda each: each != header[index]))
    with pytest.raises(InvalidSignature):
        Freshness.verified(header[:index] + letter + header[index + 1 :], KEY, REQUEST)


@given(st.text(max_size=100))
def test_a_header_of_anything_is_refused(header: str) -> None:
    with pytest.raises(InvalidSignature):
        Freshness.verified(header, KEY, REQUEST)


def test_a_role_can_not_be_moved_into_the_name() -> None:
    one, other = Freshness(1, bytes(16), "ab", "c"), Freshness(1, bytes(16), "a", "bc")
    assert one.header(KEY, REQUEST).split("mac=")[1] != other.header(KEY, REQUEST).split("mac=")[1]


def test_urls_of_a_worker_are_the_same_with_and_without_a_slash() -> None:
    header = FRESH.header(KEY, replace(REQUEST, worker_url="HTTP://127.0.0.1:8083"))
    assert Freshness.verified(header, KEY, REQUEST) == FRESH


def guard() -> FreshnessGuard:
    return FreshnessGuard(age_ms_max=60_000, started_ms=900_000)


def test_a_request_counts_once() -> None:
    admitting = guard()
    admitting.admit(FRESH, 1_000_000)
    admitting.admit(replace(FRESH, nonce=b"another one of 16"), 1_000_000)
    with pytest.raises(InvalidSignature, match="received before"):
        admitting.admit(FRESH, 1_000_001)


@pytest.mark.parametrize("now_ms", [1_060_001, 939_999])
def test_a_request_of_another_time_is_refused_and_the_clocks_are_named(now_ms: int) -> None:
    with pytest.raises(InvalidSignature, match="clocks"):
        guard().admit(FRESH, now_ms)


def test_a_request_from_before_the_start_is_refused_because_it_may_have_been_here() -> None:
    with pytest.raises(InvalidSignature, match="before this worker started"):
        FreshnessGuard(age_ms_max=60_000, started_ms=1_000_001).admit(FRESH, 1_000_002)


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30_000)), max_size=60))
def test_no_request_ever_counts_twice(steps: list[tuple[int, int]]) -> None:
    admitting, now_ms, sent, admitted = guard(), 1_000_000, {}, set()
    for number, pause_ms in steps:
        now_ms += pause_ms
        sent.setdefault(number, Freshness(now_ms, number.to_bytes(12, "big")))
        try:
            admitting.admit(sent[number], now_ms)
        except InvalidSignature:
            continue
        assert number not in admitted
        admitted.add(number)
    assert admitted == sent.keys()
