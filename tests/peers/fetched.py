"""Programs of other projects that a test needs, fetched once from their registries and kept beside the real Kafka."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.peers import HERE, PROJECT, lacking, require_java, require_maven

__all__ = ["fetched", "jars_of", "require_program", "run_quietly"]

_FETCH_S = 300


def fetched(name: str, fetch: Callable[[Path], None]) -> Path:
    """Return the folder ``name``, filled by ``fetch`` on the first call on a machine, also if callers are concurrent.

    Skip the test if the download fails; in CI that is an error.
    """
    named = os.environ.get("BARNABAS_PEER_LIB")
    folder = (Path(named).parent if named else PROJECT / ".cache" / "peers") / name
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / ".complete").exists():
            shutil.rmtree(folder, ignore_errors=True)
            try:
                fetch(folder)
            except subprocess.CalledProcessError as error:
                lacking(f"{name} can't be fetched: {(error.stderr or error.stdout or '').strip()[-500:]}")
            (folder / ".complete").touch()
    return folder


def jars_of(name: str, pom: str) -> Path:
    """Return the folder of the jars that a ``pom`` of this folder pins. Skip the test without Java or Maven."""
    require_java()

    def fetch(folder: Path) -> None:
        require_maven()
        options = ("--batch-mode", "--quiet", "--strict-checksums", "-f", str(HERE / pom))
        run_quietly("mvn", *options, "dependency:copy-dependencies", f"-DoutputDirectory={folder}")

    return fetched(name, fetch)


def require_program(name: str) -> str:
    """Return the path of a program. Skip the test if it is not installed; in CI that is an error."""
    found = shutil.which(name)
    if found is None:
        lacking(f"needs `{name}`, which is not on the PATH")
    return found


def run_quietly(
    *command: str, cwd: Path | None = None, env: Mapping[str, str] | None = None, timeout_s: float = _FETCH_S
) -> str:
    """Run a command and return its output. Raise CalledProcessError, which has the complete output."""
    return subprocess.run(
        command, check=True, timeout=timeout_s, capture_output=True, text=True, cwd=cwd, env=env
    ).stdout
