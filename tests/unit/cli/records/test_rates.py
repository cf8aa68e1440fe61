"""The summary counts records and bytes, and gives a rate if it means something."""

from __future__ import annotations

import asyncio
import io

import pytest

from barnabas.cli.records.rates import Volume, live, summary


def volume(records: int, size: int, elapsed_s: float) -> Volume:
    found = Volume(10.0)
    found.add(records, size, 10.0 + elapsed_s)
    return found


def test_a_rate_of_many_records_is_shown() -> None:
    assert summary(volume(1000, 100_000, 0.5)) == "1,000 records, 97.7 KiB in 0.50 s (2,000 records/s, 195.3 KiB/s)"


def test_few_records_have_no_rate() -> None:
    assert summary(volume(1, 3, 0.5)) == "1 record, 3 B"
    assert summary(volume(5000, 3, 0.001)) == "5,000 records, 3 B"


def test_the_document_has_numbers() -> None:
    assert volume(5, 3, 0.25).document() == {"records": 5, "bytes": 3, "elapsed_s": 0.25}


def test_a_terminal_shows_the_volume_while_it_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = io.StringIO()
    monkeypatch.setattr(shown, "isatty", lambda: True)
    monkeypatch.setattr("sys.stderr", shown)
    monkeypatch.setattr("barnabas.cli.records.rates._EVERY_S", 0.001)

    async def work(*, is_shown: bool) -> None:
        async with live(volume(1000, 100_000, 0.5), is_shown=is_shown, now=lambda: 12.0):
            await asyncio.sleep(0.02)

    asyncio.run(work(is_shown=False))
    assert shown.getvalue() == ""
    asyncio.run(work(is_shown=True))
    assert "1,000 records, 97.7 KiB in 2.00 s (500 records/s, 48.8 KiB/s)" in shown.getvalue()
    assert shown.getvalue().endswith("\r\x1b[K")
