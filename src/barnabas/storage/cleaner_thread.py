"""Runs the log cleaner on a thread beside the node's loop: one log after the other, then a pause, within a rate limit.

The interpreter runs one thread at a time, so the cleaner yields after every batch: a waiting append or fetch
is then served immediately, instead of after the interpreter's switch interval.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from barnabas.storage.log_cleaner import CleanerStats, CleaningAborted, LogCleaner

__all__ = ["CleanerThread", "Throttle"]

_log = logging.getLogger(__name__)

_RATE_WINDOW_S = 0.3


class Throttle:
    """Sleeps so that the bytes per second stay within a limit, measured over short windows."""

    def __init__(
        self,
        bytes_per_second: float,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._bytes_per_second = bytes_per_second
        self._monotonic = monotonic
        self._sleep = sleep
        self._window_start = monotonic()
        self._bytes = 0

    def pass_bytes(self, size: int) -> None:
        self._bytes += size
        now = self._monotonic()
        elapsed = now - self._window_start
        if elapsed < _RATE_WINDOW_S:
            return
        due = self._bytes / self._bytes_per_second
        if due > elapsed:
            self._sleep(due - elapsed)
        self._window_start = self._monotonic()
        self._bytes = 0


class CleanerThread:
    def __init__(
        self,
        make_cleaner: Callable[[Callable[[int], None]], LogCleaner],
        *,
        now_ms: Callable[[], int],
        backoff_ms: int = 15_000,
        bytes_per_second: float = float("inf"),
        on_cleaned: Callable[[CleanerStats], None] = lambda stats: None,
    ) -> None:
        """``make_cleaner`` receives the function that the cleaner calls after each batch."""
        self._stopping = threading.Event()
        self._throttle = Throttle(bytes_per_second)
        self.cleaner = make_cleaner(self._after_batch)
        self._now_ms = now_ms
        self._backoff_ms = backoff_ms
        self._on_cleaned = on_cleaned
        self._thread = threading.Thread(target=self._run, name="log-cleaner", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Abort the current cleaning and wait until the thread ends."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    @property
    def is_stopping(self) -> bool:
        return self._stopping.is_set()

    def _after_batch(self, size: int) -> None:
        if self._stopping.is_set():
            raise CleaningAborted("the cleaner stops")
        self._throttle.pass_bytes(size)
        time.sleep(0)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                stats = self.cleaner.clean_dirtiest(self._now_ms())
            except Exception:
                _log.exception("the log cleaner failed; it continues after its pause")
                stats = None
            if stats is not None:
                self._on_cleaned(stats)
            else:
                self._stopping.wait(self._backoff_ms / 1000)
