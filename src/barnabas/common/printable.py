"""Renders external text so that it can't be mistaken for other output: in a log line, a terminal or a response."""

from __future__ import annotations

import re
from functools import cache

__all__ = ["printable", "quoted"]


@cache
def _unprintable() -> re.Pattern[str]:
    """Control characters, those that break lines or reorder text, and halves of characters.

    Compiled on first use: compiling it costs a millisecond of a node's start.
    """
    return re.compile(
        r"[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ud800-\udfff\ufeff\ufff9-\ufffb]"
    )


@cache
def _plain() -> re.Pattern[str]:
    return re.compile(r"[A-Za-z0-9_.:@/+,*=$%#~|-]+")


def printable(text: str) -> str:
    """Return the text with its control characters escaped: a line break becomes ``\\n``, an escape ``\\x1b``."""
    return text if text.isprintable() else _unprintable().sub(_written_out, text)


def quoted(text: str) -> str:
    """Return the text itself if it is one plain word, else quoted and in ASCII, so that its end is unambiguous."""
    if _plain().fullmatch(text):
        return text
    import json

    return json.dumps(text).replace("\x7f", "\\u007f")


def _written_out(match: re.Match[str]) -> str:
    character = match.group()
    return {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(character) or (
        f"\\x{ord(character):02x}" if ord(character) < 0x100 else f"\\u{ord(character):04x}"
    )
