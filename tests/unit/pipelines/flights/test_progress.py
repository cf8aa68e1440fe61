from __future__ import annotations

import io

import pytest
from rich.console import Console

from barnabas.pipelines.flights import progress as module
from barnabas.pipelines.flights.progress import BarProgress, LineProgress, Pace, run_progress


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
    for second, produced, processed in [(1, 10, 0), (5, 400, 400), (6, 500, 400), (20, 1000, 1000), (21, 1000, 1000)]:
        time.now = 100.0 + second
        progress.update(
            produced=produced, processed={"files": processed, "delays": processed // 2 if processed < 1000 else 1000}
        )
    progress.stop()
    assert out.getvalue().splitlines() == [
        "     5 s  produced 40%; files 40%, delays 20%; 40 flights/s, about 20 s left",
        "    20 s  produced 100%; files 100%, delays 100%; 50 flights/s",
    ]


def test_before_the_first_batch_a_line_has_neither_rate_nor_time_left(time: Time) -> None:
    out = io.StringIO()
    progress = run_progress(Console(file=out, width=120), connectors=["files"], total=1000)
    time.now += 6
    progress.update(produced=999, processed={})
    assert out.getvalue() == "     6 s  produced 99%; files 0%\n"


def test_on_a_terminal_producer_and_connectors_have_bars(time: Time) -> None:
    out = io.StringIO()
    progress = run_progress(Console(file=out, force_terminal=True, width=120), connectors=["files"], total=1000)
    assert isinstance(progress, BarProgress)
    progress.start()
    time.now += 10
    progress.update(produced=1000, processed={"files": 300})
    progress.stop()
    shown = out.getvalue()
    assert "connector files" in shown
    assert "1,000 of 1,000" in shown
    assert "300 of 1,000" in shown
    assert "100 flights/s" in shown
    assert "done" in shown
    assert "30 flights/s" in shown
    assert "about 23 s left" in shown


def test_the_time_left_runs_down_between_two_batches() -> None:
    pace = Pace(100, 0.0)
    assert (pace.rate, pace.seconds_left(5.0)) == (None, None)
    pace.note(20, 10.0)
    assert (pace.rate, pace.seconds_left(10.0)) == (2.0, 40.0)
    pace.note(20, 25.0)
    assert (pace.rate, pace.seconds_left(25.0)) == (2.0, 25.0)
    assert pace.seconds_left(60.0) is None


def test_a_small_first_batch_gives_a_rate_but_no_time_left() -> None:
    pace = Pace(1000, 0.0)
    pace.note(20, 10.0)
    assert (pace.rate, pace.seconds_left(10.0)) == (2.0, None)


def test_all_done_leaves_no_time() -> None:
    pace = Pace(100, 0.0)
    pace.note(100, 0.0)
    assert (pace.rate, pace.seconds_left(1.0)) == (None, 0.0)
