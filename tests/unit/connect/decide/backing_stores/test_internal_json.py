from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.connect.decide.backing_stores.internal_json import MalformedJson, UnwritableJson, dump_json, parse_json

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
)
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text("abc"), inner), max_leaves=20)


@given(VALUES)
def test_encoded_json_is_decoded_unchanged(value: object) -> None:
    written = dump_json(value)
    assert parse_json(written) == value
    assert json.loads(written) == value


@given(st.text() | st.binary())
def test_any_input_is_decoded_or_raises_malformed_json(data: str | bytes) -> None:
    try:
        parse_json(data if isinstance(data, bytes) else data.encode(errors="surrogatepass"))
    except MalformedJson:
        pass


def test_text_is_escaped_as_by_kafka() -> None:
    assert dump_json({"naïve ✓ 🚀": 'a/b "q" <&> \\ \x01\x1f\x7f\b\f\n\r\t'}) == (
        '{"naïve ✓ \\uD83D\\uDE80":"a/b \\"q\\" <&> \\\\ \\u0001\\u001F\x7f\\b\\f\\n\\r\\t"}'.encode()
    )


@pytest.mark.parametrize(
    ("value", "java"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.0, "1.0"),
        (0.001, "0.001"),
        (9.999e-4, "9.999E-4"),
        (9999999.5, "9999999.5"),
        (1e7, "1.0E7"),
        (-123456789.5, "-1.234567895E8"),
        (1e21, "1.0E21"),
        (1.5e300, "1.5E300"),
        (5e-324, "4.9E-324"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (math.inf, '"Infinity"'),
        (-math.inf, '"-Infinity"'),
        (math.nan, '"NaN"'),
    ],
)
def test_numbers_with_a_fraction_are_formatted_as_by_java(value: float, java: str) -> None:
    assert dump_json(value).decode() == java


@pytest.mark.parametrize("value", [{"a": b"x"}, {1: "a"}, ["\ud800"], {"\udfff": 1}, object()])
def test_values_that_json_cannot_represent_are_refused(value: object) -> None:
    with pytest.raises(UnwritableJson):
        dump_json(value)


@pytest.mark.parametrize("data", [b"", b"  ", b"{", b"{'a':1}", b"nul", b"NaN", b"[Infinity]", b"\xff", b"[" * 100_000])
def test_invalid_json_is_reported(data: bytes) -> None:
    with pytest.raises(MalformedJson):
        parse_json(data)


def test_decoding_is_as_lenient_as_kafkas() -> None:
    assert parse_json(b'\xef\xbb\xbf {"a":1,"a":2} trailing') == {"a": 2}
    assert parse_json(b"null") is None
