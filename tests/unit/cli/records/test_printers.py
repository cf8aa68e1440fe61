"""Printers write the records of a fetch up to an end and a number, and say where they ended."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from barnabas.cli.records.printers import DocumentPrinter, Printer, Readers, RowPrinter, TextPrinter, UnreadableRecord
from barnabas.cli.records.text_lines import Columns
from barnabas.clients.consumer.completed_fetch import Fetched
from barnabas.clients.schema_registry.errors import SchemaError
from barnabas.protocol.record_batch import BatchView, Record
from barnabas.protocol.record_batch_builder import build_batch


def fetched(*batches: list[Record], from_offset: int = 0) -> Fetched:
    views = [BatchView(build_batch(records, base_offset=records[0].offset)) for records in batches]
    return Fetched("t", 3, from_offset, views)


def records(start: int, stop: int) -> list[Record]:
    return [Record(offset, offset, b"k", b"%d" % offset) for offset in range(start, stop)]


TWO = fetched(records(0, 5), records(5, 10), from_offset=2)
PRINTERS = [TextPrinter(Columns()), TextPrinter(Columns(key=True)), DocumentPrinter(), RowPrinter()]


@given(st.none() | st.integers(0, 12), st.none() | st.integers(1, 12))
def test_all_printers_end_at_the_same_place(until: int | None, limit: int | None) -> None:
    expected = [offset for offset in range(2, 10) if until is None or offset < until][:limit]
    end = min(10, max(until, 2)) if until is not None else 10
    if limit is not None and len(expected) >= limit:
        end = expected[-1] + 1
    for printer in PRINTERS:
        printed = printer.print(TWO, until, limit)
        assert (printed.records, printed.next_offset) == (len(expected), end)
        assert printed.payload_bytes == 2 * len(expected)


def test_values_are_lines_and_a_tombstone_has_its_marker() -> None:
    found = fetched([Record(0, 0, b"k", b"a"), Record(1, 0, None, None)], [Record(2, 0, None, b"")])
    assert TextPrinter(Columns(null=b"-")).print(found, None, None).data == b"a\n-\n\n"
    assert TextPrinter(Columns(line_end=b"")).print(TWO, 4, None).data == b"23"


def test_json_lines_and_yaml_documents_have_the_same_fields() -> None:
    (line, _) = DocumentPrinter().print(TWO, 4, None).data.splitlines()
    document, _ = yaml.safe_load_all(DocumentPrinter(is_yaml=True).print(TWO, 4, None).data)
    assert json.loads(line) == document
    assert document == {
        "topic": "t",
        "partition": 3,
        "offset": 2,
        "timestamp": 2,
        "key": "k",
        "value": "2",
        "headers": [],
    }


def test_rows_have_one_heading_and_no_control_characters() -> None:
    printer = RowPrinter()
    found = fetched([Record(0, 0, None, b"a\x1b[31m\nb"), Record(1, 0, b"\xff", None)])
    first = printer.print(found, None, None).data.decode().splitlines()
    assert [line.split() for line in first] == [
        ["time", "partition", "offset", "key", "value"],
        ["1970-01-01T00:00:00.000Z", "3", "0", "null", r"a\x1b[31m\nb"],
        ["1970-01-01T00:00:00.000Z", "3", "1", "0xff", "null"],
    ]
    assert len(printer.print(found, None, None).data.splitlines()) == 2


def test_a_schema_decodes_keys_and_values() -> None:
    readers = Readers(lambda data: {"id": data.decode()}, lambda data: [int(data)])
    text = TextPrinter(Columns(key=True, separator=b" "), readers)
    assert text.print(TWO, 3, None).data == b'{"id":"k"} [2]\n'
    assert json.loads(DocumentPrinter(readers).print(TWO, 3, None).data)["value"] == [2]
    assert b'{"id":"k"}' in RowPrinter(readers).print(TWO, 3, None).data


@pytest.mark.parametrize("printer_of", [lambda readers: TextPrinter(Columns(), readers), RowPrinter])
def test_a_record_that_its_schema_does_not_fit_is_named(printer_of: Callable[[Readers], Printer]) -> None:
    def read(data: bytes) -> object:
        raise SchemaError("it is strange", "look")

    with pytest.raises(UnreadableRecord, match="the value at offset 2 of partition 3: it is strange") as error:
        printer_of(Readers(None, read)).print(TWO, None, None)
    assert error.value.advice == "look"
