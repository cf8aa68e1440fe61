from __future__ import annotations

import pytest

from barnabas.pipelines.flights.flight_topic import row_of


@pytest.mark.parametrize(
    ("value", "row"),
    [
        (b'{"row":0,"carrier":"UA"}', 0),
        (b'{"row":336775}', 336_775),
        (b'{"row":"1"}', None),
        (b'{"row":true}', None),
        (b'{"row":null}', None),
        (b"{}", None),
        (b"[1]", None),
        (b"7", None),
        (b"hello", None),
        (b"\xff\xfe", None),
        (b"", None),
        (None, None),
    ],
)
def test_a_record_has_the_row_of_its_flight_or_none(value: bytes | None, row: int | None) -> None:
    assert row_of(value) == row
