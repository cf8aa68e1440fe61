"""A wall clock for each process that can be set while it runs, without privileges: a small preloaded library.

It needs a C compiler; without one, ``ClockShim.build`` returns None and clocks don't jump.
"""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path

__all__ = ["Clock", "ClockShim"]

_SOURCE = Path(__file__).with_name("clock_shim.c")


class Clock:
    """The clock of one node. It keeps its offset when the node restarts."""

    def __init__(self, library: Path, offset_file: Path) -> None:
        self._offset_file = offset_file
        offset_file.write_bytes(struct.pack("=q", 0))
        self.environment = {"LD_PRELOAD": str(library), "HISTORY_CLOCK_OFFSET": str(offset_file)}

    def set_offset(self, seconds: float) -> None:
        """Set the offset from the true time."""
        with self._offset_file.open("r+b", buffering=0) as file:
            file.write(struct.pack("=q", int(seconds * 1e9)))


class ClockShim:
    def __init__(self, library: Path) -> None:
        self._library = library

    @classmethod
    def build(cls, folder: Path) -> ClockShim | None:
        compiler = shutil.which("cc")
        if compiler is None:
            return None
        library = folder / "clock_shim.so"
        made = subprocess.run(
            [compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(_SOURCE), "-ldl"],
            capture_output=True, timeout=60, check=False,
        )  # fmt: skip
        return cls(library) if made.returncode == 0 else None

    def clock(self, folder: Path) -> Clock:
        folder.mkdir(parents=True, exist_ok=True)
        return Clock(self._library, folder / "clock_offset")
