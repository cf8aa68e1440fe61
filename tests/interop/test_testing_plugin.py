"""The pytest plugin in runs of its own: its fixtures, in parallel too, its report of a failure, and its cost."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.interop

SOURCE = Path(__file__).parents[2] / "src"
TESTS = """
import pytest

@pytest.fixture(scope="session")
def kafka_options():
    return {"settings": {"num.partitions": 3}}

@pytest.mark.parametrize("number", range(4))
def test_a_fresh_topic(kafka, kafka_topic, number):
    assert kafka.produce(kafka_topic, [f"value {number}"]) == [0]
    assert [record.value for record in kafka.consume(kafka_topic)] == [f"value {number}".encode()]

def test_a_node_that_dies(kafka_node):
    kafka_node.kill()
    kafka_node.start()

def test_the_shared_node_dies(kafka):
    kafka.kill()

def test_a_cluster(kafka_cluster):
    kafka_cluster.create_topic("t", replication=3)
    assert kafka_cluster.leader("t").is_running

def test_rights(kafka_secured):
    from barnabas.testing import allow
    kafka_secured.create_acls(allow("alice", "write", "describe", topic="t"))
    kafka_secured.create_topic("t")
    assert kafka_secured.produce("t", ["a"], user="alice") == [0]
    assert sorted(kafka_secured.users) == ["admin", "alice", "bob"]
"""


def pytest_run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run pytest as a user does, with the plugin of this checkout."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-c", os.devnull, "--rootdir", str(folder), "-p", "no:cacheprovider",
         *PLUGIN, *arguments, str(folder)],
        capture_output=True, text=True, timeout=100, check=False, cwd=folder,
        env={**environment, "PYTHONPATH": str(SOURCE), "TMPDIR": str(folder / "tmp")},
    )  # fmt: skip


def _is_installed_as_a_plugin() -> bool:
    from importlib.metadata import entry_points

    return any(found.value == "barnabas.testing.pytest_plugin" for found in entry_points(group="pytest11"))


PLUGIN = () if _is_installed_as_a_plugin() else ("-p", "barnabas.testing.pytest_plugin")


def folders_in_memory() -> set[str]:
    shared = Path("/dev/shm")
    return {path.name for path in shared.glob("barnabas-*")} if shared.is_dir() else set()


@pytest.mark.parametrize("workers", [(), ("-n", "2")])
def test_the_fixtures_give_nodes_and_leave_nothing(tmp_path: Path, workers: tuple[str, ...]) -> None:
    (tmp_path / "test_user.py").write_text(TESTS)
    (tmp_path / "tmp").mkdir()
    before = folders_in_memory()
    done = pytest_run(tmp_path, *workers)
    assert "8 passed" in done.stdout, done.stdout + done.stderr
    assert list((tmp_path / "tmp").glob("barnabas-*")) == []
    assert not {name for name in folders_in_memory() - before if _is_ours(name, done)}


def _is_ours(name: str, done: subprocess.CompletedProcess[str]) -> bool:
    """Other tests of this machine have folders there too; those of the run appear in its output only when it fails."""
    return name in done.stdout + done.stderr


def test_a_failure_shows_what_the_nodes_logged(tmp_path: Path) -> None:
    (tmp_path / "test_user.py").write_text(
        "def test_one(kafka): pass\n"
        "def test_two(kafka_node):\n    kafka_node.restart()\n    assert kafka_node is None\n"
        "def test_three():\n    from barnabas.testing import Node\n    with Node():\n        assert 1 == 2\n"
    )
    printed = pytest_run(tmp_path, "-p", "no:randomly").stdout
    first, second = printed.split("test_three", 1)
    assert first.count("barnabas node 1 is ready in") == 2, printed
    assert "log of node-1 at 127.0.0.1:" in first
    assert second.count("barnabas node 1 is ready in") == 1, printed
    assert "2 failed, 1 passed" in printed


def test_a_run_without_kafka_loads_nothing_but_the_plugin() -> None:
    program = "import sys, barnabas.testing.pytest_plugin; print(*[m for m in sys.modules if m.startswith('barnabas')])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert set(done.stdout.split()) == {"barnabas", "barnabas.testing", "barnabas.testing.pytest_plugin"}
