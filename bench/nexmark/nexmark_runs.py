"""NEXMark's queries through ``SqlPipeline`` and on PySpark written by hand, with the same settings, in turn.

``NexmarkSource`` fills the topics first, which is measured too. Then each query runs once on PySpark, which shows how
many rows it has, and writes the winning bids that queries 4 and 6 read. In the rounds, the clock starts when the status
says that the task runs, or the query that is written by hand has started; a query has run before in each process, so
Spark is warm. It ends when the output topic has all rows, which are counted. CPU is that of the process and its
children in that time.
"""

from __future__ import annotations

import itertools
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import NamedTuple, Protocol

from barnabas.clients.admin.client import AdminClient
from barnabas.clients.admin.partitions import OffsetSpec
from barnabas.clients.admin.topics import NewTopic
from barnabas.common.topic_partition import TopicPartition
from bench.connect_sides import (
    PlainSpark,
    Worker,
    cpu_of_tree,
    is_all_running,
    make_worker,
    request,
    running_broker,
    wait_for,
)
from bench.nexmark.nexmark_queries import INPUTS, QUERIES, NexmarkQuery, pipeline_config

__all__ = ["QUICK", "SIDES", "NexmarkSizes", "measure_nexmark"]

SIDES = ("spark", "barnabas")
_START_S = 180
_MOVE_S = 1_200
_LOOK_S = 0.1
_SETTLE_S = 1.5
"""How long to look for rows that are too many."""
_PARTITIONS = 4
_WARM_UP = QUERIES[0]
_SOURCE = "nexmark"
_TEXT = {
    "key.converter": "StringConverter",
    "value.converter": "JsonConverter",
    "value.converter.schemas.enable": "false",
}

Figures = dict[str, float]


_NAMES = tuple(query.name for query in QUERIES)


class NexmarkSizes(NamedTuple):
    events: int = 1_000_000
    queries: tuple[str, ...] = _NAMES


QUICK = NexmarkSizes(events=130_000)
"""13 seconds of event time, so that a window of ten closes."""


def measure_nexmark(folder: Path, rounds: int, sizes: NexmarkSizes) -> dict[str, list[Figures]]:
    """Return the figures of each round by side; those of the source under ``source``."""
    found: dict[str, list[Figures]] = {"source": [], **{side: [] for side in SIDES}}
    with running_broker(folder / "broker") as broker:
        stage = _Stage(broker.bootstrap_servers, sizes)
        with _worker(folder / "source", broker.bootstrap_servers) as worker:
            found["source"].append(stage.fill(worker))
        with _plain(folder / "counts", stage) as side:
            stage.count(side)
        for number in range(rounds):
            for name in SIDES if number % 2 == 0 else reversed(SIDES):
                began_s = time.monotonic()
                with _SIDES[name](folder / f"{name}-{number}", stage) as side:
                    found[name].append(stage.measure(side, name))
                print(f"nexmark: {name}: round {number + 1} took {time.monotonic() - began_s:.0f} s", flush=True)
    return found


class _Side(Protocol):
    @property
    def pid(self) -> int: ...

    def begin(self, query: NexmarkQuery, topic: str) -> None:
        """Return when the query runs."""

    def end(self) -> None:
        """Return when it has ended. It has written all rows."""


class _Stage:
    """The topics that both sides read, and how many rows each query has."""

    def __init__(self, bootstrap: str, sizes: NexmarkSizes) -> None:
        self.bootstrap_servers = bootstrap
        self._sizes = sizes
        self._admin = AdminClient.sync(bootstrap)
        self._rows: dict[str, int] = {}
        self._topics = itertools.count()

    @property
    def queries(self) -> Sequence[NexmarkQuery]:
        return [query for query in QUERIES if query.name in self._sizes.queries]

    def fill(self, worker: Worker) -> Figures:
        topics = [given.topic for given in INPUTS.values()]
        for topic in topics:
            self.create(topic)
        events = self._sizes.events
        config = {"connector.class": "NexmarkSource", "events": str(events), "events.per.second": "0"}
        config |= {"event.time.type": "text", "tasks.max": "1", **_TEXT}
        url = worker.url
        request(url, "PUT", f"/connectors/{_SOURCE}/config", config)
        wait_for(lambda: is_all_running(url, [_SOURCE]), f"{_SOURCE} running", timeout_s=_START_S)
        took_s, cpu_s = _timed(worker.pid, lambda: sum(map(self.end_of, topics)) >= events, "all events")
        if sum(map(self.end_of, topics)) != events:
            raise AssertionError(f"the topics have {sum(map(self.end_of, topics)):,} events, and not {events:,}")
        figures = {"records/s": events / took_s, "CPU, s a million records": cpu_s / events * 1e6}
        print(f"nexmark: source: {figures}", flush=True)
        return figures

    def count(self, side: _Side) -> None:
        for query in QUERIES:
            topic = f"nexmark-{query.name}"
            self.create(topic)
            side.begin(query, topic)
            side.end()
            self._rows[query.name] = self.end_of(topic)

    def measure(self, side: _Side, name: str) -> Figures:
        self._run(side, _WARM_UP)
        figures: Figures = {}
        for query in self.queries:
            took_s, cpu_s = self._run(side, query)
            records = sum(self.end_of(given.topic) for given in query.inputs.values())
            measured = {
                f"{query.name}, records/s": records / took_s,
                f"{query.name}: CPU, s a million records": cpu_s / records * 1e6,
            }
            figures |= measured
            print(f"nexmark: {name}: {measured}", flush=True)
        return figures

    def _run(self, side: _Side, query: NexmarkQuery) -> tuple[float, float]:
        topic, rows = f"out-{query.name}-{next(self._topics)}", self._rows[query.name]
        self.create(topic)
        side.begin(query, topic)
        took_s, cpu_s = _timed(side.pid, lambda: self.end_of(topic) >= rows, f"{rows} rows in {topic}")
        side.end()
        if self.end_of(topic) != rows:
            raise AssertionError(f"{query.name} wrote {self.end_of(topic):,} rows, and not {rows:,}")
        self._admin.delete_topics([topic]).raise_for_errors()
        return took_s, cpu_s

    def create(self, topic: str) -> None:
        self._admin.create_topics([NewTopic(topic, _PARTITIONS, 1)], wait=True).raise_for_errors()

    def end_of(self, topic: str) -> int:
        """Return the sum of the end offsets."""
        wanted = {TopicPartition(topic, index): OffsetSpec.latest() for index in range(_PARTITIONS)}
        return sum(found.offset for found in self._admin.list_offsets(wanted).raise_for_errors().values())


def _timed(pid: int, is_complete: Callable[[], bool], what: str) -> tuple[float, float]:
    """Return the seconds of the clock and of CPU until something is complete."""
    cpu_s, began_s = cpu_of_tree(pid), time.monotonic()
    wait_for(is_complete, what, timeout_s=_MOVE_S, pause_s=_LOOK_S)
    return time.monotonic() - began_s, cpu_of_tree(pid) - cpu_s


@contextmanager
def _worker(folder: Path, bootstrap: str) -> Iterator[Worker]:
    worker = make_worker("barnabas", folder, bootstrap, f"nexmark-{folder.name}")
    worker.start(timeout_s=_START_S)
    try:
        yield worker
    finally:
        worker.stop(timeout_s=60)
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _plain(folder: Path, stage: _Stage) -> Iterator[_Side]:
    plain = PlainSpark(folder, "tuned", "bench.nexmark.nexmark_plain")
    try:
        yield _PlainSide(plain, stage.bootstrap_servers)
    finally:
        plain.close()
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _pipelines(folder: Path, stage: _Stage) -> Iterator[_Side]:
    with _worker(folder, stage.bootstrap_servers) as worker:
        yield _PipelineSide(worker)


_SIDES: Mapping[str, Callable[[Path, _Stage], AbstractContextManager[_Side]]] = {
    "spark": _plain,
    "barnabas": _pipelines,
}


class _PlainSide:
    def __init__(self, plain: PlainSpark, bootstrap: str) -> None:
        self._plain = plain
        self._bootstrap = bootstrap

    @property
    def pid(self) -> int:
        return self._plain.pid

    def begin(self, query: NexmarkQuery, topic: str) -> None:
        self._plain.begin({"query": query.name, "topic": topic, "bootstrap": self._bootstrap})

    def end(self) -> None:
        self._plain.wait()


class _PipelineSide:
    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._name = ""

    @property
    def pid(self) -> int:
        return self._worker.pid

    def begin(self, query: NexmarkQuery, topic: str) -> None:
        url, self._name = self._worker.url, topic
        request(url, "PUT", f"/connectors/{topic}/config", {"tasks.max": "1", **pipeline_config(query, topic)})
        wait_for(lambda: is_all_running(url, [topic]), f"{topic} running", timeout_s=_START_S)

    def end(self) -> None:
        time.sleep(_SETTLE_S)
        if not is_all_running(self._worker.url, [self._name]):
            raise AssertionError(
                f"{self._name} failed: {request(self._worker.url, 'GET', f'/connectors/{self._name}/status')}"
            )
        request(self._worker.url, "DELETE", f"/connectors/{self._name}")
