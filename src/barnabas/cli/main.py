"""The console script ``barnabas``: finds the command and imports only that one.

A node has 0.6 CPU-seconds to be ready and a command line framework alone would take a fifth of it (cyclopts: 0.13),
so each command's module brings what it needs, and nothing is imported here but the command that was asked for.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module

from barnabas import __version__

__all__ = ["COMMANDS", "main"]

# command -> (module with a ``main(arguments) -> exit status``, what it does)
COMMANDS = {
    "node": ("barnabas.cli.node", "run a node: a Kafka broker and controller in one process"),
    "storage": ("barnabas.cli.storage.command", "format and inspect a node's log directories"),
    "topics": (
        "barnabas.cli.topics.command",
        "list, describe, create, alter and delete topics; elect leaders, delete records",
    ),
    "reassign": (
        "barnabas.cli.moves.reassign",
        "move partitions to other brokers, and change how many replicas they have",
    ),
    "configs": ("barnabas.cli.configs.command", "look at settings and change them; check a server.properties"),
    "acls": ("barnabas.cli.acls.command", "list, add and remove access rules"),
    "groups": ("barnabas.cli.groups.command", "list, describe and delete groups, and reset their offsets"),
    "transactions": ("barnabas.cli.transactions.command", "list and describe transactions, and end those that hang"),
    "users": ("barnabas.cli.users", "list users, and set and delete their passwords"),
    "quotas": ("barnabas.cli.quotas", "list and alter quotas of users, clients and addresses"),
    "tokens": ("barnabas.cli.tokens", "list, create, renew and expire delegation tokens"),
    "cluster": (
        "barnabas.cli.cluster.command",
        "describe the nodes, give brokers equally much or nothing to do; start one for development",
    ),
    "features": ("barnabas.cli.features", "show, upgrade and downgrade the levels of features"),
    "quorum": ("barnabas.cli.quorum.command", "describe the quorum of the controllers, and add and remove voters"),
    "log-dirs": (
        "barnabas.cli.log_dirs.command",
        "show how much is in the log directories, and move replicas between them",
    ),
    "access": ("barnabas.cli.access.command", "explain who may do what, and which rule says so"),
    "plan": (
        "barnabas.cli.desired_state.plan",
        "compare a file of desired state with a cluster: what changes, which access opens",
    ),
    "apply": ("barnabas.cli.desired_state.apply", "make a cluster what a file of desired state says"),
    "export": ("barnabas.cli.desired_state.export", "write a cluster down as a file of desired state"),
    "shell": ("barnabas.cli.shell.command", "look at the metadata in a snapshot or a log directory"),
    "worker": ("barnabas.cli.connect.run_worker", "run a Kafka Connect worker, whose tasks are Spark queries"),
    "connect": (
        "barnabas.cli.connect.command",
        "list, create, change and watch connectors by the REST API of a worker",
    ),
    "bench": (
        "barnabas.cli.bench.command",
        "measure a cluster: produce, consume, latency, admin requests, connections",
    ),
    "completion": ("barnabas.cli.completion", "print a script for completion in bash, zsh or fish"),
}

_OF_KAFKA = {
    "acls": "acls",
    "client-metrics": "configs",
    "cluster": "cluster",
    "configs": "configs",
    "connect-distributed": "worker",
    "console-consumer": "bench consume",
    "console-producer": "bench produce",
    "consumer-groups": "groups",
    "consumer-perf-test": "bench consume",
    "delegation-tokens": "tokens",
    "delete-records": "topics delete-records",
    "e2e-latency": "bench end-to-end",
    "features": "features",
    "get-offsets": "topics offsets",
    "groups": "groups",
    "leader-election": "topics elect-leaders",
    "log-dirs": "log-dirs",
    "metadata-quorum": "quorum",
    "metadata-shell": "shell",
    "producer-perf-test": "bench produce",
    "reassign-partitions": "reassign",
    "server-start": "node",
    "storage": "storage",
    "topics": "topics",
    "transactions": "transactions",
}
"""What Kafka's scripts are called, without kafka- and .sh, and what does their work here."""

USAGE_ERROR = 2
# As a shell reports a process that ended by SIGINT or SIGPIPE.
INTERRUPTED = 130
BROKEN_PIPE = 141


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and give its exit status."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if not arguments:
        sys.stderr.write(_help())
        return USAGE_ERROR
    command, *rest = arguments
    if command in ("--help", "-h", "help"):
        sys.stdout.write(_help())
        return 0
    if command in ("--version", "-V", "version"):
        sys.stdout.write(f"barnabas {__version__}\n")
        return 0
    if command not in COMMANDS:
        sys.stderr.write(_unknown(command))
        return USAGE_ERROR
    try:
        status = import_module(COMMANDS[command][0]).main(rest)
        sys.stdout.flush()
    except BrokenPipeError:
        # Who reads us (head, less) has seen enough; what is still buffered must not fail once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except KeyboardInterrupt:
        return INTERRUPTED
    return int(status)


def _help() -> str:
    width = max(map(len, COMMANDS))
    lines = "\n".join(f"  {name.ljust(width)}  {what}" for name, (_, what) in COMMANDS.items())
    return (
        "usage: barnabas <command> [arguments]\n\n"
        f"commands:\n{lines}\n\n"
        "'barnabas <command> --help' tells more; 'barnabas --version' the version.\n"
    )


def _unknown(command: str) -> str:
    from difflib import get_close_matches  # Only a mistake needs it.

    meant = _OF_KAFKA.get(command.removeprefix("kafka-").removesuffix(".sh"))
    if meant is not None:
        return f"barnabas: '{command}' is not a command: here it is 'barnabas {meant}'.\n"
    close = get_close_matches(command, COMMANDS, n=1, cutoff=0.5)
    hint = f"did you mean '{close[0]}'?" if close else f"there are {', '.join(COMMANDS)}."
    return f"barnabas: '{command}' is not a command: {hint}\n"
