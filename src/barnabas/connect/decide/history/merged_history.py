"""One history of a connector from those of several workers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from barnabas.connect.decide.history.connector_history import FAILURES_MAX
from barnabas.connect.decide.history.figure_ring import Figure
from barnabas.connect.entities import History, MissingWorker

__all__ = ["merged_history"]


def merged_history(own: History, others: Sequence[History], missing: Sequence[MissingWorker] = ()) -> History:
    """Return the history in the intervals of ``own``; others have intervals of the same length.

    Records and errors are added. Of lags the highest counts: two workers have one only in the interval in which the
    connector moved.
    """
    parts = [own, *others]
    failures = sorted(chain.from_iterable(part.last_failures for part in parts), key=lambda past: -past.time)

    def column(figure: Figure) -> list[int | None]:
        columns = [_aligned(getattr(part, figure.value), part, own) for part in parts]
        return [_combined(figure, values) for values in zip(*columns, strict=True)]

    return History(
        connector=own.connector,
        begin=own.begin,
        interval_ms=own.interval_ms,
        records=column(Figure.RECORDS),
        lag=column(Figure.LAG),
        failures=[value or 0 for value in column(Figure.FAILURES)],
        skipped_records=[value or 0 for value in column(Figure.SKIPPED_RECORDS)],
        dead_letters=[value or 0 for value in column(Figure.DEAD_LETTERS)],
        last_failures=failures[:FAILURES_MAX],
        workers=sorted(set(chain.from_iterable(part.workers for part in parts))),
        missing=[*missing, *chain.from_iterable(part.missing for part in parts)],
    )


def _aligned(values: Sequence[int | None], part: History, own: History) -> list[int | None]:
    """Return the values in the intervals of ``own``: another worker may have answered a moment later."""
    count, ahead = len(own.records), (part.begin - own.begin) // own.interval_ms
    return [values[index] if 0 <= index < len(values) else None for index in range(-ahead, count - ahead)]


def _combined(figure: Figure, values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return figure.combined(known) if known else None
