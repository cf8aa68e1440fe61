"""The reported reason of a failed start of Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.spark.spark_session import _start_failure


class GoneError(Exception):
    """Imitates Py4J's error, which requests its text from a JVM that has ended."""

    def __str__(self) -> str:
        raise ConnectionRefusedError


@pytest.fixture
def log_file(tmp_path: Path) -> Path:
    return tmp_path / "spark.log"


def test_the_last_error_in_the_log_is_the_reason_of_a_failed_start(log_file: Path) -> None:
    log_file.write_text("old 1 ERROR A: of a start before\n")
    since = log_file.stat().st_size
    with log_file.open("a") as file:
        file.write(
            "2026 12:00 ERROR Backend: All masters are unresponsive! Giving up.\n\tat a.B\n2026 12:00 WARN C: d\n"
        )
    reason = "Backend: All masters are unresponsive! Giving up"
    assert _start_failure(GoneError(), log_file, since) == reason


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ValueError("no such master\nat a.B"), "no such master"),
        (GoneError(), "its JVM ended"),
        (ValueError(), "ValueError"),
    ],
)
def test_without_an_error_in_the_log_the_exception_is_the_reason(log_file: Path, error: Exception, reason: str) -> None:
    assert _start_failure(error, log_file, 0) == reason
    log_file.write_text("2026 12:00 ERROR A: of a start before\n")
    assert _start_failure(error, log_file, log_file.stat().st_size) == reason
