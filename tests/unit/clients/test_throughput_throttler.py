"""A schedule, with the clock of the test."""

from __future__ import annotations

import pytest

from barnabas.clients.throughput_throttler import Pacer


def test_without_a_rate_everything_is_due() -> None:
    pacer = Pacer(None, 100.0)
    assert not pacer.is_paced
    assert pacer.due_count(100.0, 5, 1_000) == 1_000
    assert pacer.wait_s(100.0, 5) == 0


def test_with_a_rate_records_become_due_one_by_one() -> None:
    pacer = Pacer(10, 100.0)
    assert pacer.due_count(100.0, 0, 50) == 1
    assert pacer.due_count(100.0, 1, 50) == 0
    assert pacer.wait_s(100.05, 1) == pytest.approx(0.05)
    assert pacer.due_count(100.36, 1, 50) == 3
    assert pacer.due_at(4) == pytest.approx(100.4)


def test_a_late_caller_catches_up_at_most_to_the_end() -> None:
    pacer = Pacer(1000, 0.0)
    assert pacer.due_count(5.0, 100, 100_000) == 4_901
    assert pacer.due_count(5.0, 100, 7) == 7


@pytest.mark.parametrize("rate", [0, -1])
def test_a_rate_must_be_positive(rate: float) -> None:
    with pytest.raises(ValueError, match="more than 0"):
        Pacer(rate, 0.0)
