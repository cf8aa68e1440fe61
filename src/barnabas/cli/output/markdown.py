"""Tables as Markdown, for a comment on a pull request."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from barnabas.cli.output.table import Sheet

__all__ = ["markdown_of"]

_SPECIAL = re.compile(r"([\\\\`*_{}\[\]<>#|~])")


def markdown_of(sheets: Sequence[Sheet], notes: Sequence[str] = (), problems: Sequence[str] = ()) -> str:
    """Return the tables, then the problems and the notes as lists."""
    blocks = [_table(sheet) for sheet in sheets]
    if problems:
        blocks.append("**Problems**\n\n" + "".join(f"- {_escaped(problem)}\n" for problem in problems))
    if notes:
        blocks.append("".join(f"- {_escaped(note)}\n" for note in notes))
    return "\n".join(blocks)


def _table(sheet: Sheet) -> str:
    parts = [f"### {_escaped(sheet.title)}\n"] if sheet.title else []
    starts = sorted({0, *sheet.headings, len(sheet.rows)})
    for start, end in pairwise(starts):
        if start in sheet.headings:
            parts.append(f"{_escaped(sheet.headings[start])}\n")
        if sheet.columns:
            parts.append(
                _row(sheet.columns) + _row(["---"] * len(sheet.columns), is_raw=True) + _rows(sheet, start, end)
            )
        else:
            parts.append("".join(f"- {_escaped(' '.join(row))}\n" for row in sheet.rows[start:end]))
    if sheet.caption:
        parts.append(f"{_escaped(sheet.caption)}\n")
    return "\n".join(parts)


def _rows(sheet: Sheet, start: int, end: int) -> str:
    return "".join(map(_row, sheet.rows[start:end]))


def _row(cells: Sequence[str], *, is_raw: bool = False) -> str:
    return f"| {' | '.join(cell if is_raw else _escaped(cell) for cell in cells)} |\n"


def _escaped(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", text)
