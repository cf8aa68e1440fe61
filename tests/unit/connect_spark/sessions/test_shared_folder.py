from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.connect.plugins.api import TerminalError
from barnabas.connect_spark.sessions.shared_folder import require_shared


class Spark:
    """Writes a file to the given path, or to a separate disk."""

    def __init__(self, master: str, *, is_shared: bool) -> None:
        self.sparkContext = SimpleNamespace(master=master)
        self.write = self
        self.is_shared = is_shared
        self.written: list[Path] = []

    def range(self, count: int) -> Spark:
        return self

    def selectExpr(self, text: str) -> Spark:
        return self

    def coalesce(self, count: int) -> Spark:
        return self

    def text(self, path: str) -> None:
        self.written.append(Path(path))
        if self.is_shared:
            Path(path).mkdir()
            (Path(path) / "part-00000").write_text("0\n")


def _spark(master: str, *, is_shared: bool) -> Any:
    return Spark(master, is_shared=is_shared)


def test_on_one_machine_no_test_file_is_written(tmp_path: Path) -> None:
    spark = _spark("local[*]", is_shared=False)
    require_shared(spark, tmp_path, "directory")
    assert spark.written == []


def test_a_folder_that_executors_share_is_left_unchanged(tmp_path: Path) -> None:
    spark = _spark("spark://h:7077", is_shared=True)
    require_shared(spark, tmp_path, "directory")
    assert len(spark.written) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_executors_do_not_share_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TerminalError, match=r"directory: Spark runs on spark://h:7077, and .* is not a folder"):
        require_shared(_spark("spark://h:7077", is_shared=False), tmp_path, "directory")
