"""``barnabas completion``: small scripts, which complete commands, verbs, options, and names in the cluster."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from barnabas.cli import completion
from barnabas.cli.arguments.candidates import Wanted, candidates, given_options
from barnabas.cli.completion import main
from barnabas.cli.main import COMMANDS
from tests.unit.cli.conftest import FakeAdmin

SMALL = 1500


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A PATH with the command that the scripts call."""
    command = tmp_path / "barnabas"
    command.write_text(
        f"#!{sys.executable}\nimport sys\nfrom barnabas.cli.main import main\nsys.exit(main(sys.argv[1:]))\n"
    )
    command.chmod(0o755)
    return f"{tmp_path}:{os.environ['PATH']}"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_is_small_and_valid(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([shell]) == 0
    script = capsys.readouterr().out
    assert len(script) < SMALL
    program = shutil.which(shell)
    if program is not None:
        checked = subprocess.run([program, "-n"], input=script, text=True, capture_output=True, check=False)
        assert checked.returncode == 0, checked.stderr


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["barnabas", "topi"], ["topics"]),
        (["barnabas", "topics", "cr"], ["create"]),
        (["barnabas", "topics", "create", "--partit"], ["--partitions"]),
        (["barnabas", "topics", "list", "--output", "y"], ["yaml"]),
        (["barnabas", "plan", "stat"], ["state one.yaml", "state.yaml"]),
    ],
)
def test_bash_completes_a_command_line(
    words: list[str], expected: list[str], path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("state.yaml", "state one.yaml", "other.yaml"):
        (tmp_path / name).touch()
    assert main(["bash"]) == 0
    line = f"COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}; _barnabas"
    request = f"{line}; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    done = subprocess.run(
        ["bash"],
        input=f"{capsys.readouterr().out}\n{request}",
        text=True,
        capture_output=True,
        check=False,
        cwd=tmp_path,
        env=os.environ | {"PATH": path},
    )
    assert sorted(done.stdout.splitlines()) == expected, done.stderr


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("to", ["topics", "tokens"]),
        ("topics delete", ["delete-records", "delete"]),
        ("topics describe ", Wanted.TOPICS),
        ("topics describe --topic ", Wanted.TOPICS),
        ("topics describe --topic=or", Wanted.TOPICS),
        ("groups describe ", Wanted.GROUPS),
        ("topics create orders --dry", ["--dry-run"]),
        ("topics create orders --dry-run --dry", []),
        ("topics create a --config x=1 --conf", ["--config"]),
        ("topics list --output=j", ["--output=json"]),
        ("topics elect-leaders --election-type ", ["preferred", "unclean"]),
        ("topics list --command-config ", Wanted.FILES),
        ("topics create --partitions ", []),
        ("completion ", ["bash", "zsh", "fish"]),
        ("plan ", Wanted.FILES),
        ("node server", Wanted.FILES),
        ("node --ready", ["--ready-file", "--ready-fd"]),
        ("storage re", ["repair"]),
        ("nonsense ", []),
        ("topics nonsense ", []),
    ],
)
def test_the_words_that_can_follow(line: str, expected: list[str] | Wanted) -> None:
    found = candidates(line.split(" "), COMMANDS)
    assert (found if isinstance(found, Wanted) else sorted(found)) == (
        expected if isinstance(expected, Wanted) else sorted(expected)
    )


def test_every_command_and_verb_can_be_completed() -> None:
    first = candidates([""], COMMANDS)
    assert isinstance(first, list)
    assert {*COMMANDS} <= {*first}
    for command in COMMANDS:
        assert candidates([command, ""], COMMANDS), command


def test_hidden_options_are_not_offered() -> None:
    found = candidates(["bench", "produce", "--bootstrap"], COMMANDS)
    assert found == ["--bootstrap-server"]


def test_options_of_the_cluster_are_taken_from_the_line() -> None:
    words = ["topics", "list", "--bootstrap-server", "a:1", "--command-config=b.properties"]
    assert given_options(words, ("bootstrap-server", "command-config")) == {
        "bootstrap-server": "a:1",
        "command-config": "b.properties",
    }


def test_names_are_those_of_the_cluster(
    admin: FakeAdmin, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def open_admin(config: object) -> FakeAdmin:
        admin.config = config
        return admin

    monkeypatch.setattr(completion, "open_admin", open_admin)
    admin.list_groups.return_value = SimpleNamespace(groups=[SimpleNamespace(group_id="g:1")])
    assert main(["--complete", "topics", "describe", "--bootstrap-server", "b:7", "pay"]) == 0
    assert capsys.readouterr().out == "payments\n"
    assert [str(address) for address in admin.config.bootstrap] == ["b:7"]
    assert main(["--complete", "groups", "describe", "--group=g"]) == 0
    assert capsys.readouterr().out == "--group=g:1\n"


def test_without_a_cluster_no_names_are_offered(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--complete", "topics", "describe", "--bootstrap-server", "not-an-address", ""]) == 0
    assert capsys.readouterr().out == ""


def test_another_shell_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tcsh"]) == 2
    assert "bash" in capsys.readouterr().err
