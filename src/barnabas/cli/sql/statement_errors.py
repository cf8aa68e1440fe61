"""Errors of a statement: what is wrong, where, and what to do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from barnabas.cli.output.missing_extra import missing_extra
from barnabas.common.printable import printable

__all__ = ["StatementError", "explained_extra", "pointed_lines"]

_MARKED_MAX = 40
_LINE_MAX = 100
_BEFORE_MAX = 60


class StatementError(Exception):
    """A statement can't be parsed or run.

    ``start`` is the place of what is wrong in the statement, from 0, and ``length`` how long it is; None without one.
    """

    def __init__(self, text: str, *, start: int | None = None, length: int = 1, advice: str = "") -> None:
        super().__init__(text)
        self.text = text
        self.start = start
        self.length = length
        self.advice = advice

    def lines(self, statement: str) -> list[str]:
        """Return the lines to print: the text, the place in the statement, and the advice."""
        place = [] if self.start is None else pointed_lines(statement, self.start, self.length)
        return [self.text, *place, *([f"  next: {self.advice}"] if self.advice else [])]


def pointed_lines(statement: str, start: int, length: int = 1) -> Sequence[str]:
    """Return the line of a statement with a place in it, and a line with carets below the place.

    A long line is cut around the place.
    """
    start = min(max(start, 0), len(statement))
    line_start = statement.rfind("\n", 0, start) + 1
    line = statement[line_start:].partition("\n")[0]
    column = start - line_start
    count = max(1, min(length, len(line) - column, _MARKED_MAX))
    before = ""
    if len(line) > _LINE_MAX:
        cut = max(0, column - _BEFORE_MAX)
        before = "... " if cut else ""
        line, column = line[cut : cut + _LINE_MAX], column - cut
    number = statement.count("\n", 0, line_start)
    prefix = f"  line {number + 1}: " if number else "  "
    shown, marked = printable(line.replace("\t", " ")), printable(line[:column].replace("\t", " "))
    return [f"{prefix}{before}{shown}", " " * len(prefix + before + marked) + "^" * count]


@contextmanager
def explained_extra(what: str) -> Iterator[None]:
    """Raise StatementError for a library that an import in the block lacks. ``what`` is as in "a query needs"."""
    try:
        yield
    except ModuleNotFoundError as error:
        if not (text := missing_extra(error)):
            raise
        raise StatementError(text.replace("this command needs", what)) from error
