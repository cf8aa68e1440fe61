"""Build the cyclopts ``App`` of a command, which writes help texts and messages for mistakes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass
from functools import reduce
from inspect import get_annotations
from operator import or_
from types import GenericAlias, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import cyclopts
from cyclopts import validators

from barnabas.cli.arguments.parameter import Parameter, keep_hints, parameter_of

__all__ = ["Verb", "full_app"]

Verb = tuple[tuple[str, ...], Callable[..., object]]
"""The names of a verb (none for a command without verbs), and its function."""


def full_app(name: str, text: str, verbs: Sequence[Verb]) -> cyclopts.App:
    """Return the app of a command. ``text`` is its help text."""
    app = cyclopts.App(
        name=name,
        help=text,
        version_flags=(),
        help_format="plaintext",
        # Omit --no-dry-run and --empty-topic: Kafka's tools don't have them, and they clutter the help.
        default_parameter=cyclopts.Parameter(negative=()),
    )
    for names, function in verbs:
        _translate(function)
        if names:
            app.command(function, name=names)
        else:
            app.default(function)
    return app


def _translate(function: Callable[..., Any]) -> None:
    """Replace our parameters in the annotations of a function, and of its classes of options."""
    hints = keep_hints(function)
    for hint in hints.values():
        for kind in _kinds(hint):
            _translate_options(kind)
    function.__annotations__ = {name: _translated(hint) for name, hint in hints.items()}


def _translate_options(options: type) -> None:
    if "__cyclopts__" in vars(options):
        return
    parameter = parameter_of(options)
    hints = {name: _translated(hint) for name, hint in keep_hints(options).items()}
    options.__annotations__ = {name: hints[name] for name in get_annotations(options)}
    for field in fields(options):
        field.type = hints[field.name]
    vars(options)["__init__"].__annotations__.update(hints)
    if parameter is not None:
        _of_cyclopts(parameter)(options)


def _kinds(hint: object) -> list[type]:
    """Return the classes of options in an annotation."""
    if isinstance(hint, type) and is_dataclass(hint):
        return [hint]
    return [kind for part in get_args(hint) for kind in _kinds(part)]


def _translated(hint: Any) -> Any:
    origin = get_origin(hint)
    if origin is Annotated:
        kind, *metadata = get_args(hint)
        parameters = (_of_cyclopts(part) if isinstance(part, Parameter) else part for part in metadata)
        return Annotated[(_translated(kind), *parameters)]
    if origin in (Union, UnionType):
        return reduce(or_, (_translated(part) for part in get_args(hint)))
    if origin is list:
        return GenericAlias(list, (_translated(get_args(hint)[0]),))
    return hint


def _of_cyclopts(parameter: Parameter) -> cyclopts.Parameter:
    given = {name: value for name, value in parameter._asdict().items() if value is not None}
    if parameter.group is not None:
        given["group"] = cyclopts.Group(parameter.group.name, sort_key=parameter.group.sort_key)
    if parameter.validator is not None:
        given["validator"] = validators.Number(gte=parameter.validator.gte, lte=parameter.validator.lte)
    return cyclopts.Parameter(**given)
