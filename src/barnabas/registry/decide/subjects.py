"""Names of subjects and their contexts.

A subject belongs to a context, a namespace with its own ids. ``orders-value`` is in the default context, whose name is
``.``; ``:.team:orders-value`` is in the context ``.team``. ``:.team:`` alone means the context: its settings are the
defaults of its subjects. In a path, ``/contexts/.team/subjects/orders-value`` is the same subject.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.registry.decide.errors import invalid_subject

__all__ = ["ALL_CONTEXTS", "DEFAULT_CONTEXT", "QualifiedSubject", "checked_subject", "in_context"]

DEFAULT_CONTEXT = "."
ALL_CONTEXTS = ":*:"
"""The prefix that selects the subjects of all contexts in a listing."""
_RESERVED = frozenset(("__GLOBAL", "__EMPTY"))


@dataclass(frozen=True, slots=True)
class QualifiedSubject:
    """``name`` is empty for the context itself."""

    context: str
    name: str

    @classmethod
    def parse(cls, text: str) -> QualifiedSubject:
        if not text.startswith(":."):
            return cls(DEFAULT_CONTEXT, text)
        context, colon, name = text[1:].partition(":")
        return cls(context, name) if colon else cls(DEFAULT_CONTEXT, text)

    def __str__(self) -> str:
        return self.name if self.context == DEFAULT_CONTEXT else f":{self.context}:{self.name}"

    @property
    def parent(self) -> str | None:
        """The context as a subject, whose settings apply to this one; None in the default context."""
        return None if self.context == DEFAULT_CONTEXT else f":{self.context}:"


def checked_subject(text: str) -> QualifiedSubject:
    """Return the subject of a schema. Raise RegistryError for a name that it can't have."""
    subject = QualifiedSubject.parse(text)
    if not subject.name:
        raise invalid_subject(text, "it has no name")
    if subject.name in _RESERVED or any(char < " " or char == "\x7f" for char in text):
        raise invalid_subject(text, "it is reserved, or has control characters")
    return subject


def in_context(context: str, subject: str) -> str:
    """Return the subject of a path below ``/contexts/{context}``, unless it names its context itself."""
    return subject if subject.startswith(":.") else str(QualifiedSubject(context, subject))
