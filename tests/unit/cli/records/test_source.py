"""The input becomes records however its bytes arrive, and a bad line is named."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.cli.records.source import Format, JsonFormat, Piece, RecordSource, TextFormat, UnusableInput, WholeFormat
from barnabas.cli.records.text_lines import LineParser

PLAIN = TextFormat(LineParser(), lambda: 5)


def read(format_: Format, *paths: Path | str) -> list[Piece]:
    async def main() -> list[Piece]:
        source = RecordSource([str(path) for path in paths], format_)
        pieces = []
        while (piece := await source.next()) is not None:
            pieces.append(piece)
        return pieces

    return asyncio.run(main())


def values(pieces: list[Piece]) -> list[bytes]:
    return [value for piece in pieces for value in piece.values]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "input"


@given(st.lists(st.binary(max_size=30).filter(lambda line: b"\n" not in line), max_size=20), st.booleans())
def test_lines_are_values_with_or_without_a_last_end(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], is_ended: bool
) -> None:
    path = tmp_path_factory.mktemp("lines") / "input"
    path.write_bytes(b"\n".join(lines) + (b"\n" if is_ended and lines else b""))
    expected = lines if is_ended or not lines or lines[-1] else lines[:-1]
    assert values(read(PLAIN, path)) == expected


def test_lines_longer_than_a_read_are_whole(file: Path) -> None:
    lines = [b"a" * 700_000, b"", b"b" * 300_000]
    file.write_bytes(b"\n".join(lines))
    assert values(read(PLAIN, file)) == lines


def test_a_separator_of_several_bytes_may_come_in_two_reads(monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    file.write_bytes(b"one<>two<>three")
    whole = os.read
    monkeypatch.setattr("barnabas.cli.records.source.os.read", lambda descriptor, size: whole(descriptor, 4))
    assert values(read(TextFormat(LineParser(), lambda: 5, b"<>"), file)) == [b"one", b"two", b"three"]


def test_files_are_read_one_after_the_other(tmp_path: Path) -> None:
    first, second = tmp_path / "1", tmp_path / "2"
    first.write_bytes(b"a\nb")
    second.write_bytes(b"c\n")
    assert values(read(PLAIN, first, second)) == [b"a", b"b", b"c"]


def test_a_whole_file_is_one_record(tmp_path: Path) -> None:
    picture, empty = tmp_path / "1", tmp_path / "2"
    picture.write_bytes(b"a\n\0b\n")
    empty.write_bytes(b"")
    assert values(read(WholeFormat(PLAIN), picture, empty)) == [b"a\n\0b\n", b""]


def test_the_records_before_a_bad_line_are_returned(file: Path) -> None:
    file.write_bytes(b"a\t1\nb\t2\nbad\nc\t3\n")
    format_ = TextFormat(LineParser(has_key=True, null=b"-"), lambda: 5)

    async def main() -> list[Piece]:
        source = RecordSource([str(file)], format_)
        pieces = [await source.next()]
        with pytest.raises(UnusableInput, match="--key-separator") as error:
            await source.next()
        assert error.value.where == f"{file}, line 3"
        return pieces

    (piece,) = asyncio.run(main())
    ((partition, found),) = piece.records
    assert partition is None
    assert [(record.key, record.value) for record in found] == [(b"a", b"1"), (b"b", b"2")]


def test_json_lines_keep_their_partitions_if_they_shall(file: Path) -> None:
    file.write_text('{"value":"a","partition":2}\n\n{"value":"b"}\n{"value":"c","partition":2}\n')
    (piece,) = read(JsonFormat(lambda time: 7, keeps_partitions=True), file)
    assert {partition: [record.value for record in found] for partition, found in piece.records} == {
        2: [b"a", b"c"],
        None: [b"b"],
    }
    (piece,) = read(JsonFormat(lambda time: 7), file)
    assert [(partition, len(found)) for partition, found in piece.records] == [(None, 3)]


def test_a_missing_file_is_an_error() -> None:
    with pytest.raises(FileNotFoundError):
        read(PLAIN, "/nowhere/file")
