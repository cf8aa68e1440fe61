"""The command line of ``barnabas shell``: the source of metadata, the point in time, and an optional command."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from barnabas.cli.arguments.moment import parse_time
from barnabas.cli.output.exit_status import USAGE_ERROR
from barnabas.storage.metadata_point_in_time import Moment

__all__ = ["HELP", "ShellArguments", "parse_arguments"]

_USAGE = """\
usage: barnabas shell [options] (PATH | --directory DIR | --snapshot FILE) [command ...]
       barnabas shell [options] --bootstrap-controller HOST:PORT [command ...]
"""

HELP = f"""\
{_USAGE}
Browse the metadata of running controllers, or of a node's files: a snapshot, a metadata log
directory, or a log directory that contains one. The shell only reads; the node may be running.

  -d, --directory DIR  the (metadata) log directory of a node
  -s, --snapshot FILE  a snapshot of the metadata, or bootstrap.checkpoint
  --bootstrap-controller HOST:PORT
                       controllers, separated by commas: each command shows the metadata that
                       is committed when it runs. Needs CLUSTER_ACTION on the cluster.
  --command-config FILE
                       Kafka client properties for the controllers: TLS, SASL, timeouts
  --at-offset N        the state after the record at offset N, instead of the latest
  --at-time TIME       the state at this time of the log: 2026-01-31T12:30:00.000 (UTC, or with
                       +01:00 for a zone), or milliseconds since 1970
  --show-secrets       print values that are otherwise [hidden]: salts and keys of SCRAM
                       credentials, and broker configs that are passwords or unknown
  -h, --help           print this help

Without a command, the shell reads commands at a prompt, or from lines of the standard input.

  ls, cat, cd, pwd     as for files; paths may contain patterns: ls /image/t*
  find, tree           everything below a path, without or with the content of files
  history [N]          the commands so far, or the last N; help lists all commands

Paths are those of Kafka's metadata shell, and /acl/id/<uuid>, /acl/principal/<principal>/<uuid>.

  barnabas shell /var/lib/barnabas cat /acl/id/81nmSKGVT1m299Y5Hlzhgw
  barnabas shell --at-time 2026-01-31T12:30:00 /var/lib/barnabas ls /acl/principal/User:alice
  barnabas shell --snapshot 00000000000000003786-0000000001.checkpoint tree /image/topics/byName/orders
  echo 'ls /image' | barnabas shell /var/lib/kafka

An earlier state is read from the latest snapshot before it and the log after the snapshot. If the
directory lacks one of these, the error message contains the earliest available state. Controllers
return only the latest state.

Exit status: 0 done, 1 a command failed or the metadata can't be read, 2 invalid command line.
"""

_NO_BROKER = (
    "--bootstrap-server: brokers don't serve the metadata log; use --bootstrap-controller with controllers, or the "
    "log directory of a node on its host"
)


@dataclass(frozen=True, slots=True)
class ShellArguments:
    path: str
    """The path, or an empty text for running controllers."""
    moment: Moment | None
    show_secrets: bool
    words: Sequence[str]
    """The command, or None to read commands."""
    controllers: str = ""
    command_config: str | None = None


class _Parser(argparse.ArgumentParser):
    def format_help(self) -> str:
        return HELP

    def format_usage(self) -> str:
        return _USAGE

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(USAGE_ERROR, f"{self.prog}: {message}\n")


class _Refused(argparse.Action):
    def __call__(
        self, parser: argparse.ArgumentParser, namespace: object, values: object, option_string: str | None = None
    ) -> None:
        parser.error(_NO_BROKER)


def parse_arguments(arguments: Sequence[str]) -> ShellArguments:
    """Parse the arguments. End the process with status 2 if they are invalid."""
    parser = _parser()
    parsed = parser.parse_args(arguments)
    words: list[str] = parsed.words
    path = parsed.directory or parsed.snapshot
    if parsed.bootstrap_controller:
        return _of_controllers(parser, parsed)
    if parsed.command_config:
        parser.error("argument --command-config: needs --bootstrap-controller")
    if path is None:
        if not words:
            parser.error("no metadata given: name a log directory, a metadata log directory or a snapshot file")
        path, *words = words
        if words and words[0].startswith("-"):  # Options may also follow the path.
            words = parser.parse_args(words, parsed).words
            if parsed.directory or parsed.snapshot:
                parser.error(f"{path} and --directory or --snapshot can't be used together")
    moment = None
    if parsed.at_offset is not None or parsed.at_time is not None:
        moment = Moment(parsed.at_offset, parsed.at_time)
        if None not in moment:
            parser.error("argument --at-time: not allowed with argument --at-offset")
    return ShellArguments(path, moment, parsed.show_secrets, words)


def _of_controllers(parser: _Parser, parsed: argparse.Namespace) -> ShellArguments:
    if parsed.directory or parsed.snapshot:
        parser.error("--bootstrap-controller and --directory or --snapshot can't be used together")
    if parsed.at_offset is not None or parsed.at_time is not None:
        parser.error("--at-offset and --at-time need the files of a node: controllers return only the latest state")
    return ShellArguments(
        "", None, parsed.show_secrets, parsed.words, parsed.bootstrap_controller, parsed.command_config
    )


def _parser() -> _Parser:
    parser = _Parser(prog="barnabas shell", allow_abbrev=False)
    source = parser.add_mutually_exclusive_group()
    source.add_argument("-d", "--directory")
    source.add_argument("-s", "--snapshot")
    parser.add_argument("--at-offset", type=_offset)
    parser.add_argument("--at-time", type=_time)
    parser.add_argument("--show-secrets", action="store_true")
    parser.add_argument("--bootstrap-controller")
    parser.add_argument("--bootstrap-server", action=_Refused)
    parser.add_argument("--command-config")
    parser.add_argument("words", nargs=argparse.REMAINDER)
    return parser


def _offset(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"{text} is not an offset: offsets are 0, 1, 2, ...")
    return int(text)


def _time(text: str) -> int:
    try:
        return parse_time(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
