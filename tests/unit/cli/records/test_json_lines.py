"""JSON lines have one schema in both directions, for bytes of every kind."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.cli.records.json_lines import InputError, encode_lines, json_record, parse_line
from barnabas.common.topic_partition import TopicPartition
from barnabas.protocol.record_batch import Record

contents = st.none() | st.binary(max_size=20) | st.text(max_size=10).map(str.encode)


def written(record: Record) -> bytes:
    return encode_lines([json_record(TopicPartition("orders", 3), record, record.key, record.value)])


def parsed(line: str, **options: Any) -> tuple[Any, ...]:
    partition, record = parse_line(line.encode(), lambda time: 99 if time is None else int(time), **options)
    return (partition, *record)


@given(
    st.integers(0, 2**62),
    st.integers(0, 2**62),
    contents,
    contents,
    st.lists(st.tuples(st.text(max_size=5), contents), max_size=3).map(tuple),
)
def test_what_is_written_is_read_back(offset: int, time: int, key: bytes, value: bytes, headers: tuple) -> None:
    line = written(Record(offset, time, key, value, headers))
    assert line.endswith(b"\n")
    assert parsed(line.decode()) == (3, time, key, value, headers)


def test_a_line_has_the_documented_fields() -> None:
    assert json.loads(written(Record(17, 5, b"k", b"\xff", (("h", b"\xfe"), ("n", None))))) == {
        "topic": "orders", "partition": 3, "offset": 17, "timestamp": 5, "key": "k", "value_base64": "/w==",
        "headers": [{"key": "h", "value_base64": "/g=="}, {"key": "n", "value": None}],
    }  # fmt: skip


def test_a_schema_replaces_texts_by_values() -> None:
    record = Record(0, 0, b"k", b"v")
    line = encode_lines([json_record(TopicPartition("orders", 0), record, record.key, {"id": 1})])
    assert json.loads(line)["value"] == {"id": 1}


def test_only_the_value_is_needed() -> None:
    assert parsed('{"value": "v"}') == (None, 99, None, b"v", ())
    assert parsed('{"value": null, "key": "k"}') == (None, 99, b"k", None, ())
    assert parsed('{"value": {"a": [1, null]}, "key": 5}') == (None, 99, b"5", b'{"a":[1,null]}', ())
    assert parsed('{"value": "v", "headers": {"a": "1", "b": null}, "timestamp": 7}') == (
        None, 7, None, b"v", (("a", b"1"), ("b", None)),
    )  # fmt: skip


def test_writers_encode_what_the_line_has() -> None:
    def write(value: object) -> bytes:
        return repr(value).encode()

    assert parsed('{"value": "v", "key": 1}', write_value=write, write_key=write) == (None, 99, b"1", b"'v'", ())
    assert parsed('{"value": null}', write_value=write) == (None, 99, None, None, ())
    assert parsed('{"value_base64": "AAE="}', write_value=write) == (None, 99, None, b"\0\1", ())


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "truncated"),
        ("[]", "Expected `object`"),
        ("{}", "neither value nor value_base64"),
        ('{"value": "v", "vaule": 1}', "unknown field `vaule`; a record has topic, partition"),
        ('{"value": "v", "value_base64": ""}', "both value and value_base64"),
        ('{"value_base64": "?"}', "value_base64 is not base64"),
        ('{"value": "v", "partition": "x"}', r"\$.partition"),
        ('{"value": "v", "headers": [{"value": "x"}]}', "headers"),
    ],
)
def test_a_bad_line_is_explained(line: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parsed(line)
