"""Figures of a running pipeline, from the progress that Spark reports of its query."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

__all__ = ["Figure", "figures_of"]

Figure = tuple[str, str, float]
"""Name, description, value."""


def figures_of(progress: Mapping[str, Any], sources: Sequence[str]) -> list[Figure]:
    """Return the figures. ``sources`` are the inputs in the order of Spark's sources."""
    return [*_lags(progress, sources), *_state(progress), *_watermark(progress)]


def _lags(progress: Mapping[str, Any], sources: Sequence[str]) -> Iterator[Figure]:
    lags: dict[str, int] = {}
    for name, source in zip(sources, progress.get("sources", ()), strict=False):
        latest, end = _offsets(source.get("latestOffset")), _offsets(source.get("endOffset"))
        lag = sum(max(0, offset - end.get(partition, 0)) for partition, offset in latest.items())
        lags[name] = max(lag, lags.get(name, 0))
    if lags:
        yield "input_lag", "Records of all inputs that the pipeline has not read yet.", sum(lags.values())
    for name, lag in lags.items():
        yield f"input_lag_{name}", f"Records of the input {name} that the pipeline has not read yet.", lag


def _offsets(given: Any) -> dict[tuple[str, str], int]:
    found = json.loads(given) if isinstance(given, str) else given
    return {
        (topic, partition): int(offset)
        for topic, partitions in (found or {}).items()
        for partition, offset in partitions.items()
    }


def _state(progress: Mapping[str, Any]) -> Iterator[Figure]:
    operators = progress.get("stateOperators") or ()
    if not operators:
        return

    def total(name: str) -> int:
        return sum(int(operator.get(name) or 0) for operator in operators)

    yield "state_rows", "Rows in the state of the query.", total("numRowsTotal")
    yield "state_memory_bytes", "Memory of the state of the query.", total("memoryUsedBytes")
    custom = [operator.get("customMetrics") or {} for operator in operators]
    files = sum(int(metrics.get("rocksdbSstFileSize") or 0) for metrics in custom)
    yield "state_files_bytes", "Size of the files of the state of the query, without its latest changes.", files
    late = total("numRowsDroppedByWatermark")
    yield "state_late_rows", "Rows of the last batch that were left out, because the watermark had passed them.", late


def _watermark(progress: Mapping[str, Any]) -> Iterator[Figure]:
    text = (progress.get("eventTime") or {}).get("watermark")
    if text:
        seconds = datetime.fromisoformat(text).timestamp()
        yield "watermark_timestamp_seconds", "The watermark, in seconds since 1970: earlier rows are late.", seconds
