"""The command line of the pipeline."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from barnabas.pipelines.flights.dataset import FLIGHT_COUNT

__all__ = ["FlightsOptions", "parse_options"]

_ADDRESS = re.compile(r"[^\s:,]+:\d{1,5}(,[^\s:,]+:\d{1,5})*|\[[0-9a-fA-F:]+\]:\d{1,5}")
_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,200}")  # Other topics' names begin with it.
_TRUE, _FALSE = ("1", "true", "yes", "on"), ("", "0", "false", "no", "off")


@dataclass(frozen=True, slots=True)
class FlightsOptions:
    run_directory: Path
    bootstrap_server: str | None
    port: int | None
    keep: bool
    topic: str
    partitions: int
    flights: int
    rate: int | None
    batch_records_max: int
    cores: str
    fresh: bool


def parse_options(arguments: Sequence[str], environment: Mapping[str, str]) -> FlightsOptions:
    """Return the options. Exit with status 2 and a message that names the option when one of them is wrong."""
    parser = _parser()
    parsed = parser.parse_args(arguments)
    keep = environment.get("KEEP", "").lower()
    if keep not in _TRUE + _FALSE:
        parser.error(f"the environment variable KEEP is {keep!r}; it may be 1 (leave node and worker running) or 0")
    if parsed.bootstrap_server and parsed.port is not None:
        parser.error("--port applies to a node that this command starts; with --bootstrap-server it starts none")
    return FlightsOptions(
        run_directory=parsed.run_directory,
        bootstrap_server=parsed.bootstrap_server,
        port=parsed.port,
        keep=parsed.keep or keep in _TRUE,
        topic=parsed.topic,
        partitions=parsed.partitions,
        flights=parsed.flights,
        rate=parsed.rate,
        batch_records_max=parsed.batch_records_max,
        cores=parsed.cores,
        fresh=parsed.fresh,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m barnabas.pipelines.flights",
        description="Start a node and a Connect worker, stream the flights that left New York City in 2013 into "
        "topics, and have connectors land them in files and a database and keep delays per carrier and hour current, "
        "until all of them are in. An interrupted run goes on where it was; a finished one starts over.",
        allow_abbrev=False,
    )
    where = parser.add_argument_group("where")
    where.add_argument(
        "--run-directory",
        type=_folder,
        default=Path("flights-data"),
        metavar="FOLDER",
        help="keeps the node's data, the worker's settings and the results (default: ./flights-data)",
    )
    where.add_argument(
        "--bootstrap-server",
        type=_address,
        metavar="HOST:PORT",
        help="stream through this cluster instead of a node of our own",
    )
    where.add_argument("--port", type=_integer(1, 65535), help="port of the node's listener (default: a free one)")
    where.add_argument("--topic", type=_topic, default="flights", help="name of the topic (default: flights)")
    where.add_argument("--partitions", type=_integer(1, 1000), default=4, help="number of partitions (default: 4)")
    how = parser.add_argument_group("how")
    how.add_argument(
        "--keep", action="store_true", help="leave node and worker running at the end; KEEP=1 does the same"
    )
    how.add_argument("--fresh", action="store_true", help="start over, even if the last run was interrupted")
    how.add_argument(
        "--flights",
        type=_integer(1, FLIGHT_COUNT),
        default=FLIGHT_COUNT,
        metavar="COUNT",
        help="send only the first COUNT flights (default: all 336,776)",
    )
    how.add_argument(
        "--rate", type=_integer(1, 10_000_000), metavar="COUNT", help="flights a second (default: no limit)"
    )
    how.add_argument(
        "--batch-records-max",
        type=_integer(100, 10_000_000),
        default=180_000,
        metavar="COUNT",
        help="maximum records in a batch of a connector (default: 180000)",
    )
    how.add_argument(
        "--cores", type=_cores, default="*", metavar="COUNT", help="cores for Spark (default: all of this machine)"
    )
    return parser


def _integer(smallest: int, largest: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        value = int(text) if re.fullmatch(r"\d{1,12}", text) else None
        if value is None or not smallest <= value <= largest:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {smallest} to {largest}")
        return value

    return parse


def _folder(text: str) -> Path:
    path = Path(text)
    if not text or (path.exists() and not path.is_dir()):
        raise argparse.ArgumentTypeError(f"{text!r} is not a folder")
    if "," in str(path.absolute()) or os.pathsep in str(path.absolute()):
        raise argparse.ArgumentTypeError(f"{text!r}: a node can't keep its data in a path with a comma or colon in it")
    return path


def _address(text: str) -> str:
    if not _ADDRESS.fullmatch(text) or any(int(part.rsplit(":", 1)[1]) > 65535 for part in text.split(",")):
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form host:port")
    return text


def _topic(text: str) -> str:
    if not _TOPIC.fullmatch(text) or text in (".", ".."):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a valid topic name: at most 200 letters, digits, '.', '_', '-'"
        )
    return text


def _cores(text: str) -> str:
    if text != "*" and not re.fullmatch(r"[1-9]\d{0,2}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is neither a number of cores nor '*'")
    return text
