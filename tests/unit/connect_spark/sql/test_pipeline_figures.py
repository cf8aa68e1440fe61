"""Figures from Spark's progress."""

from __future__ import annotations

from barnabas.connect_spark.sql.pipeline_figures import figures_of

PROGRESS = {
    "sources": [
        {"latestOffset": {"orders": {"0": 12, "1": 5}}, "endOffset": {"orders": {"0": 10, "1": 5}}},
        {"latestOffset": '{"shops": {"0": 3}}', "endOffset": '{"shops": {"0": 3}}'},
    ],
    "stateOperators": [
        {
            "numRowsTotal": 4,
            "memoryUsedBytes": 100,
            "numRowsDroppedByWatermark": 1,
            "customMetrics": {"rocksdbSstFileSize": 7},
        },
        {"numRowsTotal": 2, "memoryUsedBytes": 50},
    ],
    "eventTime": {"watermark": "1970-01-01T00:01:00.000Z"},
}


def test_lag_state_and_watermark_are_figures() -> None:
    found = {name: value for name, _, value in figures_of(PROGRESS, ["orders", "shops"])}
    assert found == {
        "input_lag": 2,
        "input_lag_orders": 2,
        "input_lag_shops": 0,
        "state_rows": 6,
        "state_memory_bytes": 150,
        "state_files_bytes": 7,
        "state_late_rows": 1,
        "watermark_timestamp_seconds": 60,
    }


def test_a_query_without_state_has_no_figures_of_it() -> None:
    progress = {"sources": [{"latestOffset": None, "endOffset": None}], "stateOperators": [], "eventTime": {}}
    assert [name for name, _, _ in figures_of(progress, ["orders"])] == ["input_lag", "input_lag_orders"]
