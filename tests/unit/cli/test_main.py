"""The command root finds a command, suggests one for a mistyped name, and imports only the requested command."""

import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec

import pytest

from barnabas import __version__
from barnabas.cli.main import _OF_KAFKA, COMMANDS, main


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    assert all(name in out and summary in out for name, (_, summary) in COMMANDS.items())


def test_without_arguments_the_help_is_printed_as_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("usage: barnabas")


def test_the_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    for word in ("--version", "-V", "version"):
        assert main([word]) == 0
        assert capsys.readouterr().out == f"barnabas {__version__}\n"


def test_an_unknown_command_is_answered_with_the_closest_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["storag"]) == 2
    assert capsys.readouterr().err == "barnabas: 'storag' is not a command: did you mean 'storage'?\n"
    assert main(["xyz"]) == 2
    assert "the commands are node, storage" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("script", "command"),
    [
        ("kafka-reassign-partitions.sh", "reassign"),
        ("leader-election", "topics elect-leaders"),
        ("kafka-consumer-groups", "groups"),
        ("kafka-metadata-quorum.sh", "quorum"),
    ],
)
def test_names_of_kafkas_scripts_are_answered_with_the_equivalent_command(
    capsys: pytest.CaptureFixture[str], script: str, command: str
) -> None:
    assert main([script]) == 2
    assert capsys.readouterr().err == f"barnabas: '{script}' is not a command: use 'barnabas {command}'.\n"


def test_every_equivalent_of_a_kafka_script_exists(capsys: pytest.CaptureFixture[str]) -> None:
    for meant in set(_OF_KAFKA.values()):
        command, _, verb = meant.partition(" ")
        app = getattr(import_module(COMMANDS[command][0]), "app", None)
        assert not verb or verb in app, meant


def test_a_reader_that_closes_the_pipe_early_causes_no_error() -> None:
    code = (
        "import sys, barnabas.cli.main as root, barnabas.cli.configs.command as configs\n"
        "configs.main = lambda arguments: [sys.stdout.write('much\\n' * 1000) for _ in range(1000)] and 0\n"
        "sys.exit(root.main(['configs']))"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    with process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(10)
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 141


def test_an_interrupted_command_ends_without_a_stack_trace(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(arguments: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("barnabas.cli.configs.command.main", interrupted)
    assert main(["configs"]) == 130
    assert capsys.readouterr().err == ""


def test_every_command_has_a_module() -> None:
    assert all(find_spec(module) is not None for module, _ in COMMANDS.values())


def test_the_root_imports_no_command() -> None:
    code = "import sys, barnabas.cli.main; print(sorted(m for m in sys.modules if m.startswith('barnabas')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['barnabas', 'barnabas.cli', 'barnabas.cli.main']"


def test_the_package_runs_as_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "barnabas", "--version"], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == f"barnabas {__version__}\n"
