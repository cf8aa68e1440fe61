"""An environment with the tools of a release and the linters of ``packaging/``, pinned with hashes.

It is separate from the one for development: nothing of it may change what the tests see.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

__all__ = ["MissingTool", "ToolEnvironment", "make_tool_environment"]


class MissingTool(Exception):
    """A program is missing or ended with an error. The message names it, and has the end of its output."""


class ToolEnvironment:
    """A folder with the programs. ``run`` returns what a program printed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def program(self, name: str) -> str:
        return str(self.folder / "bin" / name)

    def run(self, name: str, *arguments: str, cwd: Path, env: dict[str, str] | None = None) -> str:
        """Run a program of the environment. Raise MissingTool with its output if it fails."""
        return _run([self.program(name), *arguments], cwd=cwd, env=env)


def make_tool_environment(root: Path, folder: Path) -> ToolEnvironment:
    """Install ``requirements/release.lock.txt`` into ``folder``, unless the same file was installed there before."""
    lock = root / "requirements" / "release.lock.txt"
    stamp = folder / "installed.txt"
    if not stamp.exists() or stamp.read_bytes() != lock.read_bytes():
        uv = find_uv()
        _run([uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(folder)], cwd=root)
        python = str(folder / "bin" / "python")
        _run([uv, "pip", "install", "--quiet", "--python", python, "--require-hashes", "-r", str(lock)], cwd=root)
        stamp.write_bytes(lock.read_bytes())
    return ToolEnvironment(folder)


def find_uv() -> str:
    """Return the path of uv: beside this Python, or on PATH."""
    beside = Path(sys.executable).parent / "uv"
    found = str(beside) if beside.exists() else shutil.which("uv")
    if found is None:
        raise MissingTool("uv is missing: run `make env`, which installs it into .venv")
    return found


def _run(command: list[str], *, cwd: Path, env: dict[str, str] | None = None) -> str:
    ended = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    output = ended.stdout + ended.stderr
    if ended.returncode:
        raise MissingTool(f"{' '.join(command)} ended with {ended.returncode}:\n{output[-4000:]}")
    return output
