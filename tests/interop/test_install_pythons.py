"""A new user's first minutes, for each Python: a fresh environment without Java on PATH, a node, a topic."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.interop.install_source import VERSIONS, built_packages, environment_without_java, install, pythons
from tests.peers.node_process import free_ports

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return built_packages(tmp_path_factory.mktemp("packages"))


def python_of(version: str) -> str:
    found = pythons().get(version)
    if found is None:
        pytest.skip(f"this machine has no Python {version} with venv, SSL and SQLite")
    return found


def barnabas(bin_folder: Path, *arguments: str, cwd: Path) -> str:
    ended = subprocess.run(
        [str(bin_folder / "barnabas"), *arguments],
        cwd=cwd,
        env=environment_without_java(bin_folder),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


@contextmanager
def running_node(bin_folder: Path, folder: Path) -> Iterator[tuple[str, int]]:
    """Run a node as README shows it, at free ports. Yield its address and its port for metrics."""
    port, controller, metrics = free_ports(3)
    ready = folder / "ready.json"
    settings = (
        f"listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
        f"barnabas.metrics.listener=127.0.0.1:{metrics}",
    )
    command = [str(bin_folder / "barnabas"), "node", "--ready-file", str(ready)]
    command += [part for setting in settings for part in ("--override", setting)]
    with (folder / "node.log").open("w") as log:
        process = subprocess.Popen(command, cwd=folder, env=environment_without_java(bin_folder), stderr=log)
        try:
            deadline = time.monotonic() + 60
            while not ready.exists():
                assert process.poll() is None, (folder / "node.log").read_text()
                assert time.monotonic() < deadline, "the node is not ready after 60 s"
                time.sleep(0.05)
            yield json.loads(ready.read_text())["bootstrap_servers"], metrics
        finally:
            process.send_signal(signal.SIGTERM)
            status = process.wait(30)
    assert status == 0, (folder / "node.log").read_text()


@pytest.mark.parametrize("kind", ["wheel", "sdist"])
@pytest.mark.parametrize("version", VERSIONS)
def test_a_fresh_environment_runs_a_node(tmp_path: Path, packages: dict[str, Path], version: str, kind: str) -> None:
    python = python_of(version)
    # pip is what a user has; it needs ten seconds more than uv.
    bin_folder = install(python, packages[kind], tmp_path / "venv", with_pip=version == "3.11" and kind == "wheel")
    without_spark = "import sys, importlib.util as found; sys.exit(found.find_spec('pyspark') is not None)"
    subprocess.run([str(bin_folder / "python"), "-c", without_spark], check=True)
    with running_node(bin_folder, tmp_path) as (server, metrics):
        created = barnabas(bin_folder, "topics", "create", "orders", "--bootstrap-server", server, cwd=tmp_path)
        assert "created" in created
        listed = barnabas(bin_folder, "topics", "list", "--bootstrap-server", server, cwd=tmp_path)
        assert "orders" in listed
        with urlopen(f"http://127.0.0.1:{metrics}/readyz", timeout=5) as answer:
            assert answer.status == 200
