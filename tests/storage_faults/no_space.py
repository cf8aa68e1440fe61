"""A disk without space for some files of a node: a small preloaded library, so that no mount is needed.

It refuses each write that needs space (also a file that is created, or grows) of the paths that ``refuse`` names. It
needs a C compiler; without one, ``NoSpace.build`` returns None.
"""

from __future__ import annotations

import mmap
import shutil
import subprocess
from pathlib import Path

__all__ = ["NoSpace"]

_SOURCE = Path(__file__).with_name("no_space_shim.c")
_CONTROL_SIZE = 4096


class NoSpace:
    def __init__(self, library: Path, control: Path) -> None:
        control.write_bytes(bytes(_CONTROL_SIZE))
        self._control = control
        self.environment = {"LD_PRELOAD": str(library), "NO_SPACE_CONTROL": str(control)}
        """The environment of the affected processes."""

    @classmethod
    def build(cls, folder: Path) -> NoSpace | None:
        compiler = shutil.which("cc")
        if compiler is None:
            return None
        folder.mkdir(parents=True, exist_ok=True)
        library = folder / "no_space_shim.so"
        made = subprocess.run(
            [compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(_SOURCE), "-ldl"],
            capture_output=True, timeout=60, check=False,
        )  # fmt: skip
        return cls(library, folder / "no_space_control") if made.returncode == 0 else None

    def refuse(self, path_start: str, rest_contains: str) -> None:
        self._write(f"{path_start}\n{rest_contains}\n".encode())

    def refuse_nothing(self) -> None:
        self._write(b"")

    def _write(self, content: bytes) -> None:
        with self._control.open("r+b") as file, mmap.mmap(file.fileno(), _CONTROL_SIZE) as shared:
            shared[:] = content.ljust(_CONTROL_SIZE, b"\0")
