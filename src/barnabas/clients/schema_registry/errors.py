"""Errors of schemas and of the registry, for the person who reads them. No text contains a password or a token."""

from __future__ import annotations

__all__ = ["RegistryRefused", "RegistryUnreachable", "SchemaError", "SchemaNotFound"]


class SchemaError(Exception):
    """A schema is not available, or does not fit the data. ``advice`` says what to do next."""

    def __init__(self, text: str, advice: str = "") -> None:
        super().__init__(text)
        self.advice = advice

    @property
    def whole(self) -> str:
        """The text and the advice, on one line."""
        return f"{self}: {self.advice}" if self.advice else str(self)


class RegistryUnreachable(SchemaError):
    """No server of the registry answered, or all of them had errors of their own. A later request may succeed."""


class RegistryRefused(SchemaError):
    """The registry refused the request. ``status`` is that of HTTP, ``code`` the registry's own."""

    def __init__(self, text: str, advice: str = "", *, status: int, code: int = 0) -> None:
        super().__init__(text, advice)
        self.status = status
        self.code = code


class SchemaNotFound(RegistryRefused):
    """The registry does not have the subject, the version or the schema."""
