"""``barnabas completion``: every shell completes every command, verb and option."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from barnabas.cli.completion import main
from barnabas.cli.main import COMMANDS


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_completion_script_contains_commands_verbs_and_options(
    shell: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([shell]) == 0
    script = capsys.readouterr().out
    assert all(command in script for command in COMMANDS)
    assert all(word in script for word in ("add-partitions", "reset-offsets", "replication-factor"))
    program = shutil.which(shell)
    if program is not None:
        checked = subprocess.run([program, "-n"], input=script, text=True, capture_output=True, check=False)
        assert checked.returncode == 0, checked.stderr


def test_bash_completes_commands_and_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bash"]) == 0
    script = capsys.readouterr().out
    for words, expected in (
        (["barnabas", "topi"], "topics"),
        (["barnabas", "topics", "cr"], "create"),
        (["barnabas", "topics", "create", "--partit"], "--partitions"),
    ):
        line = " ".join(words)
        request = f"COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _barnabas; echo ${{COMPREPLY[@]}}"
        done = subprocess.run(["bash"], input=f"{script}\n{request}", text=True, capture_output=True, check=False)
        assert expected in done.stdout.split(), (done.stdout, done.stderr)


def test_another_shell_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tcsh"]) == 2
    assert "bash" in capsys.readouterr().err
