from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.connect_spark.connectors.files import file_lines
from barnabas.connect_spark.connectors.files.file_lines import FileHasShrunk, end_of_lines, line_table

MARK = "\ufeff".encode()


def read(path: Path, start: int = 0, *, most: int = 1 << 20) -> tuple[list[bytes], int]:
    end = end_of_lines(path, start, most)
    lines = [line.encode() for line in line_table(path, start, end)["value"].to_pylist()]
    return lines, end


def test_an_incomplete_line_is_left_for_a_later_batch(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"one\ntwo\r\nhalf")
    assert read(path) == ([b"one", b"two"], 9)
    assert read(path, 9) == ([], 9)
    path.write_bytes(b"one\ntwo\r\nhalf done\n")
    assert read(path, 9) == ([b"half done"], 19)


def test_a_carriage_return_at_the_end_may_be_half_of_a_line_end(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"one\rtwo\r")
    assert read(path) == ([b"one"], 4)
    path.write_bytes(b"one\rtwo\r\n")
    assert read(path, 4) == ([b"two"], 9)


def test_bytes_that_are_not_text_are_replaced_and_empty_lines_are_lines(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"\n\xff one\n\n\xc3\xa4\n")
    assert read(path) == ([b"", "\ufffd one".encode(), b"", "\u00e4".encode()], 11)


def test_a_missing_file_has_no_lines(tmp_path: Path) -> None:
    assert end_of_lines(tmp_path / "f", 3, 100) == 3


def test_a_truncated_file_is_detected(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"one\n")
    with pytest.raises(FileHasShrunk, match="has 4 bytes, but 9 were read already"):
        end_of_lines(path, 9, 100)


def test_a_byte_order_mark_at_the_start_of_a_batch_is_part_of_the_line(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(MARK + b"one\n" + MARK + b"two\n")
    assert read(path)[0] == [MARK + b"one", MARK + b"two"]


def test_a_file_that_is_truncated_while_it_is_read_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"one\n")
    with pytest.raises(FileHasShrunk, match="ended 5 bytes before the offset"):
        line_table(path, 0, 9)


@given(
    text=st.text("ab\n\r\x0b\u2028\u00e4", max_size=60).map(str.encode),
    chunk=st.integers(1, 7),
    batch=st.integers(1, 20),
)
def test_reading_in_pieces_returns_the_same_lines(
    tmp_path_factory: pytest.TempPathFactory, text: bytes, chunk: int, batch: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "pieces"
    path.write_bytes(text + b"\n")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(file_lines, "_CHUNK", chunk)
        lines: list[bytes] = []
        position = 0
        while position < len(text) + 1:
            some, end = read(path, position, most=batch)
            assert end > position
            lines += some
            position = end
    assert lines == (text + b"\n").splitlines()
