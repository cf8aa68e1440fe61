"""Java's .properties format, compared with what Java itself reads."""

import contextlib
import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.common.properties_file import (
    MalformedProperties,
    format_properties,
    parse_properties,
    read_properties_file,
)

JAVA = Path(__file__).parents[2] / "vectors/properties/java-properties.jsonl.gz"


def test_thousands_of_odd_texts_are_read_as_java_reads_them() -> None:
    for line in gzip.decompress(JAVA.read_bytes()).splitlines():
        case = json.loads(line)
        text = bytes.fromhex(case["bytes"]).decode("iso-8859-1")
        if case["ok"]:
            assert (text, parse_properties(text).values) == (text, case["values"])
        else:
            with pytest.raises(MalformedProperties):
                parse_properties(text)


def test_separators_comments_and_continued_lines() -> None:
    text = "# a comment\n! another\n a = 1\nb:2\nc 3\nd\\ e=\\\n   4, \\\n   5\nempty\n"
    assert parse_properties(text).values == {"a": "1", "b": "2", "c": "3", "d e": "4, 5", "empty": ""}


def test_the_last_of_two_equal_keys_counts_with_a_warning() -> None:
    properties = parse_properties("a=1\nb=2\na=3\n")
    assert properties.values == {"a": "3", "b": "2"}
    assert properties.lines == {"a": 3, "b": 2}
    assert properties.warnings == ["line 3: a occurs again (first in line 1); the last value counts"]


def test_a_bad_escape_is_refused_with_its_line() -> None:
    with pytest.raises(MalformedProperties, match="line 2: "):
        parse_properties("a=1\nb=\\u12x\n")


def test_two_escapes_may_make_one_character() -> None:
    assert parse_properties("a=\\ud83d\\ude00").values == {"a": "\U0001f600"}


def test_a_file_is_read_as_latin_1_with_a_warning_when_that_matters(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_bytes("# ü is harmless here\nbroker.rack=zürich\n".encode("iso-8859-1"))
    properties = read_properties_file(str(path))
    assert properties.values == {"broker.rack": "zürich"}
    assert len(properties.warnings) == 1
    assert "broker.rack" in properties.warnings[0]


@given(st.dictionaries(st.text(), st.text()))
def test_formatted_text_is_read_back_unchanged(values: dict[str, str]) -> None:
    assert parse_properties(format_properties(values)).values == values


@given(st.text(alphabet=st.sampled_from(" \t\f\n\r=:#!\\abu0é")))
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(MalformedProperties):
        properties = parse_properties(text)
        assert properties.values.keys() == properties.lines.keys()
