"""Parse the arguments of a node or a worker: Kafka's ``server.properties --override key=value``.

A starting node loads this module, so it must load fast and parses by hand: see ``barnabas.cli.main``.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["UsageError", "parse_arguments"]


class UsageError(Exception):
    """An argument is invalid. The message contains the valid form."""


def parse_arguments(arguments: Sequence[str]) -> tuple[str | None, list[str]]:
    """Return the file, if any, and the overrides in order. Raise UsageError."""
    path: str | None = None
    overrides: list[str] = []
    rest = iter(arguments)
    for argument in rest:
        if argument == "--override":
            try:
                overrides.append(next(rest))
            except StopIteration:
                raise UsageError("--override needs a key=value argument") from None
        elif argument.startswith("--override="):
            overrides.append(argument.removeprefix("--override="))
        elif argument.startswith("-"):
            raise UsageError(f"{argument} is not an option: the options are --override key=value and --help")
        elif path is not None:
            raise UsageError(f"{argument}: only one file is allowed, and {path} is already given")
        else:
            path = argument
    return path, overrides
