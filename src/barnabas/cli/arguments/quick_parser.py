"""Parse the usual command lines without the command line framework, which takes longer than most commands.

A usual command line consists of positional arguments, ``--name value``, ``--name=value`` and flags, with valid values
of simple types. For all others (``--help``, mistakes, abbreviations, other types) ``parse`` returns None, and the full
parser, cyclopts, decides and writes the message. Both return the same for each command line that this one accepts;
``tests/unit/cli/test_quick_parser.py`` compares them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

from barnabas.cli.arguments.parameter import Parameter, parameter_of, type_hints
from barnabas.cli.arguments.properties_arguments import UsageError

__all__ = ["NotUsual", "Option", "Options", "bare", "options_of", "parse"]

_INT = re.compile(r"[0-9]{1,18}", re.ASCII)
_FLOAT = re.compile(r"[0-9]{1,15}(\.[0-9]{1,15})?", re.ASCII)
_VARIABLE = 4 | 8
"""The flags of a function with ``*args`` or ``**kwargs``."""


class NotUsual(Exception):
    """The full parser must decide."""


class Option(NamedTuple):
    """An option of a verb. ``field`` is set if ``holder``, the function's parameter, is a class of options."""

    holder: str
    field: str | None
    hint: object
    parameters: tuple[object, ...]
    names: tuple[str, ...]


class Options(NamedTuple):
    """The options of a verb. ``holders`` are its parameters that are classes of options."""

    by_name: Mapping[str, Option]
    positional: tuple[Option, ...]
    required: frozenset[str]
    holders: Mapping[str, type]


def parse(function: Callable[..., object], tokens: Sequence[str]) -> dict[str, object] | None:
    """Return the arguments of the function, or None if the full parser must decide. Raise UsageError."""
    try:
        return _parse(options_of(function), tokens)
    except NotUsual:
        return None


def options_of(function: Callable[..., Any]) -> Options:
    """Return the options that the function's signature describes. Raise NotUsual for one that this parser leaves."""
    code = function.__code__
    if code.co_flags & _VARIABLE:
        raise NotUsual
    hints = type_hints(function)
    keyword_only = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    positional_names = code.co_varnames[: code.co_argcount]
    by_name: dict[str, Option] = {}
    positional: list[Option] = []
    holders: dict[str, type] = {}
    for name in (*positional_names, *keyword_only):
        kind, parameters = bare(hints[name])
        if isinstance(kind, type) and hasattr(kind, "__dataclass_fields__"):
            if parameter_of(kind) is None and not any(_is_flat(parameter) for parameter in parameters):
                raise NotUsual
            holders[name] = kind
            for field, hint in type_hints(kind).items():
                _add(by_name, name, field, hint)
            continue
        option = _add(by_name, name, None, hints[name])
        if name in positional_names:
            positional.append(option)
    without = len(positional_names) - len(function.__defaults__ or ())
    defaults = function.__kwdefaults__ or {}
    required = (*positional_names[:without], *(name for name in keyword_only if name not in defaults))
    return Options(by_name, tuple(positional), frozenset(required), holders)


def _add(by_name: dict[str, Option], holder: str, field: str | None, hint: object) -> Option:
    kind, parameters = bare(hint)
    names = [name for parameter in parameters if isinstance(parameter, Parameter) for name in parameter.names]
    option = Option(
        holder, field, kind, parameters, tuple(names) or ("--" + (field or holder).strip("_").replace("_", "-"),)
    )
    by_name.update(dict.fromkeys(option.names, option))
    return option


def _is_flat(parameter: object) -> bool:
    return isinstance(parameter, Parameter) and parameter.names == ("*",)


def bare(hint: object) -> tuple[object, tuple[object, ...]]:
    """Return the type without ``| None`` and ``Annotated``, and the metadata."""
    parameters: tuple[object, ...] = ()
    while True:
        if get_origin(hint) is Annotated:
            hint, *metadata = get_args(hint)
            parameters += tuple(metadata)
        elif get_origin(hint) in (Union, UnionType):
            kinds = [kind for kind in get_args(hint) if kind is not NoneType]
            if len(kinds) != 1:
                return hint, parameters
            (hint,) = kinds
        else:
            return hint, parameters


def _parse(options: Options, tokens: Sequence[str]) -> dict[str, object]:
    found: dict[tuple[str, str | None], object] = {}
    words: list[str] = []
    rest = iter(tokens)
    for token in rest:
        if not token.startswith("-"):
            words.append(token)
            continue
        name, has_value, text = token.partition("=")
        option = options.by_name.get(name)
        if option is None or (has_value and not name.startswith("--")):
            raise NotUsual
        if option.hint is bool:
            if has_value:
                raise NotUsual
            _put(found, option, True)
        else:
            value = text if has_value else next(rest, "-")
            _refuse_fraction(option, name, value)
            _put(found, option, _value(option.hint, option.parameters, value))
    _put_words(found, options.positional, words)
    arguments: dict[str, object] = {holder: value for (holder, field), value in found.items() if field is None}
    if options.required - arguments.keys():
        raise NotUsual
    for holder, kind in options.holders.items():
        fields = {field: value for (of, field), value in found.items() if of == holder and field is not None}
        if fields:
            arguments[holder] = kind(**fields)
    return arguments


def _refuse_fraction(option: Option, name: str, text: str) -> None:
    """Refuse 1.5 as a whole number, which cyclopts would round without a message."""
    kind = bare(get_args(option.hint)[0])[0] if get_origin(option.hint) is list else option.hint
    if kind is int and _FLOAT.fullmatch(text.removeprefix("-")) and "." in text:
        raise UsageError(f"{name} {text}: this is not a whole number")


def _put(found: dict[tuple[str, str | None], object], option: Option, value: object) -> None:
    key = option.holder, option.field
    known = found.get(key)
    if known is None:
        found[key] = value
    elif isinstance(known, list) and isinstance(value, list):
        known += value
    else:
        raise NotUsual


def _put_words(found: dict[tuple[str, str | None], object], positional: Sequence[Option], words: Sequence[str]) -> None:
    left = list(words)
    for option in positional:
        if not left:
            return
        if (option.holder, option.field) in found:
            raise NotUsual
        if get_origin(option.hint) is list:
            for word in left:
                _put(found, option, _value(option.hint, option.parameters, word))
            return
        found[option.holder, None] = _value(option.hint, option.parameters, left.pop(0))
    if left:
        raise NotUsual


def _value(hint: object, parameters: Sequence[object], text: str) -> object:
    """Return the value of a text. A list has one element for each occurrence of its option."""
    if any(
        not isinstance(parameter, Parameter) or parameter.consume_multiple or parameter.allow_leading_hyphen
        for parameter in parameters
    ):
        raise NotUsual
    if get_origin(hint) is list:
        kind, of_element = bare(get_args(hint)[0])
        return [_value(kind, of_element, text)]
    value = _simple(hint, text)
    for parameter in parameters:
        validator = parameter.validator if isinstance(parameter, Parameter) else None
        if validator is not None and not (isinstance(value, int) and validator.allows(value)):
            raise NotUsual
    return value


def _simple(hint: object, text: str) -> object:
    if not text or text[0] in "-[{":  # cyclopts may read a list or an object in JSON.
        raise NotUsual
    if hint is str:
        return text
    if hint is int and _INT.fullmatch(text):
        return int(text)
    if hint is float and _FLOAT.fullmatch(text):
        return float(text)
    if get_origin(hint) is Literal and text in get_args(hint):
        return text
    raise NotUsual
