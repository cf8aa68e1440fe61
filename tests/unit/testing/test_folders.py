"""Temporary folders are in memory where there is room, and only their user may read them."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from barnabas.testing import folders
from barnabas.testing.folders import new_folder, remove_folder


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shared = tmp_path / "shm"
    shared.mkdir()
    monkeypatch.setattr(folders, "_MEMORY", str(shared))
    monkeypatch.setattr(folders, "_FREE_MIN", 1)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return shared


def test_a_folder_is_in_memory_if_there_is_room(memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert new_folder(in_memory=True).parent == memory
    assert new_folder(in_memory=False).parent == memory.parent
    monkeypatch.setattr(folders, "_FREE_MIN", 1 << 62)
    assert new_folder(in_memory=True).parent == memory.parent
    monkeypatch.setattr(folders, "_MEMORY", str(memory / "missing"))
    assert new_folder(in_memory=True).parent == memory.parent


def test_only_its_user_may_read_it_and_it_is_removed_with_its_files(memory: Path) -> None:
    folder = new_folder(in_memory=True)
    assert folder.stat().st_mode & 0o777 == 0o700
    (folder / "data").mkdir()
    (folder / "data" / "file").touch()
    remove_folder(folder)
    remove_folder(folder)
    assert list(memory.iterdir()) == []
