"""Unmodified third-party clients of Connect's REST API: kafka-connect-client (Java) and kafka-connect-py.

Both are fetched on first use and pinned: the jars with the checksums of their repository, the Python packages with the
hashes of ``kafka-connect-py.txt``, into an environment of their own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from tests.peers import HERE
from tests.peers.fetched import fetched, jars_of, run_quietly
from tests.peers.java import run_source

__all__ = ["Answer", "JavaClient", "PythonClient"]

_CALL_S = 60


class Answer(NamedTuple):
    """``content`` is the client's result as JSON, or the text of a failure."""

    is_success: bool
    content: Any


class JavaClient:
    """Runs ``ConnectClient.java`` against a worker."""

    def __init__(self) -> None:
        self._jars = jars_of("connect-client-4.0.4", "pom-connect-client.xml")

    def run(self, url: str, file: Path, topic: str) -> dict[str, Answer]:
        """Return the result of each call."""
        printed = run_source("ConnectClient", url, str(file), topic, lib=self._jars, timeout_s=240)
        answers = {}
        for line in printed.splitlines():
            name, outcome, content = line.split("\t")
            answers[name] = Answer(outcome == "ok", json.loads(content))
        return answers


class PythonClient:
    """The command ``kc``."""

    def __init__(self) -> None:
        self._program = fetched("kafka-connect-py-1.0.0", _fetch_packages) / "bin" / "python"

    def call(self, url: str, *arguments: str) -> Answer:
        environment = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
        start = "import sys; from kafka_connect.cli import cli; sys.argv[0] = 'kc'; cli()"
        done = subprocess.run(
            [str(self._program), "-c", start, "--url", url, *arguments],
            capture_output=True, text=True, check=False, timeout=_CALL_S, env=environment,
        )  # fmt: skip
        try:
            content = json.loads(done.stdout) if done.stdout.strip() else None
        except ValueError:
            content = done.stdout
        return Answer(done.returncode == 0, content)


def _fetch_packages(folder: Path) -> None:
    run_quietly(sys.executable, "-m", "venv", str(folder))
    requirements = str(HERE / "kafka-connect-py.txt")
    install = ("pip", "install", "--quiet", "--require-hashes", "--only-binary", ":all:", "-r", requirements)
    run_quietly(str(folder / "bin" / "python"), "-m", *install)
