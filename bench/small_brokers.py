"""Other small brokers, for comparison: kfake (in Go, a library for tests) and tansu (in Rust).

Both are optional. kfake is built from ``bench/go/kfake``, whose ``go.sum`` pins every module; tansu must be on PATH,
because its build takes far longer than the comparison. A broker that is missing has a reason, which the page states.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

__all__ = ["Missing", "find_kfake", "find_tansu", "kfake_command", "tansu_command"]

_PROJECT = Path(__file__).resolve().parent.parent
_SOURCE = _PROJECT / "bench" / "go" / "kfake"
_BUILT = _PROJECT / ".cache" / "bench-tools" / "kfake"
_BUILD_S = 600
TANSU_INSTALL = "cargo install tansu --version 0.6.0 --locked --features dynostore"


class Missing(NamedTuple):
    """Why a program is not part of a comparison, as a sentence without its subject."""

    reason: str


def find_kfake() -> Path | Missing:
    """Return the program, built if its source is newer."""
    sources = [_SOURCE / name for name in ("main.go", "go.mod", "go.sum")]
    if _BUILT.exists() and _BUILT.stat().st_mtime > max(path.stat().st_mtime for path in sources):
        return _BUILT
    go = shutil.which("go")
    if go is None:
        return Missing("was left out: Go, which builds it, is not on the PATH")
    built = subprocess.run(
        [go, "build", "-trimpath", "-mod=readonly", "-o", str(_BUILT), "."],
        cwd=_SOURCE, env={**os.environ, "GOTOOLCHAIN": "local", "GOFLAGS": ""}, timeout=_BUILD_S,
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if built.returncode:
        *_, last = built.stderr.strip().splitlines() or ["no output"]
        return Missing(f"was left out: `go build` failed in bench/go/kfake: {last}")
    return _BUILT


def find_tansu() -> Path | Missing:
    found = shutil.which("tansu")
    if found is None:
        return Missing(f"was left out: `tansu` is not on the PATH (`{TANSU_INSTALL}`)")
    return Path(found)


def kfake_command(program: Path, port: int) -> Sequence[str]:
    return [str(program), str(port)]


def tansu_command(program: Path, port: int) -> Sequence[str]:
    """One broker that keeps its records in memory."""
    listener = f"tcp://127.0.0.1:{port}"
    return [
        str(program), "broker", "--storage-engine", "memory://tansu/", "--kafka-cluster-id", "bench",
        "--kafka-listener-url", listener, "--kafka-advertised-listener-url", listener,
    ]  # fmt: skip
