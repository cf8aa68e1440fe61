"""``barnabas storage strays``: list and remove directories of partitions that belong to no replica of the node.

The node keeps such directories, but does not serve them to clients: see ``barnabas.storage.stray_logs``. The command
reads the directories of ``log.dirs`` and does not contact a node, so it works whether the node runs or not.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from barnabas.server.settings.node_config import NodeConfig
from barnabas.storage.stray_directory import StrayDirectory, list_strays, stray_usage

__all__ = ["StrayCommandError", "add_strays_command", "run_strays"]

_COLUMNS = ("DIRECTORY", "TOPIC", "PARTITION", "TOPIC ID", "BYTES", "RECORDS", "REASON")


class StrayCommandError(ValueError):
    """The command can't run. The message is for the operator."""


_Parser = TypeVar("_Parser", bound=argparse.ArgumentParser)


def add_strays_command(commands: argparse._SubParsersAction[_Parser]) -> _Parser:
    strays = commands.add_parser(
        "strays",
        help="List or remove partition directories that belong to no replica of this node.",
        description="List the partition directories under log.dirs that belong to no replica of this node. The node "
        "keeps them until this command removes them, and uses one again when its topic exists in the cluster again.",
    )
    strays.add_argument(
        "-d", "--remove", action="append", default=[], metavar="NAME",
        help="Remove the directory of this name, as the list shows it. May be repeated.",
    )  # fmt: skip
    strays.add_argument("-y", "--yes", action="store_true", help="Remove without confirmation.")
    return strays


def run_strays(
    config: NodeConfig,
    *,
    remove: Sequence[str],
    is_confirmed: bool,
    write_line: Callable[[str], None],
    ask: Callable[[str], str] | None = None,
) -> int:
    """List or remove stray directories. Raise StrayCommandError for a name that is not one, or OSError."""
    found = {stray.name: stray for log_dir in dict.fromkeys(config.log_dirs) for stray in list_strays(log_dir)}
    if not remove:
        _write_table(list(found.values()), write_line)
        return 0
    chosen = [_find(found, name) for name in dict.fromkeys(remove)]
    _write_table(chosen, write_line)
    if not is_confirmed and not _is_agreed(len(chosen), ask or input):
        write_line("Nothing was removed.")
        return 1
    from shutil import rmtree

    for stray in chosen:
        rmtree(stray.path)
        write_line(f"Removed {stray.path}")
    return 0


def _find(found: Mapping[str, StrayDirectory], name: str) -> StrayDirectory:
    stray = found.get(name.rstrip("/").rpartition("/")[2])
    if stray is None:
        listed = ", ".join(found) or "none exists"
        raise StrayCommandError(f"{name} is not a stray directory of this node; stray directories: {listed}")
    return stray


def _is_agreed(count: int, ask: Callable[[str], str]) -> bool:
    what = "this directory and its records" if count == 1 else f"these {count} directories and their records"
    try:
        return ask(f"Remove {what} permanently? [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        sys.stderr.write("can't ask for confirmation: use --yes to remove without it\n")
        return False


def _write_table(strays: Sequence[StrayDirectory], write_line: Callable[[str], None]) -> None:
    if not strays:
        write_line("No stray directories.")
        return
    rows: list[Sequence[str]] = [_COLUMNS]
    for stray in strays:
        usage = stray_usage(stray.path)
        topic, partition = stray.topic_partition
        topic_id = "unknown" if stray.topic_id is None else str(stray.topic_id)
        rows.append((stray.path, topic, str(partition), topic_id, str(usage.bytes), str(usage.records), stray.reason))
    widths = [max(len(row[column]) for row in rows) for column in range(len(_COLUMNS) - 1)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        write_line("  ".join([*cells, row[-1]]))
