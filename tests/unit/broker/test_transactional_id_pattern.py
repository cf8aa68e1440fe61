"""Patterns of ListTransactions: RE2 decides, except where Kafka's RE2/J accepts less."""

from __future__ import annotations

import pytest

from barnabas.broker.transactional_id_pattern import compile_pattern
from barnabas.common.errors import ApiException, ErrorCode


@pytest.mark.parametrize(
    ("pattern", "text", "is_match"),
    [
        ("billing-.*", "billing-1", True),
        ("billing", "billing-1", False),
        ("(?i)BILLING-.", "billing-1", True),
        ("a.b", "a\nb", False),
        ("日.", "日本", True),
        (r"\Q\C(?P<n>\E", r"\C(?P<n>", True),
        (r"\\C", r"\C", True),
        (r"[(?P<n>a)(?P<n>b)]", "n", True),
        (r"(?P<n>a)(?P<m>b)", "ab", True),
    ],
)
def test_an_id_matches_as_a_whole(pattern: str, text: str, is_match: bool) -> None:
    assert compile_pattern(pattern)(text) is is_match


@pytest.mark.parametrize(
    "pattern",
    ["(", "a(?=b)", r"(a)\1", "a++", "a{1001}", r"\C", r"a\C+", "(?P<n>a)(?P<n>b)", "(?P<n>a)(?<n>b)", r"\pQ", "[b-a]"],
)
def test_what_kafka_refuses_is_refused(pattern: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ApiException) as raised:
        compile_pattern(pattern)
    assert raised.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert capfd.readouterr().err == ""


def test_a_pattern_that_would_take_long_is_refused() -> None:
    with pytest.raises(ApiException):
        compile_pattern("(a|aa)*" * 4000 + "b")
