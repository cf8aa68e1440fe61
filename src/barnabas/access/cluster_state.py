"""The state of a cluster that ``plan`` and ``apply`` handle: topics, settings, ACLs, users and quotas."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from barnabas.common.acl import AclBinding
from barnabas.common.broker_config import broker_config_key
from barnabas.common.scram_mechanism import ScramMechanism

__all__ = [
    "BROKER",
    "GROUP",
    "HIDDEN",
    "TOPIC",
    "ClusterState",
    "ConfigTarget",
    "Credential",
    "QuotaEntity",
    "TopicState",
    "entity_text",
    "is_secret",
]

HIDDEN = "(hidden)"
"""The placeholder for a secret."""

TOPIC, BROKER, GROUP = 2, 4, 32
"""Kafka's codes for types of resources with settings."""


class ConfigTarget(NamedTuple):
    """A resource with settings other than a topic. The broker with the empty name is the default of all brokers."""

    type: int
    name: str

    def __str__(self) -> str:
        if self.type == BROKER:
            return f"broker:{self.name}" if self.name else "broker-defaults"
        return f"group:{self.name}" if self.type == GROUP else f"config{self.type}:{self.name}"


class TopicState(NamedTuple):
    partitions: int | None
    """None (in a file, also below): the current value is kept. For a new topic: the cluster's default."""
    replication_factor: int | None
    configs: Mapping[str, str | None]
    """Settings that override the defaults. None: the cluster hides the value."""


class Credential(NamedTuple):
    user: str
    mechanism: ScramMechanism

    def __str__(self) -> str:
        return f"{self.user} ({self.mechanism.mechanism_name})"


QuotaEntity = tuple[tuple[str, str | None], ...]
"""Kinds (``user``, ``client-id``, ``ip``) with names, sorted; None is the default entity of the kind."""


@dataclass(frozen=True, slots=True)
class ClusterState:
    topics: Mapping[str, TopicState] = field(default_factory=dict)
    configs: Mapping[ConfigTarget, Mapping[str, str | None]] = field(default_factory=dict)
    acls: frozenset[AclBinding] = frozenset()
    users: Mapping[Credential, int | None] = field(default_factory=dict)
    """The number of iterations of each credential. Passwords can't be read."""
    quotas: Mapping[QuotaEntity, Mapping[str, float]] = field(default_factory=dict)


def entity_text(entity: QuotaEntity) -> str:
    return ", ".join(f"{kind} {'(default)' if name is None else name}" for kind, name in entity)


def is_secret(target: ConfigTarget, name: str) -> bool:
    """Return whether a value must be hidden: passwords of brokers, and unknown settings, which may be passwords."""
    if target.type != BROKER:
        return False
    key = broker_config_key(name)
    return key is None or key.sensitive
