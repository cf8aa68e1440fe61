from __future__ import annotations

import pytest

from barnabas.connect_spark.connectors.iceberg.partition_transforms import PartitionTransform, parse_transforms


def test_columns_and_transforms_are_read_in_their_order() -> None:
    assert parse_transforms(" days(ts), bucket(16, id),truncate( 4 , user.name ) , country,hour(at) ") == [
        PartitionTransform("day", "ts"),
        PartitionTransform("bucket", "id", 16),
        PartitionTransform("truncate", "user.name", 4),
        PartitionTransform("identity", "country"),
        PartitionTransform("hour", "at"),
    ]
    assert parse_transforms("") == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("weeks(ts)", "weeks is not a transform: write a column, years"),
        ("bucket(id)", "bucket needs a number first"),
        ("days(3, ts)", "day takes no number"),
        ("bucket(0, id)", "the number must be at least 1"),
        ("bucket(16, id", "is neither a column nor a transform"),
    ],
)
def test_other_texts_are_refused_with_what_is_allowed(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_transforms(text)
