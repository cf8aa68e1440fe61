"""Whole numbers in the query of a request."""

from __future__ import annotations

from barnabas.connect.errors import BadRequest

__all__ = ["number_to"]


def number_to(highest: int, name: str, text: str | None, default: int) -> int:
    """Return the number of a parameter, from 1 to ``highest``; the default without one. Raise BadRequest."""
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and 0 < int(text[:9]) <= highest):
        raise BadRequest(f"{name!r} is {text[:50]!r}; it must be 1 to {highest}")
    return int(text)
