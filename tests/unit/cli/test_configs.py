"""``barnabas configs``: looking settings up, checking a file."""

from pathlib import Path

import pytest

from barnabas.cli.configs import main

GOOD = """\
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=127.0.0.1:9093
listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093
controller.listener.names=CONTROLLER
offsets.topic.replication.factor=1
num.io.threads=3
"""


def test_a_setting_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "ssl.client.auth", "retention.ms"]) == 0
    out = capsys.readouterr().out
    assert "[required, requested, none]" in out
    assert "retention.ms" in out


def test_an_unknown_setting_is_answered_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "num.partitons"]) == 1
    assert "did you mean num.partitions" in capsys.readouterr().err
    assert main(["show", "zzz"]) == 1
    assert "docs/reference/configs.md" in capsys.readouterr().err


def test_a_file_that_can_be_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "server.properties"
    path.write_text(GOOD)
    assert main(["check", str(path)]) == 0
    out = capsys.readouterr().out
    assert "num.io.threads has no effect here" in out
    assert f"{path}: 7 settings can be used" in out


def test_a_file_that_can_not_be_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "server.properties"
    path.write_text(GOOD)
    assert main(["check", str(path), "--override", "num.partitions=0"]) == 1
    assert "num.partitions=0 (--override)" in capsys.readouterr().err
    assert main(["check", str(tmp_path / "none")]) == 1
    assert "No such file" in capsys.readouterr().err


def test_a_wrong_command_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bogus"]) == 1
    assert main(["show"]) == 1
    assert main(["--help"]) == 0
    assert "check" in capsys.readouterr().out
