"""Percentiles agree with those of the sorted values, within the width of a bucket."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.clients.latency_histogram import LatencyHistogram

durations = st.lists(st.integers(0, 10**9), min_size=1, max_size=200)


def of(values_us: list[int]) -> LatencyHistogram:
    histogram = LatencyHistogram()
    for value in values_us:
        histogram.record(value / 1_000_000)
    return histogram


@given(durations, st.sampled_from([1.0, 50.0, 95.0, 99.0, 99.9, 100.0]))
def test_a_percentile_is_at_most_a_128th_too_large(values_us: list[int], percentile: float) -> None:
    recorded = sorted(int(value / 1_000_000 * 1_000_000) for value in values_us)
    exact = recorded[max(1, math.ceil(len(recorded) * percentile / 100)) - 1]
    measured = of(values_us).percentile_s(percentile) * 1_000_000
    assert exact - 0.01 <= measured <= exact * (1 + 1 / 128) + 0.01


@given(durations, durations)
def test_merged_histograms_equal_a_single_one(some: list[int], more: list[int]) -> None:
    merged = of(some)
    merged.merge(of(more))
    both = of(some + more)
    assert (merged.count, merged.average_s, merged.max_s) == (both.count, both.average_s, both.max_s)
    assert all(merged.percentile_s(percent) == both.percentile_s(percent) for percent in (10, 50, 99.9))


def test_average_and_maximum_are_exact() -> None:
    histogram = of([1_000, 2_000, 1_000_001])
    assert histogram.average_s == pytest.approx(1_003_001 / 3 / 1_000_000)
    assert histogram.max_s == pytest.approx(1.000001)
    assert histogram.percentile_s(100) == histogram.max_s


def test_many_equal_values_are_recorded_with_one_call() -> None:
    histogram = LatencyHistogram()
    histogram.record(0.010, 99)
    histogram.record(1.0)
    assert histogram.count == 100
    assert histogram.percentile_s(99) == pytest.approx(0.010, rel=0.01)
    assert histogram.percentile_s(99.9) == pytest.approx(1.0)


def test_a_run_has_a_latency_for_each_of_its_records() -> None:
    histogram = LatencyHistogram()
    histogram.record_run(10.0, 9.0, 0.25, 4)
    assert (histogram.count, histogram.max_s) == (4, 1.0)
    assert histogram.average_s == pytest.approx((1 + 0.75 + 0.5 + 0.25) / 4)


def test_an_empty_histogram_is_zero_and_values_are_clipped() -> None:
    histogram = LatencyHistogram()
    assert (histogram.average_s, histogram.max_s, histogram.percentile_s(99)) == (0, 0, 0)
    histogram.record(-5)
    histogram.record(1e12)
    assert histogram.percentile_s(50) == 0
    assert histogram.max_s == pytest.approx(2**40 / 1_000_000)
