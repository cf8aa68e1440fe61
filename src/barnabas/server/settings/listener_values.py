"""The value of a setting for one listener.

A setting may be given for one listener: ``listener.name.<listener in lower case>.<setting>``. Settings of a SASL
mechanism may be given for that, too: ``listener.name.<listener>.<mechanism in lower case>.<setting>``. The most
specific form that was given applies, then the setting itself, then its default. Only ``listener_value`` defines this
order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from barnabas.common.config_def import ConfigValue

__all__ = ["GivenSettings", "listener_setting_name", "listener_value"]


class GivenSettings(Protocol):
    """A NodeConfig, or the settings from which one is created after the checks."""

    @property
    def values(self) -> Mapping[str, ConfigValue]: ...

    def value(self, name: str) -> ConfigValue: ...


def listener_setting_name(config: GivenSettings, listener: str, name: str, mechanism: str | None = None) -> str:
    """Return the name under which a listener's setting was given; ``name`` itself without a form for the listener."""
    prefix = f"listener.name.{listener.lower()}."
    names = (f"{prefix}{name}",) if mechanism is None else (f"{prefix}{mechanism.lower()}.{name}", f"{prefix}{name}")
    return next((given for given in names if given in config.values), name)


def listener_value(config: GivenSettings, listener: str, name: str, mechanism: str | None = None) -> ConfigValue:
    """Return the typed value of a setting for one listener (and one SASL mechanism)."""
    given = listener_setting_name(config, listener, name, mechanism)
    return config.values[given] if given in config.values else config.value(name)
