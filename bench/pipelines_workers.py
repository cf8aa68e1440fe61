"""What small connectors cost a worker that has one, ten or fifty of them, while they have nothing to do.

Half of them write an empty topic each to Parquet, the others read a file each that has no lines. Each number has a
worker of its own, with a new group. The clock starts with the first request and ends when the status says that all
tasks run; the first of them starts Spark. Memory and CPU are those of the worker and its JVM, some time later.
"""

from __future__ import annotations

import itertools
import time
from pathlib import Path
from typing import NamedTuple

from barnabas.clients.admin.client import AdminClient
from barnabas.clients.admin.topics import NewTopic
from bench.connect_sides import (
    Worker,
    cpu_of_tree,
    is_all_running,
    make_worker,
    memory_of_tree,
    request,
    running_broker,
    wait_for,
)

__all__ = ["QUICK", "WorkerSizes", "measure_workers"]

_START_S = 600
_GROUPS = itertools.count()

Figures = dict[str, float]


class WorkerSizes(NamedTuple):
    connectors: tuple[int, ...] = (1, 10, 50)
    settle_s: float = 20
    idle_s: float = 30


QUICK = WorkerSizes((1, 4), settle_s=2, idle_s=3)


def measure_workers(folder: Path, rounds: int, sizes: WorkerSizes) -> dict[str, list[Figures]]:
    """Return the figures of each round by the number of connectors."""
    found: dict[str, list[Figures]] = {str(count): [] for count in sizes.connectors}
    with running_broker(folder / "broker") as broker:
        for number in range(rounds):
            for count in sizes.connectors if number % 2 == 0 else reversed(sizes.connectors):
                group = f"idle-{next(_GROUPS)}"
                worker = make_worker("barnabas", folder / group, broker.bootstrap_servers, group)
                worker.start(timeout_s=_START_S)
                try:
                    figures = _measure(worker, broker.bootstrap_servers, count, sizes)
                finally:
                    worker.stop(timeout_s=60)
                found[str(count)].append(figures)
                print(f"pipelines: {count} connectors: {figures}", flush=True)
    return found


def _measure(worker: Worker, bootstrap: str, count: int, sizes: WorkerSizes) -> Figures:
    configs = {f"small-{number}": _config(worker.folder, number) for number in range(count)}
    topics = [NewTopic(config["topics"], 1, 1) for config in configs.values() if "topics" in config]
    with AdminClient.sync(bootstrap) as admin:
        admin.create_topics(topics, wait=True).raise_for_errors()
    began_s = time.monotonic()
    for name, config in configs.items():
        request(worker.url, "PUT", f"/connectors/{name}/config", {**config, "tasks.max": "1"})
    created_s = time.monotonic() - began_s
    wait_for(lambda: is_all_running(worker.url, list(configs)), "all connectors", timeout_s=_START_S, pause_s=0.5)
    running_s = time.monotonic() - began_s
    time.sleep(sizes.settle_s)
    cpu_s = cpu_of_tree(worker.pid)
    time.sleep(sizes.idle_s)
    idle = (cpu_of_tree(worker.pid) - cpu_s) / sizes.idle_s
    return {
        "all requests answered, s": created_s,
        "all tasks running, s": running_s,
        "memory, MiB": memory_of_tree(worker.pid),
        "idle CPU, % of a core": 100 * idle,
    }


def _config(folder: Path, number: int) -> dict[str, str]:
    if number % 2 == 0:
        topic = f"{folder.name}-{number}"
        return {"connector.class": "TopicToFiles", "topics": topic, "directory": str(folder / topic)}
    file = folder / f"{number}.txt"
    file.touch()
    return {"connector.class": "FileStreamSource", "file": str(file), "topic": "nothing"}
