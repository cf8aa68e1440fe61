"""Tables for every command.

On a terminal, tables have colors, and a pager shows long tables. Elsewhere, spaces align the columns, and lines are
never wrapped, so that a search finds every name.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence

from barnabas.common.printable import printable

__all__ = ["Sheet", "show", "size_of"]

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")

_LINES_BESIDE_ROWS = 6


class Sheet:
    """Rows of cells, with an optional title, column names and caption."""

    def __init__(self, title: str = "", columns: Sequence[str] = ()) -> None:
        self.title = title
        self.columns = columns
        self.rows: list[list[str]] = []
        self.styles: list[str] = []
        self.caption = ""

    def add(self, *cells: str, style: str = "") -> None:
        """Add a row. Escape the texts, so that they can't control the terminal. The style applies to the first cell."""
        self.rows.append([printable(cell) for cell in cells])
        self.styles.append(style)

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
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(map(str.ljust, row, widths)) for row in rows]
    if sheet.title:
        lines.insert(0, printable(sheet.title))
    if sheet.caption:
        lines.append(printable(sheet.caption))
    sys.stdout.write("".join(f"{line.rstrip()}\n" for line in lines))


def _show_on_terminal(sheet: Sheet) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(
        title=Text(printable(sheet.title)) if sheet.title else None,
        caption=Text(printable(sheet.caption)) if sheet.caption else None,
        title_justify="left", title_style="bold", caption_justify="left", show_header=bool(sheet.columns), box=None,
        pad_edge=False,
    )  # fmt: skip
    for column in sheet.columns or [""] * max(map(len, sheet.rows), default=0):
        table.add_column(column, overflow="fold")
    for row, style in zip(sheet.rows, sheet.styles, strict=True):
        cells = [Text(cell) for cell in row]
        cells[0].stylize(style)
        table.add_row(*cells)
    console = Console(highlight=False)
    if len(sheet.rows) > shutil.get_terminal_size().lines - _LINES_BESIDE_ROWS:
        with console.pager(styles=True):
            console.print(table)
    else:
        console.print(table)


def size_of(count: int) -> str:
    """Format a size, as in 1.5 GiB."""
    size = float(count)
    for unit in _UNITS:
        if size < 1024 or unit == _UNITS[-1]:
            break
        size /= 1024
    return f"{count} B" if unit == "B" else f"{size:.1f} {unit}"
