"""Describe the options of a command, without the command line framework.

``Parameter``, ``Group`` and ``Number`` have the names and meanings of those of cyclopts, which takes longer to load
than most commands take to run. ``quick_parser`` reads them directly; ``full_parser`` translates them for cyclopts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import get_annotations
from typing import Any, NamedTuple, TypeVar, get_type_hints

__all__ = ["Group", "Number", "Parameter", "keep_hints", "parameter_of", "type_hints"]

C = TypeVar("C", bound=type)

_ATTRIBUTE = "__barnabas_parameter__"
_HINTS = "__barnabas_hints__"


class Group(NamedTuple):
    """A heading of a help text. Headings are in the order of their keys."""

    name: str
    sort_key: int


class Number(NamedTuple):
    """Limits of a number, both inclusive."""

    gte: int
    lte: int

    def allows(self, number: int) -> bool:
        return self.gte <= number <= self.lte


class Parameter(NamedTuple):
    """How an option is written and shown. None means the default.

    As the decorator of a dataclass it makes each field an option: ``@Parameter(name="*", group=...)``. The quick parser
    leaves options with values of several words, or with values that may begin with a dash, to the full one.
    """

    name: str | Sequence[str] | None = None
    group: Group | None = None
    validator: Number | None = None
    show: bool | None = None
    show_default: bool | None = None
    negative: str | None = None
    help: str | None = None
    consume_multiple: bool | None = None
    allow_leading_hyphen: bool | None = None

    def __call__(self, options: C) -> C:
        setattr(options, _ATTRIBUTE, self)
        return options

    @property
    def names(self) -> tuple[str, ...]:
        """The names on the command line; empty if they follow from the name in Python."""
        if self.name is None:
            return ()
        return (self.name,) if isinstance(self.name, str) else tuple(self.name)

    @property
    def takes_one_word(self) -> bool:
        """A value is one word, which does not begin with a dash."""
        return not (self.consume_multiple or self.allow_leading_hyphen)


def parameter_of(options: type) -> Parameter | None:
    """Return the ``Parameter`` that decorates a class, or one of its bases."""
    found = getattr(options, _ATTRIBUTE, None)
    return found if isinstance(found, Parameter) else None


def type_hints(subject: Callable[..., Any]) -> Mapping[str, Any]:
    """Return the annotations of a function or a class as they are declared, even after ``keep_hints``."""
    current = get_type_hints(subject, include_extras=True)
    hints = dict(current)
    for part in reversed(getattr(subject, "__mro__", (subject,))):
        declared = vars(part).get(_HINTS, current)
        hints.update({name: declared[name] for name in get_annotations(part) if name in declared})
    return hints


def keep_hints(subject: Callable[..., Any]) -> Mapping[str, Any]:
    """Return the annotations as they are declared, and keep them, before the caller replaces them."""
    hints = type_hints(subject)
    setattr(subject, _HINTS, hints)
    return hints
