"""Two workers of a side in a group: how soon work goes on when one leaves or dies, and how fast REST answers.

Both sides have the same time-outs: a worker that was killed is missed after ``session.timeout.ms``, 10 s, and the rest
waits another ``scheduled.rebalance.max.delay.ms`` for it, 10 s instead of five minutes so that it ends some day. Work
goes on when the status says that each connector and task runs on the worker that is left.
"""

from __future__ import annotations

import http.client
import json
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.connect_sides import Worker, is_all_running, make_worker, request, wait_for
from bench.quorum import percentile

__all__ = ["measure_group"]

_SETTINGS = {
    "session.timeout.ms": "10000",
    "heartbeat.interval.ms": "3000",
    "scheduled.rebalance.max.delay.ms": "10000",
}
_START_S = 180
_MOVE_S = 180
_SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"

Figures = dict[str, float]


def measure_group(
    side: str, folder: Path, bootstrap: str, *, connectors: int, requests: int, creations: int
) -> Figures:
    workers = [
        make_worker(side, folder / str(number), bootstrap, f"group-{folder.parent.name}", _SETTINGS)
        for number in range(2)
    ]
    try:
        for worker in workers:
            worker.start(timeout_s=_START_S)
        names = [f"lines-{number}" for number in range(connectors)]
        for name in names:
            _create(workers[0].url, name, folder)
        _wait_until_shared(workers, names)
        figures = _rest(workers[0], names[0], requests, creations)
        return figures | _moves(workers, names)
    finally:
        for worker in workers:
            worker.kill()


def _create(url: str, name: str, folder: Path) -> None:
    """A connector whose file has nothing yet: it runs and has nothing to do."""
    file = folder / f"{name}.txt"
    file.touch()
    config = {"connector.class": _SOURCE, "tasks.max": "1", "file": str(file), "topic": "nothing"}
    request(url, "POST", "/connectors", {"name": name, "config": config})


def _wait_until_shared(workers: Sequence[Worker], names: Sequence[str]) -> None:
    """Everything runs, and each worker has something of it, so that both are warm."""

    def is_shared() -> bool:
        if not is_all_running(workers[0].url, names):
            return False
        owners = {
            task["worker_id"]
            for name in names
            for task in request(workers[0].url, "GET", f"/connectors/{name}/status")["tasks"]
        }
        return len(owners) == len(workers)

    wait_for(is_shared, "connectors on both workers", timeout_s=_START_S, pause_s=0.2)


def _rest(worker: Worker, connector: str, requests: int, creations: int) -> Figures:
    """Measure the leader with one client, one request after another. Created connectors are initially stopped, so
    that their tasks are not included."""
    connection = http.client.HTTPConnection("127.0.0.1", worker.port, timeout=60)
    try:
        for _ in range(20):
            _ask(connection, "GET", f"/connectors/{connector}/status")
        status = [_timed(lambda: _ask(connection, "GET", f"/connectors/{connector}/status")) for _ in range(requests)]
        created = []
        for number in range(creations):
            config = {"connector.class": _SOURCE, "tasks.max": "1", "file": "/nonexistent", "topic": "nothing"}
            body = {"name": f"created-{number}", "config": config, "initial_state": "STOPPED"}
            created.append(_timed(lambda body=body: _ask(connection, "POST", "/connectors", body)))  # type: ignore[misc]
        for number in range(creations):
            _ask(connection, "DELETE", f"/connectors/created-{number}")
    finally:
        connection.close()
    return {
        "GET status: median, ms": statistics.median(status) * 1e3,
        "GET status: p99, ms": percentile(status, 0.99) * 1e3,
        "create a connector: median, ms": statistics.median(created) * 1e3,
        "create a connector: p99, ms": percentile(created, 0.99) * 1e3,
    }


def _timed(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def _ask(connection: http.client.HTTPConnection, method: str, path: str, body: object = None) -> None:
    """Again while the answer is 409, as every client has to during a rebalance; that is part of the time."""
    data = None if body is None else json.dumps(body)
    deadline = time.monotonic() + 60
    while True:
        connection.request(method, path, data, {"Content-Type": "application/json"} if data else {})
        answer = connection.getresponse()
        text = answer.read()
        if answer.status < 300:
            return
        if answer.status != 409 or time.monotonic() > deadline:
            raise AssertionError(f"{method} {path}: {answer.status} {text!r}")
        time.sleep(0.01)


def _moves(workers: Sequence[Worker], names: Sequence[str]) -> Figures:
    """The second worker leaves, comes back, and is killed."""
    stays, leaves = workers
    stopping = threading.Thread(target=lambda: leaves.stop(timeout_s=90))
    left = _until_on(stays, names, stopping.start)
    stopping.join()
    leaves.start(timeout_s=_START_S)
    _wait_until_shared(workers, names)
    killed = _until_on(stays, names, leaves.kill)
    return {"a worker leaves, until all runs, s": left, "a worker is killed, until all runs, s": killed}


def _until_on(worker: Worker, names: Sequence[str], happens: Callable[[], object]) -> float:
    worker_id = f"127.0.0.1:{worker.port}"
    began = time.perf_counter()
    happens()
    wait_for(lambda: is_all_running(worker.url, names, worker_id), "work on the worker that is left", timeout_s=_MOVE_S)
    return time.perf_counter() - began
