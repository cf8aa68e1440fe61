"""Errors of schemas and of the registry, for the person who runs the command."""

from __future__ import annotations

__all__ = ["SchemaError"]


class SchemaError(Exception):
    """A schema can't be had, or does not fit the data. ``advice`` says what to do next."""

    def __init__(self, text: str, advice: str = "") -> None:
        super().__init__(text)
        self.advice = advice
