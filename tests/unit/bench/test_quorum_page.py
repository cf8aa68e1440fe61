"""The page of the quorum's figures states which limits hold and which don't."""

from __future__ import annotations

import pytest

from bench.quorum import QuorumSizes, percentile
from bench.quorum_report import quorum_page

LARGE = "failover with 100,000 partitions in the log, longest, s"
KAFKA = [
    {"failover, median, s": 2.0, "forwarded createAcls, 1 client: requests/s": 30.0, LARGE: 1.0},
    {"failover, median, s": 3.0, "forwarded createAcls, 1 client: requests/s": 50.0, LARGE: 1.2},
]
OURS = [
    {"failover, median, s": 0.25, "forwarded createAcls, 1 client: requests/s": 10.0, LARGE: 0.4},
    {"failover, median, s": 0.75, "forwarded createAcls, 1 client: requests/s": 30.0, LARGE: 0.5},
]


def test_rows_are_medians_of_the_rounds_with_a_ratio_above_1_where_ours_is_better() -> None:
    page = quorum_page({"kafka": KAFKA, "barnabas": OURS}, QuorumSizes())
    assert "| failover, median, s | 2.5 | 0.5 | 5 |" in page
    assert "| forwarded createAcls, 1 client: requests/s | 40 | 20 | 0.5 |" in page
    assert "rounds of each side in turn: 2)" in page


def test_the_page_states_which_limits_hold() -> None:
    page = quorum_page({"kafka": KAFKA, "barnabas": OURS}, QuorumSizes())
    assert "- holds: failover, median, s (ratio 5)" in page
    assert "- **does not hold yet**: forwarded createAcls, 1 client: requests/s (ratio 0.5)" in page


@pytest.mark.parametrize(("took_s", "verdict"), [(1.2, "holds"), (1.21, "**does not hold yet**")])
def test_a_failover_takes_no_longer_than_an_election_may(took_s: float, verdict: str) -> None:
    ours = [{**figures, LARGE: took_s} for figures in OURS]
    page = quorum_page({"kafka": KAFKA, "barnabas": ours}, QuorumSizes())
    assert f"- {verdict}: {LARGE}: {took_s:.3g}, at most 1.2" in page


def test_as_fast_as_kafka_holds() -> None:
    page = quorum_page({"kafka": KAFKA, "barnabas": KAFKA}, QuorumSizes())
    assert "does not hold" not in page


def test_the_page_states_how_much_was_measured() -> None:
    sizes = QuorumSizes()._replace(kills=7, requests_of_one=123)
    page = quorum_page({"kafka": KAFKA, "barnabas": OURS}, sizes)
    assert "(7 times)" in page
    assert "123 of a kind" in page


@pytest.mark.parametrize(("share", "expected"), [(0.5, 50), (0.99, 99), (1, 100), (0.001, 1)])
def test_a_percentile_is_the_smallest_value_that_this_share_does_not_exceed(share: float, expected: int) -> None:
    assert percentile([float(value) for value in range(100, 0, -1)], share) == expected


def test_the_percentile_of_a_single_value_is_that_value() -> None:
    assert percentile([4.0], 0.99) == 4.0
