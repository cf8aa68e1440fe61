"""Keeps the pauses of Python's garbage collector short, however much metadata a node holds.

A full collection looks at every object: 2 s with 200,000 topics, in which the node answers nothing. The metadata is
made of values without cycles, which need no such look: they are freed when nothing refers to them. So what survives a
full collection that took long is set aside (``gc.freeze``), and later collections look only at what came since. Garbage
in cycles that was set aside stays. Therefore everything is looked at again when the process has grown by half.
"""

from __future__ import annotations

import gc
import logging
import os
from time import perf_counter
from typing import Final

__all__ = ["BoundedPauses"]

log = logging.getLogger(__name__)

_LONG_S: Final = 0.01
_GROWTH: Final = 1.5
_GROWTH_BYTES_MIN: Final = 64 * 1024 * 1024
_OLDEST: Final = 2
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


class BoundedPauses:
    """To be installed once, when what the start has read is frozen."""

    def __init__(self) -> None:
        self._began = 0.0
        self._resident_bytes = _resident_bytes()
        self._is_thawed = False
        self.longest_s = 0.0

    def install(self) -> None:
        gc.callbacks.append(self._heard)

    def remove(self) -> None:
        gc.callbacks.remove(self._heard)

    def _heard(self, phase: str, info: dict[str, int]) -> None:
        if info["generation"] != _OLDEST:
            return
        if phase == "start":
            self._began = perf_counter()
            return
        took_s = perf_counter() - self._began
        self.longest_s = max(self.longest_s, took_s)
        if took_s < _LONG_S:
            return
        if self._is_thawed:
            self._is_thawed = False
            self._resident_bytes = _resident_bytes()
            log.info("looked through all memory for garbage, because it grew: %.2f s", took_s)
        gc.freeze()
        if self._has_grown():
            gc.unfreeze()
            self._is_thawed = True

    def _has_grown(self) -> bool:
        growth = _resident_bytes() - self._resident_bytes
        return growth > max(self._resident_bytes * (_GROWTH - 1), _GROWTH_BYTES_MIN)


def _resident_bytes() -> int:
    try:
        with open("/proc/self/statm", "rb") as statm:
            return int(statm.read().split()[1]) * _PAGE_BYTES
    except OSError:
        return 0  # Elsewhere than on Linux nothing is ever looked at again.
