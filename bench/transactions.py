"""What transactions cost a node: librdkafka's producer commits small and large ones, and a reader reads their records.

The client is the same for both sides, so its own time is in every figure. Rounds alternate.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Consumer, Producer, TopicPartition

from barnabas.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest
from bench.sides import SIDES, make_node, usage_of
from tests.interop.raw_client import RawClient
from tests.peers import KafkaNode
from tests.peers.command_node import CommandNode

__all__ = ["QUICK", "TransactionSizes", "measure_transactions"]

Figures = dict[str, float]

_TOPIC = "transfers"
_PARTITIONS = 4
_VALUE = b"x" * 100
_LIMIT_S = 60.0
_WARM_UP = 100


class TransactionSizes(NamedTuple):
    """How many transactions of each size, and how many ids are open at once."""

    transactions: int = 2_000
    ids: int = 10_000
    read: int = 200_000
    """Records that are read, from transactions of 100."""


QUICK = TransactionSizes(50, 200, 2_000)


def measure_transactions(rounds: int, sizes: TransactionSizes) -> dict[str, list[Figures]]:
    """Return the figures of each round, by side."""
    found: dict[str, list[Figures]] = {side: [] for side in SIDES}
    for number in range(rounds):
        for side in SIDES if number % 2 == 0 else reversed(SIDES):
            with tempfile.TemporaryDirectory(prefix="barnabas-bench-") as folder:
                node = make_node(side, Path(folder) / "node")
                node.start()
                try:
                    figures = _measure(node, sizes)
                finally:
                    node.stop()
            found[side].append(figures)
            print(f"transactions, round {number + 1} of {rounds}, {side}", flush=True)
            for name, value in figures.items():
                print(f"  {name:50} {value:12.2f}", flush=True)
    return found


def _measure(node: KafkaNode | CommandNode, sizes: TransactionSizes) -> Figures:
    client = RawClient(node.port)
    topic = CreatableTopic(name=_TOPIC, num_partitions=_PARTITIONS, replication_factor=1)
    client.call(CreateTopicsRequest(topics=[topic], timeout_ms=30_000))
    figures: Figures = {}
    producer = Producer(
        {"bootstrap.servers": node.bootstrap_servers, "transactional.id": "bench", "linger.ms": 0, "log_level": 0}
    )
    producer.init_transactions(_LIMIT_S)
    _run(producer, _WARM_UP, 1)
    for records in (1, 10, 100):
        count = sizes.transactions if records < 100 else sizes.transactions // 2
        before = usage_of(node.pid).cpu_s
        began = time.perf_counter()
        commits = _run(producer, count, records)
        seconds = time.perf_counter() - began
        figures[f"{records} records each, transactions/s"] = count / seconds
        figures[f"{records} records each: commit p50, ms"] = statistics.median(commits) * 1000
        figures[f"{records} records each: commit p99, ms"] = sorted(commits)[int(len(commits) * 0.99)] * 1000
        used = usage_of(node.pid).cpu_s - before
        figures[f"{records} records each: CPU of a transaction, ms"] = used / count * 1000
    _run(producer, sizes.read // 100, 100)
    figures["read_committed, records/s"] = _read(node, sizes.read)
    figures[f"memory of {sizes.ids:,} transactional ids, MiB"] = _open_ids(node, client, sizes.ids)
    client.close()
    return figures


def _run(producer: Producer, count: int, records: int) -> list[float]:
    """Return how long each commit took, in seconds."""
    commits = []
    for _ in range(count):
        producer.begin_transaction()
        for number in range(records):
            producer.produce(_TOPIC, _VALUE, partition=number % _PARTITIONS)
        producer.flush(_LIMIT_S)
        began = time.perf_counter()
        producer.commit_transaction(_LIMIT_S)
        commits.append(time.perf_counter() - began)
    return commits


def _read(node: KafkaNode | CommandNode, count: int) -> float:
    consumer = Consumer(
        {
            "bootstrap.servers": node.bootstrap_servers,
            "group.id": "bench",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(_TOPIC, partition, 0) for partition in range(_PARTITIONS)])
    read, began = 0, time.perf_counter()
    while read < count:
        assert time.perf_counter() - began < _LIMIT_S, f"{read} of {count} records arrived"
        read += len(consumer.consume(10_000, 0.05))
    seconds = time.perf_counter() - began
    consumer.close()
    return read / seconds


def _open_ids(node: KafkaNode | CommandNode, client: RawClient, count: int) -> float:
    before = usage_of(node.pid).resident_mib
    _until(lambda: client.call(FindCoordinatorRequest(key_type=1, coordinator_keys=["id"])).coordinators[0])
    for number in range(count):
        request = InitProducerIdRequest(transactional_id=f"id-{number}", transaction_timeout_ms=60_000)
        _until(lambda request=request: client.call(request, 4))  # type: ignore[misc]
    return usage_of(node.pid).resident_mib - before


def _until(ask: Callable[[], object]) -> None:
    """Ask until there is no error."""
    deadline = time.monotonic() + _LIMIT_S
    while getattr(ask(), "error_code", 0):
        assert time.monotonic() < deadline
        time.sleep(0.01)
