"""The settings that there are, for whoever mistypes one."""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.cli.output.advice import nearest
from barnabas.common.broker_config import BROKER_CONFIG_DEF
from barnabas.common.group_config import CLIENT_METRICS_CONFIG_DEF, GROUP_CONFIG_DEF
from barnabas.common.topic_config import TOPIC_CONFIG_DEF

__all__ = ["setting_names", "unknown_setting_advice"]

_QUOTAS = ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate")


def setting_names(kind: str) -> list[str]:
    """Of a topic, broker, group, client-metrics subscription; of others nothing is known."""
    match kind:
        case "topic":
            return list(TOPIC_CONFIG_DEF)
        case "broker":
            return list(BROKER_CONFIG_DEF)
        case "group":
            return list(GROUP_CONFIG_DEF)
        case "client-metrics":
            return list(CLIENT_METRICS_CONFIG_DEF)
        case _:
            return []


def unknown_setting_advice(kind: str, given: Iterable[str]) -> str:
    """What to do about a refused setting: the nearest name of each that nobody knows."""
    known = setting_names(kind)
    meant = {name: nearest(name, known) for name in given if known and name not in known}
    near = [f"{name}: did you mean {names}?" for name, names in meant.items() if names]
    return "; ".join(near) or "'barnabas configs show <name>' tells what a setting may be"
