"""``barnabas storage repair``: list the lost records of a damaged metadata log, and cut the log if the user accepts."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from barnabas.server.settings.node_config import NodeConfig

__all__ = ["add_repair_command", "run_repair"]


_Parser = TypeVar("_Parser", bound=argparse.ArgumentParser)


def add_repair_command(commands: argparse._SubParsersAction[_Parser]) -> _Parser:
    repair = commands.add_parser(
        "repair",
        help="List the records that a damaged metadata log has lost, and continue without them if you accept the loss.",
    )
    repair.add_argument(
        "--accept-loss",
        action="store_true",
        help="Cut the log without confirmation. The removed bytes are kept in a separate file.",
    )
    return repair


def run_repair(config: NodeConfig, parsed: argparse.Namespace, write_line: Callable[[str], None]) -> int:
    from barnabas.server.storage_tool.repair import repair_storage

    is_sound = repair_storage(config, accepts_loss=parsed.accept_loss, ask=_ask_about_loss, write_line=write_line)
    return 0 if is_sound else 1


def _ask_about_loss() -> bool:
    """Ask for confirmation, on a terminal only."""
    if not sys.stdin.isatty():
        return False
    sys.stdout.write("Continue without these records? Type 'yes' to accept the loss: ")
    sys.stdout.flush()
    return sys.stdin.readline().strip() == "yes"
