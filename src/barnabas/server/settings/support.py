"""The support of a node setting. The row of a setting defines it; this module derives the support of its forms.

A setting may be given for one listener, and may be changed while the node runs. ``support_of`` returns the support of a
setting in a file, ``dynamic_support_of`` that of a change. Settings that only older Kafkas had are listed with advice.
"""

from __future__ import annotations

from typing import NamedTuple

from barnabas.common.broker_config import (
    BROKER_CONFIG_DEF,
    DYNAMIC_QUOTA_CONFIG_DEF,
    broker_config_key,
    listener_base_name,
)
from barnabas.common.config_def import READ_ONLY
from barnabas.common.settings.setting import WORKS, Support, SupportState

__all__ = [
    "REMOVED_SETTINGS",
    "DynamicSupport",
    "dynamic_support_of",
    "removed_setting",
    "support_of",
]

_JAAS = "sasl.jaas.config"
_DOTS_OF_MECHANISM = 4
"""The prefix of a setting for a listener and a mechanism."""
# The settings that may be set for one listener, as listener.name.<listener>.<setting>.
_PER_LISTENER = (
    "sasl.* ssl.* connections.max.reauth.ms principal.builder.class max.connections max.connection.creation.rate"
)

# The settings that Kafka 4 no longer has, with advice.
REMOVED_SETTINGS: tuple[tuple[str, str], ...] = (
    ("zookeeper.*", "Kafka 4.0 removed ZooKeeper; remove the setting, and set process.roles and node.id"),
    ("inter.broker.protocol.version", "metadata.version replaced it; remove it, and see 'barnabas storage format'"),
    (
        "log.message.timestamp.difference.max.ms",
        "it was split in two; use log.message.timestamp.before.max.ms and log.message.timestamp.after.max.ms",
    ),
    ("broker.id.generation.enable reserved.broker.max.id", "ids are no longer generated; set node.id"),
    ("control.plane.listener.name", "it was removed with ZooKeeper; use controller.listener.names"),
    (
        "log.message.format.version log.message.downconversion.enable auto.include.jmx.reporter"
        " offsets.commit.required.acks producer.quota.default consumer.quota.default delegation.token.master.key"
        " port host.name advertised.port advertised.host.name",
        "Kafka 4.0 removed it; remove the setting",
    ),
)


def support_of(name: str) -> Support:
    """Return the support of a known setting, or of its listener form. Raise KeyError for an unknown name."""
    base = listener_base_name(name)
    if base == _JAAS and name.count(".", 0, -len(base)) == _DOTS_OF_MECHANISM:
        return WORKS
    if base is not None:
        of_base = support_of(base)
        if of_base.state is not SupportState.WORKS:
            return of_base
        if _fits(base, _PER_LISTENER):
            return of_base
        return Support(SupportState.REFUSED, f"It can't be set for one listener: set {base} for all of them.")
    return BROKER_CONFIG_DEF[name].support


class DynamicSupport(NamedTuple):
    """The effect of a changed value in a running node."""

    state: SupportState
    reason: str = ""
    also_allowed: tuple[str, ...] = ()
    is_for_listeners_only: bool = False
    """Whether the setting applies only if it is given for a listener."""


def dynamic_support_of(name: str) -> DynamicSupport | None:
    """Return the support of a change in a running node; None for a setting that needs a restart."""
    key = broker_config_key(name)
    if key is None or key.update_mode == READ_ONLY:
        return None
    if name in DYNAMIC_QUOTA_CONFIG_DEF:
        return DynamicSupport(SupportState.WORKS)
    support = support_of(name)
    if support.state is not SupportState.WORKS:
        return DynamicSupport(support.state, support.reason, support.also_allowed)
    if key.needs_restart:
        return None
    return DynamicSupport(SupportState.WORKS, is_for_listeners_only=key.for_listeners_only and name == key.name)


def removed_setting(name: str) -> str | None:
    """Return what happened to a setting of older Kafkas, with advice; None if ``name`` isn't one."""
    return next((advice for names, advice in REMOVED_SETTINGS if _fits(name, names)), None)


def _fits(name: str, names: str) -> bool:
    return any(
        name.startswith(form[:-1]) if form[-1] == "*" else name.endswith(form[1:]) if form[0] == "*" else name == form
        for form in names.split()
    )
