"""Read the tokens of a statement one after the other, for the shell's own grammar."""

from __future__ import annotations

import re
from typing import NoReturn

from barnabas.cli.sql.script import Statement
from barnabas.cli.sql.statement_errors import StatementError
from barnabas.cli.sql.tokens import Kind, Token, unescaped

__all__ = ["Cursor"]

_NAMES = (Kind.WORD, Kind.QUOTED_NAME)
_NAME = re.compile(r"(?:\w|\.|-(?!-))+")
_NUMBER = re.compile(r"\d+(\.\d+)?")


class Cursor:
    """``form`` is how the statement is written; error messages show it."""

    def __init__(self, statement: Statement, form: str = "") -> None:
        self._statement = statement
        self._tokens = statement.tokens
        self._index = 0
        self.form = form

    @property
    def token(self) -> Token | None:
        """The next token; None at the end."""
        return self._tokens[self._index] if self._index < len(self._tokens) else None

    def is_at(self, *words: str) -> bool:
        """Return whether the next tokens are these keywords or symbols."""
        following = self._tokens[self._index : self._index + len(words)]
        return [token.keyword or token.text for token in following] == list(words)

    def take(self, *words: str) -> bool:
        """Move behind these keywords or symbols, if they follow."""
        if not self.is_at(*words):
            return False
        self._index += len(words)
        return True

    def expect(self, *words: str) -> None:
        for word in words:
            if not self.take(word):
                self.fail(word)

    def name(self, what: str) -> str:
        """Read a name: a word, which may have dots and dashes, or any text in backticks or quotes."""
        token = self.token
        if token is None or token.kind is Kind.SYMBOL:
            self.fail(what)
        if token.kind in (Kind.STRING, Kind.QUOTED_NAME):
            self._index += 1
            return token.name if token.kind is Kind.QUOTED_NAME else unescaped(token.text)
        found = _NAME.match(self._statement.text, token.start)
        assert found is not None
        while self.token is not None and self.token.start < found.end():
            self._index += 1
        return found[0]

    def key(self) -> str:
        """Read the name of a setting: words with dots between them, or a string."""
        token = self.token
        if token is None or token.kind not in (*_NAMES, Kind.STRING):
            self.fail("the name of a setting")
        self._index += 1
        if token.kind is Kind.STRING:
            return unescaped(token.text)
        key = token.name
        while self.take("."):
            part = self.token
            if part is None or part.kind not in _NAMES:
                self.fail("the rest of the name of a setting")
            self._index += 1
            key += f".{part.name}"
        return key

    def value(self, of: str) -> str:
        """Read the value of a setting: a string, a number, true or false."""
        sign = "-" if self.take("-") else ""
        token = self.token
        if token is None or not (_is_number(token) or (not sign and _is_text(token))):
            word = token.text if token is not None and token.kind is Kind.WORD else "..."
            self.fail(f"the value of {of}: a string, a number, true or false", f"write it in quotes: {of} = '{word}'")
        self._index += 1
        return sign + (unescaped(token.text) if token.kind is Kind.STRING else token.text.lower())

    def rest(self, what: str) -> str:
        """Read everything up to the end, which must not be empty."""
        token = self.token
        if token is None:
            self.fail(what)
        self._index = len(self._tokens)
        return self._statement.text[token.start :]

    def end(self) -> None:
        if self.token is not None:
            self.fail("the end of the statement")

    def fail(self, expected: str, advice: str = "") -> NoReturn:
        token = self.token
        advice = advice or (f"write {self.form}" if self.form else "")
        if token is None:
            length = len(self._statement.text)
            raise StatementError(f"the statement ends where {expected} is expected", start=length, advice=advice)
        text = f"{expected} is expected, not {token.text[:60]}"
        raise StatementError(text, start=token.start, length=len(token.text), advice=advice)


def _is_number(token: Token) -> bool:
    return token.kind is Kind.NUMBER and _NUMBER.fullmatch(token.text) is not None


def _is_text(token: Token) -> bool:
    return token.kind is Kind.STRING or token.keyword in ("TRUE", "FALSE")
