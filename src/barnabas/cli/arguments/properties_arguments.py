"""The arguments of a command that runs: Kafka's ``server.properties --override key=value``.

A node loads this on its way to "ready", so they are read by hand: see ``barnabas.cli.main``.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["UsageError", "parse_arguments"]


class UsageError(Exception):
    """An argument can't be meant; the message says what can."""


def parse_arguments(arguments: Sequence[str]) -> tuple[str | None, list[str]]:
    """The file, if any, and the overrides in their order; raises UsageError."""
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
            raise UsageError(f"{argument} is not an option: there are --override key=value and --help")
        elif path is not None:
            raise UsageError(f"{argument}: only one file can be given, and {path} is one already")
        else:
            path = argument
    return path, overrides
