from __future__ import annotations

import os
from pathlib import Path

import pytest

from barnabas.connect.plugins.api import TerminalError
from barnabas.connect_spark.sessions.work_directory import open_work_directory


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_only_the_user_and_the_group_may_read_the_folder(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        open_work_directory(tmp_path / "a" / "worker")
    finally:
        os.umask(before)
    assert mode(tmp_path / "a" / "worker") == 0o750


def test_a_folder_that_others_may_enter_is_restricted(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    open_work_directory(tmp_path)
    assert mode(tmp_path) == 0o750


def test_a_folder_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "worker"
    folder.mkdir(mode=0o755)
    monkeypatch.setattr(os, "geteuid", lambda: folder.stat().st_uid + 1)
    open_work_directory(
        folder
    )  # Where only some users may create folders, the administrator of the machine intends this owner.
    tmp_path.chmod(0o1777)
    with pytest.raises(TerminalError, match="belongs to another user"):
        open_work_directory(folder)
    assert mode(folder) == 0o755
