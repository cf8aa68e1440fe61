"""The election of a leader, in the JSON of Confluent's registry."""

from __future__ import annotations

import json

import pytest

from barnabas.registry.decide.election import Assignment, Identity, MalformedIdentity, elect


def identity(host: str, *, is_eligible: bool = True) -> Identity:
    return Identity("http", host, 8081, is_eligible)


def test_the_eligible_member_with_the_smallest_id_leads() -> None:
    members = {
        "c": identity("three").encode(),
        "a": identity("one", is_eligible=False).encode(),
        "b": identity("two").encode(),
    }
    elected = Assignment.decode(elect(members).encode())
    assert (elected.member_id, elected.leader) == ("b", identity("two"))


def test_no_eligible_member_leads() -> None:
    elected = Assignment.decode(elect({"a": identity("one", is_eligible=False).encode()}).encode())
    assert (elected.leader, elected.has_duplicates) == (None, False)


def test_members_with_one_url_are_an_error_for_all() -> None:
    elected = Assignment.decode(elect({"a": identity("one").encode(), "b": identity("one").encode()}).encode())
    assert (elected.leader, elected.has_duplicates) == (None, True)


def test_the_json_is_confluents() -> None:
    assert json.loads(identity("h").encode()) == {
        "version": 1,
        "host": "h",
        "port": 8081,
        "master_eligibility": True,
        "scheme": "http",
    }
    assert json.loads(elect({"m": identity("h").encode()}).encode()) == {
        "version": 1,
        "error": 0,
        "master": "m",
        "master_identity": identity("h").as_json(),
    }


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"host": 1, "port": 2}', b"\xff"])
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(MalformedIdentity):
        Identity.decode(data)


def test_the_url_of_an_ipv6_address_has_brackets() -> None:
    assert identity("::1").url == "http://[::1]:8081"
