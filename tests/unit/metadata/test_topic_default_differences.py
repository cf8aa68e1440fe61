"""Brokers whose files configure different defaults for topics."""

import pytest

from barnabas.metadata.topic_default_differences import static_settings, topic_default_differences
from barnabas.protocol.messages.describe_configs import DescribeConfigsResourceResult, DescribeConfigsSynonym


@pytest.mark.parametrize(
    ("own", "other"),
    [
        ({}, {}),
        ({"log.retention.hours": "1"}, {"log.retention.ms": "3600000"}),
        ({"log.retention.hours": "168"}, {}),
        ({"num.partitions": "3"}, {"num.partitions": "4"}),
    ],
)
def test_equal_values_in_different_units_are_not_a_difference(own: dict[str, str], other: dict[str, str]) -> None:
    assert topic_default_differences(own, other) == []


def test_a_difference_names_both_values_and_the_settings() -> None:
    (found,) = topic_default_differences({"log.retention.hours": "1"}, {"log.retention.minutes": "30"})
    assert found.topic_setting == "retention.ms"
    assert (found.own, found.other) == ("3600000", "1800000")
    assert found.broker_settings == ("log.retention.ms", "log.retention.minutes", "log.retention.hours")


def test_a_setting_missing_on_the_other_side_has_its_default() -> None:
    (found,) = topic_default_differences({"message.max.bytes": "2000"}, {})
    assert (found.topic_setting, found.own, found.other) == ("max.message.bytes", "2000", "1048588")


def test_only_values_in_the_file_count() -> None:
    config = DescribeConfigsResourceResult(
        name="log.retention.ms",
        value="5",
        synonyms=[
            DescribeConfigsSynonym(name="log.retention.ms", value="5", source=3),
            DescribeConfigsSynonym(name="log.retention.ms", value="7", source=4),
            DescribeConfigsSynonym(name="log.retention.hours", value="168", source=5),
        ],
    )
    assert static_settings([config]) == {"log.retention.ms": "7"}
