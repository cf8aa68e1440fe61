"""The settings of a group and of a client-metrics subscription."""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.common.config_def import ConfigDef, ConfigStateException, ConfigValue, raise_together
from barnabas.common.settings.group_settings import ClientMetricsSettings, GroupSettings

__all__ = [
    "CLIENT_METRICS_CONFIG_DEF",
    "GROUP_CONFIG_DEF",
    "UnknownGroupConfig",
    "group_synonym",
    "validate_group_config",
]

GROUP_CONFIG_DEF = ConfigDef(GroupSettings)
CLIENT_METRICS_CONFIG_DEF = ConfigDef(ClientMetricsSettings)

# Group settings without a broker setting as their default.
_WITHOUT_SYNONYM = frozenset({"share.auto.offset.reset", "share.isolation.level", "share.renew.acknowledge.enable"})

# group setting -> the broker settings that it must stay between (where Kafka has them)
_BOUNDED = {
    "consumer.heartbeat.interval.ms": (
        "group.consumer.min.heartbeat.interval.ms",
        "group.consumer.max.heartbeat.interval.ms",
    ),
    "consumer.session.timeout.ms": ("group.consumer.min.session.timeout.ms", "group.consumer.max.session.timeout.ms"),
    "consumer.assignment.interval.ms": (
        "group.consumer.min.assignment.interval.ms",
        "group.consumer.max.assignment.interval.ms",
    ),
    "share.heartbeat.interval.ms": ("group.share.min.heartbeat.interval.ms", "group.share.max.heartbeat.interval.ms"),
    "share.session.timeout.ms": ("group.share.min.session.timeout.ms", "group.share.max.session.timeout.ms"),
    "share.record.lock.duration.ms": (
        "group.share.min.record.lock.duration.ms",
        "group.share.max.record.lock.duration.ms",
    ),
    "share.delivery.count.limit": ("group.share.min.delivery.count.limit", "group.share.max.delivery.count.limit"),
    "share.partition.max.record.locks": (
        "group.share.min.partition.max.record.locks",
        "group.share.max.partition.max.record.locks",
    ),
    "share.assignment.interval.ms": (
        "group.share.min.assignment.interval.ms",
        "group.share.max.assignment.interval.ms",
    ),
    "streams.heartbeat.interval.ms": (
        "group.streams.min.heartbeat.interval.ms",
        "group.streams.max.heartbeat.interval.ms",
    ),
    "streams.session.timeout.ms": ("group.streams.min.session.timeout.ms", "group.streams.max.session.timeout.ms"),
    "streams.num.standby.replicas": ("", "group.streams.max.standby.replicas"),
    "streams.assignment.interval.ms": (
        "group.streams.min.assignment.interval.ms",
        "group.streams.max.assignment.interval.ms",
    ),
}
_FAMILIES = ("consumer", "share", "streams")


class UnknownGroupConfig(ConfigStateException):
    """A name that no group setting has."""

    def __init__(self, name: str) -> None:
        super().__init__(name, None, f"Unknown group config name: {name}{GROUP_CONFIG_DEF.hint(name)}")


def group_synonym(name: str) -> str | None:
    """The broker setting that a group setting falls back to."""
    return None if name in _WITHOUT_SYNONYM or name not in GROUP_CONFIG_DEF else f"group.{name}"


def validate_group_config(configs: Mapping[str, object], broker: Mapping[str, ConfigValue]) -> None:
    """Raise ConfigException unless ``configs`` is an allowed set of overrides for the broker's typed settings."""
    problems = GROUP_CONFIG_DEF.parse_given(configs)[1]
    raise_together([UnknownGroupConfig(name) for name in configs if name not in GROUP_CONFIG_DEF] + problems)
    values = GROUP_CONFIG_DEF.parse(configs)
    for name, (least, most) in _BOUNDED.items():
        value, low, high = values[name], broker.get(least), broker.get(most)
        if not isinstance(value, int) or name not in configs:
            continue
        if isinstance(low, int) and value < low:
            raise ConfigStateException(name, value, f"{name} must be greater than or equal to {least}")
        if isinstance(high, int) and value > high:
            raise ConfigStateException(name, value, f"{name} must be less than or equal to {most}")
    for family in _FAMILIES:
        timeout, interval = (
            values[name] if name in configs else broker.get(f"group.{name}", values[name])
            for name in (f"{family}.session.timeout.ms", f"{family}.heartbeat.interval.ms")
        )
        if isinstance(timeout, int) and isinstance(interval, int) and timeout <= interval:
            raise ConfigStateException(
                f"{family}.session.timeout.ms",
                timeout,
                f"{family}.session.timeout.ms must be greater than {family}.heartbeat.interval.ms",
            )
