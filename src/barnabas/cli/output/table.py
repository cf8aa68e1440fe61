"""Tables for every command.

On a terminal, tables fit its width, have colors, and a pager shows long tables. Elsewhere, spaces align the columns,
and lines are never wrapped, so that a search finds every name.
"""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Sequence

from barnabas.cli.output.table_layout import cell_width, fill, lay_out
from barnabas.common.printable import printable

__all__ = ["Sheet", "show", "size_of"]

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_LINES_BESIDE_ROWS = 6
_GAP = "  "
_CODES = {"bold": "1", "red": "31", "green": "32", "yellow": "33"}


class Sheet:
    """Rows of cells, with an optional title, column names and caption.

    On a narrow terminal the columns of ``drop_first`` drop out first, then others from the right, but never the first
    ``keep`` ones.
    """

    def __init__(
        self, title: str = "", columns: Sequence[str] = (), *, keep: int = 2, drop_first: Sequence[str] = ()
    ) -> None:
        self.title = title
        self.columns = columns
        self.keep = keep
        self.drop_first = drop_first
        self.rows: list[list[str]] = []
        self.styles: list[str] = []
        self.headings: dict[int, str] = {}
        """Lines between rows, by the index of the row that follows."""
        self.caption = ""

    def add(self, *cells: str, style: str = "") -> None:
        """Add a row. Escape the texts, so that they can't control the terminal. The style applies to the first cell."""
        self.rows.append([printable(cell) for cell in cells])
        self.styles.append(style)

    def add_heading(self, text: str) -> None:
        """Add a line of its own before the next row."""
        self.headings[len(self.rows)] = printable(text)

    def drop_last_column_if_empty(self) -> None:
        if not any(row[-1] for row in self.rows):
            self.columns = self.columns[:-1]
            self.rows = [row[:-1] for row in self.rows]


def show(sheet: Sheet) -> None:
    """Print the table."""
    if sys.stdout.isatty():
        _show_on_terminal(sheet)
        return
    rows = [list(sheet.columns), *sheet.rows] if sheet.columns else sheet.rows
    widths = [max(map(cell_width, column)) for column in zip(*rows, strict=True)]
    first = len(rows) - len(sheet.rows)
    lines = []
    for index, row in enumerate(rows):
        if index - first in sheet.headings:
            lines.append(sheet.headings[index - first])
        lines += [_GAP.join(line) for line in fill(row, widths)]
    if sheet.title:
        lines.insert(0, printable(sheet.title))
    if sheet.caption:
        lines.append(printable(sheet.caption))
    sys.stdout.write("".join(f"{line.rstrip()}\n" for line in lines))


def _show_on_terminal(sheet: Sheet) -> None:
    size = shutil.get_terminal_size()
    text = "".join(f"{line}\n" for line in terminal_lines(sheet, size.columns, has_colors=_has_colors()))
    if len(sheet.rows) > size.lines - _LINES_BESIDE_ROWS:
        from pydoc import pager

        os.environ.setdefault("LESS", "FRX")  # Show colors, and quit if the table fits on the screen.
        pager(text)
    else:
        sys.stdout.write(text)


def _has_colors() -> bool:
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def terminal_lines(sheet: Sheet, width: int, *, has_colors: bool = False) -> list[str]:
    """Return the lines of a table on a terminal of this width."""
    rows = [list(sheet.columns), *sheet.rows] if sheet.columns else sheet.rows
    drop_first = [sheet.columns.index(name) for name in sheet.drop_first if name in sheet.columns]
    keep = sheet.keep if sheet.columns else len(rows[0]) if rows else 0
    layout = lay_out(rows, width, keep=keep, drop_first=drop_first)
    styles = ["bold", *sheet.styles] if sheet.columns else sheet.styles
    lines = [_styled(printable(sheet.title), "bold", has_colors)] if sheet.title else []
    for index, (row, style) in enumerate(zip(rows, styles, strict=True)):
        is_header = index == 0 and bool(sheet.columns)
        if (heading := sheet.headings.get(index - bool(sheet.columns))) is not None and not is_header:
            lines += _wrapped(heading, width)
        for cells in fill([row[column] for column in layout.columns], layout.widths):
            first, *others = (_GAP.join(cells).rstrip(),) if is_header else cells
            lines.append(_GAP.join([_styled(first, style, has_colors), *others]).rstrip())
    if sheet.caption:
        lines += _wrapped(printable(sheet.caption), width)
    hidden = [name for column, name in enumerate(sheet.columns) if column not in layout.columns and name]
    if hidden:
        lines += _wrapped(f"not shown: {', '.join(hidden)}; a wider terminal or --output json shows all", width)
    return lines


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, max(width, 1), break_long_words=False, break_on_hyphens=False)


def _styled(text: str, style: str, has_colors: bool) -> str:
    if not has_colors or not style or not text.strip():
        return text
    return f"\x1b[{';'.join(_CODES[word] for word in style.split())}m{text}\x1b[0m"


def size_of(count: int) -> str:
    """Format a size, as in 1.5 GiB."""
    size = float(count)
    for unit in _UNITS:
        if size < 1024 or unit == _UNITS[-1]:
            break
        size /= 1024
    return f"{count} B" if unit == "B" else f"{size:.1f} {unit}"
