"""The settings of a connector with autoscaling, and the connectors that can't have it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from barnabas.common.config_validators import Range
from barnabas.connect.settings.plugin_config_def import ConfigDef, ConfigException, ConfigKey, ConfigType

if TYPE_CHECKING:
    from barnabas.connect.plugins.api import Connector

__all__ = ["AUTOSCALE_CONFIG", "AUTOSCALE_ENABLE", "AutoscaleSettings", "autoscale_problems"]

AUTOSCALE_ENABLE = "barnabas.tasks.autoscale.enable"
_MIN = "barnabas.tasks.autoscale.min"
_CATCH_UP = "barnabas.tasks.autoscale.catch.up.ms"
_COOL_DOWN = "barnabas.tasks.autoscale.cool.down.ms"
_TASKS_MAX = "tasks.max"
_OTHER_CLUSTER = ("consumer.override.bootstrap.servers", "admin.override.bootstrap.servers")

_Config = Mapping[str, str | None]

# fmt: off
AUTOSCALE_CONFIG = ConfigDef(
    [
        ConfigKey(AUTOSCALE_ENABLE, ConfigType.BOOLEAN, "false",
            "Whether the number of a sink's tasks follows its lag, between barnabas.tasks.autoscale.min and tasks.max. Never more tasks than partitions."),  # noqa: E501
        ConfigKey(_MIN, ConfigType.INT, "1",
            "The least number of tasks, with autoscaling.", Range(1)),
        ConfigKey(_CATCH_UP, ConfigType.LONG, "60000",
            "The lag that is accepted, as the time that its records take at the present rate. A larger lag adds tasks.", Range(1_000)),  # noqa: E501
        ConfigKey(_COOL_DOWN, ConfigType.LONG, "300000",
            "The time after a change of the number of tasks before the next one. Rates are measured during it.", Range(1_000)),  # noqa: E501
    ]
)
# fmt: on


@dataclass(frozen=True, slots=True)
class AutoscaleSettings:
    tasks_min: int
    tasks_max: int
    catch_up_ms: int
    cool_down_ms: int

    @classmethod
    def of(cls, config: _Config) -> AutoscaleSettings | None:
        """Return the settings; None without autoscaling, and for settings that a validation refuses."""
        given = {key.name: text for key in AUTOSCALE_CONFIG if (text := config.get(key.name)) is not None}
        if not given:
            return None
        try:
            values = AUTOSCALE_CONFIG.parse(given)
            tasks_max = int((config.get(_TASKS_MAX) or "1").strip())
        except ValueError:
            return None
        tasks_min = int(str(values[_MIN]))
        if not values[AUTOSCALE_ENABLE] or tasks_max < tasks_min:
            return None
        return cls(tasks_min, tasks_max, int(str(values[_CATCH_UP])), int(str(values[_COOL_DOWN])))

    def clamped(self, tasks: int) -> int:
        return max(self.tasks_min, min(tasks, self.tasks_max))


def autoscale_problems(connector: type[Connector], config: _Config) -> list[tuple[str, str]]:
    """Return why a connector of this class can't have autoscaling with these settings: settings and errors."""
    try:
        values = AUTOSCALE_CONFIG.parse({key.name: text for key in AUTOSCALE_CONFIG if (text := config.get(key.name))})
        tasks_max = int((config.get(_TASKS_MAX) or "1").strip())
    except (ConfigException, ValueError):
        return []  # Reported with the setting itself.
    if not values[AUTOSCALE_ENABLE]:
        return []
    prefix = f"Invalid value true for configuration {AUTOSCALE_ENABLE}: "
    reason = connector.why_tasks_are_fixed()
    problems = [] if reason is None else [(AUTOSCALE_ENABLE, f"{prefix}{reason}. Omit the setting")]
    if int(str(values[_MIN])) > tasks_max:
        text = f"it is more than tasks.max ({tasks_max}), the largest number of tasks. Raise tasks.max, or lower it"
        problems.append((_MIN, f"Invalid value {values[_MIN]} for configuration {_MIN}: {text}"))
    for name in filter(config.get, _OTHER_CLUSTER):
        text = f"the worker reads the lag from its own cluster, and {name} names another. Omit one of them"
        problems.append((AUTOSCALE_ENABLE, prefix + text))
    return problems
