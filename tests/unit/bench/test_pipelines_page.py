"""The page of the pipelines' figures compares SQL with PySpark, states the bar, and has a section for each part."""

from __future__ import annotations

from pathlib import Path

from bench.nexmark.nexmark_queries import QUERIES, pipeline_config
from bench.pipelines_report import Part, pipelines_page, read_pipelines, write_pipelines_report

NEXMARK = Part(
    4.25,
    {"events": 1_000_000},
    {
        "source": [{"records/s": 150_000.0, "CPU, s a million records": 8.0}],
        "spark": [{"q0, records/s": 100_000.0, "q7, records/s": 50_000.0}],
        "barnabas": [{"q0, records/s": 95_000.0, "q7, records/s": 40_000.0}],
    },
)
WORKERS = Part(0.5, {}, {"1": [{"memory, MiB": 700.0}], "50": [{"memory, MiB": 900.0}]})


def test_a_pipeline_may_take_ten_percent_more_time_than_a_query_by_hand() -> None:
    page = pipelines_page({"nexmark": NEXMARK})
    assert "| q0, records/s | 100,000 | 95,000 | 0.95 |" in page
    assert "- holds: q0: at most 10% more time than by hand (+5.3%)" in page
    assert "- **does not hold yet**: q7: at most 10% more time than by hand (+25.0%)" in page
    assert "over 1,000,000 events" in page
    assert "1 round; load average before: 4.2." in page


def test_a_part_that_was_not_measured_has_no_section_and_stays_when_another_is_measured(tmp_path: Path) -> None:
    page = write_pipelines_report(tmp_path, {"nexmark": NEXMARK})
    assert "## A worker with" not in page.read_text()
    write_pipelines_report(tmp_path, {**read_pipelines(tmp_path), "workers": WORKERS})
    assert "| connectors | 1 | 50 |" in page.read_text()
    assert "| memory, MiB | 700 | 900 |" in page.read_text()
    assert "## NEXMark" in page.read_text()


def test_a_query_becomes_the_settings_of_a_pipeline() -> None:
    queries = {query.name: query for query in QUERIES}
    config = pipeline_config(queries["q8"], "out")
    assert config["inputs"] == "person,auction"
    assert config["inputs.person.event.time"] == "dateTime"
    assert config["inputs.auction.watermark"] == "2 seconds"
    assert "output.mode" not in config
    assert pipeline_config(queries["q4"], "out")["output.key"] == "category"
    assert ":closed" in queries["q4"].batch_sql
    assert queries["q8"].batch_sql == queries["q8"].sql
