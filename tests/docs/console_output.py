"""Whether printed output is what a page shows.

A run differs from the page in what is new in each run. These parts are compared by kind, not by value:

- times and durations, ids (22 letters of base64), process ids, marks of runs, and the ports of clients;
- the page's folder, which pages call ``/srv``;
- the width of columns, because it follows their contents;
- which controller becomes active, in which epoch, and the end of the metadata log;
- with ``figures_vary``, all numbers and their units.

In a page, a line ``...`` stands for any lines, and ``...`` within a line for any text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

__all__ = ["PAGE_FOLDER", "matches", "normalised"]

PAGE_FOLDER = "/srv"
"""What a page calls its working folder."""

_RULES: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d)?([.,]\d+)?Z?"), "<time>"),
    (re.compile(r"\d[\d,]*(\.\d+)? (ms|s)\b|\b\d+\.\d+s\b"), "<duration>"),
    (re.compile(r"(?<![\w/+-])(?=[\w-]*[A-Z0-9])[\w-]{22}(?![\w/+-])"), "<id>"),
    (re.compile(r"\b(process|pid) \d+|(?<= )\d+(?= +/srv/)"), "<pid>"),
    (re.compile(r"(127\.0\.0\.1|localhost):(3[2-9]|[45]\d|60)\d{3}\b"), r"\1:<port>"),
    (re.compile(r"-[0-9a-f]{8}\b"), "-<run>"),
    (re.compile(r"─+"), "─"),
    (re.compile(r"controller-\d is the active controller, in epoch \d+"), "<controller> is active"),
    (re.compile(r"^high watermark +\d+"), "high watermark <offset>"),
)
_ELECTED_AGAIN = re.compile(r"(?m)^.*<controller> is active\n(?=.*<controller> is active$)")
_FIGURE = re.compile(r"\d[\d,]*(\.\d+)?( [KMGT]?i?B\b)?")


def normalised(line: str, *, figures_vary: bool = False) -> str:
    """Return a line with its changing parts replaced."""
    for pattern, kind in _RULES:
        line = pattern.sub(kind, line)
    if figures_vary:
        line = _FIGURE.sub("<figure>", line)
    return re.sub(r"  +|\t+", "  ", line).strip()


def matches(expected: Sequence[str], printed: Sequence[str], *, figures_vary: bool = False) -> bool:
    """Return whether a page's lines describe the printed ones."""
    pieces = []
    for line in expected:
        if line.strip() == "...":
            pieces.append(r"(?:[^\n]*\n)*")
        else:
            parts = normalised(line, figures_vary=figures_vary).split("...")
            pieces.append("[^\n]*".join(map(re.escape, parts)) + "\n")
    text = "".join(normalised(line, figures_vary=figures_vary) + "\n" for line in printed)
    text = _ELECTED_AGAIN.sub("", text)
    return re.fullmatch("".join(pieces), text) is not None
