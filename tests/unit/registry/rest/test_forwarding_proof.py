"""A registry proves to the leader for whom it forwards a request."""

from __future__ import annotations

import pytest

from barnabas.registry.rest.forwarding_proof import Caller, InvalidProof, proof_of, proven_caller

SECRET, ALICE = b"secret", Caller("alice", "192.0.2.7")
REQUEST = ("POST", "/subjects/a-value/versions?normalize=true", b"{}")


def test_the_leader_learns_the_caller() -> None:
    proof = proof_of(SECRET, ALICE, *REQUEST, 1_000_000)
    assert proven_caller(SECRET, proof, *REQUEST, 1_050_000) == ALICE


@pytest.mark.parametrize(
    ("secret", "request_parts", "now_ms"),
    [
        (b"other", REQUEST, 1_000_000),
        (SECRET, ("PUT", *REQUEST[1:]), 1_000_000),
        (SECRET, (REQUEST[0], "/subjects/b-value/versions", REQUEST[2]), 1_000_000),
        (SECRET, (*REQUEST[:2], b"[]"), 1_000_000),
        (SECRET, REQUEST, 1_060_001),
        (SECRET, REQUEST, 939_999),
    ],
)
def test_a_proof_holds_for_one_request_and_a_minute(
    secret: bytes, request_parts: tuple[str, str, bytes], now_ms: int
) -> None:
    proof = proof_of(SECRET, ALICE, *REQUEST, 1_000_000)
    with pytest.raises(InvalidProof):
        proven_caller(secret, proof, *request_parts, now_ms)


@pytest.mark.parametrize("header", ["", ".", "a.b", "é"])
def test_other_headers_are_refused(header: str) -> None:
    with pytest.raises(InvalidProof):
        proven_caller(SECRET, header, *REQUEST, 0)
