"""Checks of what executors see, with a session that answers as the test wants (real ones: test_connect_everywhere)."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.connect.plugins.api import TerminalError
from barnabas.connect_spark.sessions.shared_folder import (
    require_modules,
    require_same_file,
    require_shared,
    require_shared_place,
)


class Session:
    """A session with executors elsewhere, or with ``local`` in the worker. It shares folders if ``shares``."""

    def __init__(self, master: str = "spark://m:7077", *, shares: bool = True) -> None:
        self.sparkContext = SimpleNamespace(master=master)
        self.shares = shares
        self.sizes: list[int] = []
        self.written: list[Path] = []

    # -- one object plays frames, readers and writers

    def range(self, count: int) -> Session:
        return self

    def selectExpr(self, text: str) -> Session:
        return self

    def coalesce(self, count: int) -> Session:
        return self

    @property
    def write(self) -> Any:
        return SimpleNamespace(text=self._write)

    def _write(self, folder: str) -> None:
        self.written.append(Path(folder).parent)
        if self.shares:
            Path(folder).mkdir()
            (Path(folder) / "part-0").touch()

    @property
    def read(self) -> Session:
        return self

    def format(self, kind: str) -> Session:
        return self

    def load(self, url: str) -> Session:
        if not self.shares:
            raise RuntimeError("Path does not exist\nand more")
        return self

    def select(self, name: str) -> Session:
        return self

    def mapInArrow(self, function: Any, schema: str) -> Session:
        self._function = function
        return self

    def collect(self) -> list[Any]:
        if hasattr(self, "_function"):
            return list(self._function(iter([])))
        return [{"length": size} for size in self.sizes]


def session(**options: Any) -> Any:
    return Session(**options)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "orders.txt"
    path.write_text("abc")
    return path


def test_on_one_machine_no_test_file_is_written(tmp_path: Path) -> None:
    spark = session(master="local[*]", shares=False)
    require_shared(spark, tmp_path, "directory")
    assert spark.written == []


def test_a_folder_that_executors_share_is_left_unchanged(tmp_path: Path) -> None:
    spark = session()
    require_shared(spark, tmp_path, "directory")
    assert spark.written == [tmp_path]
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_executors_do_not_share_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TerminalError, match=r"directory: Spark runs on spark://m:7077, and .* is not a folder"):
        require_shared(session(shares=False), tmp_path, "directory")


def test_nothing_is_checked_in_the_worker(file: Path) -> None:
    local = session(master="local[*]", shares=False)
    require_shared_place(local, str(file.parent), "path")
    require_same_file(local, file, 4, "directory")
    require_modules(local, ["no_such_module"], "PostgresChanges")


def test_the_first_folder_that_exists_is_checked(tmp_path: Path) -> None:
    cluster = session()
    for place in (f"{tmp_path}/lake/orders", f"file://{tmp_path}/lake", "s3a://lake/orders", "hdfs://host/lake"):
        require_shared_place(cluster, place, "path")
    assert cluster.written == [tmp_path, tmp_path]
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(
        TerminalError, match=r"path: Spark runs on spark://m:7077, and .* is not a folder that it shares"
    ):
        require_shared_place(session(shares=False), str(tmp_path / "lake"), "path")


def test_an_executor_must_see_a_file_of_the_same_size(file: Path) -> None:
    cluster = session()
    cluster.sizes = [3]
    require_same_file(cluster, file, 3, "directory")
    with pytest.raises(TerminalError, match="it has 3 bytes there, and 4 here"):
        require_same_file(cluster, file, 4, "directory")
    with pytest.raises(TerminalError, match=r"\(Path does not exist\)"):
        require_same_file(session(shares=False), file, 3, "directory")
    file.unlink()  # Its owner has removed it meanwhile.
    require_same_file(session(shares=False), file, 3, "directory")


def test_executors_must_have_the_modules_of_python_functions() -> None:
    require_modules(session(), ["json"], "PostgresChanges")
    with pytest.raises(TerminalError, match="PostgresChanges runs Python functions in Spark's executors") as caught:
        require_modules(session(), ["no_such_module"], "PostgresChanges")
    assert "No module named 'no_such_module'" in str(caught.value) or "ModuleNotFoundError" in str(caught.value)
