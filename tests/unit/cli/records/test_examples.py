"""The examples in the help texts of produce and consume are valid command lines."""

from __future__ import annotations

import shlex
from importlib import import_module

import pytest

from barnabas.cli.main import COMMANDS


@pytest.mark.parametrize("command", ["produce", "consume"])
def test_every_example_can_be_parsed(command: str) -> None:
    app = import_module(COMMANDS[command][0]).app
    examples = [line.strip() for line in app.text.splitlines() if line.startswith("    barnabas ")]
    assert len(examples) > 5
    for line in examples:
        words = shlex.split(line.partition(" < ")[0])
        assert words[:2] == ["barnabas", command]
        app.full.parse_args(words[2:], exit_on_error=False, print_error=False)
