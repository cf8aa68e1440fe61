"""The page of Connect's figures compares each with the sides that have it, and states whether the limits hold."""

from __future__ import annotations

from bench.connect import ConnectSizes
from bench.connect_report import connect_page

CPU = "topic to Parquet: CPU, s a million records"
LEAVES = "a worker leaves, until all runs, s"
ROUNDS = {
    "kafka": [{"file to topic, records/s": 50_000.0, LEAVES: 12.0}],
    "spark": [{"topic to Parquet, records/s": 100_000.0, CPU: 10.0, "file to topic, records/s": 100_000.0}],
    "tuned": [{"topic to Parquet, records/s": 48_000.0}],
    "barnabas": [
        {"topic to Parquet, records/s": 96_000.0, CPU: 11.0, "file to topic, records/s": 75_000.0, LEAVES: 3.5}
    ],
}


def test_a_figure_has_a_ratio_to_each_side_that_has_it() -> None:
    page = connect_page(ROUNDS, ConnectSizes())
    assert "| topic to Parquet, records/s |  | 100,000 | 48,000 | 96,000 |  | 0.96 | 2 |" in page
    assert "| file to topic, records/s | 50,000 | 100,000 |  | 75,000 | 1.5 | 0.75 |  |" in page
    assert f"| {LEAVES} | 12 |  |  | 3.5 | 3.43 |  |  |" in page


def test_overhead_over_plain_spark_and_a_clean_leave_have_bars() -> None:
    page = connect_page(ROUNDS, ConnectSizes())
    assert "- holds: topic to Parquet: at most 5% more time than plain PySpark (+4.2%)" in page
    assert "- **does not hold yet**: topic to Parquet: at most 5% more CPU than plain PySpark (+10.0%)" in page
    assert "- **does not hold yet**: file to topic: at most 5% more time than plain PySpark (+33.3%)" in page
    assert "- **does not hold yet**: a worker leaves: all runs within 3 s (3.50 s)" in page


def test_the_page_states_how_much_was_measured() -> None:
    page = connect_page(ROUNDS, ConnectSizes(records=77_000, connectors=6, requests=1_234))
    assert "77,000 of 1 KB" in page
    assert "with 6 connectors" in page
    assert "1,234 times the status" in page
