"""Lines of text become records and records lines, as in Kafka's console tools."""

from __future__ import annotations

import pytest

from barnabas.cli.arguments.cluster_options import UsageError
from barnabas.cli.records.json_lines import InputError
from barnabas.cli.records.text_lines import Columns, LineParser, unescaped
from barnabas.common.topic_partition import TopicPartition
from barnabas.protocol.record_batch import Record

RECORD = Record(17, 1_500, b"k", b"v", (("h", b"1"), ("n", None)))
ALL = Columns(timestamp=True, partition=True, offset=True, headers=True, key=True)


def test_a_line_has_the_fields_in_kafkas_order() -> None:
    assert ALL.lines(TopicPartition("orders", 3), [RECORD]) == b"1970-01-01T00:00:01.500Z\t3\t17\th:1,n:null\tk\tv\n"


def test_fields_are_separated_and_ended_as_chosen() -> None:
    columns = Columns(partition=True, offset=True, key=True, separator=b"|", line_end=b"\0", null=b"-")
    assert (
        columns.lines(TopicPartition("orders", 0), [RECORD, Record(18, 0, None, None)]) == b"0|17|k|v\x000|18|-|-\x00"
    )


def test_only_the_value_is_printed_by_default() -> None:
    assert Columns().has_only_value
    assert Columns().lines(TopicPartition("orders", 0), [RECORD, Record(18, 0, b"k", None)]) == b"v\nnull\n"


def test_the_same_options_read_what_they_wrote() -> None:
    parser = LineParser(has_headers=True, has_key=True, null=b"null")
    line = Columns(headers=True, key=True).lines(TopicPartition("orders", 0), [RECORD]).removesuffix(b"\n")
    assert parser.record(line, 9) == (9, b"k", b"v", (("h", b"1"), ("n", None)))


def test_pairs_are_parsed_together_as_lines_are_alone() -> None:
    parser = LineParser(has_key=True, separator=b":")
    lines = [b"a:1", b":2", b"b:1:2", b"c:"]
    assert parser.pairs(lines) == [(b"a", b"1"), (b"", b"2"), (b"b", b"1:2"), (b"c", b"")]
    assert [parser.record(line, 0)[1:3] for line in lines] == parser.pairs(lines)
    assert LineParser(key=b"k").pairs([b"a"]) == [(b"k", b"a")]
    assert parser.pairs([b"a:1", b"b"]) is None
    assert LineParser(null=b"-").pairs([b"-"]) is None


def test_a_null_marker_means_a_missing_key_or_a_tombstone() -> None:
    assert LineParser(has_key=True, null=b"NULL").record(b"NULL\tNULL", 0)[1:3] == (None, None)


def test_a_missing_separator_and_a_bad_header_are_named() -> None:
    with pytest.raises(InputError, match=r"no '\\t' after a key: --key-separator"):
        LineParser(has_key=True).record(b"abc", 0)
    with pytest.raises(InputError, match="the header 'abc' is not name:value"):
        LineParser(has_headers=True).record(b"abc\tv", 0)
    with pytest.raises(InputError, match="is not UTF-8"):
        LineParser(has_headers=True).record(b"\xff:1\tv", 0)


def test_separators_have_escapes() -> None:
    assert unescaped(r"\t\n\r\0\\|", "--key-separator") == b"\t\n\r\0\\|"
    for text in ("\\x", "a\\"):
        with pytest.raises(UsageError, match="--key-separator"):
            unescaped(text, "--key-separator")
