"""The cost of moving records with our worker, Kafka's own worker and plain PySpark, on one broker.

- topic to Parquet: ``TopicToFiles`` and a query written by hand. Kafka's worker has no such connector.
- topic to file: ``FileStreamSink`` of both workers, with Kafka's settings.
- file to topic: ``FileStreamSource`` of both workers, and a query written by hand with one writer, which keeps the
  lines' order as the connectors do.

Queries by hand come in two kinds: with Spark's own settings, and with those of a worker.

The clock starts when the status says that the task runs, or the query that is written by hand has started; its worker
or Spark has moved a few records before. Each runs twice: during the first million records Java compiles the code, which
takes much of the time. The clock ends when the output is complete for an outside observer: the size of the file, the
end of the topic, the committed offsets of the group (Parquet; the query written by hand reports it itself). CPU is that
of the process and its children in that time. The output is counted afterwards: missing or additional records are an
error.

How soon work moves to another worker, and REST: ``connect_group``.
"""

from __future__ import annotations

import itertools
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from barnabas.clients.admin.client import AdminClient
from barnabas.clients.admin.partitions import OffsetSpec
from barnabas.clients.admin.topics import NewTopic
from barnabas.common.topic_partition import TopicPartition
from bench.connect_group import measure_group
from bench.connect_sides import (
    CONNECT_SIDES,
    PLAIN_SIDES,
    PlainSpark,
    Worker,
    cpu_of_tree,
    is_all_running,
    make_worker,
    request,
    running_broker,
    wait_for,
)
from tests.peers import run_class

__all__ = ["QUICK", "ConnectSizes", "measure_connect"]

_RECORD_BYTES = 1_000
_PARTITIONS = 4
_WARM_UP_RECORDS = 5_000
_START_S = 180
_MOVE_S = 1_200
_LOOK_S = 0.1
"""How often to check for completion. Each check takes CPU time from the worker."""
_FILE_SINK = "org.apache.kafka.connect.file.FileStreamSinkConnector"
_FILE_SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"
_BUFFERED_BYTES = 64 << 10
"""What Kafka's file sink may hold back until its next flush."""

Figures = dict[str, float]


class ConnectSizes(NamedTuple):
    """How much of everything; the default is what the page is about."""

    records: int = 1_000_000
    connectors: int = 4
    """Of which a worker has half when the other one leaves."""
    requests: int = 500
    creations: int = 50


QUICK = ConnectSizes(records=20_000, connectors=2, requests=30, creations=5)
"""Shows that everything works, and no more."""


def measure_connect(rounds: int, sizes: ConnectSizes | None = None) -> dict[str, list[Figures]]:
    """The figures of each round by side; the sides take turns. Not every side has all figures."""
    sizes = sizes or ConnectSizes()
    found: dict[str, list[Figures]] = {side: [] for side in CONNECT_SIDES}
    with tempfile.TemporaryDirectory(prefix="barnabas-bench-") as name:
        folder = Path(name)
        with running_broker(folder / "broker") as broker:
            stage = _Stage(folder, broker.bootstrap_servers, sizes)
            stage.prepare()
            for number in range(rounds):
                for side in CONNECT_SIDES if number % 2 == 0 else reversed(CONNECT_SIDES):
                    began = time.monotonic()
                    found[side].append(_measure_round(stage, side, folder / f"{side}-{number}"))
                    print(f"connect: {side}: round {number + 1} took {time.monotonic() - began:.0f} s", flush=True)
    return found


def _measure_round(stage: _Stage, side: str, folder: Path) -> Figures:
    figures: Figures = {}
    try:
        with _mover(stage, side, folder) as mover:
            for kind in mover.kinds:
                mover.move(kind, warm_up=True)
                figures |= _told(side, mover.move(kind))
                figures |= _told(side, {name.replace(kind, f"{kind} again"): x for name, x in mover.move(kind).items()})
        if side not in PLAIN_SIDES:
            sizes = stage.sizes
            of_group = measure_group(
                side,
                folder / "group",
                stage.bootstrap_servers,
                connectors=sizes.connectors,
                requests=sizes.requests,
                creations=sizes.creations,
            )
            figures |= _told(side, of_group)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return figures


def _told(side: str, figures: Figures) -> Figures:
    for name, value in figures.items():
        print(f"connect: {side}: {name} {value:,.4g}", flush=True)
    return figures


class _Stage:
    """The topics and files that all sides read, and the visible state of those that they write."""

    def __init__(self, folder: Path, bootstrap: str, sizes: ConnectSizes) -> None:
        self.bootstrap_servers = bootstrap
        self.sizes = sizes
        self._folder = folder
        self._admin = AdminClient.sync(bootstrap)

    def prepare(self) -> None:
        for warm_up in (True, False):
            self.create(self.topic(warm_up))
            self._fill(self.topic(warm_up), self.records(warm_up))
            file = self.file(warm_up)
            file.parent.mkdir()
            _write_lines(file, self.records(warm_up))

    def records(self, warm_up: bool) -> int:
        return min(_WARM_UP_RECORDS, self.sizes.records) if warm_up else self.sizes.records

    def topic(self, warm_up: bool) -> str:
        return "warm-up" if warm_up else "records"

    def file(self, warm_up: bool) -> Path:
        """Alone in its folder, as a query reads folders."""
        return self._folder / f"lines-{self.topic(warm_up)}" / "lines.txt"

    def create(self, topic: str, partitions: int = _PARTITIONS) -> None:
        self._admin.create_topics([NewTopic(topic, partitions, 1)], wait=True).raise_for_errors()

    def delete(self, topic: str) -> None:
        self._admin.delete_topics([topic]).raise_for_errors()

    def ends(self, topic: str, partitions: int = _PARTITIONS) -> dict[TopicPartition, int]:
        wanted = {TopicPartition(topic, index): OffsetSpec.latest() for index in range(partitions)}
        found = self._admin.list_offsets(wanted).raise_for_errors()
        return {partition: each.offset for partition, each in found.items()}

    def committed(self, group: str) -> int:
        """The sum of all offsets."""
        return sum(each.offset for each in self._admin.list_group_offsets([group])[group].raise_for_errors().values())

    def _fill(self, topic: str, records: int) -> None:
        run_class(
            "producer-perf",
            "--topic", topic,
            "--num-records", str(records),
            "--record-size", str(_RECORD_BYTES),
            "--throughput", "-1",
            "--producer-props", f"bootstrap.servers={self.bootstrap_servers}", "acks=all",
            timeout_s=900,
        )  # fmt: skip
        if sum(self.ends(topic).values()) != records:
            raise AssertionError(f"{topic} has {self.ends(topic)} instead of {records} records")


def _write_lines(file: Path, records: int) -> None:
    """Each line has its number, so that no two are the same."""
    filler = ("abcdefghijklmnopqrstuvwxyz" * (_RECORD_BYTES // 26 + 1)).encode()
    with file.open("wb") as lines:
        for number in range(records):
            head = b"%012d " % number
            lines.write(head + filler[: _RECORD_BYTES - len(head)] + b"\n")


@contextmanager
def _mover(stage: _Stage, side: str, folder: Path) -> Iterator[_WorkerMoves | _PlainMoves]:
    if side in PLAIN_SIDES:
        plain = PlainSpark(folder, side)
        try:
            yield _PlainMoves(stage, plain, folder)
        finally:
            plain.close()
        return
    worker = make_worker(side, folder / "worker", stage.bootstrap_servers, f"moves-{folder.name}")
    worker.start(timeout_s=_START_S)
    try:
        yield _WorkerMoves(stage, worker, side, folder)
    finally:
        worker.stop(timeout_s=60)


def _timed(kind: str, pid: int, records: int, run: Callable[[], None]) -> Figures:
    cpu, began = cpu_of_tree(pid), time.perf_counter()
    run()
    elapsed = time.perf_counter() - began
    used = cpu_of_tree(pid) - cpu
    return {f"{kind}, records/s": records / elapsed, f"{kind}: CPU, s a million records": used / records * 1e6}


class _WorkerMoves:
    """By connectors."""

    def __init__(self, stage: _Stage, worker: Worker, side: str, folder: Path) -> None:
        self._stage = stage
        self._worker = worker
        self._folder = folder
        files = ("topic to file", "file to topic")
        self.kinds = files if side == "kafka" else ("topic to Parquet", *files)
        self._buffered_bytes = _BUFFERED_BYTES if side == "kafka" else 0
        self._moves = itertools.count()

    def move(self, kind: str, *, warm_up: bool = False) -> Figures:
        name = f"{kind.replace(' ', '-').lower()}-{next(self._moves)}-{self._folder.name}"
        if kind == "file to topic":
            return self._file_to_topic(kind, name, warm_up)
        target = self._folder / name
        if kind == "topic to file":
            config = {"connector.class": _FILE_SINK, "file": str(target)}
            size = self._stage.records(warm_up) * (_RECORD_BYTES + 1)
            figures = self._run(kind, name, config, warm_up, lambda: _size(target) >= size - self._buffered_bytes)
            wait_for(lambda: _size(target) >= size, f"all of {target}", timeout_s=90)
            _expect(target.stat().st_size, size, f"bytes in {target}")
            target.unlink()
            return figures
        records = self._stage.records(warm_up)
        config = {"connector.class": "TopicToFiles", "directory": str(target)}
        figures = self._run(kind, name, config, warm_up, lambda: self._stage.committed(f"connect-{name}") >= records)
        _expect(_parquet_rows(target), records, f"rows in {target}")
        shutil.rmtree(target)
        return figures

    def _file_to_topic(self, kind: str, name: str, warm_up: bool) -> Figures:
        self._stage.create(name, 1)
        records = self._stage.records(warm_up)
        config = {"connector.class": _FILE_SOURCE, "file": str(self._stage.file(warm_up)), "topic": name}
        figures = self._run(kind, name, config, warm_up, lambda: sum(self._stage.ends(name, 1).values()) >= records)
        _expect(sum(self._stage.ends(name, 1).values()), records, f"records in {name}")
        self._stage.delete(name)
        return figures

    def _run(
        self, kind: str, name: str, config: dict[str, str], warm_up: bool, is_complete: Callable[[], bool]
    ) -> Figures:
        """With the connector, which is deleted in the end."""
        url, topics = self._worker.url, {} if kind == "file to topic" else {"topics": self._stage.topic(warm_up)}
        request(url, "PUT", f"/connectors/{name}/config", {"tasks.max": "1", **topics, **config})
        try:
            wait_for(lambda: is_all_running(url, [name]), f"{name} running", timeout_s=_START_S)
            records = self._stage.records(warm_up)
            figures = _timed(
                kind,
                self._worker.pid,
                records,
                lambda: wait_for(is_complete, f"{kind} by {self._worker.folder}", timeout_s=_MOVE_S, pause_s=_LOOK_S),
            )
            wait_for(lambda: is_all_running(url, [name]), f"{name} still running", timeout_s=30)
        finally:
            request(url, "DELETE", f"/connectors/{name}")
        return figures


class _PlainMoves:
    """By queries that are written by hand."""

    kinds = ("topic to Parquet", "file to topic")

    def __init__(self, stage: _Stage, plain: PlainSpark, folder: Path) -> None:
        self._stage = stage
        self._plain = plain
        self._folder = folder
        self._moves = itertools.count()

    def move(self, kind: str, *, warm_up: bool = False) -> Figures:
        name = f"{kind.replace(' ', '-').lower()}-{next(self._moves)}-{self._folder.name}"
        records = self._stage.records(warm_up)
        job = {"name": name, "bootstrap": self._stage.bootstrap_servers}
        if kind == "topic to Parquet":
            target = self._folder / f"out-{name}"
            job |= {"kind": "parquet", "topic": self._stage.topic(warm_up), "directory": str(target)}
            self._plain.begin(job)
            figures = _timed(kind, self._plain.pid, records, self._plain.wait)
            _expect(_parquet_rows(target), records, f"rows in {target}")
            shutil.rmtree(target)
            return figures
        self._stage.create(name, 1)
        job |= {"kind": "lines", "topic": name, "directory": str(self._stage.file(warm_up).parent)}
        self._plain.begin(job)
        figures = _timed(kind, self._plain.pid, records, self._plain.wait)
        _expect(sum(self._stage.ends(name, 1).values()), records, f"records in {name}")
        self._stage.delete(name)
        return figures


def _size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0


def _parquet_rows(folder: Path) -> int:
    """Of data files: names that begin with _ are a sink's own."""
    from pyarrow import parquet

    files = [
        each
        for each in folder.rglob("*.parquet")
        if not any(part.startswith("_") for part in each.relative_to(folder).parts)
    ]
    return sum(parquet.read_metadata(each).num_rows for each in files)


def _expect(found: int, wanted: int, what: str) -> None:
    if found != wanted:
        raise AssertionError(f"{found:,} {what}, and not {wanted:,}")
