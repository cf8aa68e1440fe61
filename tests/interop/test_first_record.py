"""The fresh process of ``python -m bench --only first-steps`` reads its first record, and leaves no broker behind."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.peers.command_node import CommandNode

pytestmark = [pytest.mark.interop, pytest.mark.timeout(60)]

PROJECT = Path(__file__).resolve().parents[2]


def first_record(folder: Path, command: Sequence[str], port: int = 0) -> subprocess.CompletedProcess[str]:
    began = time.clock_gettime(time.CLOCK_MONOTONIC)
    task = {"prepare": [], "command": command, "port": port, "folder": str(folder), "began": began}
    return subprocess.run(
        [sys.executable, "-m", "bench.first_record"],
        input=json.dumps(task), capture_output=True, text=True, timeout=50, check=False, cwd=PROJECT,
    )  # fmt: skip


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_a_node_starts_serves_and_ends(tmp_path: Path) -> None:
    node = CommandNode(tmp_path)
    done = first_record(tmp_path, node.command(), node.port)
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    assert set(figures) == {"start_s", "start_cpu_s", "record_s", "resident_mib"}
    assert 0 < figures["start_s"] < figures["record_s"]
    assert not is_open(node.port)


def test_barnabas_testing_serves(tmp_path: Path) -> None:
    done = first_record(tmp_path, [])
    assert done.returncode == 0, done.stderr
    assert set(json.loads(done.stdout)) == {"record_s", "resident_mib"}


def test_a_broker_that_ends_at_once_is_named(tmp_path: Path) -> None:
    done = first_record(tmp_path, ["false"], port=1)
    assert done.returncode == 1
    assert done.stderr.strip() == "the broker ended before it was ready"
