"""The ready line: its file, its descriptor, and systemd's socket."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import pytest

from barnabas.server.process.readiness import Readiness, UnusableReadyFile, notify_systemd


@pytest.fixture(autouse=True)
def no_service_manager(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)


@pytest.fixture
def service_manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> socket.socket:
    manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    manager.bind(str(tmp_path / "notify"))
    manager.settimeout(5)
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
    return manager


def test_the_file_appears_with_the_facts_and_disappears_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "ready.json"
    path.write_text("of an earlier run")
    readiness = Readiness(str(path))
    readiness.prepare()
    assert not path.exists()
    readiness.ready({"bootstrap_servers": "localhost:9092"})
    assert json.loads(path.read_text()) == {
        "event": "ready",
        "pid": os.getpid(),
        "bootstrap_servers": "localhost:9092",
    }
    assert list(tmp_path.iterdir()) == [path]
    readiness.stopping()
    assert list(tmp_path.iterdir()) == []


def test_a_descriptor_receives_the_line_and_is_closed() -> None:
    reader, writer = os.pipe()
    readiness = Readiness(fd=writer)
    readiness.prepare()
    readiness.ready({"node_id": 1})
    with os.fdopen(reader) as lines:
        assert [json.loads(line)["node_id"] for line in lines] == [1]
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(writer)


@pytest.mark.parametrize(
    ("file", "fd", "message"),
    [
        ("no/such/folder/ready", None, "no/such/folder is not a folder that can be written"),
        (".", None, "this is a folder; name a file in it"),
        (None, 987, "--ready-fd 987: Bad file descriptor"),
    ],
)
def test_an_unusable_target_is_named_before_the_start(file: str | None, fd: int | None, message: str) -> None:
    with pytest.raises(UnusableReadyFile, match=message):
        Readiness(file, fd).prepare()


def test_a_file_that_can_no_longer_be_written_does_not_stop_the_node(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    readiness = Readiness(str(tmp_path / "folder" / "ready"))
    readiness.ready({})
    readiness.stopping()
    assert "the ready line can't be written: No such file or directory" in caplog.text


def test_systemd_learns_when_the_node_is_ready_and_when_it_stops(service_manager: socket.socket) -> None:
    readiness = Readiness()
    with service_manager:
        readiness.ready({})
        assert service_manager.recv(100) == f"READY=1\nMAINPID={os.getpid()}".encode()
        readiness.stopping()
        assert service_manager.recv(100) == b"STOPPING=1"


def test_without_a_service_manager_nothing_is_sent() -> None:
    assert notify_systemd("READY=1") is False


def test_a_service_manager_that_has_gone_is_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "none"))
    assert notify_systemd("READY=1") is False
    assert "systemd can't be notified" in caplog.text
