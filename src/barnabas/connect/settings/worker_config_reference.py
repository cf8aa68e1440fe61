"""Generate the reference page of a worker's settings from the tables that the worker itself uses."""

from __future__ import annotations

from barnabas.common.settings.setting import SupportState
from barnabas.connect.settings.reference_table import cell, setting_row, table_header
from barnabas.connect.settings.worker_settings import REMOVED_WORKER_SETTINGS, WORKER_CONFIG_DEF, worker_config_doc

__all__ = ["worker_reference_page"]

_WORKER = """\
# Settings of a worker

`barnabas worker connect-distributed.properties` reads Kafka Connect's own file. Names, types, defaults and allowed
values are those of Kafka 4.3.1; settings that begin with `barnabas.` are our own. The worker reports every invalid,
unknown or unsupported setting by name, and does not join its group.

Further settings begin with one of these prefixes:

- `producer.`, `consumer.` and `admin.` for the clients of connectors. As in Kafka, producers and consumers inherit only
  `bootstrap.servers` from the worker, so a cluster with security needs `producer.security.protocol` and so on. Admin
  clients inherit all client settings of the worker.
- `config.storage.`, `offset.storage.` and `status.storage.` for settings of the worker's topics.
- `key.converter.`, `value.converter.` and `header.converter.` for the converters.
- `listeners.https.` and `admin.listeners.https.` for `ssl.*` of the REST API. If any such setting exists, the worker
  ignores all `ssl.*` settings without the prefix for these listeners.
- `config.providers.<name>.class` and `config.providers.<name>.param.`.
- `barnabas.connect.spark.conf.<name>` for settings of the Spark session.

Without `listeners` and authentication, a worker listens only on `http://127.0.0.1:8083`. A listener that other machines
can reach needs `barnabas.connect.authentication`, or `barnabas.connect.insecure=true`.
"""


def worker_reference_page() -> str:
    lines = [_WORKER]
    for title, state in (
        ("Used", SupportState.WORKS),
        ("Accepted, without effect", SupportState.NO_EFFECT),
        ("Refused unless default", SupportState.REFUSED),
    ):
        has_reason = state is not SupportState.WORKS
        lines += [f"## {title}", "", *table_header("Why" if has_reason else None)]
        names = [name for name in WORKER_CONFIG_DEF if WORKER_CONFIG_DEF[name].support.state is state]
        for name in sorted(names, key=lambda name: (not name.startswith("barnabas."), name)):
            support = WORKER_CONFIG_DEF[name].support
            also = "".join(f" Also accepted: `{text or ' '}`." for text in support.also_allowed)
            end = f" {cell(support.reason + '.' + also)} |" if has_reason else ""
            lines.append(setting_row(WORKER_CONFIG_DEF[name], worker_config_doc(name)) + end)
        lines.append("")
    lines += ["## Settings of older Kafka releases", "", "| Setting | What to do |", "|---|---|"]
    lines += [f"| `{name}` | {cell(advice)} |" for name, advice in sorted(REMOVED_WORKER_SETTINGS.items())]
    return "\n".join([*lines, ""])
