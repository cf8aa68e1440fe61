"""The cleaner's thread renames a file at the moment when the loop's thread opens it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from barnabas.storage.file_pool import FilePool, PooledFile
from barnabas.storage.index_file import IndexFile


class Entries(IndexFile):
    __slots__ = ()

    ENTRY_SIZE = 1


def swap(old: PooledFile | Entries, cleaned: Path) -> None:
    """Replace a file: rename the old one, which records its new name, then give its name to another."""
    path = old.path
    os.rename(path, path + ".deleted")
    old.path = path + ".deleted"
    os.rename(cleaned, path)


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    before, cleaned = tmp_path / "0.log", tmp_path / "0.log.swap"
    before.write_bytes(b"before")
    cleaned.write_bytes(b"cleaned")
    return before, cleaned


def just_before(monkeypatch: pytest.MonkeyPatch, name: str, first: Callable[[], None]) -> None:
    """Call ``first`` once, between the look at the path and the system's own open."""
    module, function = ("os", os.open) if name == "os.open" else ("builtins", open)
    pending = [first]

    def opened(*arguments: Any, **named: Any) -> Any:
        if pending:
            pending.pop()()
        return function(*arguments, **named)

    monkeypatch.setattr(f"{module}.open", opened)


def test_a_file_replaced_while_it_is_opened_stays_the_old_one(
    files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    old = PooledFile(FilePool(), str(files[0]))
    just_before(monkeypatch, "os.open", lambda: swap(old, files[1]))
    assert os.pread(old.fd(), 100, 0) == b"before"
    old.close()


def test_an_index_replaced_while_it_is_read_stays_the_old_one(
    files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    old = Entries(str(files[0]), 0)
    just_before(monkeypatch, "open", lambda: swap(old, files[1]))
    assert bytes(old.entries) == b"before"


def test_opening_a_missing_file_does_not_retry(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        PooledFile(FilePool(), str(tmp_path / "none")).fd()


def test_a_file_that_is_opened_while_it_is_renamed_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cleaner's thread renames files while the node's thread opens them. Between the rename on the disk and the new
    path of the file, the file was missing, and its log directory was taken to have failed."""
    file = PooledFile(FilePool(), str(tmp_path / "log"))
    (tmp_path / "log").write_bytes(b"records")
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(os.pread(file.fd(), 10, 0)))
    rename = os.rename

    def renamed(source: str, target: str) -> None:
        rename(source, target)
        reader.start()
        reader.join(0.2)  # Long enough to fail. It waits for the end of the rename instead.

    monkeypatch.setattr("barnabas.storage.file_pool.os.rename", renamed)
    file.rename(str(tmp_path / "log.deleted"))
    reader.join()
    assert read == [b"records"]
    file.close()
    file.path = str(tmp_path / "missing")
    with pytest.raises(FileNotFoundError):
        file.fd()
