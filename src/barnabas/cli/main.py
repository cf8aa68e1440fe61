"""The console script ``barnabas``: find the command, and import only its module.

A node must become ready within 0.6 CPU-seconds, and a command line framework alone takes a fifth of that (cyclopts:
0.13). So each command's module imports only its own dependencies, and this module imports only the requested command.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module

from barnabas import __version__

__all__ = ["COMMANDS", "main"]

# command -> (module with a ``main(arguments) -> exit status``, description)
COMMANDS = {
    "node": ("barnabas.cli.node", "run a node: a Kafka broker and controller in one process"),
    "storage": ("barnabas.cli.storage.command", "format, inspect and repair a node's log directories"),
    "topics": (
        "barnabas.cli.topics.command",
        "list, describe, create, alter and delete topics; elect leaders, delete records",
    ),
    "produce": (
        "barnabas.cli.records.produce",
        "write records to a topic: lines of text, JSON lines, or values with a schema",
    ),
    "consume": ("barnabas.cli.records.consume", "read the records of a topic, alone or in a group, and follow it"),
    "reassign": (
        "barnabas.cli.moves.reassign",
        "move partitions to other brokers, and change their replication factor",
    ),
    "configs": ("barnabas.cli.configs.command", "show and change settings; check a server.properties"),
    "acls": ("barnabas.cli.acls.command", "list, add and remove ACLs"),
    "groups": ("barnabas.cli.groups.command", "list, describe and delete groups, and reset their offsets"),
    "queue": (
        "barnabas.cli.queue.command",
        "use a topic as a queue: receive, accept, release records, or run a command for each",
    ),
    "transactions": ("barnabas.cli.transactions.command", "list and describe transactions, and end hanging ones"),
    "users": ("barnabas.cli.users", "list users, and set and delete their passwords"),
    "quotas": ("barnabas.cli.quotas", "list and alter quotas of users, clients and IP addresses"),
    "tokens": ("barnabas.cli.tokens", "list, create, renew and expire delegation tokens"),
    "cluster": (
        "barnabas.cli.cluster.command",
        "describe the nodes, balance or drain brokers; start a cluster for development",
    ),
    "features": ("barnabas.cli.features", "show, upgrade and downgrade feature levels"),
    "quorum": ("barnabas.cli.quorum.command", "describe the controller quorum, and add and remove voters"),
    "log-dirs": (
        "barnabas.cli.log_dirs.command",
        "show the sizes of log directories, and move replicas between them",
    ),
    "access": ("barnabas.cli.access.command", "explain who may do what, and which ACL decides it"),
    "plan": (
        "barnabas.cli.desired_state.plan",
        "compare a file of desired state with a cluster: changes, and the access they open",
    ),
    "apply": ("barnabas.cli.desired_state.apply", "change a cluster to match a file of desired state"),
    "export": ("barnabas.cli.desired_state.export", "write a cluster as a file of desired state"),
    "shell": ("barnabas.cli.shell.command", "browse the metadata in a snapshot or a log directory"),
    "worker": ("barnabas.cli.connect.run_worker", "run a Kafka Connect worker with tasks that are Spark queries"),
    "connect": (
        "barnabas.cli.connect.command",
        "list, create, change and watch connectors through the REST API of a worker",
    ),
    "sql": ("barnabas.cli.sql.command", "query topics with SQL, and manage the pipelines of Connect workers"),
    "registry": ("barnabas.cli.registry", "run a schema registry, which speaks the REST API of Confluent's"),
    "bench": (
        "barnabas.cli.bench.command",
        "measure a cluster: produce, consume, latency, admin requests, connections",
    ),
    "completion": ("barnabas.cli.completion", "print a completion script for bash, zsh or fish"),
}

_OF_KAFKA = {
    "acls": "acls",
    "client-metrics": "configs",
    "cluster": "cluster",
    "configs": "configs",
    "connect-distributed": "worker",
    "console-consumer": "consume",
    "console-producer": "produce",
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
    "share-groups": "queue",
    "storage": "storage",
    "streams-groups": "groups",
    "topics": "topics",
    "transactions": "transactions",
}
"""Names of Kafka's scripts, without kafka- and .sh, and the equivalent commands."""

USAGE_ERROR = 2
# The statuses that a shell reports for a process that SIGINT or SIGPIPE has ended.
INTERRUPTED = 130
BROKEN_PIPE = 141


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    try:
        status = _run(sys.argv[1:] if arguments is None else arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader (head, less) has closed the pipe. Discard the buffer, so that the exit does not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except KeyboardInterrupt:
        return INTERRUPTED
    return status


def _run(arguments: Sequence[str]) -> int:
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
        return int(import_module(COMMANDS[command][0]).main(rest))
    except ModuleNotFoundError as error:
        from barnabas.cli.output.missing_extra import missing_extra  # Only needed without an extra.

        if not (text := missing_extra(error)):
            raise
        sys.stderr.write(f"barnabas {command}: {text}\n")
        return 1


def _help() -> str:
    width = max(map(len, COMMANDS))
    lines = "\n".join(f"  {name.ljust(width)}  {what}" for name, (_, what) in COMMANDS.items())
    return (
        "usage: barnabas <command> [arguments]\n\n"
        f"commands:\n{lines}\n\n"
        "'barnabas <command> --help' describes a command; 'barnabas --version' prints the version.\n"
    )


def _unknown(command: str) -> str:
    from difflib import get_close_matches  # Only needed for an unknown command.

    meant = _OF_KAFKA.get(command.removeprefix("kafka-").removesuffix(".sh"))
    if meant is not None:
        return f"barnabas: '{command}' is not a command: use 'barnabas {meant}'.\n"
    close = get_close_matches(command, COMMANDS, n=1, cutoff=0.5)
    hint = f"did you mean '{close[0]}'?" if close else f"the commands are {', '.join(COMMANDS)}."
    return f"barnabas: '{command}' is not a command: {hint}\n"
