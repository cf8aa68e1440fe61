"""Verification of internal requests: the checks of KIP-507 and their order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.datastructures import Headers

from barnabas.connect.errors import BadRequest
from barnabas.connect.mac_algorithms import MACS
from barnabas.connect.rest.request_signature import (
    ALGORITHM_HEADER,
    SIGNATURE_HEADER,
    InvalidSignature,
    KeyNotReady,
    RequestSignature,
    check_signature,
    signed_headers,
)

KEY = b"0123456789abcdef"


def check(
    headers: dict[str, str],
    body: bytes = b"[]",
    *,
    is_in_force: bool = True,
    key: bytes | None = KEY,
    permitted: tuple[str, ...] = ("HmacSHA256",),
) -> None:
    check_signature(
        RequestSignature.from_headers(Headers(headers)),
        body,
        is_verification_in_force=is_in_force,
        key=key,
        permitted_algorithms=permitted,
    )


@given(st.sampled_from(sorted(MACS)), st.binary(min_size=1, max_size=80), st.binary(max_size=200))
def test_only_the_signed_bytes_are_valid(algorithm: str, key: bytes, body: bytes) -> None:
    headers = signed_headers(algorithm, key, body)
    check(headers, body, key=key, permitted=(algorithm,))
    for other_body, other_key in ((body + b" ", key), (body, key + b"\x01")):
        with pytest.raises(InvalidSignature):
            check(headers, other_body, key=other_key, permitted=(algorithm,))


@pytest.mark.parametrize("missing", [SIGNATURE_HEADER, ALGORITHM_HEADER])
def test_one_header_alone_is_not_a_signature(missing: str) -> None:
    headers = signed_headers("HmacSHA256", KEY, b"[]")
    del headers[missing]
    with pytest.raises(BadRequest, match="missing required signature"):
        check(headers)


def test_unreadable_headers_are_refused_even_without_verification() -> None:
    with pytest.raises(BadRequest, match="^Algorithm HmacFoo not available$"):
        check({SIGNATURE_HEADER: "!!", ALGORITHM_HEADER: "HmacFoo"}, is_in_force=False)
    with pytest.raises(BadRequest, match="^Illegal base64 character 21$"):
        check({SIGNATURE_HEADER: "!!", ALGORITHM_HEADER: "HmacSHA256"}, is_in_force=False)
    check({SIGNATURE_HEADER: "AAAA", ALGORITHM_HEADER: "HmacSHA256"}, is_in_force=False)
    check({}, is_in_force=False)


def test_checks_run_in_kafkas_order() -> None:
    """Each request also fails all later checks."""
    for headers in ({}, {SIGNATURE_HEADER: "AAAA", ALGORITHM_HEADER: "HmacSHA1"}):
        with pytest.raises(BadRequest):
            check(headers, key=None)
    with pytest.raises(KeyNotReady):
        check({SIGNATURE_HEADER: "AAAA", ALGORITHM_HEADER: "HmacSHA256"}, key=None)
    with pytest.raises(InvalidSignature):
        check({SIGNATURE_HEADER: "AAAA", ALGORITHM_HEADER: "HmacSHA256"})
    assert [error.http_status for error in (BadRequest, KeyNotReady, InvalidSignature)] == [400, 503, 403]


def test_permitted_algorithms_are_compared_exactly() -> None:
    headers = {**signed_headers("HmacSHA256", KEY, b"[]"), ALGORITHM_HEADER: "hmacsha256"}
    with pytest.raises(BadRequest) as caught:
        check(headers, permitted=("HmacSHA256", "HmacSHA512"))
    assert "'hmacsha256'" in str(caught.value)
    assert "[HmacSHA256, HmacSHA512]" in str(caught.value)


def test_without_a_key_a_request_is_sent_unsigned() -> None:
    assert signed_headers("HmacSHA256", None, b"[]") == {}
    assert signed_headers(None, KEY, b"[]") == {}


def test_an_unknown_algorithm_is_an_error_before_anything_is_sent() -> None:
    with pytest.raises(BadRequest):
        signed_headers("HmacFoo", KEY, b"[]")


def test_neither_key_nor_signature_is_printed() -> None:
    signature = RequestSignature.sign("HmacSHA256", KEY, b"[]")
    assert repr(signature) == "RequestSignature(algorithm='HmacSHA256')"
