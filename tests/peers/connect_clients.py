"""Unmodified third-party clients of Connect's REST API: kafka-connect-client (Java) and kafka-connect-py.

Both are fetched on first use and pinned: the jars with the checksums of their repository, the Python packages with the
hashes of ``kafka-connect-py.txt``, into an environment of their own.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.peers import HERE, peer_lib, require_java, require_maven
from tests.peers.java import run_source

__all__ = ["Answer", "JavaClient", "PythonClient"]

_FETCH_S = 300
_CALL_S = 60


class Answer(NamedTuple):
    """``content`` is the client's result as JSON, or the text of a failure."""

    is_success: bool
    content: Any


class JavaClient:
    """Runs ``ConnectClient.java`` against a worker."""

    def __init__(self) -> None:
        require_java()
        self._jars = _fetched("connect-client-4.0.4", _fetch_jars)

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
        self._program = _fetched("kafka-connect-py-1.0.0", _fetch_packages) / "bin" / "python"

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


def _fetched(name: str, fetch: Callable[[Path], None]) -> Path:
    """Fetch once, even for concurrent callers, and return the folder. Skip the test if the download fails; in CI that
    is an error."""
    folder = peer_lib().parent / name
    with folder.with_name(f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / ".complete").exists():
            shutil.rmtree(folder, ignore_errors=True)
            try:
                fetch(folder)
            except subprocess.CalledProcessError as error:
                reason = f"{name} can't be fetched: {(error.stderr or error.stdout or '').strip()[-500:]}"
                if os.environ.get("CI"):
                    pytest.fail(f"{reason}; in CI this is an error", pytrace=False)
                pytest.skip(reason)
            (folder / ".complete").touch()
    return folder


def _fetch_jars(folder: Path) -> None:
    require_maven()
    options = ["--batch-mode", "--quiet", "--strict-checksums", "-f", str(HERE / "pom-connect-client.xml")]
    _run("mvn", *options, "dependency:copy-dependencies", f"-DoutputDirectory={folder}")


def _fetch_packages(folder: Path) -> None:
    _run(sys.executable, "-m", "venv", str(folder))
    requirements = str(HERE / "kafka-connect-py.txt")
    install = ("pip", "install", "--quiet", "--require-hashes", "--only-binary", ":all:", "-r", requirements)
    _run(str(folder / "bin" / "python"), "-m", *install)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, timeout=_FETCH_S, capture_output=True, text=True)
