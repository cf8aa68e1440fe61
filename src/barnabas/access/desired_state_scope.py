"""The resources that a desired-state file owns. A plan reads, changes and deletes no others.

A pattern is a name, or a prefix followed by ``*``; ``*`` alone matches every name. Names that begin with ``__``
(Kafka's internal topics) match only patterns that begin with ``__``, as a shell treats file names with a leading dot.
"""

from __future__ import annotations

from typing import NamedTuple

from barnabas.access.cluster_state import ConfigTarget, QuotaEntity
from barnabas.common.acl import AclBinding
from barnabas.common.resource import PatternType

__all__ = ["AclScope", "ConfigScope", "NamePattern", "QuotaScope", "Scope"]

_INTERNAL = "__"


class NamePattern(NamedTuple):
    text: str
    is_prefix: bool = False

    @classmethod
    def parse(cls, text: str) -> NamePattern:
        return cls(text[:-1], True) if text.endswith("*") else cls(text)

    def matches(self, name: str) -> bool:
        return name.startswith(self.text) if self.is_prefix else name == self.text

    def matches_topic(self, name: str) -> bool:
        if name.startswith(_INTERNAL) and not self.text.startswith(_INTERNAL):
            return False
        return self.matches(name)

    def __str__(self) -> str:
        return self.text + "*" * self.is_prefix


class AclScope(NamedTuple):
    """Rules for these principals on these resources. None means any."""

    resource_type: int | None
    resource: NamePattern | None
    principal: NamePattern | None

    def matches(self, binding: AclBinding) -> bool:
        if self.principal is not None and not self.principal.matches(binding.principal):
            return False
        if self.resource_type is not None and self.resource_type != binding.resource_type:
            return False
        if self.resource is None:
            return True
        # A rule on a prefix covers more than the single name that an exact pattern owns.
        if binding.pattern_type != PatternType.LITERAL and not self.resource.is_prefix:
            return False
        return self.resource.matches(binding.name)


class ConfigScope(NamedTuple):
    type: int
    name: NamePattern

    def matches(self, target: ConfigTarget) -> bool:
        if self.type != target.type:
            return False
        # `broker:*` means every broker, but not the default of all brokers, whose name is empty.
        return self.name.matches(target.name) and not (self.name.is_prefix and not target.name)


class QuotaScope(NamedTuple):
    """Entities of exactly these kinds. ``*`` includes the default entity; None means only the default entity."""

    parts: tuple[tuple[str, NamePattern | None], ...]

    def matches(self, entity: QuotaEntity) -> bool:
        if tuple(kind for kind, _ in entity) != tuple(kind for kind, _ in self.parts):
            return False
        return all(_is_part(pattern, name) for (_, pattern), (_, name) in zip(self.parts, entity, strict=True))


class Scope(NamedTuple):
    topics: tuple[NamePattern, ...] = ()
    configs: tuple[ConfigScope, ...] = ()
    acls: tuple[AclScope, ...] = ()
    users: tuple[NamePattern, ...] = ()
    quotas: tuple[QuotaScope, ...] = ()

    def has_topic(self, name: str) -> bool:
        return any(pattern.matches_topic(name) for pattern in self.topics)

    def has_config(self, target: ConfigTarget) -> bool:
        return any(scope.matches(target) for scope in self.configs)

    def has_acl(self, binding: AclBinding) -> bool:
        return any(scope.matches(binding) for scope in self.acls)

    def has_user(self, name: str) -> bool:
        return any(pattern.matches(name) for pattern in self.users)

    def has_quota(self, entity: QuotaEntity) -> bool:
        return any(scope.matches(entity) for scope in self.quotas)


def _is_part(pattern: NamePattern | None, name: str | None) -> bool:
    if name is None:
        return pattern is None or (pattern.is_prefix and not pattern.text)
    return pattern is not None and pattern.matches(name)
