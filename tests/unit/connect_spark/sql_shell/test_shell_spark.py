"""The start and the end of a shell's Spark, with a session that is simulated."""

from __future__ import annotations

import logging
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from barnabas.connect_spark.sql_shell import shell_spark
from barnabas.connect_spark.sql_shell.shell_spark import ShellSpark
from barnabas.spark.errors import JavaUnusable, SparkUnavailable


class Start:
    """Takes the place of ``start_embedded``: writes a log, and raises ``error`` or returns a session."""

    def __init__(self) -> None:
        self.error: BaseException | None = None
        self.has_log = True
        self.status: int | None = None
        self.ended = 0

    def __call__(self, stack: ExitStack, settings: Any, **_: Any) -> tuple[MagicMock, Any]:
        if self.has_log:
            (settings.directory / "spark.log").touch()
        if isinstance(self.error, KeyboardInterrupt):
            logging.exception("KeyboardInterrupt while sending command.")
        if self.error is not None:
            raise self.error
        self.status = None
        stack.callback(self._end)
        return MagicMock(), lambda: self.status

    def _end(self) -> None:
        self.ended += 1
        if self.status is not None:
            raise ConnectionRefusedError("its JVM has ended")


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Start:
    start = Start()
    monkeypatch.setattr(shell_spark, "start_embedded", start)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TZ", "UTC")
    return start


def test_the_folder_goes_with_the_session(start: Start, tmp_path: Path) -> None:
    spark = ShellSpark(print)
    spark.start({}, ["delta"])
    spark.start({}, [])
    assert (len(list(tmp_path.iterdir())), spark.packages) == (1, ("delta",))
    spark.close()
    assert (list(tmp_path.iterdir()), start.ended, spark.packages) == ([], 1, None)


def test_ctrl_c_while_it_starts_leaves_no_folder_and_no_traceback(
    start: Start, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    start.error = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        ShellSpark(print).start({}, [])
    assert (list(tmp_path.iterdir()), caplog.records) == ([], [])
    assert logging.getLogger().filters == []


def test_a_failed_start_leaves_the_folder_only_with_its_log(start: Start, tmp_path: Path) -> None:
    start.error, start.has_log = JavaUnusable("no Java"), False
    with pytest.raises(SparkUnavailable):
        ShellSpark(print).start({}, [])
    assert list(tmp_path.iterdir()) == []
    start.error, start.has_log = SparkUnavailable("its log is ..."), True
    with pytest.raises(SparkUnavailable):
        ShellSpark(print).start({}, [])
    assert len(list(tmp_path.glob("*/spark.log"))) == 1


def test_a_killed_jvm_is_replaced_by_the_next_start(start: Start, tmp_path: Path) -> None:
    spark = ShellSpark(print)
    spark.start({}, [])
    start.status = -9
    assert not spark.is_running
    assert not spark.drop_view("v")
    spark.set("spark.x", "1")
    spark.cancel()
    spark.start({}, ["s3"])
    assert (spark.is_running, spark.packages, start.ended) == (True, ("s3",), 1)
    assert len(list(tmp_path.iterdir())) == 1
    spark.close()
