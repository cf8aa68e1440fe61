"""``barnabas storage strays`` on directories that the test creates."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.cli.storage import command as storage
from barnabas.common.topic_partition import TopicPartition
from barnabas.common.uuid import Uuid
from barnabas.storage.partition_metadata import write_partition_metadata
from barnabas.storage.stray_directory import StrayDirectory, stray_directory_name
from tests.unit.storage.log_driver import batch

TOPIC_ID = Uuid.from_int(4711)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    path = tmp_path / "server.properties"
    path.write_text(
        f"process.roles=broker,controller\nnode.id=1\nlog.dirs={tmp_path / 'data'}\n"
        "listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0\ncontroller.listener.names=CONTROLLER\n"
        "controller.quorum.bootstrap.servers=127.0.0.1:9093\n"
    )
    return path


def make_stray(tmp_path: Path, number: int) -> Path:
    topic_partition = TopicPartition("orders", number)
    path = tmp_path / "data" / stray_directory_name(topic_partition, f"{number:032x}")
    path.mkdir()
    write_partition_metadata(str(path), TOPIC_ID)
    (path / "00000000000000000000.log").write_bytes(batch(b"a", b"b", b"c"))
    StrayDirectory(str(path), topic_partition, TOPIC_ID, "no topic has that id").write_note()
    return path


def run(config: Path, *arguments: str) -> int:
    return storage.main(["strays", "-c", str(config), *arguments])


def test_the_absence_of_strays_is_reported(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(config) == 0
    assert capsys.readouterr().out == "No stray directories.\n"


def test_strays_are_listed_with_the_known_facts(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = make_stray(tmp_path, 0)
    assert run(config) == 0
    heading, row = capsys.readouterr().out.splitlines()
    assert heading.split()[:3] == ["DIRECTORY", "TOPIC", "PARTITION"]
    directory, topic, partition, topic_id, size, records, reason = row.split(None, 6)
    assert (directory, topic, partition, topic_id) == (str(path), "orders", "0", str(TOPIC_ID))
    assert int(size) == sum(file.stat().st_size for file in path.iterdir())
    assert (records, reason) == ("3", "no topic has that id")


def test_only_named_strays_are_removed(config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = make_stray(tmp_path, 0), make_stray(tmp_path, 1)
    assert run(config, "--remove", first.name, "--yes") == 0
    assert not first.exists()
    assert second.exists()
    assert f"Removed {first}" in capsys.readouterr().out


@pytest.mark.parametrize(("answer", "is_removed"), [("y", True), ("no", False), ("", False)])
def test_removal_requires_confirmation(
    config: Path, tmp_path: Path, answer: str, is_removed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make_stray(tmp_path, 0)
    monkeypatch.setattr("builtins.input", lambda prompt: answer)
    assert run(config, "--remove", path.name) == (0 if is_removed else 1)
    assert path.exists() is not is_removed


def test_an_unknown_name_removes_nothing(config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = make_stray(tmp_path, 0)
    (tmp_path / "data" / "orders-0").mkdir()
    assert run(config, "--remove", path.name, "--remove", "orders-0", "--yes") == 1
    assert path.exists()
    assert f"orders-0 is not a stray directory of this node; stray directories: {path.name}" in capsys.readouterr().err
