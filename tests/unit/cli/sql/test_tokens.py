"""Tokens and statements of a script: strings, names and comments hide what is in them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.cli.sql.script import parse_script, statement_of
from barnabas.cli.sql.tokens import Kind, UnclosedText, tokens_of, unescaped

PIECES = st.sampled_from(
    [
        *(
            "SELECT",
            "orders",
            "_key",
            "`a;b`",
            "`a``;b`",
            "'x;y'",
            "'it''s;'",
            "'a\\';b'",
            '"q;"',
            "r'\\;'",
            "1.5e3",
            "42",
        ),
        *("-- c ; d\n", "/* ; /* nested ; */ */", "/*+ hint */", "<=>", "(", ")", ",", ".", "\n", " ", "::", "é"),
    ]
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT a.b, 1.5", ["SELECT", "a", ".", "b", ",", "1.5"]),
        ("a--b\nc", ["a", "c"]),
        ("a /* b /* c */ d */ e", ["a", "e"]),
        ("'it''s' \"x\"", ["'it''s'", '"x"']),
        ("r'\\' x", ["r'\\'", "x"]),
        ("`a``b`", ["`a``b`"]),
        ("a<=>b->c", ["a", "<=>", "b", "->", "c"]),
        ("", []),
    ],
)
def test_a_text_becomes_tokens(text: str, expected: list[str]) -> None:
    assert [token.text for token in tokens_of(text)] == expected


@given(st.lists(PIECES).map(" ".join))
def test_tokens_are_where_they_say_and_leave_out_only_space_and_comments(text: str) -> None:
    end = 0
    for token in tokens_of(text):
        assert text[token.start : token.end] == token.text
        between = text[end : token.start]
        assert list(tokens_of(between)) == []
        end = token.end


@given(st.lists(st.lists(PIECES).map(" ".join), max_size=5))
def test_a_script_is_its_statements(parts: list[str]) -> None:
    wanted = [[token.text for token in tokens_of(part)] for part in parts]
    script = parse_script("".join(f"{part}\n;" for part in parts))
    assert script.is_complete
    assert [[token.text for token in statement.tokens] for statement in script.statements] == [
        tokens for tokens in wanted if tokens
    ]
    for statement in script.statements:
        assert list(statement_of(statement.text).tokens) == list(statement.tokens)


@given(st.text(max_size=40))
def test_any_text_is_parsed_or_has_an_unclosed_part(text: str) -> None:
    script = parse_script(text)
    if script.unclosed is not None:
        assert text[script.unclosed.start] in "'\"`/"


@pytest.mark.parametrize(
    ("text", "what", "start"),
    [("SELECT 'x", "the string", 7), ("a `b", "the name", 2), ("x /* /* */", "the comment", 2)],
)
def test_what_has_no_end_is_named_with_its_beginning(text: str, what: str, start: int) -> None:
    with pytest.raises(UnclosedText) as raised:
        list(tokens_of(text))
    assert (raised.value.what, raised.value.start) == (what, start)
    assert not parse_script(text).is_complete


def test_a_script_may_end_without_a_semicolon() -> None:
    script = parse_script("SHOW TOPICS;;\n SELECT 1 -- the end\n")
    assert [statement.text for statement in script.statements] == ["SHOW TOPICS"]
    assert script.rest is not None
    assert script.rest.text == "SELECT 1 -- the end"
    assert not script.is_complete


@pytest.mark.parametrize(
    ("string", "value"),
    [
        ("'a'", "a"),
        ("'it''s'", "it's"),
        ('"say ""x"""', 'say "x"'),
        ("'a\\nb\\t\\\\'", "a\nb\t\\"),
        ("'\\u0041\\101'", "AA"),
        ("'50\\%'", "50\\%"),
        ("r'a\\n'", "a\\n"),
    ],
)
def test_a_string_stands_for_its_value(string: str, value: str) -> None:
    (token,) = tokens_of(string)
    assert token.kind is Kind.STRING
    assert unescaped(token.text) == value
