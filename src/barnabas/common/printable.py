"""Text from outside in a form that can't be taken for anything else: in a log line, on a terminal, in an answer."""

from __future__ import annotations

import re
from functools import cache

__all__ = ["printable", "quoted"]


@cache
def _unprintable() -> re.Pattern[str]:
    """Control characters, those that break lines or reorder text, and halves of characters.

    Made when the first one comes: compiling it costs a millisecond of a node's start.
    """
    return re.compile(
        r"[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ud800-\udfff\ufeff\ufff9-\ufffb]"
    )


@cache
def _plain() -> re.Pattern[str]:
    return re.compile(r"[A-Za-z0-9_.:@/+,*=$%#~|-]+")


def printable(text: str) -> str:
    """The text with its control characters written out: a line break becomes ``\\n``, an escape ``\\x1b``."""
    return text if text.isprintable() else _unprintable().sub(_written_out, text)


def quoted(text: str) -> str:
    """The text itself when it is one plain word, else in quotes and in ASCII: it ends where it ends."""
    if _plain().fullmatch(text):
        return text
    import json

    return json.dumps(text).replace("\x7f", "\\u007f")


def _written_out(match: re.Match[str]) -> str:
    character = match.group()
    return {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(character) or (
        f"\\x{ord(character):02x}" if ord(character) < 0x100 else f"\\u{ord(character):04x}"
    )
