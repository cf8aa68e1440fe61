"""Parse and format the short notation of desired-state files: ``Topic:payments-*``, ``broker:1``, ``${env:NAME}``."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import NamedTuple

from barnabas.access.acl_text import parse_resource, resource_type_name
from barnabas.access.cluster_state import BROKER, GROUP, ConfigTarget
from barnabas.access.desired_state_scope import ConfigScope, NamePattern
from barnabas.common.acl import WILDCARD_NAME, AclOperation
from barnabas.common.resource import PatternType, ResourceType
from barnabas.common.scram_mechanism import ScramMechanism
from barnabas.common.topic_name import topic_name_problem

__all__ = [
    "QUOTA_LIMITS",
    "ResourcePattern",
    "Secret",
    "operation_of",
    "operation_text",
    "parse_config_scope",
    "parse_config_target",
    "parse_mechanism",
    "parse_name_pattern",
    "parse_principal_text",
    "parse_quota_limit",
    "parse_resource_pattern",
    "parse_secret",
    "parse_topic_name",
    "parse_topic_pattern",
    "resource_pattern_text",
]

_REFERENCE = re.compile(r"\$\{(env|file):([^{}]+)\}")
_BROKER_ID = re.compile(r"0|[1-9][0-9]{0,9}")
QUOTA_LIMITS = (
    "producer_byte_rate",
    "consumer_byte_rate",
    "request_percentage",
    "controller_mutation_rate",
    "connection_creation_rate",
)


class ResourcePattern(NamedTuple):
    resource_type: int
    name: str
    pattern_type: int


class Secret(NamedTuple):
    """A reference to a password, or a plain-text password that the file contains deliberately."""

    source: str
    """``env``, ``file`` or ``clear``."""
    value: str

    def __repr__(self) -> str:
        return "Secret(clear)" if self.source == "clear" else f"Secret(${{{self.source}:{self.value}}})"

    def __str__(self) -> str:
        return repr(self)


def parse_resource_pattern(text: str) -> ResourcePattern:
    """Parse ``Topic:orders``, ``Topic:payments-*`` (a prefix), ``Topic:*`` (all) or ``Cluster``."""
    resource = parse_resource(text)
    if resource.name.endswith("*") and resource.name != WILDCARD_NAME:
        return ResourcePattern(resource.type, resource.name[:-1], PatternType.PREFIXED)
    return ResourcePattern(resource.type, resource.name, PatternType.LITERAL)


def resource_pattern_text(pattern: ResourcePattern) -> str | None:
    """Return the short notation, or None for a name that ends with an asterisk, which it can't express."""
    word = resource_type_name(pattern.resource_type)
    if pattern.pattern_type == PatternType.PREFIXED:
        return f"{word}:{pattern.name}*" if pattern.name else None
    if pattern.resource_type == ResourceType.CLUSTER:
        return word
    is_odd = pattern.name.endswith("*") and pattern.name != WILDCARD_NAME
    return None if is_odd else f"{word}:{pattern.name}"


def operation_of(text: str) -> int:
    operation = _OPERATIONS.get(text.strip().replace("_", "").replace("-", "").casefold())
    if operation is None:
        close = get_close_matches(text.casefold(), list(_OPERATIONS), n=1, cutoff=0.6)
        hint = f" (did you mean {operation_text(_OPERATIONS[close[0]])}?)" if close else ""
        known = ", ".join(operation_text(code) for code in _OPERATIONS.values())
        raise ValueError(f"{text!r} is not an operation{hint}; valid are {known}")
    return operation


def operation_text(code: int) -> str:
    return "".join(part.title() for part in AclOperation(code).name.split("_"))


def parse_principal_text(text: str) -> str:
    """Parse the principal of an ACL. ``User:*`` means all users."""
    kind, colon, name = text.partition(":")
    if not colon or not kind or not name:
        raise ValueError(f"{text!r} is not a principal; write Type:name, as in User:alice, or User:* for all users")
    return text


def parse_topic_name(text: str) -> str:
    problem = topic_name_problem(text)
    if problem is not None:
        raise ValueError(problem)
    return text


def parse_topic_pattern(text: str) -> NamePattern:
    pattern = NamePattern.parse(text)
    problem = topic_name_problem(pattern.text) if pattern.text not in ("", ".", "..") else None
    if problem is not None or (not pattern.is_prefix and not pattern.text):
        raise ValueError(f"{text!r} is neither a topic name nor a prefix followed by *")
    return pattern


def parse_name_pattern(text: str) -> NamePattern:
    if not text:
        raise ValueError("the name is empty: write a name, a prefix followed by *, or * for all")
    return NamePattern.parse(text)


def parse_config_target(text: str) -> ConfigTarget:
    scope = parse_config_scope(text)
    if scope.name.is_prefix:
        raise ValueError(f"{text!r} stands for several resources; write settings for one at a time")
    return ConfigTarget(scope.type, scope.name.text)


def parse_config_scope(text: str) -> ConfigScope:
    if text == "broker-defaults":
        return ConfigScope(BROKER, NamePattern(""))
    kind, _, name = text.partition(":")
    if kind == "broker" and (name == "*" or _BROKER_ID.fullmatch(name)):
        return ConfigScope(BROKER, NamePattern.parse(name))
    if kind == "group" and name:
        return ConfigScope(GROUP, NamePattern.parse(name))
    raise ValueError(f"{text!r} can't have settings here; write broker-defaults, broker:<id> or group:<name>")


def parse_mechanism(text: str) -> ScramMechanism:
    mechanism = ScramMechanism.from_name(text)
    if mechanism is ScramMechanism.UNKNOWN:
        raise ValueError(f"{text!r} is not a mechanism with credentials; valid are SCRAM-SHA-256, SCRAM-SHA-512")
    return mechanism


def parse_secret(text: str) -> Secret:
    """Parse a reference to a password. Error messages never contain the text, which may be the password."""
    match = _REFERENCE.fullmatch(text)
    if match is None:
        raise ValueError(
            "the file must not contain the password: write ${env:NAME} or ${file:PATH}; "
            "for a password that is not secret, write a map with the only key 'clear'"
        )
    return Secret(match[1], match[2])


def parse_quota_limit(text: str) -> str:
    if text not in QUOTA_LIMITS:
        raise ValueError(f"{text!r} is not a limit; valid are {', '.join(QUOTA_LIMITS)}")
    return text


_OPERATIONS = {
    operation.name.replace("_", "").casefold(): int(operation)
    for operation in AclOperation
    if operation >= AclOperation.ALL
}
