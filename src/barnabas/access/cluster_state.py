"""What a cluster is like, as far as ``plan`` and ``apply`` know it: topics, settings, ACLs, users and quotas."""

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
"""Shown for a secret."""

TOPIC, BROKER, GROUP = 2, 4, 32
"""Kafka's numbers for what has settings."""


class ConfigTarget(NamedTuple):
    """What has settings besides topics. The broker with the empty name is the default of all brokers."""

    type: int
    name: str

    def __str__(self) -> str:
        if self.type == BROKER:
            return f"broker:{self.name}" if self.name else "broker-defaults"
        return f"group:{self.name}" if self.type == GROUP else f"config{self.type}:{self.name}"


class TopicState(NamedTuple):
    partitions: int | None
    """None, here and below, in a file: whatever it is; for a new topic the cluster's default."""
    replication_factor: int | None
    configs: Mapping[str, str | None]
    """Only what differs from the default: overrides. None: there is a value, and the cluster does not tell it."""


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
    """With the iterations of the credential. What the password is, nobody can ask."""
    quotas: Mapping[QuotaEntity, Mapping[str, float]] = field(default_factory=dict)


def entity_text(entity: QuotaEntity) -> str:
    return ", ".join(f"{kind} {'(default)' if name is None else name}" for kind, name in entity)


def is_secret(target: ConfigTarget, name: str) -> bool:
    """Whether a setting's value must not be shown: passwords of brokers, and what nobody knows: it may be one."""
    if target.type != BROKER:
        return False
    key = broker_config_key(name)
    return key is None or key.sensitive
