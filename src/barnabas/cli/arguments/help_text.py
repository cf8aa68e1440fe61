"""Write the help texts of commands and verbs, in the style of ``barnabas node --help``.

The texts are those of docstrings: a function's in numpy style for its parameters, and the lines below the fields of a
class of options. Lines of examples are never wrapped, so that they can be copied.
"""

from __future__ import annotations

import ast
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, fields
from enum import Enum
from functools import cache
from inspect import cleandoc, signature
from typing import Any, Literal, NamedTuple, get_args, get_origin

from barnabas.cli.arguments.parameter import Group, Number, Parameter, parameter_of, type_hints
from barnabas.cli.arguments.quick_parser import bare

__all__ = ["command_help", "verb_help"]

_NAMES_MAX = 30
"""Longer names of an option have a line of their own."""
_CHOICES_MAX = 22
_OWN = Group("Arguments and options", 0)
_HELP_OPTION = ("--help, -h", "Print this help.")


class _Entry(NamedTuple):
    """An option in a help text."""

    group: Group
    names: str
    text: str
    positional: str


def command_help(
    name: str, text: str, verbs: Sequence[tuple[Sequence[str], Callable[..., object]]], *, width: int
) -> str:
    """Return the help of a command with verbs."""
    rows = []
    for names, function in sorted(verbs, key=lambda verb: verb[0][0]):
        first, *others = names
        label = f"{first} ({', '.join(others)})" if others else first
        rows.append((label, _paragraphs(function)[0] if _paragraphs(function) else ""))
    parts = [f"usage: {name} VERB [options]", "", _wrapped(cleandoc(text), width), _section("verbs", rows, width)]
    return "\n".join([*parts, f"'{name} VERB --help' describes a verb.\n"])


def verb_help(name: str, function: Callable[..., Any], *, width: int, more: str = "") -> str:
    """Return the help of a verb, or of a command without verbs, with ``more`` text after its own."""
    entries = list(_entries(function))
    usage = f"usage: {name}" + "".join(f" {entry.positional}" for entry in entries if entry.positional) + " [options]"
    paragraphs = _paragraphs(function)
    parts = [usage, "", _wrapped("\n\n".join(paragraphs), width)]
    if more:
        parts.append(_wrapped(more, width))
    for group in sorted({entry.group for entry in entries}, key=lambda group: group.sort_key):
        rows = [(entry.names, entry.text) for entry in entries if entry.group == group]
        parts.append(_section(group.name.lower(), rows, width))
    parts.append(_section("", [_HELP_OPTION], width))
    return "\n".join(parts)


def _entries(function: Callable[..., Any]) -> Iterator[_Entry]:
    texts = _parameter_texts(function)
    hints = type_hints(function)
    for parameter in signature(function).parameters.values():
        kind, markers = bare(hints[parameter.name])
        if isinstance(kind, type) and hasattr(kind, "__dataclass_fields__"):
            yield from _entries_of_class(kind)
            continue
        is_positional = parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.VAR_POSITIONAL)
        default = None if parameter.default is parameter.empty else parameter.default
        entry = _entry(parameter.name, kind, markers, default, texts.get(parameter.name, ""), _OWN)
        if entry is None:
            continue
        if is_positional:
            word = parameter.name.strip("_").upper().replace("_", "-")
            repeated = get_origin(kind) is list or parameter.kind is parameter.VAR_POSITIONAL
            positional = f"{word} ..." if repeated else word
            is_required = parameter.default is parameter.empty and parameter.kind is not parameter.VAR_POSITIONAL
            names = word if parameter.kind is parameter.VAR_POSITIONAL else f"{word}, {entry.names.partition(' ')[0]}"
            entry = entry._replace(names=names, positional=positional if is_required else f"[{positional}]")
        yield entry


def _entries_of_class(options: type) -> Iterator[_Entry]:
    parameter = parameter_of(options)
    group = parameter.group if parameter is not None and parameter.group is not None else _OWN
    texts = _field_texts(options)
    hints = type_hints(options)
    for field in fields(options):
        kind, markers = bare(hints[field.name])
        default = None if field.default is MISSING else field.default
        entry = _entry(field.name, kind, markers, default, texts.get(field.name, ""), group)
        if entry is not None:
            yield entry


def _entry(
    name: str, kind: object, markers: Sequence[object], default: object, text: str, group: Group
) -> _Entry | None:
    parameters = [marker for marker in markers if isinstance(marker, Parameter)]
    if any(parameter.show is False for parameter in parameters):
        return None
    names = [given for parameter in parameters for given in parameter.names] or [
        "--" + name.strip("_").replace("_", "-")
    ]
    text = next((parameter.help for parameter in parameters if parameter.help is not None), text)
    names += [parameter.negative for parameter in parameters if parameter.negative is not None]
    words, notes = _value(kind, [parameter.validator for parameter in parameters])
    is_shown = not any(parameter.show_default is False for parameter in parameters)
    if default not in (None, False, "") and is_shown:
        shown = (
            default.name.lower()
            if isinstance(default, Enum)
            else f"{default:g}"
            if isinstance(default, float)
            else default
        )
        notes = f"{notes} [default: {shown}]"
    return _Entry(group, f"{', '.join(names)}{words}", f"{text}{notes}".strip(), "")


def _value(kind: object, validators: Sequence[Number | None]) -> tuple[str, str]:
    """Return the placeholder of a value, and notes about valid values."""
    if get_origin(kind) is list:
        element, markers = bare(get_args(kind)[0])
        return _value(element, [marker.validator for marker in markers if isinstance(marker, Parameter)])
    if kind is bool:
        return "", ""
    choices: list[str] = []
    if get_origin(kind) is Literal:
        choices = [str(choice) for choice in get_args(kind)]
    elif isinstance(kind, type) and issubclass(kind, Enum):
        choices = [member.name.lower() for member in kind]
    if choices:
        text = "|".join(choices)
        return (f" {text}", "") if len(text) <= _CHOICES_MAX else (" CHOICE", f" [choices: {', '.join(choices)}]")
    return " N" if kind in (int, float) else " TEXT", ""


def _paragraphs(function: Callable[..., Any]) -> list[str]:
    """Return the docstring without its section of parameters."""
    text = cleandoc(function.__doc__ or "").partition("\n\nParameters\n----")[0]
    return [paragraph for paragraph in text.split("\n\n") if paragraph.strip()]


def _parameter_texts(function: Callable[..., Any]) -> dict[str, str]:
    section = cleandoc(function.__doc__ or "").partition("\n\nParameters\n")[2]
    texts: dict[str, list[str]] = {}
    name = ""
    for line in section.splitlines()[1:]:
        if line and not line[0].isspace():
            name = line.strip()
        elif name:
            texts.setdefault(name, []).append(line.strip())
    return {key: " ".join(filter(None, lines)) for key, lines in texts.items()}


def _field_texts(options: type) -> dict[str, str]:
    """Return the texts below the fields of a class, and of its bases."""
    texts: dict[str, str] = {}
    for part in reversed(options.__mro__):
        texts |= _texts_in(part.__module__).get(part.__name__, {})
    return texts


@cache
def _texts_in(module: str) -> Mapping[str, Mapping[str, str]]:
    path = getattr(sys.modules.get(module), "__file__", None)
    if path is None:
        return {}
    with open(path, encoding="utf-8") as file:
        tree = ast.parse(file.read())
    found: dict[str, dict[str, str]] = {}
    for node in tree.body:
        if not isinstance(node, ast.ClassDef):
            continue
        for field, text in zip(node.body, node.body[1:], strict=False):
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(text, ast.Expr):
                if isinstance(text.value, ast.Constant) and isinstance(text.value.value, str):
                    found.setdefault(node.name, {})[field.target.id] = " ".join(text.value.value.split())
    return found


def _section(title: str, rows: Sequence[tuple[str, str]], width: int) -> str:
    """Return lines in two columns."""
    widest = max((len(names) for names, _ in rows if len(names) <= _NAMES_MAX), default=0)
    lines = [f"{title}:"] if title else []
    for names, text in rows:
        wrapped = textwrap.wrap(text, max(20, width - widest - 4), break_long_words=False, break_on_hyphens=False) or [
            ""
        ]
        if len(names) > _NAMES_MAX:
            lines.append(f"  {names}")
        else:
            lines.append(f"  {names.ljust(widest)}  {wrapped.pop(0)}".rstrip())
        lines += [f"  {' ' * widest}  {line}" for line in wrapped]
    return "\n".join(lines) + "\n"


def _wrapped(text: str, width: int) -> str:
    """Wrap paragraphs, except indented ones."""
    parts = []
    for paragraph in text.split("\n\n"):
        if paragraph.startswith(" "):
            parts.append(paragraph)
        else:
            line = " ".join(paragraph.split())
            parts.append("\n".join(textwrap.wrap(line, width, break_long_words=False, break_on_hyphens=False)))
    return "\n\n".join(parts) + "\n"
