"""Measures the effects of an attack on the node: memory, processor time, log lines, and leadership."""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from pathlib import Path

__all__ = ["CoreWaits", "Watch", "cpu_s", "memory_bytes", "settle"]

_TICK = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


def memory_bytes(pid: int) -> int:
    """Return the resident memory of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE


def cpu_s(pid: int) -> float:
    """Return the processor time that a process has used, in user and in kernel mode."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICK


class CoreWaits:
    """Measures how long the calling thread, and the first thread of a process, were ready to run without a processor.

    Linux counts it in the second number of ``schedstat``; elsewhere it is zero.
    """

    def __init__(self, pid: int | None) -> None:
        threads = [(os.getpid(), threading.get_native_id())] + ([] if pid is None else [(pid, pid)])
        paths = [Path(f"/proc/{process}/task/{thread}/schedstat") for process, thread in threads]
        self._files = [os.open(path, os.O_RDONLY) for path in paths if path.exists()]

    def total_s(self) -> float:
        return sum(int(os.pread(file, 100, 0).split()[1]) for file in self._files) / 1e9


class Watch:
    """Samples the memory of a process during an attack, and compares its log and processor time with before."""

    def __init__(self, pid: int, log: Path) -> None:
        self._pid = pid
        self._log = log
        self._memory_before = memory_bytes(pid)
        self._memory_max = self._memory_before
        self._log_before = log.stat().st_size
        self._cpu_before = cpu_s(pid)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()

    def _sample(self) -> None:
        with suppress(OSError):  # The process has ended.
            while not self._is_over.wait(0.02):
                self._memory_max = max(self._memory_max, memory_bytes(self._pid))

    def end(self) -> tuple[int, int, float]:
        """Return the maximal growth in bytes of memory, the bytes of log, and the seconds of processor time."""
        self._is_over.set()
        self._thread.join()
        grown = self._memory_max - self._memory_before
        return grown, self._log.stat().st_size - self._log_before, cpu_s(self._pid) - self._cpu_before


def settle(pid: int, *, at_most_s: float = 20.0) -> None:
    """Wait until the process is nearly idle, so that leftovers of an attack do not affect the measurement of the
    next."""
    deadline = time.monotonic() + at_most_s
    while time.monotonic() < deadline:
        before = cpu_s(pid)
        time.sleep(0.25)
        if cpu_s(pid) - before <= 0.13:
            return
