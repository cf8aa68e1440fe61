"""What transactions cost: librdkafka's producer commits small and large ones, and a reader reads their records.

One node has every topic with one replica, with verification of partitions and without. Three brokers have three
replicas of every topic, and one of them is killed while it coordinates open transactions
(``transactions_cluster.py``). The client is the same for both sides, so its own time is in every figure. Rounds
alternate.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Producer

from barnabas.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from bench.sides import SIDES, make_node, usage_of
from bench.transactions_cluster import measure_cluster
from bench.transactions_load import (
    PARTITIONS,
    TOPIC,
    Figures,
    commit_figures,
    open_transaction,
    read_committed,
    run_transactions,
    until_answered,
    warm_producer,
)
from tests.interop.raw_client import RawClient
from tests.peers import KafkaNode
from tests.peers.command_node import CommandNode

__all__ = ["QUICK", "TransactionSizes", "measure_transactions"]

_VERIFICATION = "transaction.partition.verification.enable"


class TransactionSizes(NamedTuple):
    """How many transactions of each size, and how many ids have an open transaction at once."""

    transactions: int = 2_000
    ids: int = 10_000
    read: int = 200_000
    """Records that are read, from transactions of 100."""
    lost: int = 1_000
    """Open transactions whose coordinator is killed."""


QUICK = TransactionSizes(50, 200, 2_000, 50)


def measure_transactions(rounds: int, sizes: TransactionSizes) -> dict[str, list[Figures]]:
    """Return the figures of each round, by side."""
    found: dict[str, list[Figures]] = {side: [] for side in SIDES}
    for number in range(rounds):
        for side in SIDES if number % 2 == 0 else reversed(SIDES):
            figures: Figures = {}
            with tempfile.TemporaryDirectory(prefix="barnabas-bench-") as folder:
                for is_verified in (True, False):
                    settings = {_VERIFICATION: str(is_verified).lower()}
                    node = make_node(side, Path(folder) / f"node-{is_verified}", settings=settings)
                    node.start()
                    try:
                        figures |= (_measure if is_verified else _measure_unverified)(node, sizes)
                    finally:
                        node.stop()
                figures |= measure_cluster(side, Path(folder) / "cluster", sizes.transactions, sizes.read, sizes.lost)
            found[side].append(figures)
            print(f"transactions, round {number + 1} of {rounds}, {side}", flush=True)
            for name, value in figures.items():
                print(f"  {name:50} {value:12.2f}", flush=True)
    return found


def _measure(node: KafkaNode | CommandNode, sizes: TransactionSizes) -> Figures:
    client = RawClient(node.port)
    producer = _prepare(node, client)
    figures: Figures = {}
    for records in (1, 10, 100):
        count = sizes.transactions if records < 100 else sizes.transactions // 2
        figures |= commit_figures(f"{records} records each", producer, [node.pid], count, records)
    run_transactions(producer, sizes.read // 100, 100)
    figures["read_committed, records/s"] = read_committed(node.bootstrap_servers, sizes.read)
    figures[f"memory of {sizes.ids:,} open transactions, MiB"] = _open_ids(node, client, sizes.ids)
    client.close()
    return figures


def _measure_unverified(node: KafkaNode | CommandNode, sizes: TransactionSizes) -> Figures:
    client = RawClient(node.port)
    producer = _prepare(node, client)
    client.close()
    return commit_figures("10 records each, without verification", producer, [node.pid], sizes.transactions, 10)


def _prepare(node: KafkaNode | CommandNode, client: RawClient) -> Producer:
    topic = CreatableTopic(name=TOPIC, num_partitions=PARTITIONS, replication_factor=1)
    client.call(CreateTopicsRequest(topics=[topic], timeout_ms=30_000))
    return warm_producer(node.bootstrap_servers)


def _open_ids(node: KafkaNode | CommandNode, client: RawClient, count: int) -> float:
    before = usage_of(node.pid).resident_mib
    until_answered(lambda: client.call(FindCoordinatorRequest(key_type=1, coordinator_keys=["id"])).coordinators[0])
    for number in range(count):
        open_transaction(client, f"id-{number}")
    return usage_of(node.pid).resident_mib - before
