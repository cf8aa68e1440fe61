"""The load of the benchmark of transactions: a producer and a reader of librdkafka, and many open transactions."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from barnabas.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest
from bench.sides import usage_of
from tests.interop.raw_client import RawClient

__all__ = [
    "LIMIT_S",
    "PARTITIONS",
    "TOPIC",
    "Figures",
    "commit_figures",
    "open_transaction",
    "read_committed",
    "run_transactions",
    "until_answered",
    "warm_producer",
]

Figures = dict[str, float]

TOPIC = "transfers"
PARTITIONS = 4
LIMIT_S = 60.0
_VALUE = b"x" * 100
_WARM_UP = 100
_TRANSACTION_MS = 600_000
_READINGS = 3


def warm_producer(servers: str) -> Producer:
    """Return a producer that has committed some transactions."""
    producer = Producer({"bootstrap.servers": servers, "transactional.id": "bench", "linger.ms": 0, "log_level": 0})
    producer.init_transactions(LIMIT_S)
    run_transactions(producer, _WARM_UP, 1)
    return producer


def commit_figures(name: str, producer: Producer, pids: Sequence[int], count: int, records: int) -> Figures:
    """Commit so many transactions, and return their rate, the latency of their commits, and the CPU of the nodes."""
    before = _cpu_s(pids)
    began = time.perf_counter()
    commits = run_transactions(producer, count, records)
    seconds = time.perf_counter() - began
    return {
        f"{name}, transactions/s": count / seconds,
        f"{name}: commit p50, ms": statistics.median(commits) * 1000,
        f"{name}: commit p99, ms": sorted(commits)[int(len(commits) * 0.99)] * 1000,
        f"{name}: CPU of a transaction, ms": (_cpu_s(pids) - before) / count * 1000,
    }


def run_transactions(producer: Producer, count: int, records: int) -> list[float]:
    """Return how long each commit took, in seconds."""
    commits = []
    for _ in range(count):
        producer.begin_transaction()
        for number in range(records):
            producer.produce(TOPIC, _VALUE, partition=number % PARTITIONS)
        producer.flush(LIMIT_S)
        began = time.perf_counter()
        producer.commit_transaction(LIMIT_S)
        commits.append(time.perf_counter() - began)
    return commits


def read_committed(servers: str, count: int) -> float:
    """Return how many records a second a reader of committed records receives, as the median of its readings."""
    return statistics.median(_read_committed(servers, count) for _ in range(_READINGS))


def _read_committed(servers: str, count: int) -> float:
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "bench",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            # By default it stops fetching for a second when it is 100,000 records ahead: that second would be measured.
            "queued.min.messages": count,
            "fetch.queue.backoff.ms": 1,
        }
    )
    consumer.assign([TopicPartition(TOPIC, partition, 0) for partition in range(PARTITIONS)])
    read, began = 0, time.perf_counter()
    while read < count:
        assert time.perf_counter() - began < LIMIT_S, f"{read} of {count} records arrived"
        read += len(consumer.consume(10_000, 0.05))
    seconds = time.perf_counter() - began
    consumer.close()
    return read / seconds


def open_transaction(client: RawClient, transactional_id: str) -> tuple[int, int]:
    """Begin a transaction in one partition, at its coordinator. Return the producer's id and epoch."""
    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=_TRANSACTION_MS)
    found = until_answered(lambda: client.call(request, 4))
    adding = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=found.producer_id,
        v3_and_below_producer_epoch=found.producer_epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name=TOPIC, partitions=[0])],
    )

    def add() -> Any:
        return client.call(adding, 3).results_by_topic_v3_and_below[0].results_by_partition[0]

    until_answered(add)
    return found.producer_id, found.producer_epoch


def until_answered(ask: Callable[[], Any]) -> Any:
    """Ask until the answer has no error."""
    deadline = time.monotonic() + LIMIT_S
    while True:
        answer = ask()
        if not getattr(answer, "error_code", 0) and not getattr(answer, "partition_error_code", 0):
            return answer
        assert time.monotonic() < deadline, answer
        time.sleep(0.002)


def _cpu_s(pids: Sequence[int]) -> float:
    return sum(usage_of(pid).cpu_s for pid in pids)
