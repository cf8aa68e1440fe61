"""A request between barnabas workers is accepted once, only by its receiver, and only for a short time."""

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

users = st.text(max_size=20).filter(lambda text: not any("\ud800" <= character <= "\udfff" for character in text))


@given(st.integers(0, 2**53), st.binary(min_size=12, max_size=64), users, st.sampled_from(["read", "admin"]))
def test_a_header_survives_encoding_and_decoding(time_ms: int, nonce: bytes, user: str, role: str) -> None:
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
def test_a_header_is_valid_only_for_its_own_request(other: SentRequest) -> None:
    with pytest.raises(InvalidSignature):
        Freshness.verified(FRESH.header(KEY, REQUEST), KEY, other)


def test_a_header_is_valid_only_with_its_own_key() -> None:
    with pytest.raises(InvalidSignature):
        Freshness.verified(FRESH.header(KEY, REQUEST), b"the next key", REQUEST)


@given(st.data())
def test_a_modified_header_is_refused(data: st.DataObject) -> None:
    header = replace(FRESH, user="alice", role="read").header(KEY, REQUEST)
    index = data.draw(st.integers(0, len(header) - 1))
    letter = data.draw(
        st.characters(min_codepoint=32, max_codepoint=255).filter(lambda character: character != header[index])
    )
    with pytest.raises(InvalidSignature):
        Freshness.verified(header[:index] + letter + header[index + 1 :], KEY, REQUEST)


@given(st.text(max_size=100))
def test_an_arbitrary_header_is_refused(header: str) -> None:
    with pytest.raises(InvalidSignature):
        Freshness.verified(header, KEY, REQUEST)


def test_user_name_and_role_cannot_be_shifted_into_each_other() -> None:
    first, second = Freshness(1, bytes(16), "ab", "c"), Freshness(1, bytes(16), "a", "bc")
    assert first.header(KEY, REQUEST).split("mac=")[1] != second.header(KEY, REQUEST).split("mac=")[1]


def test_urls_of_a_worker_are_equal_with_and_without_a_slash() -> None:
    header = FRESH.header(KEY, replace(REQUEST, worker_url="HTTP://127.0.0.1:8083"))
    assert Freshness.verified(header, KEY, REQUEST) == FRESH


def guard() -> FreshnessGuard:
    return FreshnessGuard(age_ms_max=60_000, started_ms=900_000)


def test_a_request_is_accepted_once() -> None:
    admitting = guard()
    admitting.admit(FRESH, 1_000_000)
    admitting.admit(replace(FRESH, nonce=b"another one of 16"), 1_000_000)
    with pytest.raises(InvalidSignature, match="received before"):
        admitting.admit(FRESH, 1_000_001)


@pytest.mark.parametrize("now_ms", [1_060_001, 939_999])
def test_an_old_or_future_request_is_refused_with_both_clock_times(now_ms: int) -> None:
    with pytest.raises(InvalidSignature, match="clocks"):
        guard().admit(FRESH, now_ms)


def test_a_request_from_before_the_start_is_refused_as_a_possible_replay() -> None:
    with pytest.raises(InvalidSignature, match="before this worker started"):
        FreshnessGuard(age_ms_max=60_000, started_ms=1_000_001).admit(FRESH, 1_000_002)


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30_000)), max_size=60))
def test_no_request_is_ever_accepted_twice(steps: list[tuple[int, int]]) -> None:
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
