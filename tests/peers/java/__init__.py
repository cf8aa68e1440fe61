"""Small Java programs that query what Kafka's own tools don't show. Java compiles each from its source at run time."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.peers import run_class

__all__ = ["run_source"]


def run_source(name: str, *args: str, lib: Path | None = None, timeout_s: float = 120) -> str:
    """Run ``name``.java of this folder with the jars of a folder, by default Kafka's. Return its output."""
    source = Path(__file__).parent / f"{name}.java"
    if lib is None:
        return run_class(str(source), *args, timeout_s=timeout_s).stdout
    log4j = source.parent.parent / "log4j2.properties"
    jvm = ("-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", f"-Dlog4j2.configurationFile={log4j}")
    command = ["java", *jvm, "-cp", f"{lib}/*", str(source), *args]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
    assert done.returncode == 0, f"{name} ended with {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout
