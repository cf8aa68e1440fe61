"""Where a query begins and ends to read a topic."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.cli.sql.read_points import EARLIEST, LATEST, ReadPoint, bounds, parse_read_point
from barnabas.cli.sql.shell_settings import ShellSettings

NOW = 1_769_860_800_000  # 2026-01-31T12:00:00Z


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("earliest", ReadPoint(timestamp=EARLIEST)),
        ("Latest", ReadPoint(timestamp=LATEST)),
        ("-1h", ReadPoint(timestamp=NOW - 3_600_000)),
        ("2026-01-31T12:00:00", ReadPoint(timestamp=NOW)),
        ("2026-01-31T13:00:00+01:00", ReadPoint(timestamp=NOW)),
        (str(NOW), ReadPoint(timestamp=NOW)),
        ("1969-12-31T23:59:59.999", ReadPoint(timestamp=0)),  # Not -1, which is the end.
        ("offset 42", ReadPoint(offset=42)),
        ("0:42, 1:17", ReadPoint(offsets={0: 42, 1: 17})),
        ("last 100", ReadPoint(last=100)),
    ],
)
def test_a_point(text: str, expected: ReadPoint) -> None:
    assert parse_read_point(text, "start", NOW) == expected


@pytest.mark.parametrize("text", ["", "tomorrow", "offset", "offset -1", "0:1;1:2", "last", "-1y", "0:1,"])
def test_a_point_that_is_none_is_refused_with_what_is_allowed(text: str) -> None:
    with pytest.raises(ValueError, match=r"start .*earliest, latest, a time such as -1h .*'last 100'"):
        parse_read_point(text, "start", NOW)


def test_an_end_is_never_counted_from_the_end() -> None:
    with pytest.raises(ValueError, match="'last' is only for start"):
        parse_read_point("last 3", "end", NOW)


FIRST, LAST = {0: 10, 1: 0, 2: 5}, {0: 50, 1: 20, 2: 5}


@pytest.mark.parametrize(
    ("start", "end", "starts", "ends"),
    [
        (ReadPoint(EARLIEST), ReadPoint(LATEST), FIRST, LAST),
        (ReadPoint(LATEST), ReadPoint(LATEST), LAST, LAST),
        (ReadPoint(last=15), ReadPoint(LATEST), {0: 35, 1: 5, 2: 5}, LAST),
        (ReadPoint(offset=12), ReadPoint(offset=30), {0: 12, 1: 12, 2: 5}, {0: 30, 1: 20, 2: 5}),
        (ReadPoint(offsets={0: 20}), ReadPoint(LATEST), {0: 20, 1: 20, 2: 5}, LAST),
        (ReadPoint(EARLIEST), ReadPoint(offsets={0: 20}), FIRST, {0: 20, 1: 0, 2: 5}),
        (ReadPoint(1000), ReadPoint(2000), {0: 25, 1: 20, 2: 5}, {0: 40, 1: 20, 2: 5}),
        (ReadPoint(2000), ReadPoint(1000), {0: 40, 1: 20, 2: 5}, {0: 40, 1: 20, 2: 5}),
    ],
)
def test_points_become_offsets(start: ReadPoint, end: ReadPoint, starts: dict[int, int], ends: dict[int, int]) -> None:
    times = {1000: {0: 25, 1: -1, 2: -1}, 2000: {0: 40, 1: -1, 2: -1}}
    since, until = times.get(start.timestamp, {}), times.get(end.timestamp, {})
    assert bounds(start, end, FIRST, LAST, since, until) == (starts, ends)


OFFSETS = st.integers(0, 100)
POINTS = st.one_of(
    st.sampled_from([ReadPoint(EARLIEST), ReadPoint(LATEST), ReadPoint(1000)]),
    OFFSETS.map(lambda offset: ReadPoint(offset=offset)),
    OFFSETS.map(lambda count: ReadPoint(last=count)),
    st.dictionaries(st.integers(0, 3), OFFSETS).map(lambda offsets: ReadPoint(offsets=offsets)),
)


@given(POINTS, POINTS, st.dictionaries(st.integers(0, 3), st.tuples(OFFSETS, OFFSETS)), OFFSETS)
def test_a_range_is_never_outside_of_the_topic(
    start: ReadPoint, end: ReadPoint, partitions: dict[int, tuple[int, int]], found: int
) -> None:
    first = {number: min(pair) for number, pair in partitions.items()}
    last = {number: max(pair) for number, pair in partitions.items()}
    times = dict.fromkeys(partitions, found)
    starts, ends = bounds(start, end, first, last, times, times)
    for number in partitions:
        assert first[number] <= starts[number] <= ends[number] <= last[number]


def test_settings_are_checked_and_listed() -> None:
    settings = ShellSettings(now_ms=lambda: NOW)
    settings.set("start", "-1h")
    settings.set("packages", "S3, delta")
    settings.set("spark.sql.shuffle.partitions", "4")
    assert settings.point("start") == ReadPoint(NOW - 3_600_000)
    assert settings.packages == ("s3", "delta")
    assert ("spark.sql.shuffle.partitions", "4", "") in settings.listing()
    settings.reset("start")
    assert settings["start"] == "earliest"
    settings.reset(None)
    assert settings.of_spark == {}
    for name, value, message in [
        ("strat", "x", "did you mean start"),
        ("rows", "0", "a number from 1"),
        ("output", "xml", "table, json or csv"),
        ("packages", "kudu", "delta, iceberg, s3"),
        ("end", "never", "end never"),
    ]:
        with pytest.raises(ValueError, match=message):
            settings.set(name, value)
