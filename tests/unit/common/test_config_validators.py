"""The conditions that a value must satisfy, and Kafka's messages for them."""

import pytest

from barnabas.common.config_validators import (
    ListSize,
    NonEmptyWithoutControlCharacters,
    Range,
    Validator,
    ValidList,
    validator_of,
)
from barnabas.common.config_value import ConfigException


def _complaint(validator: Validator, value: object) -> str:
    with pytest.raises(ConfigException) as raised:
        validator.ensure_valid("some.name", value)
    return str(raised.value)


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("0..", "[0,...]"),
        ("1..9", "[1,...,9]"),
        ("-131072..22", "[-131072,...,22]"),
        ("0..0.5", "[0,...,0.5]"),
        ("a|b", "[a, b]"),
        ("i:a|B", "(case insensitive) [A, B]"),
        ("list", ""),
        ("list:compact|delete", "[compact, delete]"),
        ("list+:broker|controller", "[broker, controller]"),
        ("nonempty", "non-empty string"),
        ("nonnull", "non-null string"),
        ("gzip-level", "[1,...,9] or -1"),
        ("throttled-replicas", "[partitionId]:[brokerId],[partitionId]:[brokerId],..."),
        ("voters", "non-empty list"),
    ],
)
def test_an_expression_names_a_validator_that_prints_as_in_kafkas_reference(expression: str, text: str) -> None:
    assert str(validator_of(expression)) == text


def test_an_empty_expression_has_no_validator() -> None:
    assert validator_of("") is None


def test_a_range_includes_its_ends_and_nothing_beyond() -> None:
    between = Range(1, 10)
    between.ensure_valid("some.name", 1)
    between.ensure_valid("some.name", 10)
    assert _complaint(between, 11).endswith("Value must be no more than 10")
    assert _complaint(between, 0).endswith("Value must be at least 1")
    assert _complaint(between, None) == "Invalid value null for configuration some.name: Value must be non-null"


def test_a_range_accepts_nan_as_kafka_does() -> None:
    Range(0, 1).ensure_valid("some.name", float("nan"))


def test_a_list_must_have_different_items_that_are_not_blank() -> None:
    assert _complaint(ValidList(), ["x", "x"]) == "Configuration 'some.name' values must not be duplicated."
    assert _complaint(ValidList(), ["x", ""]) == "Configuration 'some.name' values must not be empty."
    assert _complaint(ValidList(), None) == "Configuration 'some.name' values must not be null."
    ValidList(null_allowed=True).ensure_valid("some.name", None)


def test_an_empty_list_is_refused_with_the_allowed_items() -> None:
    any_item = ValidList(empty_allowed=False)
    assert _complaint(any_item, []) == (
        "Configuration 'some.name' must not be empty. Valid values include: any non-empty value"
    )
    assert _complaint(ValidList("xy", empty_allowed=False), []).endswith("Valid values include: [x, y]")


def test_the_first_item_that_is_not_allowed_is_named() -> None:
    message = "Invalid value z for configuration some.name: String must be one of: x, y"
    assert _complaint(ValidList("xy"), ["x", "z"]) == message


def test_control_characters_are_listed_by_their_code() -> None:
    assert _complaint(NonEmptyWithoutControlCharacters(), "a\0\n").endswith("ASCII chars: 0, 10")


def test_a_list_size_is_limited() -> None:
    ListSize(2).ensure_valid("some.name", ["x", "y"])
    assert _complaint(ListSize(2), ["x", "y", "z"]).endswith("exceeds maximum list size of [2].")


@pytest.mark.parametrize("value", ["1@localhost:9093", "2@[::1]:9093,3@host.example:1"])
def test_voters_need_an_id_a_host_and_a_port(value: str) -> None:
    validator = validator_of("voters")
    assert validator is not None
    validator.ensure_valid("controller.quorum.voters", value.split(","))


@pytest.mark.parametrize("value", ["localhost:9093", "1@localhost", "x@localhost:9093", "1@::1:9093", ""])
def test_a_malformed_voter_is_refused(value: str) -> None:
    validator = validator_of("voters")
    assert validator is not None
    assert value in _complaint(validator, [value])


@pytest.mark.parametrize("value", ["latest", "earliest", "by_duration:PT1H", "by_duration:P3DT1.5S"])
def test_a_share_group_starts_at_an_end_or_a_duration_ago(value: str) -> None:
    validator = validator_of("auto-offset-reset")
    assert validator is not None
    validator.ensure_valid("share.auto.offset.reset", value)
    for bad in (None, "by_duration:P", "by_duration:P1DT", "by_duration:-PT1H", "none"):
        with pytest.raises(ConfigException):
            validator.ensure_valid("share.auto.offset.reset", bad)


@pytest.mark.parametrize("value", [[], ["*"], ["1:2", "3:4"], ["1:2", ""], ["", ""], [" 1:2 "]])
def test_throttled_replicas_are_pairs_or_a_star(value: list[str]) -> None:
    validator = validator_of("throttled-replicas")
    assert validator is not None
    validator.ensure_valid("leader.replication.throttled.replicas", value)
    for bad in (["*", "1:2"], ["1"], ["1:2:3"], ["a:1"]):
        assert "must be the literal '*'" in _complaint(validator, bad)
