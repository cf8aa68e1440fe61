"""The history of the connectors of one worker: records, lag and errors by interval, and the last failures.

A worker notes what it runs: records and errors of its tasks, the lag of sinks whose connector it runs. The histories of
all workers of a group together are the history of a connector (``merged_history``). All times are from the caller, in
milliseconds since 1970.

Memory is bounded: about 67 KiB for each connector, 165 KiB if it has errors of every kind, and at most 500 connectors,
of which the one without news for the longest time makes room for another.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Collection

from barnabas.connect.decide.history.figure_ring import Figure, FigureRing, Resolution
from barnabas.connect.decide.notices.failure_notice import FailureNotice, NoticeKind
from barnabas.connect.entities import History, PastFailure
from barnabas.connect.identifiers import ConnectorTaskId

__all__ = ["COARSE", "FAILURES_MAX", "FINE", "HOURS_MAX", "WorkerHistory"]

FINE = Resolution(interval_ms=10_000, intervals_max=6 * 360)
COARSE = Resolution(interval_ms=300_000, intervals_max=7 * 24 * 12)
_MINUTE_MS = 60_000
_HOUR_MS = 3_600_000
HOURS_MAX = COARSE.span_ms // _HOUR_MS
_CONNECTORS_MAX = 500
FAILURES_MAX = 20
_REASON_LENGTH_MAX = 500
_SETTLING_MS = 3_000
"""How long after its end an interval is shown: until then its figures may be incomplete."""


class _ConnectorHistory:
    def __init__(self) -> None:
        self.rings = {resolution: FigureRing(resolution) for resolution in (FINE, COARSE)}
        self.failures: deque[PastFailure] = deque(maxlen=FAILURES_MAX)

    def note(self, figure: Figure, value: int, at_ms: int) -> None:
        for ring in self.rings.values():
            ring.note(figure, value, at_ms)


class WorkerHistory:
    """``worker_id`` is the worker's host:port."""

    def __init__(self, worker_id: str) -> None:
        self._worker_id = worker_id
        self._connectors: OrderedDict[str, _ConnectorHistory] = OrderedDict()

    def note(self, connector: str, figure: Figure, value: int, at_ms: int) -> None:
        self._of(connector).note(figure, value, at_ms)

    def notice(self, notice: FailureNotice) -> None:
        """Note a failure. A recovery is not in the history: its interval has records."""
        if notice.kind is not NoticeKind.RECOVERED:
            self.failed(notice.unit, notice.failure.reason, notice.now_ms)

    def failed(self, unit: str | ConnectorTaskId, reason: str, at_ms: int) -> None:
        """Note the failure of a connector or task. A long reason is cut."""
        connector, task = (unit.connector, unit.task) if isinstance(unit, ConnectorTaskId) else (unit, None)
        history = self._of(connector)
        history.note(Figure.FAILURES, 1, at_ms)
        text = reason if len(reason) <= _REASON_LENGTH_MAX else f"{reason[:_REASON_LENGTH_MAX]}…"
        history.failures.append(PastFailure(at_ms, task, self._worker_id, text))

    def skipped(self, task: ConnectorTaskId, records: int, dead_letters: int, at_ms: int) -> None:
        """Note bad records that a task has left out, and how many of them became dead letters."""
        history = self._of(task.connector)
        history.note(Figure.SKIPPED_RECORDS, records, at_ms)
        if dead_letters:
            history.note(Figure.DEAD_LETTERS, dead_letters, at_ms)

    def keep_only(self, connectors: Collection[str]) -> None:
        """Forget connectors that no longer exist."""
        for name in self._connectors.keys() - set(connectors):
            del self._connectors[name]

    def read(self, connector: str, hours: int, now_ms: int) -> History:
        """Return the complete intervals of the last hours, 1 to ``HOURS_MAX``: of 10 s up to 6 hours, else of 5
        minutes."""
        resolution = FINE if hours * _HOUR_MS <= FINE.span_ms else COARSE
        count = min(resolution.intervals_max, hours * _HOUR_MS // resolution.interval_ms)
        begin_ms = ((now_ms - _SETTLING_MS) // resolution.interval_ms - count) * resolution.interval_ms
        known = self._connectors.get(connector)
        ring = FigureRing(resolution) if known is None else known.rings[resolution]
        failures = [] if known is None else [past for past in known.failures if past.time >= begin_ms]
        return History(
            connector=connector,
            begin=begin_ms,
            interval_ms=resolution.interval_ms,
            records=ring.values(Figure.RECORDS, begin_ms, count),
            lag=ring.values(Figure.LAG, begin_ms, count),
            failures=_counts(ring.values(Figure.FAILURES, begin_ms, count)),
            skipped_records=_counts(ring.values(Figure.SKIPPED_RECORDS, begin_ms, count)),
            dead_letters=_counts(ring.values(Figure.DEAD_LETTERS, begin_ms, count)),
            last_failures=failures[::-1],
            workers=[self._worker_id],
        )

    def records_per_second(self, now_ms: int) -> float:
        """Return the rate of all connectors over the last minute, in complete intervals."""
        count = _MINUTE_MS // FINE.interval_ms
        begin_ms = ((now_ms - _SETTLING_MS) // FINE.interval_ms - count) * FINE.interval_ms
        columns = [history.rings[FINE].values(Figure.RECORDS, begin_ms, count) for history in self._connectors.values()]
        return sum(value or 0 for column in columns for value in column) * 1000 / _MINUTE_MS

    def _of(self, connector: str) -> _ConnectorHistory:
        if connector not in self._connectors:
            self._connectors[connector] = _ConnectorHistory()
        self._connectors.move_to_end(connector)
        while len(self._connectors) > _CONNECTORS_MAX:
            self._connectors.popitem(last=False)
        return self._connectors[connector]


def _counts(values: list[int | None]) -> list[int]:
    return [value or 0 for value in values]
