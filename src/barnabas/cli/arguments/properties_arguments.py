"""The arguments of a command that runs: Kafka's ``server.properties --override key=value``.

A node loads this on its way to "ready", so they are read by hand: see ``barnabas.cli.main``.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["UsageError", "parse_arguments"]


class UsageError(Exception):
    """An argument is invalid. The message says what is valid."""


def parse_arguments(arguments: Sequence[str]) -> tuple[str | None, list[str]]:
    """The file, if any, and the overrides in order. Raises UsageError."""
    path: str | None = None
    overrides: list[str] = []
    rest = iter(arguments)
    for argument in rest:
        if argument == "--override":
            try:
                overrides.append(next(rest))
            except StopIteration:
                raise UsageError("--override needs key=value after it") from None
        elif argument.startswith("--override="):
            overrides.append(argument.removeprefix("--override="))
        elif argument.startswith("-"):
            raise UsageError(f"{argument} is not an option: the options are --override key=value and --help")
        elif path is not None:
            raise UsageError(f"{argument}: give only one file; {path} is already given")
        else:
            path = argument
    return path, overrides
