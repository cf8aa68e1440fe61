"""The page of the first steps leads with CPU time, names what was left out, and states which limits hold."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from bench.costs import CommandFailed, cost_of
from bench.first_steps import FirstSteps, FirstStepsSizes
from bench.first_steps_clients import clients
from bench.first_steps_install import pins
from bench.first_steps_report import first_steps_page, write_first_steps_report

FOUND = FirstSteps(
    brokers={
        "nothing to first record: CPU, s": {"kafka": [8.0, 6.0], "barnabas": [0.5, 0.5], "kfake": [0.1, 0.1]},
        "start to ready: CPU, s": {"kafka": [4.0, 4.0], "barnabas": [0.2, 0.2]},
    },
    commands={"list the topics of a Kafka node: CPU, s": {"kafka": [1.5, 1.5], "barnabas": [0.1, 0.1]}},
    records={
        "write 10 records to a Kafka node: CPU, s": {"kafka": [3.0, 3.0], "kcat": [0.25, 0.25], "barnabas": [0.5, 0.5]},
        "write 10 records to a Kafka node: records/s": {"kafka": [10.0, 10.0], "barnabas": [40.0, 40.0]},
    },
    install={"kafka": {"installed, MB": 58.0}, "barnabas": {"wheel, MB": 2.0, "installed, MB": 70.0}},
    missing={"tansu": "was left out: `tansu` is not on the PATH"},
    foreign=0.4,
)
SIZES = FirstStepsSizes()


def with_cpu_of_writing(ours: float) -> FirstSteps:
    name = "write 10 records to a Kafka node: CPU, s"
    return FOUND._replace(records={name: {**FOUND.records[name], "barnabas": [ours, ours]}})


def test_a_row_has_medians_and_the_ratio_with_its_range() -> None:
    page = first_steps_page(FOUND, SIZES)
    assert "| nothing to first record: CPU, s | 7 | 0.5 | 0.1 | 14 (12 to 16) |" in page
    assert "| write 10 records to a Kafka node: records/s | 10 |  | 40 | 4 (4 to 4) |  |" in page


def test_the_page_names_the_load_and_what_was_left_out() -> None:
    page = first_steps_page(FOUND, SIZES)
    assert "Other processes used 40% of the machine" in page
    assert "- tansu was left out: `tansu` is not on the PATH." in page
    assert "Not measured" not in first_steps_page(FOUND._replace(missing={}), SIZES)


@pytest.mark.parametrize(("ours", "verdict"), [(0.75, "holds"), (0.76, "**does not hold yet**")])
def test_records_cost_at_most_three_times_as_much_as_with_kcat(ours: float, verdict: str) -> None:
    page = first_steps_page(with_cpu_of_writing(ours), SIZES)
    assert f"- {verdict}: write 10 records to a Kafka node: CPU, s: at most 3 times that of kcat" in page


def test_more_cpu_than_kafka_does_not_hold() -> None:
    page = first_steps_page(with_cpu_of_writing(3.1), SIZES)
    assert "- **does not hold yet**: write 10 records to a Kafka node: CPU, s: at most that of Kafka" in page


def test_page_figures_and_plot_are_written(tmp_path: Path) -> None:
    assert write_first_steps_report(tmp_path, FOUND, SIZES) == tmp_path / "first-steps.md"
    assert {path.name for path in tmp_path.iterdir()} == {"first-steps.md", "first-steps.json", "first-steps.png"}


def test_without_kcat_the_reason_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    missing: dict[str, str] = {}
    assert [client.side for client in clients(missing)] == ["kafka", "barnabas"]
    assert "apt-get install kcat" in missing["kcat"]


def test_pins_are_the_lock_without_its_hashes() -> None:
    assert pins("# made by uv\nattrs==25.1 \\\n    --hash=sha256:00\nlz4==4.4\n") == "attrs==25.1\nlz4==4.4\n"


def test_the_cost_of_a_command_includes_its_children() -> None:
    burn = "sum(range(3_000_000))"
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {burn!r}])"
    alone = cost_of([sys.executable, "-c", "pass"])
    assert cost_of([sys.executable, "-c", child]).cpu_s > 1.5 * alone.cpu_s


def test_a_failed_command_shows_its_errors() -> None:
    with pytest.raises(CommandFailed, match=r"exit status 3 after .*\nbroken"):
        cost_of([sys.executable, "-c", "import sys; print('broken', file=sys.stderr); sys.exit(3)"])


def test_a_command_that_takes_too_long_is_killed_with_its_children() -> None:
    with pytest.raises(CommandFailed, match="exit status -9"):
        cost_of(["sh", "-c", "sleep 60 & wait"], timeout_s=0.2)
