import os
from pathlib import Path

import pytest

from barnabas.connect_spark.connectors.files.file_sync import sync_grown, syncing


def test_only_files_that_have_grown_are_synced_again(tmp_path: Path) -> None:
    seen: dict[Path, int] = {}
    folder = tmp_path / "staging"
    assert sync_grown(folder, seen) == [], "the file does not exist yet"
    (folder / "_temporary").mkdir(parents=True)
    first, second = folder / "_temporary" / "one", folder / "two"
    first.write_text("a")
    second.write_text("a")
    assert sync_grown(folder, seen) == [first, second]
    assert sync_grown(folder, seen) == []
    second.write_text("ab")
    assert sync_grown(folder, seen) == [second]


def test_an_exception_in_the_block_is_raised_unchanged(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="from inside"), syncing(tmp_path / "gone"):
        raise ValueError("from inside")


def test_a_folder_that_is_removed_meanwhile_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "_temporary" / "0").mkdir(parents=True)
    (tmp_path / "one").write_text("a")
    real = os.scandir

    def scandir(path: object) -> object:
        if str(path).endswith("_temporary"):
            (tmp_path / "_temporary" / "0").rmdir()
            (tmp_path / "_temporary").rmdir()
        return real(path)  # type: ignore[call-overload]

    monkeypatch.setattr(os, "scandir", scandir)
    assert sync_grown(tmp_path, {}) == [tmp_path / "one"]
