"""The page of the figures of groups: its parts, its verdicts, and what is not compared."""

from __future__ import annotations

from pathlib import Path

from bench.groups_report import groups_page, read_groups, write_groups_report

REBALANCE = {
    "kafka": [{"classic, 1,000 members: one joins, s": 1.0, "classic, 1,000 members: one joins: CPU, s": 2.0}],
    "barnabas": [{"classic, 1,000 members: one joins, s": 1.4, "classic, 1,000 members: one joins: CPU, s": 1.0}],
}
COMMITS = {
    "kafka": [
        {
            "commits, classic, 1 member, requests/s": 100.0,
            "commits, classic, 1 member: CPU of the load, % of a core": 9.0,
        }
    ],
    "barnabas": [
        {
            "commits, classic, 1 member, requests/s": 50.0,
            "commits, classic, 1 member: CPU of the load, % of a core": 8.0,
        }
    ],
}


def test_times_within_a_heartbeats_interval_are_equal() -> None:
    page = groups_page({"rebalance": REBALANCE})
    assert "- equal within a heartbeat's interval: classic, 1,000 members: one joins, s (ratio 0.714)" in page
    assert "- holds: classic, 1,000 members: one joins: CPU, s (ratio 2)" in page


def test_times_beyond_an_interval_are_not() -> None:
    slow = {**REBALANCE, "barnabas": [{**REBALANCE["barnabas"][0], "classic, 1,000 members: one joins, s": 1.6}]}
    page = groups_page({"rebalance": slow})
    assert "- **does not hold yet**: classic, 1,000 members: one joins, s (ratio 0.625)" in page


def test_the_cpu_of_the_load_is_shown_and_has_no_verdict() -> None:
    page = groups_page({"commits": COMMITS})
    assert "| commits, classic, 1 member: CPU of the load, % of a core | 9 | 8 | 1.12 |" in page
    assert "- **does not hold yet**: commits, classic, 1 member, requests/s (ratio 0.5)" in page
    assert page.count("CPU of the load") == 1


def test_parts_that_were_not_measured_are_left_out() -> None:
    large = {"share, all join: CPU, s": 1.5, "streams, one leaves: CPU, s": 2.5}
    page = groups_page({"commits": COMMITS, "large": {"barnabas": [large]}})
    assert "## Commits (1 round)" in page
    assert "| | share | streams |" in page
    assert "| all join: CPU, s | 1.5 |  |" in page
    assert "| one leaves: CPU, s |  | 2.5 |" in page
    assert "## Memory" not in page


def test_the_figures_are_read_again(tmp_path: Path) -> None:
    assert read_groups(tmp_path) == {}
    write_groups_report(tmp_path, {"commits": COMMITS})
    assert read_groups(tmp_path) == {"commits": COMMITS}
