"""How the text of a setting becomes a value: edge cases that Kafka's users meet."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.common.config_value import (
    ConfigException,
    ConfigType,
    Long,
    Password,
    Short,
    display,
    java_double,
    parse_value,
    value_to_string,
)


@pytest.mark.parametrize(
    ("type_", "text", "value"),
    [
        (ConfigType.BOOLEAN, " TRUE ", True),
        (ConfigType.BOOLEAN, "falſe", False),  # Java folds the long s through its upper case.
        (ConfigType.INT, " +5\t", 5),
        (ConfigType.INT, "١٢", 12),
        (ConfigType.LONG, "-9223372036854775808", -(1 << 63)),
        (ConfigType.SHORT, "32767", 32767),
        (ConfigType.DOUBLE, "1f", 1.0),
        (ConfigType.DOUBLE, "0x1p3", 8.0),
        (ConfigType.DOUBLE, ".5", 0.5),
        (ConfigType.DOUBLE, "-Infinity", -math.inf),
        (ConfigType.STRING, "  a b ", "a b"),
        (ConfigType.STRING, "\u00a0a", "\u00a0a"),  # Only characters up to U+0020 are trimmed.
        (ConfigType.LIST, " a , b,,c ", ["a", "b", "", "c"]),
        (ConfigType.LIST, "  ", []),
        (ConfigType.CLASS, "org.example.Policy", "org.example.Policy"),
        (ConfigType.CLASS, "policies.mine:Policy", "policies.mine:Policy"),
        (ConfigType.PASSWORD, " geheim ", Password("geheim")),
    ],
)
def test_text_is_parsed_as_kafka_does(type_: ConfigType, text: str, value: object) -> None:
    assert parse_value(type_, text) == value


@pytest.mark.parametrize("type_", list(ConfigType))
def test_null_is_null_for_every_type(type_: ConfigType) -> None:
    assert parse_value(type_, None) is None
    assert value_to_string(type_, None) is None


@pytest.mark.parametrize(
    ("type_", "value", "reason"),
    [
        (ConfigType.BOOLEAN, "yes", "Expected value to be either true or false"),
        (ConfigType.INT, "1_000", "Not a number of type INT"),
        (ConfigType.INT, "2147483648", "Not a number of type INT"),
        (ConfigType.INT, "+", "Not a number of type INT"),
        (ConfigType.INT, "\U0001d7d8", "Not a number of type INT"),  # A digit, but two characters to Java.
        (ConfigType.INT, "1" * 5000, "Not a number of type INT"),
        (ConfigType.DOUBLE, "inf", "Not a number of type DOUBLE"),
        (ConfigType.DOUBLE, "0x10", "Not a number of type DOUBLE"),
        (ConfigType.DOUBLE, "1_0", "Not a number of type DOUBLE"),
        (ConfigType.DOUBLE, "+-1", "Not a number of type DOUBLE"),
        (ConfigType.DOUBLE, "", "Not a number of type DOUBLE"),
        (ConfigType.CLASS, "TRUE", "Class TRUE could not be found."),
        (ConfigType.LIST, 5, "Expected a comma separated list."),
        (ConfigType.STRING, 5, "Expected value to be a string, but it was a java.lang.Integer"),
    ],
)
def test_an_invalid_value_is_refused_with_kafkas_message(type_: ConfigType, value: object, reason: str) -> None:
    with pytest.raises(ConfigException) as raised:
        parse_value(type_, value, "some.name")
    assert str(raised.value) == f"Invalid value {display(value)} for configuration some.name: {reason}"


def test_a_typed_integer_is_accepted_only_for_types_that_java_widens_it_to() -> None:
    assert parse_value(ConfigType.LONG, 5) == 5
    assert parse_value(ConfigType.SHORT, Short(5)) == 5
    for type_, value in ((ConfigType.LONG, Short(5)), (ConfigType.INT, Long(5)), (ConfigType.SHORT, 5)):
        with pytest.raises(ConfigException):
            parse_value(type_, value)


def test_a_password_is_hidden_wherever_it_is_printed() -> None:
    password = Password("geheim")
    assert "geheim" not in f"{password} {password!r} {display([password])}"
    assert value_to_string(ConfigType.PASSWORD, password) == "[hidden]"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (0.001, "0.001"),
        (9.99e-4, "9.99E-4"),
        (1e7, "1.0E7"),
        (9999999.0, "9999999.0"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (-2e-10, "-2.0E-10"),
        (5e-324, "4.9E-324"),
        (2.5e15, "2.5E15"),
        (1e22, "1.0E22"),
        (math.nan, "NaN"),
        (math.inf, "Infinity"),
    ],
)
def test_a_double_is_printed_in_javas_layout(value: float, text: str) -> None:
    assert java_double(value) == text


@given(st.floats(allow_nan=False))
def test_a_printed_double_is_read_back_as_it_was(value: float) -> None:
    assert parse_value(ConfigType.DOUBLE, java_double(value)) == value


@given(st.sampled_from(list(ConfigType)), st.text())
def test_any_text_is_a_value_or_a_config_exception(type_: ConfigType, text: str) -> None:
    try:
        value = parse_value(type_, text, "some.name")
    except ConfigException:
        return
    printed = value_to_string(type_, value)
    assert printed is not None
    if type_ not in (ConfigType.PASSWORD, ConfigType.DOUBLE):
        assert parse_value(type_, printed, "some.name") == value
