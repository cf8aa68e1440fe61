"""The common part of commands that run a process from a properties file: ``worker`` and ``registry``.

They parse by hand, because they must start fast: see ``barnabas.cli.main``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from barnabas.cli.arguments.properties_arguments import UsageError, parse_arguments
from barnabas.cli.output.exit_status import USAGE_ERROR
from barnabas.common.settings.problem import InvalidSettings

__all__ = ["ConfiguredProcess"]

C = TypeVar("C")


@dataclass(frozen=True, slots=True)
class ConfiguredProcess:
    """``file`` is how the help names the configuration file."""

    command: str
    file: str
    help: str

    def run(self, arguments: Sequence[str], load: Callable[[str, Sequence[str]], C], run: Callable[[C], int]) -> int:
        """Load the settings and run. Return the status of ``run``; 1 for unusable settings, 2 for invalid arguments.

        ``load`` takes the file and the overrides, and raises InvalidSettings or OSError.
        """
        if any(argument in ("--help", "-h") for argument in arguments):
            sys.stdout.write(self.help)
            return 0
        try:
            path, overrides = parse_arguments(arguments)
        except UsageError as error:
            return self.say(str(error), USAGE_ERROR)
        if path is None:
            return self.say(f"no file given: barnabas {self.command} {self.file}", USAGE_ERROR)
        try:
            config = load(path, overrides)
        except InvalidSettings as error:
            return self.say(str(error), 1)
        except OSError as error:
            return self.say(f"can't read {path}: {error.strerror}", USAGE_ERROR)
        return run(config)

    def say(self, text: str, status: int) -> int:
        """Write a message to stderr, and return the status."""
        sys.stderr.write(f"barnabas {self.command}: {text}\n")
        return status
