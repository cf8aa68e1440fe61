"""The references of a worker's and a connector's settings, from the tables that the worker itself uses."""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.common.config_def import ConfigKey
from barnabas.connect.decide.validation.connector_config import COMMON_CONFIG, OWN_CONFIG, SINK_CONFIG, SOURCE_CONFIG
from barnabas.connect.decide.validation.converters_config import CONVERTER_TYPE, CONVERTERS, HEADER_CONVERTERS
from barnabas.connect.decide.validation.transforms_config import PREDICATES, TRANSFORMS
from barnabas.connect.settings import plugin_config_def as plugin_keys
from barnabas.connect.settings.worker_config_docs import worker_config_doc
from barnabas.connect.settings.worker_config_support import (
    REMOVED_WORKER_SETTINGS,
    WorkerSupportState,
    worker_support_of,
)
from barnabas.connect.settings.worker_config_table import WORKER_CONFIG_DEF

__all__ = ["connector_reference_page", "worker_reference_page"]

_WORKER = """\
# Settings of a worker

`barnabas worker connect-distributed.properties` reads Kafka Connect's own file. Names, types, defaults and allowed
values are those of Kafka 4.3.1; settings that begin with `barnabas.` are our own. What is wrong, unknown or not
supported is refused by name before the worker joins its group.

Beside these there are families:

- `producer.`, `consumer.` and `admin.` for the clients of connectors. As with Kafka, producers and consumers have the
  worker's `bootstrap.servers` and nothing else of its own, so a cluster with security needs
  `producer.security.protocol` and so on; admin clients have all of the worker's.
- `config.storage.`, `offset.storage.` and `status.storage.` for settings of the worker's topics.
- `key.converter.`, `value.converter.` and `header.converter.` for the converters.
- `listeners.https.` and `admin.listeners.https.` for `ssl.*` of the REST API. One of them is enough for none of the
  plain ones to count.
- `config.providers.<name>.class` and `config.providers.<name>.param.`.
- `barnabas.connect.spark.conf.<name>` for settings of the Spark session.

Without `listeners` and without authentication a worker listens on `http://127.0.0.1:8083` only. A listener that others
can reach needs `barnabas.connect.authentication`, or `barnabas.connect.insecure=true`.
"""

_CONNECTOR = """\
# Settings of a connector

Those that all connectors have, by Kafka's names, and those of transforms, predicates and converters. A connector's own
are shown by `GET /connector-plugins/{class}/config`, and `PUT /connector-plugins/{class}/config/validate` says what is
wrong with a configuration before it is used.

Plugins go by their full name, or by their class alone (`ReplaceField$Value`, `JsonConverter`).
[How to write a connector](../connect/plugins.md).
"""


def worker_reference_page() -> str:
    lines = [_WORKER]
    for title, state in (
        ("Used", WorkerSupportState.WORKS),
        ("Accepted, without effect", WorkerSupportState.NO_EFFECT),
        ("Refused unless default", WorkerSupportState.REFUSED),
    ):
        has_reason = state is not WorkerSupportState.WORKS
        lines += [f"## {title}", "", _header("Why" if has_reason else None), _line(6 if has_reason else 5)]
        names = [name for name in WORKER_CONFIG_DEF if worker_support_of(name).state is state]
        for name in sorted(names, key=lambda name: (not name.startswith("barnabas."), name)):
            support = worker_support_of(name)
            also = "".join(f" Also taken: `{text or ' '}`." for text in support.also_allowed)
            end = f" {_cell(support.reason + '.' + also)} |" if has_reason else ""
            lines.append(_row(WORKER_CONFIG_DEF[name], worker_config_doc(name)) + end)
        lines.append("")
    lines += ["## Of older Kafkas", "", "| Setting | What to do |", "|---|---|"]
    lines += [f"| `{name}` | {_cell(advice)} |" for name, advice in sorted(REMOVED_WORKER_SETTINGS.items())]
    return "\n".join([*lines, ""])


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


def _section(title: str, keys: Iterable[plugin_keys.ConfigKey], *, level: int = 2) -> list[str]:
    shown = list(keys)
    if not shown:
        return [f"{'#' * level} {title}", "", "No settings.", ""]
    rows = [_row(key, key.documentation) for key in shown]
    return [f"{'#' * level} {title}", "", _header(None), _line(5), *rows, ""]


def _header(last: str | None) -> str:
    return "| Setting | Type | Default | Allowed | Meaning |" + (f" {last} |" if last else "")


def _line(columns: int) -> str:
    return "|" + "---|" * columns


def _row(key: ConfigKey | plugin_keys.ConfigKey, doc: str | None) -> str:
    default = "**required**" if key.required else f"`{key.default_text}`" if key.default_text else ""
    allowed = _cell(str(key.validator)) if key.validator is not None and str(key.validator) else ""
    return f"| `{key.name}` | {key.type.name.lower()} | {_cell(default)} | {allowed} | {_cell(doc or '')} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
