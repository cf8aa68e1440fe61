"""List the names of known settings, to suggest the nearest name for a misspelled one."""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.cli.output.advice import nearest
from barnabas.common.broker_config import BROKER_CONFIG_DEF
from barnabas.common.group_config import CLIENT_METRICS_CONFIG_DEF, GROUP_CONFIG_DEF
from barnabas.common.topic_config import TOPIC_CONFIG_DEF

__all__ = ["setting_names", "unknown_setting_advice"]

_QUOTAS = ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate")


def setting_names(kind: str) -> list[str]:
    """Return names of settings of topics, brokers, groups or client-metrics subscriptions; else an empty list."""
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
    """Return advice for refused settings: the nearest known name of each unknown setting."""
    known = setting_names(kind)
    meant = {name: nearest(name, known) for name in given if known and name not in known}
    near = [f"{name}: did you mean {names}?" for name, names in meant.items() if names]
    return "; ".join(near) or "'barnabas configs show <name>' shows the valid values of a setting"
