"""Small programs in Go, each a folder with its ``go.mod``; ``go.sum`` pins every module."""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path

from tests.peers.fetched import fetched, require_program, run_quietly

__all__ = ["go_program"]

_BUILD_S = 600


def go_program(name: str) -> Path:
    """Return the program of a folder, built when a source has changed. Skip the test without Go."""
    source = Path(__file__).parent / name
    files = sorted(path for path in source.iterdir() if path.is_file())
    digest = sha256(b"".join(path.name.encode() + path.read_bytes() for path in files)).hexdigest()[:16]

    def build(folder: Path) -> None:
        command = (require_program("go"), "build", "-trimpath", "-mod=readonly", "-o", str(folder / name), ".")
        environment = {**os.environ, "GOTOOLCHAIN": "local", "GOFLAGS": ""}
        run_quietly(*command, cwd=source, env=environment, timeout_s=_BUILD_S)

    return fetched(f"go-{name}-{digest}", build) / name
