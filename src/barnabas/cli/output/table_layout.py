"""Lay out a table for a terminal: texts wrap between words, names never break, and columns drop out if necessary.

All functions are pure. Widths are in columns of a terminal: an East Asian wide character takes two.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import NamedTuple
from unicodedata import combining, east_asian_width

__all__ = ["Layout", "cell_width", "fill", "lay_out"]

_GAP = 2
_READABLE = 16
"""A column of texts is not made narrower than this, if a column can drop out instead."""


class Layout(NamedTuple):
    """The columns that are shown, by index, and their widths."""

    columns: tuple[int, ...]
    widths: tuple[int, ...]


def lay_out(rows: Sequence[Sequence[str]], width: int, *, keep: int, drop_first: Sequence[int] = ()) -> Layout:
    """Choose columns and widths. ``rows`` include the header.

    The first ``keep`` columns are always shown. Others drop out in the order of ``drop_first``, then from the right.
    If even the first columns are too wide, their lines are longer than the terminal: a name stays whole.
    """
    count = len(rows[0]) if rows else 0
    natural = [max(map(cell_width, column)) for column in zip(*rows, strict=True)]
    least = [
        max(max(map(_widest_word, column)), min(width_of_column, _READABLE))
        for column, width_of_column in zip(zip(*rows, strict=True), natural, strict=True)
    ]
    candidates = [index for index in drop_first if index >= keep]
    candidates += [index for index in reversed(range(keep, count)) if index not in drop_first]
    shown = list(range(count))
    while _total([least[index] for index in shown]) > width and candidates:
        shown.remove(candidates.pop(0))
    widths = {index: natural[index] for index in shown}
    while _total(list(widths.values())) > width:
        widest = max((index for index in shown if widths[index] > least[index]), key=widths.__getitem__, default=None)
        if widest is None:
            break
        widths[widest] -= 1
    return Layout(tuple(shown), tuple(widths[index] for index in shown))


def fill(cells: Sequence[str], widths: Sequence[int]) -> list[list[str]]:
    """Return the lines of a row, each with one padded text for each column."""
    wrapped = [_wrapped(cell, width) for cell, width in zip(cells, widths, strict=True)]
    height = max(map(len, wrapped), default=0)
    return [
        [_padded(lines[line] if line < len(lines) else "", width) for lines, width in zip(wrapped, widths, strict=True)]
        for line in range(height)
    ]


def cell_width(text: str) -> int:
    if text.isascii():
        return len(text)
    return sum(0 if combining(char) else 2 if east_asian_width(char) in "WF" else 1 for char in text)


def _widest_word(text: str) -> int:
    return max(map(cell_width, text.split()), default=0)


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + _GAP * max(0, len(widths) - 1)


def _wrapped(text: str, width: int) -> list[str]:
    if cell_width(text) <= width:
        return [text]
    narrow = width - (cell_width(text) - len(text))  # Wide characters count once in textwrap.
    return textwrap.wrap(text, max(1, narrow), break_long_words=False, break_on_hyphens=False) or [""]


def _padded(text: str, width: int) -> str:
    return text + " " * (width - cell_width(text))
