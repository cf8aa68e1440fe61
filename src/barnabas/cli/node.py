"""``barnabas node [server.properties] [--override key=value ...]``: run a node until SIGTERM.

The arguments are Kafka's (kafka-server-start), and those of ``readiness_options``. They are parsed by hand: see
``barnabas.cli.main``.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from barnabas.cli.arguments.configured_registry import UnusableRegistryFile, configured_registry
from barnabas.cli.arguments.properties_arguments import UsageError, parse_arguments
from barnabas.cli.arguments.readiness_options import ReadinessOptions, parse_readiness
from barnabas.cli.output.exit_status import USAGE_ERROR
from barnabas.common.settings.problem import InvalidSettings
from barnabas.server.settings.node_config import NodeConfig, load_node_config

__all__ = ["main"]

HELP = """\
usage: barnabas node [server.properties] [--override key=value ...]
                     [--ready-file FILE] [--ready-fd N]

Run a Kafka broker and controller in this process, until SIGTERM or Ctrl-C.

  server.properties     Kafka's configuration file. Without it: a node on localhost:9092
                        (controller on localhost:9093) that keeps its data in ./barnabas-data
                        and formats that folder at the first start.
  --override key=value  a setting that overrides the file; may be repeated.
  --ready-file FILE     write a line of JSON to this file when the node serves clients: its addresses,
                        ids and process id. The node deletes the file when it stops.
  --ready-fd N          write the same line to this open file descriptor, and close it.

systemd receives the same notice (Type=notify). With barnabas.metrics.listener=127.0.0.1:9404,
/readyz answers 200 while the node serves clients, and /healthz while it works.

Before it writes anything, the node reports every invalid, unknown or unsupported setting.
'barnabas configs show <name>' shows the meaning of a setting, and whether it is supported.
"""


def main(arguments: Sequence[str]) -> int:
    """Return 0 after a clean stop, 1 if the node can't start, 2 for invalid arguments."""
    if any(argument in ("--help", "-h") for argument in arguments):
        sys.stdout.write(HELP)
        return 0
    try:
        readiness, rest = parse_readiness(arguments)
        path, overrides = parse_arguments(rest)
    except UsageError as error:
        sys.stderr.write(f"barnabas node: {error}\n")
        return USAGE_ERROR
    try:
        config = load_node_config(path, overrides)
    except InvalidSettings as error:
        sys.stderr.write(f"barnabas node: {error}\n")
        return 1
    except OSError as error:
        sys.stderr.write(f"barnabas node: can't read {path}: {error.strerror}\n")
        return USAGE_ERROR
    return _run(config, readiness)


def _run(config: NodeConfig, readiness: ReadinessOptions) -> int:
    from barnabas.server.node import run
    from barnabas.server.process.readiness import Readiness, UnusableReadyFile

    report = Readiness(readiness.file, readiness.fd)
    try:
        report.prepare()
    except UnusableReadyFile as error:
        sys.stderr.write(f"barnabas node: {error}\n")
        return USAGE_ERROR
    try:
        with configured_registry(config.barnabas_registry_config_file):
            return run(config, report)
    except UnusableRegistryFile as error:
        sys.stderr.write(f"barnabas node: {error}\n")
        return 1
