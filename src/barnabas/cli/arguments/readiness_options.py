"""Parse ``--ready-file`` and ``--ready-fd`` by hand, because a starting node loads this module."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from barnabas.cli.arguments.properties_arguments import UsageError

__all__ = ["ReadinessOptions", "parse_readiness"]

_FILE, _FD = "--ready-file", "--ready-fd"


class ReadinessOptions(NamedTuple):
    file: str | None = None
    fd: int | None = None


def parse_readiness(arguments: Sequence[str]) -> tuple[ReadinessOptions, list[str]]:
    """Return the options, and the other arguments in order. Raise UsageError."""
    values: dict[str, str] = {}
    others: list[str] = []
    rest = iter(arguments)
    for argument in rest:
        name, has_value, value = argument.partition("=")
        if name in (_FILE, _FD):
            if name in values:
                raise UsageError(f"{name} is given twice; omit one of the two")
            values[name] = value if has_value else next(rest, "")
            if not values[name]:
                raise UsageError(f"{name} needs a {'path' if name == _FILE else 'number'}")
        else:
            others.append(argument)
            if argument == "--override":
                others += [value for value in [next(rest, None)] if value is not None]
    fd = values.get(_FD)
    if fd is not None and not (fd.isascii() and fd.isdigit()):
        raise UsageError(f"{_FD} {fd}: write the number of a descriptor that is open, for example 3")
    return ReadinessOptions(values.get(_FILE), None if fd is None else int(fd)), others
