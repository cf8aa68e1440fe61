"""JAAS lines, compared with the results of Kafka's own parser (``tests/vectors/jaas_lines.json``)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.security.sasl.jaas import InvalidJaasConfig, parse_jaas_config, parse_jaas_entry

RECORDED = json.loads((Path(__file__).resolve().parents[3] / "vectors" / "jaas_lines.json").read_text())
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda recorded: recorded["text"][-30:])
def test_a_line_is_read_as_kafka_reads_it(recorded: dict[str, Any]) -> None:
    if "module" in recorded:
        entry = parse_jaas_entry(recorded["text"])
        assert entry.login_module == recorded["module"]
        assert entry.control_flag == recorded["flag"]
        assert entry.options == recorded["options"]
    else:
        with pytest.raises(InvalidJaasConfig):
            parse_jaas_entry(recorded["text"])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "Login module not specified"),
        (MODULE, "Login module control flag not specified"),
        (f"{MODULE} must a=b;", "Invalid login module control flag"),
        (f"{MODULE} required a=b", "not terminated by semi-colon"),
        (f"{MODULE} required a=;", "Value not specified for a key"),
        (f"{MODULE} required a=b; {MODULE} required a=b;", "contains 2 login modules, should be 1 module"),
    ],
)
def test_a_refused_line_reports_the_reason(text: str, reason: str) -> None:
    with pytest.raises(InvalidJaasConfig, match=reason):
        parse_jaas_entry(text)


def test_a_secret_without_quotes_is_not_shown() -> None:
    for text in (
        f"{MODULE} required password=my secret;",
        f"{MODULE} required password=se:cret;",
        f"{MODULE} cret;",
        f"{MODULE} required a=x cret=;",
    ):
        with pytest.raises(InvalidJaasConfig) as caught:
            parse_jaas_entry(text)
        assert "cret" not in str(caught.value)
    assert "alice-secret" not in repr(parse_jaas_entry(f'{MODULE} required user_alice="alice-secret";'))


@given(st.text(alphabet=" \t\n\r;=\"'\\/*-._$aZ019\x01\x85ü€", max_size=60))
def test_any_text_is_entries_or_a_reason(text: str) -> None:
    try:
        assert parse_jaas_config(text)
    except InvalidJaasConfig as error:
        assert str(error)


@given(st.dictionaries(st.from_regex("[a-z_][a-z_0-9.]{0,10}", fullmatch=True), st.text(max_size=20), max_size=5))
def test_quoted_options_are_read_back(options: dict[str, str]) -> None:
    escapes = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r"}
    quoted = {key: "".join(escapes.get(character, character) for character in value) for key, value in options.items()}
    written = " ".join(f'{key}="{value}"' for key, value in quoted.items())
    assert parse_jaas_entry(f"{MODULE} required {written};").options == options
