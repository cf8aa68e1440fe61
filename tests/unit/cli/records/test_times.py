"""Points in time are parsed as people write them, and times of records are shown in UTC."""

from __future__ import annotations

import pytest

from barnabas.cli.arguments.cluster_options import UsageError
from barnabas.cli.records.times import parse_point, time_of

NOW = 1_800_000_000_000
HOUR = 3_600_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("now", NOW),
        ("-1h", NOW - HOUR),
        ("-90s", NOW - 90_000),
        ("-1.5s", NOW - 1_500),
        ("-1d12h30m", NOW - 36 * HOUR - 30 * 60_000),
        ("-100000d", 0),
        ("1764133200000", 1_764_133_200_000),
        ("2026-01-31T12:30:00", 1_769_862_600_000),
        ("2026-01-31T12:30:00+01:00", 1_769_862_600_000 - HOUR),
        ("2026-01-31", 1_769_817_600_000),
    ],
)
def test_a_point_in_time_is_parsed(text: str, expected: int) -> None:
    assert parse_point(text, "--from", NOW) == expected


@pytest.mark.parametrize("text", ["", "-", "-1", "-1x", "-h", "yesterday", "1h", "2026-13-01", "12"])
def test_another_text_is_refused_with_the_forms(text: str) -> None:
    with pytest.raises(UsageError, match=r"--from .*: write a time ago as in -1h"):
        parse_point(text, "--from", NOW)


def test_a_time_is_shown_with_milliseconds_in_utc() -> None:
    assert time_of(1_769_862_600_007) == "2026-01-31T12:30:00.007Z"
    assert time_of(-1) == ""
    assert time_of(2**62) == str(2**62)
