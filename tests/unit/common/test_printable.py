"""Foreign text that can't break out of its place."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.common.printable import printable, quoted


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("User:alice", "User:alice"),
        ("é 漢字", "é 漢字"),
        ("a\r\nb\tc", "a\\r\\nb\\tc"),
        ("\x1b[31m\x9b\x7f", "\\x1b[31m\\x9b\\x7f"),
        ("\u202e\u2028\ufeff\ud800", "\\u202e\\u2028\\ufeff\\ud800"),
    ],
)
def test_control_characters_are_escaped(text: str, shown: str) -> None:
    assert printable(text) == shown


@given(st.text())
def test_no_character_that_moves_or_breaks_a_line_remains(text: str) -> None:
    shown = printable(text)
    assert len(shown.splitlines()) <= 1
    assert not any(c < " " or "\x7f" <= c <= "\x9f" or c in "\u200e\u200f\u202a\u202e\u2066" for c in shown)


@given(st.text())
def test_a_quoted_text_is_ascii_on_one_line_and_can_be_read_back(text: str) -> None:
    shown = quoted(text)
    assert shown.isascii()
    assert shown.isprintable()
    assert shown == text or json.loads(shown) == text


def test_a_plain_word_needs_no_quotes() -> None:
    for word in ("User:alice", "10.0.0.1", "0:0:0:0:0:0:0:1", "my-topic_1", "CN=a,O=b", "*"):
        assert quoted(word) == word
    assert quoted("") == '""'
    assert quoted("a b") == '"a b"'
