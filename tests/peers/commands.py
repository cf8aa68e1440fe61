"""Runs the command line in the process of the test, and captures its output."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from barnabas.cli.main import main

__all__ = ["Run", "CommandResult", "runner"]


class CommandResult(NamedTuple):
    status: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        return dict(json.loads(self.out))


Run = Callable[..., CommandResult]


def runner(bootstrap: Callable[[str], str], capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command as a super user without a login, unless another listener's name is given as ``server``."""

    def run(*arguments: str, server: str = "PLAINTEXT") -> CommandResult:
        status = main([*arguments, "--bootstrap-server", bootstrap(server)])
        return CommandResult(status, *capsys.readouterr())

    return run
