"""How programs learn that a node serves clients, and that a port in use is found before anything is written."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from tests.peers.command_node import CommandNode
from tests.peers.node_process import free_ports

pytestmark = [pytest.mark.interop, pytest.mark.timeout(60)]


@contextmanager
def running(node: CommandNode, *options: str, pass_fds: tuple[int, ...] = (), **environment: str) -> Iterator[int]:
    """Run the node with more options, and yield its process id."""
    process = subprocess.Popen(
        [*node.command(), *options],
        cwd=node.folder,
        pass_fds=pass_fds,
        env=os.environ | environment,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0


def test_the_ready_file_and_the_descriptor_have_the_addresses(tmp_path: Path) -> None:
    node, path = CommandNode(tmp_path), tmp_path / "ready.json"
    reader, writer = os.pipe()
    with running(node, "--ready-file", str(path), "--ready-fd", str(writer), pass_fds=(writer,)) as pid:
        os.close(writer)
        with os.fdopen(reader) as lines:
            ready = json.loads(lines.readline())
            assert lines.read() == ""  # The node has closed its end.
        assert ready["event"] == "ready"
        assert ready["pid"] == pid
        assert ready["bootstrap_servers"] == f"127.0.0.1:{node.port}"
        assert ready["listeners"] == {
            "PLAINTEXT": f"127.0.0.1:{node.port}",
            "CONTROLLER": f"127.0.0.1:{node.controller_port}",
        }
        assert ready["log_dirs"] == [str(tmp_path / "data")]
        with socket.create_connection(("127.0.0.1", node.port), timeout=5):
            pass
        assert json.loads(path.read_text()) == ready
    assert not path.exists()


def test_a_service_manager_is_notified(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(20)
        with running(CommandNode(tmp_path), NOTIFY_SOCKET=str(tmp_path / "notify")) as pid:
            assert manager.recv(100) == f"READY=1\nMAINPID={pid}".encode()
        assert manager.recv(100) == b"STOPPING=1"


@pytest.mark.parametrize("taken", ["broker", "controller", "metrics"])
def test_a_port_in_use_is_found_before_anything_is_formatted(tmp_path: Path, taken: str) -> None:
    (metrics,) = free_ports(1)
    node = CommandNode(tmp_path, settings={"barnabas.metrics.listener": f"127.0.0.1:{metrics}"})
    port = {"broker": node.port, "controller": node.controller_port, "metrics": metrics}[taken]
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", port))
        other.listen()
        done = subprocess.run(node.command(), cwd=tmp_path, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 1
    assert f"127.0.0.1:{port}: the port is in use: another process listens there" in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_all_ports_in_use_are_named_together(tmp_path: Path) -> None:
    first = CommandNode(tmp_path / "first")
    first.start()
    try:
        (tmp_path / "second").mkdir()
        command = [part.replace(str(tmp_path / "first"), str(tmp_path / "second")) for part in first.command()]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=30, check=False)
    finally:
        assert first.stop() == 0
    assert done.returncode == 1
    assert f"PLAINTEXT://127.0.0.1:{first.port}: the port is in use" in done.stderr
    assert f"CONTROLLER://127.0.0.1:{first.controller_port}: the port is in use" in done.stderr
    assert list((tmp_path / "second").iterdir()) == []


def test_health_is_served_while_a_node_waits_for_its_quorum(tmp_path: Path) -> None:
    """Such a node works, but is not ready; an orchestrator must be able to distinguish this from one that hangs."""
    metrics, other = free_ports(2)
    node = CommandNode(
        tmp_path,
        settings={
            "barnabas.metrics.listener": f"127.0.0.1:{metrics}",
            "process.roles": "broker",
            "node.id": "5",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": f"1@127.0.0.1:{other}",
            "barnabas.auto.format": "true",
        },
    )
    node.change_settings({"listeners": f"PLAINTEXT://127.0.0.1:{node.port}"})
    with running(node):
        deadline = time.monotonic() + 20
        answers: dict[str, int] = {}
        while len(answers) < 3 and time.monotonic() < deadline:
            for path in ("/healthz", "/readyz", "/metrics"):
                try:
                    with urlopen(f"http://127.0.0.1:{metrics}{path}", timeout=5) as answer:
                        answers[path] = answer.status
                except HTTPError as error:
                    answers[path] = error.code
                except OSError:
                    time.sleep(0.1)
        assert answers == {"/healthz": 200, "/readyz": 503, "/metrics": 503}
