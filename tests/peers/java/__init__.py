"""Small Java programs that ask what Kafka's own tools don't show. Java compiles each from its source when it runs."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.peers import require_peer

__all__ = ["run_source"]


def run_source(name: str, *args: str, lib: Path | None = None, timeout_s: float = 120) -> str:
    """Run ``name``.java of this folder with the jars of a folder, else Kafka's; what it printed."""
    source = Path(__file__).parent / f"{name}.java"
    log4j = source.parent.parent / "log4j2.properties"
    done = subprocess.run(
        [
            "java",
            *("-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", f"-Dlog4j2.configurationFile={log4j}"),
            *("-cp", f"{lib or require_peer()}/*", str(source), *args),
        ],
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    assert done.returncode == 0, f"{name} ended with {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout
