"""The words with which a command line may continue: commands, verbs, options, choices, and the names in a cluster.

Names and files are results of their own kind (``Wanted``), because the caller looks them up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from importlib import import_module
from typing import Literal, get_args, get_origin

from barnabas.cli.arguments.cluster_app import CommandApp
from barnabas.cli.arguments.parameter import Parameter
from barnabas.cli.arguments.quick_parser import NotUsual, Option, Options, options_of

__all__ = ["Wanted", "candidates", "given_options"]


class Wanted(Enum):
    """Words that only the cluster or the file system knows."""

    TOPICS = "topics"
    GROUPS = "groups"
    FILES = "files"


_BY_NAME = {"topic": Wanted.TOPICS, "group": Wanted.GROUPS}
_FILES = frozenset({"file", "path", "config", "directory", "snapshot", "data"})
_OTHERS: Mapping[str, tuple[str, ...]] = {
    "node": ("--override", "--ready-file", "--ready-fd", "--help"),
    "worker": ("--override", "--help"),
    "registry": ("--override", "--help"),
    "shell": (
        "--directory", "--snapshot", "--bootstrap-controller", "--command-config", "--at-offset", "--at-time",
        "--show-secrets", "--help",
    ),
    "storage": ("info", "format", "random-uuid", "decrypt-configs", "strays", "repair"),
}  # fmt: skip
"""Verbs and options of the commands that parse their arguments by hand or as Kafka's tool."""


def candidates(words: Sequence[str], commands: Mapping[str, tuple[str, str]]) -> list[str] | Wanted:
    """Return what the last word, which may be empty, can become.

    ``words`` are those after ``barnabas``; ``commands`` have the name of their module first.
    """
    *before, last = words or [""]
    if not before:
        return _starting(last, [*commands, "--help", "--version"])
    command, *arguments = before
    if command in _OTHERS:
        found = _starting(last, _OTHERS[command])
        return found if found and (last or command == "storage") else Wanted.FILES
    if command not in commands:
        return []
    app = getattr(import_module(commands[command][0]), "app", None)
    if not isinstance(app, CommandApp):
        return []
    if app.default_command is not None:
        return _of_function(app.default_command, arguments, last)
    if not arguments:
        return _starting(last, [*app, "--help"])
    return _of_function(app.function_of(arguments[0]), arguments[1:], last) if arguments[0] in app else []


def given_options(words: Sequence[str], names: Sequence[str]) -> dict[str, str]:
    """Return the values of options that are already on the command line, by name without dashes."""
    found: dict[str, str] = {}
    for word, following in zip(words, [*words[1:], ""], strict=True):
        name, equals, value = word.partition("=")
        if name.removeprefix("--") in names and name.startswith("--"):
            found[name.removeprefix("--")] = value if equals else following
    return found


def _of_function(function: Callable[..., int], arguments: Sequence[str], last: str) -> list[str] | Wanted:
    try:
        options = options_of(function)
    except NotUsual:
        return []
    if arguments and (option := options.by_name.get(arguments[-1])) is not None and option.hint is not bool:
        return _values(option, last)
    name, equals, value = last.partition("=")
    if equals and (option := options.by_name.get(name)) is not None:
        found = _values(option, value)
        return found if isinstance(found, Wanted) else [f"{name}={choice}" for choice in found]
    if last.startswith("-"):
        return _starting(last, _unused(options, arguments))
    if options.positional:
        return _values(options.positional[-1], last)
    return _starting(last, _unused(options, arguments))


def _unused(options: Options, arguments: Sequence[str]) -> list[str]:
    """Return the long names of options that can still be given."""
    names = []
    for name, option in options.by_name.items():
        is_hidden = any(isinstance(part, Parameter) and part.show is False for part in option.parameters)
        is_given = any(given in arguments for given in option.names) and get_origin(option.hint) is not list
        if name.startswith("--") and not is_hidden and not is_given:
            names.append(name)
    return [*names, "--help"]


def _values(option: Option, last: str) -> list[str] | Wanted:
    name = option.field or option.holder
    kind = get_args(option.hint)[0] if get_origin(option.hint) is list else option.hint
    if get_origin(kind) is Literal:
        return _starting(last, [str(choice) for choice in get_args(kind)])
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _starting(last, [member.name.lower() for member in kind])
    if name in _BY_NAME and kind is str:
        return _BY_NAME[name]
    if kind is str and (name in _FILES or name.endswith(("_file", "_config"))):
        return Wanted.FILES
    return []


def _starting(last: str, words: Sequence[str]) -> list[str]:
    return [word for word in words if word.startswith(last)]
