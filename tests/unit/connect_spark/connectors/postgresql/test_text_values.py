"""Values in PostgreSQL's text form. ``tests/interop/test_postgres_changes.py`` has a server write them."""

from __future__ import annotations

import datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.connect_spark.connectors.postgresql.debezium import text_values as tv

EPOCH = datetime.datetime(1970, 1, 1)


@given(st.datetimes())
def test_times_are_microseconds_since_1970(moment: datetime.datetime) -> None:
    delta = moment - EPOCH
    micros = (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds
    text = moment.isoformat(" ")
    assert tv.micros(text) == tv.micros(text + "+00") == micros
    assert tv.days(text[:10]) == delta.days


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("0001-01-01", -719_162),
        ("0001-12-31 BC", -719_163),
        ("0001-01-01 BC", -719_163 - 365),
        ("4714-11-24 BC", -2_440_588),
        ("9999-12-31", 2_932_896),
        ("10000-01-01", 2_932_897),
        ("12000-02-29", 3_663_441),
        ("infinity", (1 << 31) - 1),
        ("-infinity", -(1 << 31) + 1),
    ],
)
def test_dates_outside_of_pythons_years(text: str, days: int) -> None:
    assert tv.days(text) == days


def test_times_with_zones_are_text_in_utc() -> None:
    assert tv.zoned_timestamp("2020-01-01 13:51:30.5+00", 6) == "2020-01-01T13:51:30.500000Z"
    assert tv.zoned_timestamp("2020-01-01 13:51:30+00", 0) == "2020-01-01T13:51:30Z"
    assert tv.zoned_timestamp("infinity", 6) == "infinity"
    assert tv.zoned_time("13:51:30.123+02") == "11:51:30.123Z"
    assert tv.zoned_time("00:30:00-05:30") == "06:00:00Z"
    assert tv.micros_of_day("24:00:00") == 86_400_000_000


@given(st.decimals(allow_nan=False, allow_infinity=False, places=5))
def test_a_decimal_without_a_scale_has_its_own(number: Decimal) -> None:
    found: Any = tv.variable_decimal(f"{number:f}")
    unscaled = int.from_bytes(found["value"], "big", signed=True)
    assert Fraction(unscaled, 10 ** found["scale"]) == Fraction(number)
    assert found["scale"] == 5


@given(st.integers(-(1 << 80), 1 << 80))
def test_the_bytes_of_a_decimal_are_the_fewest(number: int) -> None:
    found: Any = tv.variable_decimal(str(number))["value"]
    assert int.from_bytes(found, "big", signed=True) == number
    assert len(found) == 1 or int.from_bytes(found[1:], "big", signed=True) != number


def test_a_number_that_is_none_is_refused_with_the_setting_to_change() -> None:
    for text in ("NaN", "Infinity"):
        with pytest.raises(ValueError, match=r"decimal\.handling\.mode"):
            tv.decimal(text)


def test_durations() -> None:
    day = 86_400_000_000
    assert tv.duration_micros("P1DT1.5S") == day + 1_500_000
    assert tv.duration_micros("PT-1H-2M") == -3_720_000_000
    assert tv.duration_micros("P1Y") == 12 * int(365.25 / 12 * day)
    assert tv.duration_micros("PT0S") == 0
    with pytest.raises(ValueError, match="not an interval"):
        tv.duration_micros("1 day")


def _array_text(items: list[str | None]) -> str:
    escaped = (None if item is None else item.replace("\\", "\\\\").replace('"', '\\"') for item in items)
    return "{" + ",".join("NULL" if item is None else f'"{item}"' for item in escaped) + "}"


@given(st.lists(st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=10), max_size=6))
def test_items_of_arrays_survive(items: list[str | None]) -> None:
    assert tv.array_items(_array_text(items)) == items


def test_forms_of_arrays() -> None:
    assert tv.array_items("{}") == []
    assert tv.array_items("[0:1]={1,2}") == ["1", "2"]
    assert tv.array_items("{(1,2);(3,4)}", ";") == ["(1,2)", "(3,4)"]
    for wrong in ("{{1},{2}}", "1,2", "{1,2", "x{1}"):
        with pytest.raises(ValueError, match="array"):
            tv.array_items(wrong)


def test_other_forms() -> None:
    assert tv.hstore_json('"a"=>"1", "b\\"c"=>NULL') == '{"a":"1","b\\"c":null}'
    assert tv.bits("1000000001") == b"\x01\x02"
    assert tv.money("-$1,234.50") == Decimal("-1234.50")
    assert tv.byte_string("\\x00ff") == b"\x00\xff"
    assert tv.point("(1,2.5)")["y"] == 2.5
