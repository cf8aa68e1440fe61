"""Base64 as Java's basic decoder reads it."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.connect.rest.strict_base64 import MalformedBase64, decode


@given(st.binary(max_size=100))
def test_encoded_text_is_decoded_with_and_without_padding(data: bytes) -> None:
    text = base64.b64encode(data).decode()
    assert decode(text) == data
    assert decode(text.rstrip("=")) == data


@given(st.text(max_size=20))
def test_any_text_is_decoded_or_refused_with_a_reason(text: str) -> None:
    try:
        decode(text)
    except MalformedBase64 as error:
        assert str(error)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("=", "Input byte[] should at least have 2 bytes for base64 bytes"),
        ("A", "Input byte[] should at least have 2 bytes for base64 bytes"),
        ("A=", "Last unit does not have enough valid bits"),
        ("AAAAA", "Last unit does not have enough valid bits"),
        ("AA=", "Input byte array has wrong 4-byte ending unit"),
        ("AA=A", "Input byte array has wrong 4-byte ending unit"),
        ("AAAA=", "Input byte array has wrong 4-byte ending unit"),
        ("AA==A", "Input byte array has incorrect ending byte at 4"),
        ("AAA=A", "Input byte array has incorrect ending byte at 4"),
        ("A A=", "Illegal base64 character 20"),
        ("AA-_", "Illegal base64 character 2d"),
        ("éAAA", "Illegal base64 character -17"),
        ("日AAA", "Illegal base64 character 3f"),
    ],
)
def test_errors_have_javas_messages(text: str, message: str) -> None:
    with pytest.raises(MalformedBase64) as caught:
        decode(text)
    assert str(caught.value) == message


def test_unused_trailing_bits_are_ignored() -> None:
    assert decode("YQ==") == decode("YR==") == b"a"
