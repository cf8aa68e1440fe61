"""Split a script into statements, at semicolons that are neither in strings and names nor in comments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from barnabas.cli.sql.tokens import Token, UnclosedText, tokens_of

__all__ = ["Script", "Statement", "parse_script", "statement_of"]


@dataclass(frozen=True, slots=True)
class Statement:
    """The text of a statement without its semicolon, and its tokens, whose places are those in ``text``."""

    text: str
    tokens: Sequence[Token]


@dataclass(frozen=True, slots=True)
class Script:
    statements: Sequence[Statement]
    """The statements that end with a semicolon. Empty ones are omitted."""
    rest: Statement | None = None
    """The last statement, without a semicolon; None if only white space and comments follow."""
    unclosed: UnclosedText | None = None
    """The string, name or comment that has no end. Then ``rest`` ends before it, or is None."""

    @property
    def is_complete(self) -> bool:
        return self.rest is None and self.unclosed is None


def parse_script(text: str) -> Script:
    statements: list[Statement] = []
    tokens: list[Token] = []
    unclosed = None
    try:
        for token in tokens_of(text):
            if token.text != ";":
                tokens.append(token)
                continue
            if tokens:
                statements.append(_statement(text, tokens, token.start))
            tokens = []
    except UnclosedText as error:
        unclosed = error
    rest = _statement(text, tokens, len(text)) if tokens else None
    return Script(statements, rest, unclosed)


def statement_of(text: str) -> Statement:
    """Return the only statement of a text. Raise ValueError if there is none, or more than one."""
    script = parse_script(text)
    found = [*script.statements, *([script.rest] if script.rest is not None else [])]
    if len(found) != 1 or script.unclosed is not None:
        raise ValueError(f"not one statement: {text!r}")
    return found[0]


def _statement(text: str, tokens: Sequence[Token], end: int) -> Statement:
    start = tokens[0].start
    moved = tuple(replace(token, start=token.start - start) for token in tokens)
    return Statement(text[start:end].rstrip(), moved)
