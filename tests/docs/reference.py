"""Write the pages of docs/reference from the tables that the node itself uses: ``make docs``.

A test compares the pages with the output, so that they can't describe behaviour that the code no longer has.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path

from cyclopts import App

from barnabas.access.desired_state_schema import json_schema
from barnabas.broker.apis import SERVED_BY_BROKER
from barnabas.cli.main import COMMANDS
from barnabas.cli.node import HELP
from barnabas.cli.output.exit_status import TABLE
from barnabas.cli.registry import HELP as REGISTRY_HELP
from barnabas.cli.shell.arguments import HELP as SHELL_HELP
from barnabas.connect.decide.validation.connector_config_reference import connector_reference_page
from barnabas.connect.settings.worker_config_reference import worker_reference_page
from barnabas.network.api_handler import HandlerTable
from barnabas.protocol.api_keys import API_TABLE
from barnabas.registry.settings.registry_config_reference import registry_reference_page
from barnabas.server.controller.quorum_handlers import QUORUM_APIS, SERVED_BY_CONTROLLER
from barnabas.server.metrics.collector import METRICS
from barnabas.server.settings.reference_page import reference_page

__all__ = ["PAGES", "REFERENCE"]

REFERENCE = Path(__file__).resolve().parents[2] / "docs" / "reference"
NOTICE = "<!-- Written by `make docs` from the code; change the code, not this page. -->\n\n"


def first_sentence(text: str | None) -> str:
    """Return the first sentence of a module's docstring, without the module's name in front."""
    line = " ".join((text or "").strip().split("\n\n")[0].split())
    _, _, rest = line.partition(": ")
    sentence, _, _ = (rest or line).partition(". ")
    return sentence.rstrip(".").replace("|", "\\|")


def apis_page() -> str:
    """Return the page of every API that a broker advertises, with the rights that a caller needs."""
    table = HandlerTable("barnabas.broker.apis", SERVED_BY_BROKER)
    lines = [
        "# APIs",
        "",
        "What a node advertises in ApiVersions on its broker listeners, and therefore serves in every version shown.",
        "A right is declared by the API's module and checked in one place; "
        "without an authorizer everything is allowed.",
        "",
        "| Key | API | Versions | Required rights | |",
        "|---:|---|---|---|---|",
    ]
    for key in sorted(SERVED_BY_BROKER):
        handler = table.handler(key)
        module = import_module(handler.function.__module__)
        rights = sorted(
            f"{rule.resource_type.name.title()} {rule.operation.name.title()}".replace("_", " ") for rule in handler.acl
        )
        low, high = SERVED_BY_BROKER[key]
        summary = first_sentence(module.__doc__)
        if key in QUORUM_APIS:
            rights = [f"checked by the controller: {QUORUM_APIS[key].name.title()} on the cluster"]
        elif not rights and API_TABLE[key].forwardable:
            decided = import_module(f"barnabas.controller.apis.{key.name.lower()}")
            rights = [f"checked by the controller: {first_sentence(decided.__doc__)}"]
        lines.append(f"| {int(key)} | {API_TABLE[key].name} | {low}–{high} | {', '.join(rights)} | {summary} |")
    lines += [
        "",
        "Produce is advertised from version 0 because an old librdkafka refuses a broker that does not;",
        "versions 0 to 2 are not served.",
        "",
        "## On controller listeners",
        "",
        "Brokers, other controllers, and admin clients with `bootstrap.controllers` use these APIs.",
        "Requests between nodes need Cluster Action on the cluster.",
        "",
        "| Key | API | Versions |",
        "|---:|---|---|",
    ]
    for key, (low, high) in sorted(SERVED_BY_CONTROLLER.items()):
        lines.append(f"| {int(key)} | {API_TABLE[key].name} | {low}–{high} |")
    lines.append("")
    return "\n".join(lines)


def cli_page() -> str:
    """Return the page of the console script's commands, with every option of those built from an ``App``."""
    lines = ["# Commands", "", "`barnabas <command> --help` describes a command.", "", "| Command | |", "|---|---|"]
    lines += [f"| `barnabas {name}` | {what} |" for name, (_, what) in COMMANDS.items()]
    lines += ["", "All commands use the same exit statuses:", "", "| Status | |", "|---:|---|"]
    lines += [f"| {status} | {what} |" for status, what in TABLE.items()]
    lines += ["| 130, 141 | interrupted (130); broken pipe of the output (141) |"]
    for command, text in (("node", HELP), ("registry", REGISTRY_HELP), ("shell", SHELL_HELP)):
        lines += ["", f"## barnabas {command}", "", "```text", text.rstrip(), "```"]
    lines.append("")
    for name, (module, _) in COMMANDS.items():
        app = getattr(import_module(module), "app", None)
        if app is not None:
            lines += [command_section(app.full, name), ""]
    return "\n".join(lines)


def command_section(app: App, name: str) -> str:
    """Return the ``--help`` text for all verbs of a command."""
    argv, sys.argv = sys.argv, ["barnabas"]  # Usage lines contain it.
    try:
        written = re.sub(
            rf"^barnabas {name} {name}(?= |$)",
            f"barnabas {name}",
            app.generate_docs(heading_level=2),
            flags=re.MULTILINE,
        )
    finally:
        sys.argv = argv
    written = re.sub(r"## Table of Contents\n.*?(?=\n\*\*Commands)", "", written, flags=re.DOTALL)
    return re.sub(r"\n{3,}", "\n\n", re.sub(r"[ \t]+$", "", written, flags=re.MULTILINE)).strip()


def metrics_page() -> str:
    """Return the page of every metric of the Prometheus endpoint."""
    lines = [
        "# Metrics",
        "",
        "`barnabas.metrics.listener=127.0.0.1:9404` opens an HTTP endpoint for Prometheus. It is off by default, also",
        "for a node without a file: a node opens only the ports that its settings name. The",
        "endpoint has neither TLS nor authentication; bind it to an address that only the collector can reach.",
        "",
        "| Path | Answer |",
        "|---|---|",
        "| `/metrics` | the metrics on this page, and the `process_*` and `python_gc_*` metrics of prometheus-client |",
        "| `/healthz` | 200 while the node works; 503 after its metadata log failed |",
        "| `/readyz` | 200 while the node serves clients; 503 while it starts, is fenced, or stops |",
        "",
        "Names are Kafka's, in the style of Prometheus: `kafka.server:type=BrokerTopicMetrics,name=BytesInPerSec` is",
        "`kafka_server_broker_topic_metrics_bytes_in_total`. No metric is a rate: the reader computes rates.",
        "Samples of counters end in `_total`, those of histograms in `_bucket`, `_count` and `_sum`. Request metrics",
        "count requests on broker listeners.",
        "",
        "| Metric | Type | Labels | |",
        "|---|---|---|---|",
    ]
    for info in sorted(METRICS.values()):
        name = f"{info.name}_total" if info.kind == "counter" else info.name
        labels = ", ".join(f"`{label}`" for label in info.labels)
        lines.append(f"| `{name}` | {info.kind} | {labels} | {info.text} |")
    return "\n".join([*lines, ""])


PAGES: Mapping[str, Callable[[], str]] = {
    "apis.md": apis_page,
    "cli.md": cli_page,
    "configs.md": reference_page,
    "connector-configs.md": connector_reference_page,
    "metrics.md": metrics_page,
    "registry-configs.md": registry_reference_page,
    "worker-configs.md": worker_reference_page,
}


def main() -> None:
    REFERENCE.mkdir(parents=True, exist_ok=True)
    for name, page in PAGES.items():
        (REFERENCE / name).write_text(NOTICE + page())
    (REFERENCE / "desired-state.schema.json").write_text(json.dumps(json_schema(), indent=2) + "\n")


if __name__ == "__main__":
    main()
