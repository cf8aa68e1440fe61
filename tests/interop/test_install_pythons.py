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


CASES = [
    pytest.param(version, kind, marks=[pytest.mark.long] if kind == "sdist" and version != VERSIONS[0] else [])
    for version in VERSIONS
    for kind in ("wheel", "sdist")
]
FIVE_LINES = """\
def test_an_order_arrives(kafka, kafka_topic):
    kafka.produce(kafka_topic, ["one espresso"])
    (record,) = kafka.consume(kafka_topic)
    assert record.value == b"one espresso"
    assert kafka.bootstrap_servers
"""


@pytest.mark.parametrize(("version", "kind"), CASES)
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


@pytest.mark.parametrize("which", ["oldest", "newest"])
def test_five_lines_of_pytest_have_a_node(tmp_path: Path, packages: dict[str, Path], which: str) -> None:
    """Beside barnabas the environment has pytest only; nothing registers the plugin but the installed package."""
    found = [version for version in VERSIONS if version in pythons()] or [VERSIONS[0]]
    python = python_of(found[0] if which == "oldest" else found[-1])
    bin_folder = install(python, packages["wheel"], tmp_path / "venv", "pytest")
    (tmp_path / "test_orders.py").write_text(FIVE_LINES)
    ended = subprocess.run(
        [str(bin_folder / "python"), "-m", "pytest", "-W", "error", "-p", "no:cacheprovider", str(tmp_path)],
        cwd=tmp_path,
        env=environment_without_java(bin_folder),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "1 passed" in ended.stdout
