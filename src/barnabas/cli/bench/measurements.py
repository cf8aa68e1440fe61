"""Format results, with the same names for every verb of ``barnabas bench``.

MB are 1024 * 1024 bytes, as in Kafka's own tools. Durations in a document are milliseconds.
"""

from __future__ import annotations

from barnabas.cli.output.table import Sheet
from barnabas.clients.latency_histogram import LatencyHistogram
from barnabas.clients.leader_tracker import ThrottleStatistics

__all__ = [
    "LATENCY_COLUMNS",
    "VOLUME_COLUMNS",
    "latency_cells",
    "latency_document",
    "megabytes",
    "number",
    "one_row",
    "rate",
    "throttle_document",
    "throttle_notes",
    "volume",
    "volume_cells",
]

_MB = 1024 * 1024
_PERCENTILES = {"p50": 50, "p95": 95, "p99": 99, "p99.9": 99.9}
VOLUME_COLUMNS = ("records", "records/s", "MB/s")
LATENCY_COLUMNS = ("avg ms", "max ms", *(f"{name} ms" for name in _PERCENTILES))


def latency_document(latencies: LatencyHistogram) -> dict[str, float]:
    values = {"avg": latencies.average_s, "max": latencies.max_s}
    values |= {name: latencies.percentile_s(percentile) for name, percentile in _PERCENTILES.items()}
    return {name: round(value * 1000, 3) for name, value in values.items()}


def latency_cells(latencies: LatencyHistogram) -> list[str]:
    """Format latencies in the order of ``LATENCY_COLUMNS``."""
    return [f"{value:.2f}" if value < 10 else f"{value:.1f}" for value in latency_document(latencies).values()]


def megabytes(count: float) -> float:
    return count / _MB


def rate(count: float, elapsed_s: float) -> float:
    """Return the rate per second, or 0 for a duration of 0."""
    return count / elapsed_s if elapsed_s > 0 else 0.0


def number(value: float) -> str:
    """Format a number with its significant digits."""
    return f"{value:,.0f}" if value >= 100 else f"{value:,.2f}"


def one_row(columns: tuple[str, ...], cells: list[str]) -> Sheet:
    sheet = Sheet(columns=columns)
    sheet.add(*cells)
    return sheet


def volume(records: int, size: int, elapsed_s: float) -> dict[str, object]:
    """Return the number of records and bytes, and their rates."""
    return {
        "records": records,
        "bytes": size,
        "elapsed_s": round(elapsed_s, 3),
        "records_per_s": round(rate(records, elapsed_s), 1),
        "mb_per_s": round(rate(megabytes(size), elapsed_s), 3),
    }


def volume_cells(records: int, size: int, elapsed_s: float) -> list[str]:
    return [f"{records:,}", number(rate(records, elapsed_s)), number(rate(megabytes(size), elapsed_s))]


def throttle_document(statistics: ThrottleStatistics) -> dict[str, float]:
    return {
        "responses": statistics.throttled_responses,
        "total_ms": round(statistics.throttle_s * 1000),
        "max_ms": round(statistics.throttle_max_s * 1000),
    }


def throttle_notes(statistics: ThrottleStatistics) -> list[str]:
    if not statistics.throttled_responses:
        return []
    return [
        f"throttled by a quota: {statistics.throttled_responses} responses, {statistics.throttle_s:.1f} s in total, at "
        f"most {statistics.throttle_max_s:.1f} s; 'barnabas quotas list' lists the quotas"
    ]
