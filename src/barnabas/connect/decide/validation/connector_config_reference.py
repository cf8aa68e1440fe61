"""The reference page of a connector's settings, from the tables that the worker itself uses."""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.connect.decide.validation.connector_config import COMMON_CONFIG, OWN_CONFIG, SINK_CONFIG, SOURCE_CONFIG
from barnabas.connect.decide.validation.converters_config import CONVERTER_TYPE, CONVERTERS, HEADER_CONVERTERS
from barnabas.connect.decide.validation.transforms_config import PREDICATES, TRANSFORMS
from barnabas.connect.settings.plugin_config_def import ConfigKey
from barnabas.connect.settings.reference_table import setting_row, table_header

__all__ = ["connector_reference_page"]

_CONNECTOR = """\
# Settings of a connector

Those that all connectors have, by Kafka's names, and those of transforms, predicates and converters. A connector's own
are shown by `GET /connector-plugins/{class}/config`, and `PUT /connector-plugins/{class}/config/validate` says what is
wrong with a configuration before it is used.

Plugins go by their full name, or by their class alone (`ReplaceField$Value`, `JsonConverter`).
[How to write a connector](../connect/plugins.md).
"""


def connector_reference_page() -> str:
    lines = [_CONNECTOR]
    lines += _section("All connectors", COMMON_CONFIG)
    lines += _section("Sinks", SINK_CONFIG)
    lines += _section("Sources", SOURCE_CONFIG)
    lines += _section("Of barnabas's own", OWN_CONFIG)
    lines += ["## Transforms", "", "Set as `transforms.<alias>.<setting>`; `transforms.<alias>.type` is the name.", ""]
    for name, settings in TRANSFORMS.items():
        if not name.endswith("$Value"):
            both = f"`{name}`, `{name.removesuffix('$Key')}$Value`" if name.endswith("$Key") else f"`{name}`"
            lines += _section(both, settings, level=3)
    lines += ["## Predicates", "", "Set as `predicates.<alias>.<setting>`; a transform names one by its alias.", ""]
    for name, settings in PREDICATES.items():
        lines += _section(f"`{name}`", settings, level=3)
    lines += ["## Converters", "", "Set as `key.converter.<setting>` and so on, at the worker or the connector.", ""]
    for name, settings in {**CONVERTERS, **HEADER_CONVERTERS}.items():
        lines += _section(f"`{name}`", [key for key in settings if key.name != CONVERTER_TYPE], level=3)
    return "\n".join(lines)


def _section(title: str, keys: Iterable[ConfigKey], *, level: int = 2) -> list[str]:
    shown = list(keys)
    if not shown:
        return [f"{'#' * level} {title}", "", "No settings.", ""]
    rows = [setting_row(key, key.documentation) for key in shown]
    return [f"{'#' * level} {title}", "", *table_header(), *rows, ""]
