"""Messages for mistakes in a command line: what is wrong, and what is valid.

A positional argument has the name that the usage line shows (FILE), an option that with two dashes.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from inspect import signature
from typing import TYPE_CHECKING, Literal, get_args, get_origin

from cyclopts.exceptions import (
    CoercionError,
    CycloptsError,
    MissingArgumentError,
    RepeatArgumentError,
    UnknownCommandError,
    UnknownOptionError,
    UnusedCliTokensError,
    ValidationError,
)

from barnabas.cli.output.advice import nearest

if TYPE_CHECKING:
    from cyclopts.argument import Argument

__all__ = ["mistake"]

_KINDS = {int: "a whole number", float: "a number"}


def mistake(error: CycloptsError, verbs: Sequence[str] = ()) -> str:
    """Return one line. ``verbs`` are those of the command."""
    match error:
        case UnknownCommandError():
            return _unknown_verb((error.unused_tokens or [""])[0], verbs)
        case UnusedCliTokensError():
            return _unexpected(error.unused_tokens or [], error)
        case UnknownOptionError():
            known = [name for argument in error.argument_collection for name in argument.names if name[:2] == "--"]
            return _unknown_option(error.token.keyword or error.token.value, known)
        case RepeatArgumentError():
            return f"{error.token.keyword} is given twice; omit one of the two"
        case MissingArgumentError() if error.argument is not None:
            return _missing(error.argument, error.keyword)
        case CoercionError() if error.argument is not None and error.token is not None:
            return _invalid(error.argument, error.token.value, error.target_type)
        case ValidationError() if error.argument is not None:
            reason = error.exception_message.rstrip(".").lower()
            return f"{_name(error.argument)} {error.argument.value}: the number {reason}"
        case _:
            return " ".join(str(error).split())


def _unknown_verb(word: str, verbs: Sequence[str]) -> str:
    near = nearest(word, verbs)
    hint = f"did you mean {near}? " if near else ""
    return f"'{word}' is not a verb: {hint}the verbs are {', '.join(verbs)}"


def _unexpected(words: Sequence[str], error: CycloptsError) -> str:
    parameters = () if error.target is None else signature(error.target).parameters.values()
    positional = [f"--{name.name.replace('_', '-')}" for name in parameters if name.kind == name.POSITIONAL_OR_KEYWORD]
    both = next((option for option in positional if option in (error.root_input_tokens or ())), None)
    if both is not None:
        return f"{' '.join(words)}: write all values as arguments, or each with {both}, not both"
    count = "an unexpected argument" if len(words) == 1 else "unexpected arguments"
    return f"{' '.join(words)}: {count}"


def _unknown_option(option: str, known: Sequence[str]) -> str:
    name = option.partition("=")[0]
    near = nearest(name, known)
    return f"{name} is not an option of this command" + (f"; did you mean {near}?" if near else "")


def _missing(argument: Argument, keyword: str | None) -> str:
    name = _name(argument)
    if keyword is not None or any(token.keyword for token in argument.tokens):
        return f"{name} needs a value"
    return f"{name} is missing"


def _invalid(argument: Argument, value: str, kind: object) -> str:
    choices = _choices(kind)
    if choices:
        near = nearest(value, choices)
        hint = f"; did you mean {near}?" if near else ""
        return f"{_name(argument)} {value}: choose one of {', '.join(choices)}{hint}"
    wanted = _KINDS.get(kind, "another kind of value") if isinstance(kind, type) else "another kind of value"
    return f"{_name(argument)} {value}: this is not {wanted}"


def _choices(kind: object) -> list[str]:
    if get_origin(kind) is Literal:
        return [str(choice) for choice in get_args(kind)]
    if isinstance(kind, type) and issubclass(kind, Enum):
        return [name.lower() for name in kind.__members__]
    return []


def _name(argument: Argument) -> str:
    """Return the name that the usage line shows."""
    if argument.field_info.is_positional and not any(token.keyword for token in argument.tokens):
        return argument.name.lstrip("-").upper()
    return next((name for name in argument.names if name.startswith("--")), argument.name)
