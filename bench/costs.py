"""What a command costs: CPU time of its whole process, by the operating system's accounts, and time on the clock.

A machine that does other work lengthens the time on the clock. CPU time suffers less from it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Timer
from typing import NamedTuple

__all__ = ["CommandFailed", "Cost", "ForeignWork", "cost_of"]

_TICKS = os.sysconf("SC_CLK_TCK")


class CommandFailed(Exception):
    """A measured command ended with an error or took too long. The message has the command and its last output."""


class Cost(NamedTuple):
    """User and system time of a process with its ended children, and time on the clock, in seconds."""

    cpu_s: float
    wall_s: float


def cost_of(
    command: Sequence[str],
    *,
    stdin: Path | None = None,
    stdout: Path | None = None,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    timeout_s: float = 300,
) -> Cost:
    """Run a command to its end. Files serve as its input and output, so that no pipe slows it down.

    After ``timeout_s`` the command and the processes that it started are killed. Raise CommandFailed then, and for an
    exit status other than 0.
    """
    with (
        (stdin or Path(os.devnull)).open("rb") as given,
        (stdout or Path(os.devnull)).open("wb") as taken,
        tempfile.TemporaryFile() as errors,
    ):
        began = time.perf_counter()
        process = subprocess.Popen(
            command, stdin=given, stdout=taken, stderr=errors, cwd=cwd, env=env, start_new_session=True
        )
        timer = Timer(timeout_s, _kill_group, [process.pid])
        timer.start()
        try:
            _, status, usage = os.wait4(process.pid, 0)
        except BaseException:
            _kill_group(process.pid)
            raise
        finally:
            timer.cancel()
        wall_s = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            errors.seek(0)
            printed = errors.read()[-3000:].decode(errors="replace")
            raise CommandFailed(
                f"{' '.join(command)}: exit status {process.returncode} after {wall_s:.1f} s\n{printed}"
            )
    return Cost(usage.ru_utime + usage.ru_stime, wall_s)


def _kill_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


class ForeignWork:
    """How much of the machine other processes use, from its creation on."""

    def __init__(self) -> None:
        self._began = time.perf_counter()
        self._busy_s, self._own_s = _busy_s(), _own_s()

    def share(self) -> float:
        """Return the part of all cores that processes other than this one and its ended children used: 0 to 1."""
        capacity_s = (time.perf_counter() - self._began) * (os.cpu_count() or 1)
        foreign_s = (_busy_s() - self._busy_s) - (_own_s() - self._own_s)
        return min(max(foreign_s / capacity_s, 0.0), 1.0)


def _busy_s() -> float:
    user, nice, system, _idle, _waiting, irq, softirq, *_ = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    return sum(map(int, (user, nice, system, irq, softirq))) / _TICKS


def _own_s() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
