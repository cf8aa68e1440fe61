"""The summary counts records and bytes, and gives a rate if it means something."""

from __future__ import annotations

from barnabas.cli.records.rates import Volume, summary


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
