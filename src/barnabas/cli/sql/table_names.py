"""The names of topics, tables and views that a query reads, found without Spark.

A query names what it reads behind FROM, JOIN and TABLE, and in their lists with commas. Names that the query itself
defines (WITH) and functions are not among them. ``tests/spark`` compares with Spark's own parser.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from barnabas.cli.sql.tokens import Kind, Token

__all__ = ["TableName", "table_names"]

_NAMES = (Kind.WORD, Kind.QUOTED_NAME)
_QUERY_STARTS = frozenset({"SELECT", "WITH", "VALUES", "FROM", "TABLE", "MAP", "REDUCE"})
_ENDS_LIST = frozenset(
    {
        *("WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "OFFSET", "WINDOW", "UNION", "EXCEPT", "MINUS", "INTERSECT"),
        *("SORT", "CLUSTER", "DISTRIBUTE", "SELECT", "VIEW"),
    }
)
"""Words after which a comma does not lead to another table. VIEW is that of LATERAL VIEW."""
_FUNCTIONS_WITH_FROM = frozenset({"EXTRACT", "TRIM", "SUBSTRING", "SUBSTR", "OVERLAY"})
_CLOSING = {"(": ")", "[": "]", "{": "}"}


@dataclass(frozen=True, slots=True)
class TableName:
    """A name with one or several parts, and its place in the statement."""

    parts: tuple[str, ...]
    start: int
    length: int

    def __str__(self) -> str:
        return ".".join(self.parts)


def table_names(tokens: Sequence[Token]) -> list[TableName]:
    """Return each name once, where it occurs first."""
    defined = {name.casefold() for name in _defined_names(tokens)}
    found: dict[tuple[str, ...], TableName] = {}
    for name in _Reader(tokens).names():
        if len(name.parts) > 1 or name.parts[0].casefold() not in defined:
            found.setdefault(name.parts, name)
    return list(found.values())


def _defined_names(tokens: Sequence[Token]) -> Iterator[str]:
    """Yield the names of common table expressions: ``name AS (`` or ``name (columns) AS (`` in a list of WITH."""
    for index, token in enumerate(tokens):
        if token.keyword != "WITH":
            continue
        at = index + 1 + (_word(tokens, index + 1) == "RECURSIVE")
        while at < len(tokens) and tokens[at].kind in _NAMES:
            name = tokens[at].name
            at = _behind_bracket(tokens, at + 1)
            at += _word(tokens, at) == "AS"
            if _text(tokens, at) != "(":
                break
            yield name
            at = _behind_bracket(tokens, at)
            if _text(tokens, at) != ",":
                break
            at += 1


def _behind_bracket(tokens: Sequence[Token], at: int) -> int:
    """Return the place behind the bracket that opens here; the same place if none does."""
    depth = 0
    for index in range(at, len(tokens)):
        text = tokens[index].text
        depth += (text == "(") - (text == ")")
        if depth == 0:
            return index + (text == ")")
    return len(tokens)


class _Reader:
    """Reads the tokens once. A table is expected behind FROM, JOIN and TABLE, and behind commas in their lists."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self._tokens = tokens
        self._index = 0
        self._expects = False
        self._is_in_list = False
        self._opened: list[tuple[str, bool]] = []
        """For each open bracket the word before it, and whether it is in a list of tables."""

    def names(self) -> Iterator[TableName]:
        while self._index < len(self._tokens):
            token = self._tokens[self._index]
            if self._expects and token.kind in _NAMES and token.keyword not in (*_QUERY_STARTS, "LATERAL"):
                self._expects = False
                name = self._name()
                if _text(self._tokens, self._index) != "(":  # Otherwise it is a function.
                    yield name
                continue
            self._step(token)
            self._index += 1

    def _name(self) -> TableName:
        first = self._tokens[self._index]
        parts, last = [first.name], first
        self._index += 1
        while _text(self._tokens, self._index) == "." and _is_name(self._tokens, self._index + 1):
            last = self._tokens[self._index + 1]
            parts.append(last.name)
            self._index += 2
        return TableName(tuple(parts), first.start, last.end - first.start)

    def _step(self, token: Token) -> None:
        word, expected = token.keyword, self._expects
        self._expects = False
        if token.text in _CLOSING:
            self._opened.append((_word(self._tokens, self._index - 1), self._is_in_list))
            self._expects = expected and _word(self._tokens, self._index + 1) not in _QUERY_STARTS
            self._is_in_list = self._expects
        elif token.text in _CLOSING.values():
            self._is_in_list = self._opened.pop()[1] if self._opened else False
        elif word == "FROM":
            self._expects = self._is_in_list = not self._is_of_expression()
        elif word in ("JOIN", "TABLE"):
            self._expects = True
            self._is_in_list = self._is_in_list or word == "JOIN"
        elif token.text == ",":
            self._expects = self._is_in_list
        elif word == "LATERAL":
            self._expects = expected
        elif word in _ENDS_LIST:
            self._is_in_list = False

    def _is_of_expression(self) -> bool:
        """Return whether this FROM belongs to IS DISTINCT FROM, or to a function such as ``extract(YEAR FROM x)``."""
        before = _word(self._tokens, self._index - 1), _word(self._tokens, self._index - 2)
        if before[0] == "DISTINCT" and before[1] in ("IS", "NOT"):
            return True
        return bool(self._opened) and self._opened[-1][0] in _FUNCTIONS_WITH_FROM


def _is_name(tokens: Sequence[Token], index: int) -> bool:
    return index < len(tokens) and tokens[index].kind in _NAMES


def _text(tokens: Sequence[Token], index: int) -> str:
    return tokens[index].text if 0 <= index < len(tokens) else ""


def _word(tokens: Sequence[Token], index: int) -> str:
    return tokens[index].keyword if 0 <= index < len(tokens) else ""
