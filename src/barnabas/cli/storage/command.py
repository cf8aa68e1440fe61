"""``barnabas storage format|info|random-uuid``: Kafka's storage tool, with its flags, texts and exit statuses.

Kafka's tool does not have ``decrypt-configs``, ``strays`` and ``repair``. ``decrypt-configs`` makes configs that
``barnabas.config.encryption.keys`` encrypted readable for Kafka. Modules of their names document the other two.

Kafka's tool parses its arguments with a port of argparse, so argparse prints the same messages. The exit status of a
usage error is 1, as in Kafka's tool.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from time import time_ns
from typing import NoReturn

from barnabas.cli.storage.repair import add_repair_command, run_repair
from barnabas.cli.storage.strays import add_strays_command, run_strays
from barnabas.common.settings.problem import InvalidSettings
from barnabas.common.uuid import Uuid
from barnabas.metadata.metadata_version import LATEST_PRODUCTION, MINIMUM
from barnabas.server.settings.node_config import NodeConfig, load_node_config
from barnabas.server.storage_tool.formatter import FormatError, describe_storage, format_storage
from barnabas.server.storage_tool.scram_argument import InvalidScramArgument, parse_scram_argument

__all__ = ["main", "random_uuid"]

_SHORT_MAX = (1 << 15) - 1


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(1, f"{self.prog}: error: {message}\n")


def main(arguments: Sequence[str]) -> int:
    """Return 0 on success and 1 otherwise. Errors are printed to stderr as one message."""
    parsed = _parser().parse_args(arguments)
    try:
        return _COMMANDS[parsed.command](parsed)
    except (FormatError, InvalidScramArgument, InvalidSettings, ValueError) as error:
        sys.stderr.write(f"{error}\n")
    except OSError as error:
        sys.stderr.write(f"{error.filename}: {error.strerror}\n")
    return 1


def random_uuid() -> Uuid:
    """Return a random id as in Kafka: never a reserved one, and never one that looks like an option."""
    while True:
        raw = bytearray(os.urandom(16))
        raw[6] = raw[6] & 0x0F | 0x40  # Version 4 of RFC 4122 ...
        raw[8] = raw[8] & 0x3F | 0x80  # ... and its variant.
        uuid = Uuid(bytes(raw))
        if not uuid.is_reserved and not str(uuid).startswith("-"):
            return uuid


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="barnabas storage", description="The storage tool.")
    commands = parser.add_subparsers(dest="command", required=True)
    info = commands.add_parser("info", help="Get information about the log directories on this node.")
    _add_config(info)
    form = commands.add_parser("format", help="Format the log directories on this node.")
    _add_config(form)
    form.add_argument("-t", "--cluster-id", required=True, help="The cluster ID to use.")
    form.add_argument(
        "-S", "--add-scram", action="append", default=[], metavar="SCRAM",
        help="A SCRAM credential to start with, e.g. 'SCRAM-SHA-256=[name=alice,password=alice-secret]' or "
        "'SCRAM-SHA-512=[name=alice,iterations=8192,salt=\"N3E=\",saltedpassword=\"YCE=\"]'. May be repeated.",
    )  # fmt: skip
    form.add_argument(
        "-g", "--ignore-formatted", action="store_true", help="Skip directories that are formatted already."
    )
    form.add_argument(
        "-r", "--release-version",
        help=f"The release whose feature levels to use. The minimum is {MINIMUM}; the default is {LATEST_PRODUCTION}",
    )  # fmt: skip
    form.add_argument(
        "-f", "--feature", action="append", default=[], metavar="FEATURE=LEVEL",
        help="The level of one feature, e.g. kraft.version=1. May be repeated.",
    )  # fmt: skip
    quorum = form.add_mutually_exclusive_group()
    quorum.add_argument("-s", "--standalone", action="store_true", help="Start a dynamic quorum of this node alone.")
    quorum.add_argument("-N", "--no-initial-controllers", action="store_true", help="Start without a dynamic quorum.")
    quorum.add_argument(
        "-I", "--initial-controllers", metavar="VOTERS",
        help="The controllers of a dynamic quorum, id@host:port:directory with commas between; the same on each node.",
    )  # fmt: skip
    commands.add_parser("random-uuid", help="Print a random UUID.")
    decrypt = commands.add_parser(
        "decrypt-configs", help="Write encrypted configs in plain text, before a data directory moves to Kafka."
    )
    _add_config(decrypt)
    _add_config(add_strays_command(commands))
    _add_config(add_repair_command(commands))
    return parser


def _add_config(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-c", "--config", required=True, help="The server.properties to use.")


def _run_info(parsed: argparse.Namespace) -> int:
    return 0 if describe_storage(_load(parsed.config), write_line=_write_line) else 1


def _run_format(parsed: argparse.Namespace) -> int:
    config = _load(parsed.config)
    for warning in config.warnings:
        # Print only warnings of settings that lock the operator out. The node logs others when it starts.
        if warning.startswith("super.users"):
            sys.stderr.write(f"warning: {warning}\n")
    format_storage(
        config,
        cluster_id=parsed.cluster_id,
        release_version=parsed.release_version,
        feature_levels=dict(_feature_level(text) for text in parsed.feature),
        scram_credentials=[parse_scram_argument(text, os.urandom) for text in parsed.add_scram],
        standalone=parsed.standalone,
        no_initial_controllers=parsed.no_initial_controllers,
        initial_controllers=parsed.initial_controllers,
        ignore_formatted=parsed.ignore_formatted,
        write_line=_write_line,
    )
    return 0


def _run_random_uuid(parsed: argparse.Namespace) -> int:
    _write_line(str(random_uuid()))
    return 0


def _run_decrypt_configs(parsed: argparse.Namespace) -> int:
    from barnabas.server.storage_tool.decrypt_configs import decrypt_configs

    decrypt_configs(_load(parsed.config), now_ms=time_ns() // 1_000_000, write_line=_write_line)
    return 0


def _run_strays(parsed: argparse.Namespace) -> int:
    return run_strays(_load(parsed.config), remove=parsed.remove, is_confirmed=parsed.yes, write_line=_write_line)


def _run_repair(parsed: argparse.Namespace) -> int:
    return run_repair(_load(parsed.config), parsed, _write_line)


_COMMANDS: dict[str, Callable[[argparse.Namespace], int]] = {
    "info": _run_info,
    "format": _run_format,
    "random-uuid": _run_random_uuid,
    "decrypt-configs": _run_decrypt_configs,
    "strays": _run_strays,
    "repair": _run_repair,
}


def _load(path: str) -> NodeConfig:
    return load_node_config(path)


def _feature_level(text: str) -> tuple[str, int]:
    name, equals, level = text.partition("=")
    if not equals:
        raise ValueError(f"Can't parse feature=level string {text}: equals sign not found.")
    if not level.lstrip("-").isdigit() or abs(int(level)) > _SHORT_MAX:
        raise ValueError(f"Can't parse feature=level string {text}: unable to parse {level} as a short.")
    return name.strip(), int(level)


def _write_line(line: str) -> None:
    sys.stdout.write(f"{line}\n")
