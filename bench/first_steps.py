"""What a new user meets first: installation, a broker's start, the first record, the command line.

- first record: a fresh process starts a broker with an empty folder, creates a topic, writes a record and reads it, and
  stops the broker (``bench/first_record.py``). The same for other small brokers, if they are here.
- command line: the time of one short command.
- records: lines of a file to a topic, and back to a file, by each client and with each broker.
- installation: size and time.

CPU time is that of whole processes with their children. Sides take turns, and each round reverses their order.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, TypeVar

from bench.costs import CommandFailed, Cost, ForeignWork, cost_of
from bench.first_steps_clients import Client, clients
from bench.first_steps_install import measure_install
from bench.sides import KAFKA_JVM, new_node
from bench.small_brokers import Missing, find_kfake, find_tansu, kfake_command, tansu_command
from tests.peers import KafkaNode, kafka_command
from tests.peers.command_node import CommandNode
from tests.peers.node_process import free_ports

__all__ = ["QUICK", "BrokerTask", "FirstSteps", "FirstStepsSizes", "Series", "Table", "measure_first_steps"]

_PROJECT = Path(__file__).resolve().parent.parent
_CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
_TOOL_JVM = ("-Xmx256M", "-server", *KAFKA_JVM)
_SETTLE_S = 1
_Side = TypeVar("_Side")

Series = dict[str, list[float]]
"""By side, a value for each round."""
Table = dict[str, Series]
"""By the name of the figure, its values."""


class FirstStepsSizes(NamedTuple):
    """How much of everything; the default is what the page is about."""

    starts: int = 3
    commands: int = 5
    records: int = 1_000_000
    record_bytes: int = 100
    with_pip: bool = True


QUICK = FirstStepsSizes(starts=1, commands=1, records=20_000, with_pip=False)
"""Shows that everything works, and no more."""


class FirstSteps(NamedTuple):
    """Everything that was measured. ``missing`` has the reason for each program that was left out.

    ``foreign`` is the part of all cores that other processes used meanwhile, from 0 to 1.
    """

    brokers: Table
    commands: Table
    records: Table
    install: dict[str, dict[str, float]]
    missing: dict[str, str]
    foreign: float


class BrokerTask(NamedTuple):
    """What ``bench.first_record`` runs. An empty ``command`` stands for ``barnabas.testing``."""

    prepare: Sequence[Sequence[str]]
    command: Sequence[str]
    port: int


def measure_first_steps(rounds: int, sizes: FirstStepsSizes | None = None) -> FirstSteps:
    """Measure everything. Progress goes to standard output."""
    sizes = sizes or FirstStepsSizes()
    work = ForeignWork()
    brokers: Table = {}
    commands: Table = {}
    records: Table = {}
    missing: dict[str, str] = {}
    all_clients = clients(missing)
    with tempfile.TemporaryDirectory(prefix="barnabas-bench-") as name:
        folder = Path(name)
        for number in range(rounds):
            is_reversed = number % 2 == 1
            _measure_brokers(brokers, folder / f"brokers-{number}", sizes, missing, is_reversed=is_reversed)
            for side in _in_turn(["kafka", "barnabas"], is_reversed=is_reversed):
                with _running_node(side, folder / f"{side}-{number}") as node:
                    turn = list(_in_turn(all_clients, is_reversed=is_reversed))
                    _measure_commands(commands, node, side, turn, sizes)
                    _measure_records(records, node, side, turn, folder, sizes)
            print(f"first steps: round {number + 1} of {rounds} is done", flush=True)
        install = measure_install(folder / "install", with_pip=sizes.with_pip)
    for table in (brokers, commands, records):
        _drop_incomplete(table, rounds)
    return FirstSteps(brokers, commands, records, install, missing, work.share())


def _drop_incomplete(table: Table, rounds: int) -> None:
    """Remove a side whose program failed in some round; ``missing`` has the reason."""
    for series in table.values():
        for side in [side for side, values in series.items() if len(values) != rounds]:
            del series[side]


def _in_turn(sides: Sequence[_Side], *, is_reversed: bool) -> Iterable[_Side]:
    return reversed(sides) if is_reversed else sides


def _add(table: Table, name: str, side: str, value: float) -> None:
    table.setdefault(name, {}).setdefault(side, []).append(value)
    print(f"first steps: {side}: {name} {value:,.4g}", flush=True)


def _measure_brokers(
    table: Table, folder: Path, sizes: FirstStepsSizes, missing: dict[str, str], *, is_reversed: bool
) -> None:
    tasks = ["kafka", "barnabas", "barnabas.testing", "kfake", "tansu"]
    found: dict[str, list[Mapping[str, float]]] = {}
    for start in range(sizes.starts):
        for side in _in_turn(tasks, is_reversed=is_reversed):
            if side in missing:
                continue
            place = folder / f"{side}-{start}"
            place.mkdir(parents=True)
            task = _task_of(side, place)
            if isinstance(task, Missing):
                missing[side] = task.reason
                continue
            try:
                found.setdefault(side, []).append(_first_record(task, place))
            except CommandFailed as error:
                if side not in ("kfake", "tansu"):
                    raise
                *_, last = str(error).strip().splitlines()
                missing[side] = f"was left out: it failed: {last}"
    for side, starts in found.items():
        for name in (name for name in starts[0] if side not in missing):
            _add(table, name, side, statistics.median(figures[name] for figures in starts))


def _task_of(side: str, folder: Path) -> BrokerTask | Missing:
    if side == "barnabas.testing":
        return BrokerTask([], [], 0)
    if side in ("kfake", "tansu"):
        program = find_kfake() if side == "kfake" else find_tansu()
        if isinstance(program, Missing):
            return program
        (port,) = free_ports(1)
        command = kfake_command(program, port) if side == "kfake" else tansu_command(program, port)
        return BrokerTask([], command, port)
    node = new_node(side, folder)
    if not isinstance(node, KafkaNode):
        return BrokerTask([], node.command(), node.port)
    node.write_properties()
    arguments = ("format", "--standalone", "-t", _CLUSTER_ID, "-c", str(node.properties))
    return BrokerTask([kafka_command("storage", *arguments, jvm=_TOOL_JVM)], node.command(), node.port)


def _first_record(task: BrokerTask, folder: Path) -> Mapping[str, float]:
    given, taken = folder / "task.json", folder / "figures.json"
    began = time.clock_gettime(time.CLOCK_MONOTONIC)
    given.write_text(json.dumps({**task._asdict(), "folder": str(folder), "began": began}))
    cost = cost_of([sys.executable, "-m", "bench.first_record"], stdin=given, stdout=taken, cwd=_PROJECT)
    printed: dict[str, float] = json.loads(taken.read_text())
    names = {
        "start_cpu_s": "start to ready: CPU, s",
        "start_s": "start to ready, s",
        "resident_mib": "resident after the first record, MiB",
    }
    return {
        "nothing to first record: CPU, s": cost.cpu_s,
        "nothing to first record, s": printed["record_s"],
        **{name: printed[key] for key, name in names.items() if key in printed},
    }


@contextmanager
def _running_node(side: str, folder: Path) -> Iterator[KafkaNode | CommandNode]:
    node = new_node(side, folder)
    node.start()
    try:
        yield node
    finally:
        node.stop()


def _measure_commands(
    table: Table, node: KafkaNode | CommandNode, side: str, turn: Sequence[Client], sizes: FirstStepsSizes
) -> None:
    for client in turn:
        costs = [cost_of(client.list_topics(node.bootstrap_servers)) for _ in range(sizes.commands)]
        what = f"list the topics of {_named(side)}"
        _add(table, f"{what}: CPU, s", client.side, statistics.median(cost.cpu_s for cost in costs))
        _add(table, f"{what}, s", client.side, statistics.median(cost.wall_s for cost in costs))


def _measure_records(
    table: Table,
    node: KafkaNode | CommandNode,
    side: str,
    turn: Sequence[Client],
    folder: Path,
    sizes: FirstStepsSizes,
) -> None:
    """All clients read the topic that ``barnabas produce`` wrote, so that they read the same batches."""
    lines, few, taken = folder / "lines", folder / "few", folder / "taken"
    _write_lines(lines, sizes.records, sizes.record_bytes)
    _write_lines(few, 100, sizes.record_bytes)
    _create_topics(node, ["warm", *(client.side for client in turn)])
    for client in turn:  # The first group makes a broker create the topic of offsets, and Java compiles its code.
        cost_of(client.produce(node.bootstrap_servers, "warm"), stdin=few)
        cost_of(client.consume(node.bootstrap_servers, "warm", 100))
    time.sleep(_SETTLE_S)
    for client in turn:
        cost = cost_of(client.produce(node.bootstrap_servers, client.side), stdin=lines)
        _add_transfer(table, f"write {sizes.records:,} records to {_named(side)}", client.side, cost, sizes)
    for client in turn:
        cost = cost_of(client.consume(node.bootstrap_servers, "barnabas", sizes.records), stdout=taken)
        if taken.stat().st_size != lines.stat().st_size:
            raise CommandFailed(
                f"{client.side} read {taken.stat().st_size:,} bytes of {lines.stat().st_size:,} from {_named(side)}"
            )
        _add_transfer(table, f"read {sizes.records:,} records from {_named(side)}", client.side, cost, sizes)
    taken.unlink()


def _add_transfer(table: Table, what: str, side: str, cost: Cost, sizes: FirstStepsSizes) -> None:
    _add(table, f"{what}: CPU, s", side, cost.cpu_s)
    _add(table, f"{what}: records/s", side, sizes.records / cost.wall_s)


def _write_lines(path: Path, records: int, record_bytes: int) -> None:
    with path.open("w") as file:
        for number in range(records):
            file.write(f"{number:0{record_bytes}}\n")


def _create_topics(node: KafkaNode | CommandNode, names: Sequence[str]) -> None:
    """Create topics with one partition each. Raise RuntimeError for one that is refused."""
    from barnabas.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
    from tests.interop.raw_client import RawClient

    client = RawClient(node.port, timeout_s=60)
    topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in names]
    for result in client.call(CreateTopicsRequest(topics=topics, timeout_ms=60_000)).topics:
        if result.error_code:
            raise RuntimeError(f"{result.name}: error {result.error_code} {result.error_message}")
    client.close()


def _named(side: str) -> str:
    return "a Kafka node" if side == "kafka" else "a barnabas node"
