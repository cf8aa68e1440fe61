"""Operations and permissions of ACLs, with Kafka's numbers; one rule, and the filter that finds rules.

Bindings and filters hold plain ints where the protocol has an int8, so that a code of a newer version survives.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from barnabas.common.resource import PatternType, ResourceType

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = [
    "WILDCARD_HOST",
    "WILDCARD_NAME",
    "WILDCARD_PRINCIPAL",
    "AclBinding",
    "AclBindingFilter",
    "AclOperation",
    "AclPermissionType",
]

WILDCARD_NAME = "*"
"""The LITERAL name for every resource of a type. In a prefix it is an ordinary character."""

WILDCARD_HOST = "*"

WILDCARD_PRINCIPAL = "User:*"
"""The principal of rules for all principals, of any type. No other type has a wildcard."""


class AclOperation(IntEnum):
    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class AclPermissionType(IntEnum):
    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


class AclBinding(NamedTuple):
    """One rule: what a principal at a host may or may not do to the resources of a pattern.

    Two rules are the same rule when all seven fields are equal. No field is validated: ``host`` and ``principal``
    are compared as text, and an operation need not fit the type.
    """

    resource_type: int
    name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission: int

    def __str__(self) -> str:
        return (
            f"{_enum_name(AclPermissionType, self.permission)} {self.principal} from {self.host} to "
            f"{_enum_name(AclOperation, self.operation)} on "
            f"{_enum_name(ResourceType, self.resource_type)}:{_enum_name(PatternType, self.pattern_type)}:{self.name}"
        )


class AclBindingFilter(NamedTuple):
    """Selects rules: None or ANY in a field matches every value.

    Text is compared as text: ``User:*`` finds the rules whose principal is ``User:*`` and no others. Pattern type
    LITERAL, PREFIXED and ANY require an equal name; MATCH finds the rules that apply to a resource of this name.
    """

    resource_type: int = ResourceType.ANY
    name: str | None = None
    pattern_type: int = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: int = AclOperation.ANY
    permission: int = AclPermissionType.ANY

    def matches(self, binding: AclBinding) -> bool:
        return (
            (self.resource_type == ResourceType.ANY or self.resource_type == binding.resource_type)
            and (self.principal is None or self.principal == binding.principal)
            and (self.host is None or self.host == binding.host)
            and (self.operation == AclOperation.ANY or self.operation == binding.operation)
            and (self.permission == AclPermissionType.ANY or self.permission == binding.permission)
            and self.matches_pattern(binding.name, binding.pattern_type)
        )

    def matches_pattern(self, name: str, pattern_type: int) -> bool:
        """Return whether the filter selects rules on this pattern; the caller has compared the resource type."""
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, pattern_type):
            return False
        if self.name is None or self.name == name:
            return True
        if self.pattern_type != PatternType.MATCH:
            return False
        return name == WILDCARD_NAME if pattern_type == PatternType.LITERAL else self.name.startswith(name)

    def among(self, bindings: Sequence[AclBinding]) -> Sequence[AclBinding]:
        """Return the rules that match, in their order; return ``bindings`` itself if the filter selects all."""
        for index, value in self.demands():
            bindings = [binding for binding in bindings if binding[index] == value]
        if self.name is not None and self.pattern_type == PatternType.MATCH:
            bindings = [binding for binding in bindings if self.matches_pattern(binding.name, binding.pattern_type)]
        return bindings

    def demands(self) -> list[tuple[int, int | str]]:
        """Return the required values of a rule's fields, by index, rare ones first. MATCH also restricts the name."""
        is_match = self.pattern_type == PatternType.MATCH
        texts = ((1, None if is_match else self.name), (3, self.principal), (4, self.host))
        codes = ((5, self.operation), (6, self.permission), (0, self.resource_type), (2, self.pattern_type))
        exact = [(index, code) for index, code in codes if code != _ANY and not (index == 2 and is_match)]
        return [*((index, text) for index, text in texts if text is not None), *exact]

    @property
    def finds_all(self) -> bool:
        return self.name is None and not self.demands()

    @property
    def is_one_binding(self) -> bool:
        """Whether the filter can find no more than one rule."""
        return (
            None not in (self.name, self.principal, self.host)
            and self.resource_type > ResourceType.ANY
            and self.pattern_type in (PatternType.LITERAL, PatternType.PREFIXED)
            and self.operation > AclOperation.ANY
            and self.permission > AclPermissionType.ANY
        )


_ANY = 1
"""The code UNKNOWN in each of the four enumerations."""


def _enum_name(known: Callable[[int], IntEnum], code: int) -> str:
    try:
        return known(code).name
    except ValueError:
        return f"UNKNOWN({code})"
