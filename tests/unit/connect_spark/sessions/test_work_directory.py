from __future__ import annotations

import os
from pathlib import Path

import pytest

from barnabas.connect.plugins.api import TerminalError
from barnabas.connect_spark.sessions.work_directory import open_work_directory


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_the_folder_is_for_the_user_and_the_group_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        open_work_directory(tmp_path / "a" / "worker")
    finally:
        os.umask(before)
    assert mode(tmp_path / "a" / "worker") == 0o750


def test_one_that_others_may_enter_is_closed_to_them(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    open_work_directory(tmp_path)
    assert mode(tmp_path) == 0o750


def test_one_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "worker"
    folder.mkdir(mode=0o755)
    monkeypatch.setattr(os, "geteuid", lambda: folder.stat().st_uid + 1)
    open_work_directory(folder)  # Where not everybody may make folders it is what the machine's owner wants.
    tmp_path.chmod(0o1777)
    with pytest.raises(TerminalError, match="belongs to another user"):
        open_work_directory(folder)
    assert mode(folder) == 0o755
