"""``python -m bench.first_record``: a fresh process that needs a broker, as a test suite does, up to its first record.

Reads a JSON object from standard input: ``prepare`` (commands that run first), ``command`` (the broker), ``port``, and
``folder`` for the output of both. With ``command`` empty it uses ``barnabas.testing`` instead. The client is
confluent-kafka in all cases: it creates a topic, writes a record and reads it. Prints a JSON object with seconds and
MiB. The broker has ended when this process ends.
"""

from __future__ import annotations

import json
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

__all__ = ["main"]

_START_S = 60
_RECORD_S = 30
_API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 1, -1)
"""ApiVersions in version 0, with correlation id 1 and without a client id."""


def main() -> None:
    task = json.loads(sys.stdin.read())
    began: float = task["began"]
    if not task["command"]:
        figures = _with_testing(began)
    else:
        folder = Path(task["folder"])
        with (folder / "broker.log").open("ab") as log:
            for command in task["prepare"]:
                subprocess.run(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder, check=True)
            figures = _with_broker(task["command"], task["port"], folder, log.fileno(), began)
    print(json.dumps(figures))


def _with_testing(began: float) -> Mapping[str, float]:
    from barnabas.testing import Node

    with Node() as node:
        _write_and_read(node.bootstrap_servers)
        return {"record_s": _now() - began, "resident_mib": _resident_mib(node.pid)}


def _with_broker(command: Sequence[str], port: int, folder: Path, log: int, began: float) -> Mapping[str, float]:
    launched = _now()
    with _running(command, folder, log) as pid:
        _wait_until_ready(port, pid)
        start_s, start_cpu_s = _now() - launched, _cpu_s(pid)
        _write_and_read(f"127.0.0.1:{port}")
        return {
            "start_s": start_s,
            "start_cpu_s": start_cpu_s,
            "record_s": _now() - began,
            "resident_mib": _resident_mib(pid),
        }


@contextmanager
def _running(command: Sequence[str], folder: Path, log: int) -> Iterator[int]:
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder)
    try:
        yield process.pid
    finally:
        process.terminate()
        try:
            process.wait(_START_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_until_ready(port: int, pid: int) -> None:
    """Return when the broker has answered a request."""
    deadline = _now() + _START_S
    while True:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=_START_S) as connection:
                connection.sendall(_API_VERSIONS)
                if connection.recv(4):
                    return
        except OSError:
            pass
        if not _is_running(pid):
            raise SystemExit("the broker ended before it was ready")
        if _now() > deadline:
            raise SystemExit(f"the broker did not answer within {_START_S} s")
        time.sleep(0.005)


def _write_and_read(bootstrap: str) -> None:
    from confluent_kafka import Consumer, Producer, TopicPartition
    from confluent_kafka.admin import AdminClient, NewTopic

    servers: dict[str, str | int | float | bool] = {"bootstrap.servers": bootstrap}
    admin = AdminClient(servers)
    admin.create_topics([NewTopic("first", 1, 1)])["first"].result(_RECORD_S)
    producer = Producer(servers)
    producer.produce("first", b"one espresso")
    if producer.flush(_RECORD_S):
        raise SystemExit(f"the record was not written within {_RECORD_S} s")
    consumer = Consumer({**servers, "group.id": "first-steps", "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition("first", 0, 0)])
        deadline = _now() + _RECORD_S
        while _now() < deadline:
            message = consumer.poll(1)
            if message is not None and message.error() is None:
                if message.value() != b"one espresso":
                    raise SystemExit(f"read {message.value()!r}, which was not written")
                return
        raise SystemExit(f"the record was not read within {_RECORD_S} s")
    finally:
        consumer.close()


def _now() -> float:
    return time.clock_gettime(time.CLOCK_MONOTONIC)


def _is_running(pid: int) -> bool:
    """Return whether a child process runs; one that ended and was not waited for does not."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"


def _cpu_s(pid: int) -> float:
    """Return the CPU time of all threads of another process, from the clock that Linux has for each process."""
    return time.clock_gettime(~pid << 3 | 2)


def _resident_mib(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


if __name__ == "__main__":
    main()
