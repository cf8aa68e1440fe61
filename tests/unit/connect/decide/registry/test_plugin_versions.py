from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.connect.decide.registry.plugin_versions import InvalidVersionRange, PluginVersion, parse_version_range

RISING = [
    "1-alpha",
    "1-beta2",
    "1-milestone",
    "1.0-rc1",
    "1.0-SNAPSHOT",
    "1",
    "1-sp",
    "1-xyz",
    "1.0.1",
    "1.2",
    "1.10",
    "2",
]


@pytest.mark.parametrize("at", range(len(RISING) - 1))
def test_versions_are_ordered_as_maven_orders_them(at: int) -> None:
    assert PluginVersion(RISING[at]) < PluginVersion(RISING[at + 1])


@pytest.mark.parametrize(
    ("first", "second"), [("1", "1.0.0"), ("1-ga", "1.0"), ("1.0-RC1", "1-rc1"), ("1.0-cr1", "1.0-rc1")]
)
def test_some_versions_are_equal(first: str, second: str) -> None:
    assert PluginVersion(first) == PluginVersion(second)
    assert hash(PluginVersion(first)) == hash(PluginVersion(second))


_VERSIONS = st.lists(st.integers(0, 20), min_size=1, max_size=4).map(lambda parts: ".".join(map(str, parts)))


@given(_VERSIONS, _VERSIONS)
def test_numbers_count_as_numbers(first: str, second: str) -> None:
    ours, theirs = ([int(part) for part in (version + ".0.0.0.0").split(".")[:4]] for version in (first, second))
    assert (PluginVersion(first) < PluginVersion(second)) == (ours < theirs)
    assert (PluginVersion(first) == PluginVersion(second)) == (ours == theirs)


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        ("1.0", ["1.0", "1"], ["1.0.1", "0.9"]),
        ("[1.0]", ["1.0"], ["2"]),
        ("[1.0,2.0)", ["1.0", "1.9.9"], ["2.0", "0.9"]),
        ("(1.0,2.0]", ["1.0.1", "2.0"], ["1.0"]),
        ("(,1.0]", ["0.1", "1.0"], ["1.1"]),
        ("[2,)", ["2", "99"], ["1"]),
        ("(,1.0],[1.2,)", ["1.0", "1.2"], ["1.1"]),
        (" [ 1 , 2 ] ", ["1.5"], ["3"]),
    ],
)
def test_a_range_contains_the_expected_versions(text: str, inside: list[str], outside: list[str]) -> None:
    found = parse_version_range(text)
    assert all(version in found for version in inside)
    assert not any(version in found for version in outside)
    assert None not in found


@pytest.mark.parametrize("text", [None, "", " ", "latest", "LATEST"])
def test_a_missing_range_matches_any_version(text: str | None) -> None:
    assert None in parse_version_range(text)


@pytest.mark.parametrize("text", ["[1", "1]", "[1,2,3]", "(1)", "[2,1]", "[]", "1,2", "[1,2][3,4]", "[1,2],", "a b"])
def test_invalid_ranges_are_refused(text: str) -> None:
    with pytest.raises(InvalidVersionRange):
        parse_version_range(text)


@pytest.mark.parametrize(
    ("text", "shown"), [("9.9.9", "[9.9.9,9.9.9]"), ("(,2)", "(,2)"), ("[1,2),[3,)", "[1,2),[3,)")]
)
def test_a_range_is_formatted_as_by_maven(text: str, shown: str) -> None:
    assert str(parse_version_range(text)) == shown
