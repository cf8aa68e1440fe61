"""Split SQL into tokens, with their places in the text, by the rules of Spark's parser.

Strings are in single or double quotes, with backslash escapes; ``r'...'`` has none. In the shell's own statements a
doubled quote stands for one, as in standard SQL; Spark 4.0 reads two strings that it joins. Names may be in backticks.
Comments begin with ``--``, or are between ``/*`` and ``*/`` and nest; a hint is one, too. White space and comments are
not tokens.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

__all__ = ["Kind", "Token", "UnclosedText", "tokens_of", "unescaped"]


class Kind(Enum):
    WORD = "a word"
    QUOTED_NAME = "a name in backticks"
    STRING = "a string"
    NUMBER = "a number"
    SYMBOL = "a symbol"


@dataclass(frozen=True, slots=True)
class Token:
    kind: Kind
    text: str
    """The text as written, with its quotes."""
    start: int
    """The place of its first character in the whole text, from 0."""

    @property
    def end(self) -> int:
        return self.start + len(self.text)

    @property
    def keyword(self) -> str:
        """The word in upper case; empty for other tokens."""
        return self.text.upper() if self.kind is Kind.WORD else ""

    @property
    def name(self) -> str:
        """The name that a word or a name in backticks stands for."""
        return self.text[1:-1].replace("``", "`") if self.kind is Kind.QUOTED_NAME else self.text


class UnclosedText(Exception):
    """A string, a name or a comment has no end. ``start`` is the place where it begins."""

    def __init__(self, what: str, start: int) -> None:
        super().__init__(f"{what} has no end")
        self.what = what
        self.start = start


_TOKEN = re.compile(
    r"""
    (?P<space>\s+|--(?:\\\n|[^\n])*)
    | (?P<string>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")
    | (?P<quoted_name>`(?:[^`]|``)*`)
    | (?P<number>\.?\d[\d.]*(?:[eE][+-]?\d+)?\w*)
    | (?P<word>\w+)
    | (?P<symbol><=>|<=|>=|<>|!=|==|->|=>|::|\|\||<<|>>|.)
    """,
    re.VERBOSE | re.DOTALL,
)
_RAW_STRING = re.compile(r"""[rR](?:'[^']*'|"[^"]*")""", re.DOTALL)
_COMMENT_EDGE = re.compile(r"/\*|\*/")
_UNCLOSED = {"'": "the string", '"': "the string", "`": "the name"}
_ESCAPES = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a"}
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7]{2}|.)", re.DOTALL)


def tokens_of(text: str) -> Iterator[Token]:
    """Yield the tokens. Raise UnclosedText, after the tokens before it."""
    at = 0
    while at < len(text):
        if text.startswith("/*", at):
            at = _comment_end(text, at)
            continue
        found = _RAW_STRING.match(text, at)
        kind = Kind.STRING
        if found is None:
            found = _TOKEN.match(text, at)
            assert found is not None  # The last alternative is any character.
            if found.lastgroup == "space":
                at = found.end()
                continue
            kind = Kind[str(found.lastgroup).upper()]
        token = Token(kind, found[0], at)
        if kind is Kind.SYMBOL and token.text in _UNCLOSED:
            raise UnclosedText(_UNCLOSED[token.text], at)
        yield token
        at = token.end


def _comment_end(text: str, start: int) -> int:
    depth = 0
    for edge in _COMMENT_EDGE.finditer(text, start):
        depth += 1 if edge[0] == "/*" else -1
        if depth == 0:
            return edge.end()
    raise UnclosedText("the comment", start)


def unescaped(string: str) -> str:
    """Return the value of a string as Spark reads it."""
    if string[0] in "rR":
        return string[2:-1]
    quote = string[0]
    return _ESCAPE.sub(_unescape, string[1:-1].replace(quote * 2, f"\\{quote}"))


def _unescape(found: re.Match[str]) -> str:
    code = found[1]
    if code[0] in "uU" and len(code) > 1:
        number = int(code[1:], 16)
        return chr(number) if number <= 0x10FFFF else found[0]
    if len(code) == 3:
        return chr(int(code, 8))
    if code in "%_":
        return found[0]  # As in patterns of LIKE.
    return _ESCAPES.get(code, code)
