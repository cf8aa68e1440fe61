"""Errors of Java behind those that Py4J and PySpark raise."""

from __future__ import annotations

from typing import Any

__all__ = ["java_class", "java_message"]


def _origin(error: BaseException) -> Any:
    """Return Java's exception: Py4J keeps it, and PySpark's own errors have it as their origin."""
    return getattr(error, "java_exception", None) or getattr(error, "_origin", None)


def java_class(error: BaseException) -> str:
    """Return the full name of the exception's class in Java; empty if Java did not raise it."""
    origin = _origin(error)
    return "" if origin is None else str(origin.getClass().getName())


def java_message(error: BaseException) -> str:
    """Return the first line of Java's message, or of the error's own."""
    origin = _origin(error)
    text = str(error) if origin is None else str(origin.getMessage() or origin.getClass().getName())
    return text.strip().partition("\n")[0]
