"""The settings of a node: look one up, find its synonyms, and derive what they mean for topics.

``BROKER_CONFIG_DEF`` has Kafka's settings and ours (``barnabas.*``).
"""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.common.config_def import CLUSTER_WIDE, PER_BROKER, ConfigDef, ConfigValue, Setting
from barnabas.common.group_config import GROUP_CONFIG_DEF, group_synonym
from barnabas.common.settings.group_settings import DynamicQuotas
from barnabas.common.settings.node_settings import NodeSettings
from barnabas.common.topic_config import TOPIC_CONFIG_DEF, TOPIC_SYNONYMS, TopicConfig

__all__ = [
    "BROKER_CONFIG_DEF",
    "DYNAMIC_QUOTA_CONFIG_DEF",
    "broker_config_doc",
    "broker_config_key",
    "broker_synonyms",
    "listener_base_name",
    "topic_default_texts",
    "topic_defaults",
    "update_mode",
]

BROKER_CONFIG_DEF = ConfigDef(NodeSettings)
DYNAMIC_QUOTA_CONFIG_DEF = ConfigDef(DynamicQuotas)

# Settings that say the same in several units or under an older name, the strongest first.
_SYNONYM_GROUPS: tuple[tuple[str, ...], ...] = tuple(
    tuple(name for name, _ in group) for group in TOPIC_SYNONYMS.values() if len(group) > 1
)

# What may follow "listener.name.<listener>.<mechanism>."; everything else follows "listener.name.<listener>." directly.
_MECHANISM_SETTINGS = (
    "sasl.jaas.config",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.server.callback.handler.class",
    "connections.max.reauth.ms",
)
_LISTENER_PREFIX = "listener.name."
_OAUTHBEARER_PREFIX = "oauthbearer."
"""The mechanism's own settings may also have this prefix; Kafka reads them through the key's prefix."""


def listener_base_name(name: str) -> str | None:
    """Return the base setting of ``listener.name.<listener>[.<mechanism>].<setting>``; None for any other name."""
    if not name.startswith(_LISTENER_PREFIX):
        return None
    for setting in _MECHANISM_SETTINGS:
        if name.endswith("." + setting):
            return setting
    _, dot, setting = name[len(_LISTENER_PREFIX) :].partition(".")
    setting = setting.removeprefix(_OAUTHBEARER_PREFIX)
    return setting if dot and setting else None


def broker_config_key(name: str) -> Setting | None:
    """The definition of a broker setting, of its listener form, or of a quota that is only set dynamically."""
    return (
        BROKER_CONFIG_DEF.get(name)
        or DYNAMIC_QUOTA_CONFIG_DEF.get(name)
        or BROKER_CONFIG_DEF.get(listener_base_name(name) or "")
    )


def broker_config_doc(name: str) -> str | None:
    """The documentation of a setting; None for an unknown one. Defaults of topics or groups use their setting's."""
    own = BROKER_CONFIG_DEF.doc(name) or DYNAMIC_QUOTA_CONFIG_DEF.doc(name)
    if own is not None:
        return own
    for topic_name, synonyms in TOPIC_SYNONYMS.items():
        if name in (synonym for synonym, _ in synonyms):
            return f"For topics that don't set {topic_name}. {TOPIC_CONFIG_DEF.doc(topic_name)}"
    for group_name in GROUP_CONFIG_DEF:
        if group_synonym(group_name) == name:
            return f"For groups that don't set {group_name}. {GROUP_CONFIG_DEF.doc(group_name)}"
    for bound, word in ((".min.", "smallest"), (".max.", "largest")):
        base = name.replace(bound, ".", 1).removeprefix("group.")
        if bound in name and base in GROUP_CONFIG_DEF:
            return f"The {word} value that a group may set for {base}."
    return None


def update_mode(name: str) -> str | None:
    """Return where a broker setting may change at run time; None for an unknown name."""
    key = broker_config_key(name)
    return None if key is None else key.update_mode


def broker_synonyms(name: str, *, match_listener: bool = True) -> tuple[str, ...]:
    """Return the names under which a broker setting may be set, the strongest first."""
    for group in _SYNONYM_GROUPS:
        if name in group:
            return group
    base = listener_base_name(name) if match_listener else None
    return (name, base) if base is not None else (name,)


def is_dynamic(name: str) -> bool:
    return update_mode(name) in (PER_BROKER, CLUSTER_WIDE)


def topic_defaults(values: Mapping[str, ConfigValue]) -> TopicConfig:
    """The settings of a topic without overrides, from a node's typed settings (missing ones have their defaults).

    Of several units the strongest that is set wins; below zero, any of them means "never".
    """
    resolved: dict[str, ConfigValue] = {}
    for topic_name, synonyms in TOPIC_SYNONYMS.items():
        for broker_name, factor in synonyms:
            value = values[broker_name] if broker_name in values else BROKER_CONFIG_DEF[broker_name].default
            if value is None:
                continue
            if factor != 1 and isinstance(value, int):
                value *= factor
            if topic_name == "retention.ms" and isinstance(value, int):
                value = max(value, -1)
            resolved[topic_name] = value
            break
    return TopicConfig(resolved)


def topic_default_texts(values: Mapping[str, ConfigValue]) -> dict[str, str]:
    """``topic_defaults`` as text by topic setting."""
    config = topic_defaults(values)
    texts = {}
    for name in TOPIC_SYNONYMS:
        text = TOPIC_CONFIG_DEF[name].text_of(getattr(config, name.replace(".", "_")))
        if text is not None:
            texts[name] = text
    return texts
