"""``python -m bench.cli_start``: the CPU time of every verb, for ``--help`` and for a request to a node.

User and system time of the whole process, as the operating system counts it; the best of several runs, because other
work on the machine only adds. ``--limit`` sets the time above which a verb is named at the end.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from barnabas.cli.arguments.cluster_app import CommandApp
from barnabas.cli.main import COMMANDS
from barnabas.testing import Node

__all__ = ["cpu_s", "verbs"]

REQUESTS = (
    "topics list",
    "topics describe --topic start",
    "topics create start --if-not-exists",
    "topics offsets",
    "groups list",
    "configs describe --topic start",
    "quorum describe",
    "cluster describe",
    "features describe",
    "users list",
    "quotas list",
    "log-dirs describe",
    "reassign list",
    "access mine",
    "export",
)
COMMAND = str(Path(sys.executable).parent / "barnabas")


def verbs() -> list[list[str]]:
    """Return the words of every command and verb."""
    found = [[command] for command in COMMANDS]
    for command, (module, _) in COMMANDS.items():
        app = getattr(import_module(module), "app", None)
        if isinstance(app, CommandApp):
            found += [[command, verb] for verb in app]
    return found


def cpu_s(arguments: Sequence[str], *, runs: int) -> float:
    """Return the least CPU time of some runs of a command, in seconds."""
    best = float("inf")
    for _ in range(runs):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([COMMAND, *arguments], stdin=subprocess.DEVNULL, capture_output=True, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        best = min(best, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.cli_start", description=__doc__)
    parser.add_argument("--runs", type=int, default=5, help="runs of each command (default 5)")
    parser.add_argument("--limit", type=float, default=0.2, help="seconds above which a command is named (default 0.2)")
    options = parser.parse_args()
    figures = {" ".join([*words, "--help"]): cpu_s([*words, "--help"], runs=options.runs) for words in verbs()}
    with Node() as node:
        for line in REQUESTS:
            arguments = [*line.split(), "--bootstrap-server", node.bootstrap_servers]
            figures[line] = cpu_s(arguments, runs=options.runs)
    for line, seconds in sorted(figures.items(), key=lambda figure: figure[1]):
        print(f"{seconds:6.3f} s  {line}", flush=True)
    slow = [line for line, seconds in figures.items() if seconds >= options.limit]
    print(f"{len(figures)} commands, {len(slow)} of them take {options.limit:g} s or more", *slow, sep="\n  ")


if __name__ == "__main__":
    main()
