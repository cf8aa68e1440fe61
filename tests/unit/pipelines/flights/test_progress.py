from __future__ import annotations

import io

import pytest
from rich.console import Console

from barnabas.pipelines.flights import progress as module
from barnabas.pipelines.flights.progress import BarProgress, LineProgress, run_progress


class Time:
    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    time = Time()
    monkeypatch.setattr(module, "time", time)
    return time


def test_without_a_terminal_a_line_is_printed_every_five_seconds_and_at_the_end(time: Time) -> None:
    out = io.StringIO()
    progress = run_progress(Console(file=out, width=120), connectors=["files", "delays"], total=1000)
    assert isinstance(progress, LineProgress)
    progress.start()
    for second, produced, processed in [(1, 10, 0), (5, 400, 100), (6, 500, 100), (7, 1000, 1000), (8, 1000, 1000)]:
        time.now = 100.0 + second
        progress.update(
            produced=produced, processed={"files": processed, "delays": processed // 2 if processed < 1000 else 1000}
        )
    progress.stop()
    assert out.getvalue().splitlines() == [
        "     5 s  produced 400 of 1,000; files 100, delays 50",
        "     7 s  produced 1,000 of 1,000; files 1,000, delays 1,000",
    ]


def test_on_a_terminal_producer_and_connectors_have_bars() -> None:
    out = io.StringIO()
    progress = run_progress(Console(file=out, force_terminal=True, width=120), connectors=["files"], total=1000)
    assert isinstance(progress, BarProgress)
    progress.start()
    progress.update(produced=700, processed={"files": 300})
    progress.stop()
    assert "connector files" in out.getvalue()
    assert "700/1000" in out.getvalue()
    assert "300/1000" in out.getvalue()
