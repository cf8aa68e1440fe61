"""Build the failure trace in a task's status: first the reason in words, then its origin.

Spark wraps an error in another and these in a third, each with its stack. The reader of a status needs the innermost
text first. Secrets from the settings of the connector never appear in a trace.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator, Mapping

from barnabas.connect.redaction import without

__all__ = ["failure_trace", "reason_of", "without_secrets"]

_TRACE_MAX = 30_000
"""The limit in characters: a status is a record in Kafka, and the console shows it."""

_DECORATION = re.compile(r"^\[[A-Z0-9_.]+\] |\s+SQLSTATE: [0-9A-Z]{5}\s*$")
_PLAN = re.compile(r"\n+=== Streaming Query ===.*", re.DOTALL)
_PROXY = re.compile(r"An exception was raised by the Python Proxy\. Return Message: ")
_CALLED = "An error occurred while calling "
_WRAPPERS = ("Job aborted", "[TASK_WRITE_FAILED]", "[STREAM_FAILED]", "Writing job aborted")
_SECRET_NAME = re.compile(r"(password|secret|jaas\.config|token|credentials?|(^|\.)key|keystore\.key)$", re.IGNORECASE)
_NO_SECRETS = frozenset({"output.key"})
"""Settings with names of columns, which an error may be about."""
_CAUSED_BY = re.compile(r"^Caused by: (.+)$", re.MULTILINE)


def failure_trace(error: BaseException, config: Mapping[str, str]) -> str:
    """Return the trace for a status, without the values of secret settings."""
    parts = [reason_of(error), "", *_stacks(error)]
    text = without_secrets("\n".join(parts).rstrip() + "\n", config)
    return text if len(text) <= _TRACE_MAX else text[: _TRACE_MAX - 20] + "\n... (cut short)\n"


def reason_of(error: BaseException) -> str:
    """Return the most informative error of a chain: the innermost one that has a text."""
    best = ""
    for cause in _chain(error):
        described = getattr(cause, "_desc", None)
        java = str(getattr(cause, "_stackTrace", None) or "")
        text = str(described) if described else _text(cause)
        text = _PROXY.sub("", _PLAN.sub("", text)).strip()
        if text.startswith(_CALLED):  # The text includes everything if PySpark has no class for the error.
            java = text
            text = text.partition("\n: ")[2].partition("\n")[0]
        innermost = _CAUSED_BY.findall(java)
        if innermost and _is_wrapper(text):
            text = innermost[-1]
        text = _DECORATION.sub("", _DECORATION.sub("", text)).strip()
        best = text or best or type(cause).__name__
    return best


def _text(error: BaseException) -> str:
    """Return the text of an error. Py4J requests it from the JVM, which may have ended."""
    try:
        return str(error)
    except Exception:
        return f"{type(error).__name__}, whose text was lost with Spark's JVM"


def _is_wrapper(text: str) -> bool:
    """Return whether it is Spark's generic "a task failed" error, which has no information."""
    return text.removeprefix("org.apache.spark.SparkException: ").startswith(_WRAPPERS) or not text


def without_secrets(text: str, config: Mapping[str, str]) -> str:
    named = {name: value for name, value in config.items() if _SECRET_NAME.search(name) and name not in _NO_SECRETS}
    secrets = {value for value in named.values() if value and len(value) > 3}
    return without(text, sorted(secrets, key=len, reverse=True))


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        inner = getattr(current, "_cause", None)
        current = inner if isinstance(inner, BaseException) else current.__cause__


def _stacks(error: BaseException) -> Iterator[str]:
    try:
        yield "".join(traceback.format_exception(error)).rstrip()
    except Exception:
        yield "".join(traceback.format_tb(error.__traceback__)).rstrip()
    for cause in _chain(error):
        java = getattr(cause, "_stackTrace", None)
        if java:
            yield "JVM stack:\n" + str(java).rstrip()
            return
