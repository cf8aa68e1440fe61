"""Errors of Spark in plain English, with their place in the statement, and without Java's trace."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from barnabas.connect_spark.sessions.java_errors import java_message

__all__ = ["PlainError", "plain_error"]


@dataclass(frozen=True, slots=True)
class PlainError:
    """``start`` is the place in the statement, from 0; None if Spark names none."""

    text: str
    start: int | None = None
    length: int = 1
    advice: str = ""


_CAUSES_MAX = 20
_CONDITION = re.compile(r"^\[[A-Z0-9_.]+\]\s*")
_STATE = re.compile(r"\s*SQLSTATE: \w{5}.*", re.DOTALL)
_PLACE = re.compile(r"\(?line (\d+),? pos (\d+)\)?")
_LOST = "Some data may have been lost"
_NOT_A_CAUSE = ("INTERNAL_ERROR", "_LEGACY_ERROR_TEMP")
_WORDS = {
    "UNRESOLVED_COLUMN": ("no column is called {objectName}", "the columns are like {proposal}"),
    "UNRESOLVED_FIELD": ("no field is called {fieldName}", "the fields are like {proposal}"),
    "TABLE_OR_VIEW_NOT_FOUND": (
        "{relationName} is neither a topic nor a view",
        "SHOW TOPICS and SHOW VIEWS list them; a topic's name with dots or dashes needs backticks",
    ),
    "PARSE_SYNTAX_ERROR": ("syntax error at {error}{hint}", ""),
    "PARSE_EMPTY_STATEMENT": ("the query is empty", ""),
    "UNRESOLVED_ROUTINE": ("no function is called {routineName}", "SHOW FUNCTIONS LIKE '...' lists them"),
    "AMBIGUOUS_REFERENCE": ("{name} is ambiguous: it may be {referenceNames}", "write it with its table, as in a.id"),
}
"""The text and the advice for a condition, with the parameters that Spark gives."""


def plain_error(error: BaseException, statement: str) -> PlainError:
    """Return what a person needs of an error that Spark raised for the statement."""
    for java in _causes(error):
        condition = _called(java, "getCondition")
        if not condition or str(condition).startswith(_NOT_A_CAUSE):
            continue
        parameters = {
            str(name): str(value) for name, value in dict(_called(java, "getMessageParameters") or {}).items()
        }
        start, length = _place(java, statement)
        text, advice = _text(str(condition), parameters, str(_called(java, "getMessage") or ""))
        return PlainError(text, start, length, advice)
    return PlainError(_deepest(error))


def _text(condition: str, parameters: Mapping[str, str], message: str) -> tuple[str, str]:
    known = _WORDS.get(condition.partition(".")[0])
    if known is None:
        return _cleaned(message), ""
    values = _Values({name: _unquoted(value) for name, value in parameters.items()})
    text, advice = (form.format_map(values).strip() for form in known)
    return text, "" if advice.endswith("like") else advice


class _Values(dict[str, str]):
    def __missing__(self, key: str) -> str:
        return ""


def _unquoted(text: str) -> str:
    return text.replace("`", "")


def _cleaned(message: str) -> str:
    """Return Spark's text without the name and the number of the condition, the place and the plan."""
    text = message.partition("\n\nJVM stacktrace")[0].partition("\n== SQL")[0]
    text = _STATE.sub("", _CONDITION.sub("", text.strip()))
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith(("'", "+-"))]
    return _PLACE.sub("", " ".join(lines)).strip(" ;")


def _place(java: Any, statement: str) -> tuple[int | None, int]:
    """Return the place and the length of what is wrong. A place in a view is not one in the statement."""
    for context in _called(java, "getQueryContext") or ():
        if str(_called(context, "contextType")) != "SQL" or _called(context, "objectName"):
            continue
        start, stop = _called(context, "startIndex"), _called(context, "stopIndex")
        if start is not None and 0 <= start <= len(statement):
            return int(start), max(1, int(stop or start) - int(start) + 1)
    found = _PLACE.search(str(_called(java, "getMessage") or ""))
    return (None, 1) if found is None else (_index(statement, int(found[1]), int(found[2])), 1)


def _index(statement: str, line: int, column: int) -> int | None:
    """Return the index of a line, from 1, and a column, from 0."""
    lines = statement.splitlines(keepends=True)
    if not 0 < line <= len(lines):
        return len(statement) if line == len(lines) + 1 else None
    return sum(map(len, lines[: line - 1])) + min(column, len(lines[line - 1]))


def _causes(error: BaseException) -> Iterator[Any]:
    """Yield Java's exception and its causes."""
    java = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    for _ in range(_CAUSES_MAX):
        if java is None:
            return
        yield java
        java = _called(java, "getCause")


def _deepest(error: BaseException) -> str:
    """Return the message of the last cause that has one: those around it say only that a task failed."""
    messages = [str(message) for java in _causes(error) if (message := _called(java, "getMessage"))]
    if any(_LOST in message for message in messages):
        return "records that the query reads were deleted meanwhile, by retention or with their topic"
    return _cleaned(messages[-1]) if messages else _cleaned(java_message(error)) or type(error).__name__


def _called(java: Any, method: str) -> Any:
    """Call a method of Java that not every class has."""
    try:
        return getattr(java, method)()
    except Exception:
        return None
