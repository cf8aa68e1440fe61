"""The help of every command built from an ``App`` is complete, and its examples can be parsed."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from importlib import import_module

import pytest
from cyclopts import App

from barnabas.cli.main import COMMANDS

APPS: dict[str, App] = {
    name: app.full for name, (module, _) in COMMANDS.items() if (app := getattr(import_module(module), "app", None))
}


def verbs(app: App) -> Iterator[tuple[str, App]]:
    for name in app:
        if not name.startswith("-"):
            yield name, app[name]


@pytest.mark.parametrize("command", APPS)
def test_the_help_text_has_every_option_with_its_explanation(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    module = import_module(COMMANDS[command][0])
    parsers = [([], APPS[command])] if APPS[command].default_command else [([n], v) for n, v in verbs(APPS[command])]
    for words, verb in parsers:
        assert module.main([*words, "--help"]) == 0
        shown = " ".join(capsys.readouterr().out.split())
        for argument in verb.assemble_argument_collection(parse_docstring=True):
            text = " ".join(str(argument.parameter.help or "").split())
            if argument.show and argument.field_info.kind is not argument.field_info.VAR_POSITIONAL:
                assert argument.name in shown, (words, argument.name)
                assert text in shown, (words, argument.name)


def test_a_help_text_fits_the_terminal_except_its_examples(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "70")
    assert import_module(COMMANDS["topics"][0]).main(["create", "--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "usage: barnabas topics create [TOPIC ...] [options]"
    assert [line for line in lines if len(line) > 70 and not line.startswith("    barnabas ")] == []
    assert "  --output, -o table|json|yaml  Output format: a table, or one" in lines
    assert any(line.startswith("    barnabas topics create orders payments --config retention") for line in lines)


def test_a_command_without_a_verb_shows_its_verbs(capsys: pytest.CaptureFixture[str]) -> None:
    assert import_module(COMMANDS["topics"][0]).main([]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "  add-partitions (alter)" in captured.err
    assert import_module(COMMANDS["topics"][0]).main(["-h"]) == 0
    assert "usage: barnabas topics VERB [options]" in capsys.readouterr().out


def examples(app: App) -> list[str]:
    lines = ((verb.help or "") + (verb.default_command.__doc__ or "") for _, verb in verbs(app) if verb.default_command)
    return [line.strip() for text in lines for line in text.splitlines() if line.startswith("        barnabas ")]


@pytest.mark.parametrize("command", APPS)
def test_every_verb_and_every_option_is_explained(command: str) -> None:
    unexplained = []
    for name, verb in verbs(APPS[command]):
        if not verb.help:
            unexplained.append(f"{command} {name}")
        unexplained += [
            f"{command} {name} {argument.name}"
            for argument in verb.assemble_argument_collection(parse_docstring=True)
            if argument.show and not argument.parameter.help
        ]
    assert unexplained == []


@pytest.mark.parametrize("command", APPS)
def test_every_example_can_be_parsed(command: str) -> None:
    for line in examples(APPS[command]):
        words = shlex.split(line.partition(" | ")[0].partition(" > ")[0].partition(" < ")[0])
        assert words[:2] == ["barnabas", command], line
        APPS[command].parse_args(words[2:], exit_on_error=False, print_error=False)


@pytest.mark.parametrize("command", APPS)
def test_every_verb_has_an_example(command: str) -> None:
    without = [name for name, verb in verbs(APPS[command]) if "For example:" not in (verb.help or "")]
    doc = [name for name in without if "For example:" not in (APPS[command][name].default_command.__doc__ or "")]
    assert doc == []


ONLY_LOOKS = {
    "access": {"explain", "who", "of", "at", "history", "mine", "needs"},
    "acls": {"list"},
    "bench": {"consume", "connections", "api-versions"},
    "cluster": {"describe", "list-endpoints", "cluster-id"},
    "completion": set(),
    "connect": {
        "list", "status", "config", "tasks", "topics", "validate", "offsets", "plugins", "plugin-config", "loggers",
        "health", "logs", "dead-letters",
        # It fills the user's cache, and changes no worker.
        "prepare",
    },
    "configs": {"list", "describe", "explain", "show", "check"},
    "export": set(),
    "features": {"describe", "version-mapping", "feature-dependencies"},
    "groups": {"list", "describe"},
    "log-dirs": {"describe"},
    "plan": set(),
    "queue": {
        "list", "describe", "offsets",
        # What was received can be released, and a handle means one record: there is nothing to try.
        "receive", "accept", "release", "reject", "renew", "work", "agents",
    },
    "quorum": {"describe"},
    "quotas": {"list", "describe"},
    "reassign": {"generate", "list"},
    "tokens": {"list", "describe"},
    "topics": {"list", "describe", "offsets", "tail"},
    "transactions": {"list", "describe", "describe-producers", "find-hanging"},
    "users": {"list", "describe"},
}  # fmt: skip


@pytest.mark.parametrize("command", APPS)
def test_every_verb_that_changes_something_has_a_dry_run(command: str) -> None:
    can_be_tried = {
        name
        for name, verb in verbs(APPS[command])
        if any("--dry-run" in argument.names for argument in verb.assemble_argument_collection(parse_docstring=True))
    }
    assert {name for name, _ in verbs(APPS[command])} - can_be_tried == ONLY_LOOKS.get(command, set())
