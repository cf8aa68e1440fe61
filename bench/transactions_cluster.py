"""Transactions of three brokers with three replicas of every topic, and the loss of a coordinator with open ones.

A broker that was killed is missed after ``broker.session.timeout.ms``, 3 s on both sides, which is part of the time
until its transactions can be committed through its successors.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from barnabas.protocol.messages.end_txn import EndTxnRequest
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from bench.replication_cluster import BROKERS, ReplicatedCluster, running_cluster
from bench.transactions_load import (
    LIMIT_S,
    PARTITIONS,
    TOPIC,
    Figures,
    commit_figures,
    open_transaction,
    read_committed,
    run_transactions,
    warm_producer,
)
from tests.interop.raw_client import RawClient
from tests.peers.quorums import wait_until

__all__ = ["measure_cluster"]

_SETTINGS = {
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "transaction.state.log.num.partitions": "12",
}
_KILLED = 3
_ASKED = 1
_KEYS_AT_ONCE = 100


def measure_cluster(side: str, folder: Path, transactions: int, read: int, lost: int) -> Figures:
    """Return the figures of a new cluster: so many transactions, records to read, and open ones to lose."""
    with running_cluster(side, folder, _SETTINGS) as cluster:
        # The killed broker leads no partition of the topic, so that only the coordinators move.
        cluster.create(TOPIC, [[(1, 2, 3), (2, 1, 3)][partition % 2] for partition in range(PARTITIONS)])
        producer = warm_producer(cluster.bootstrap_servers)
        pids = [broker.pid for broker in cluster.brokers.values()]
        figures = commit_figures("three replicas, 10 records each", producer, pids, transactions, 10)
        run_transactions(producer, read // 100, 100)
        figures["three replicas, read_committed, records/s"] = read_committed(cluster.bootstrap_servers, read)
        return figures | _lose_coordinator(cluster, lost)


def _lose_coordinator(cluster: ReplicatedCluster, count: int) -> Figures:
    ids = _coordinated_by(cluster, _KILLED, count)
    client = RawClient(cluster.brokers[_KILLED].port)
    producers = {name: open_transaction(client, name) for name in ids}
    client.close()
    cluster.brokers[_KILLED].kill()
    began = time.perf_counter()
    first_s = 0.0
    waiting = dict(producers)
    clients = {broker: RawClient(cluster.brokers[broker].port) for broker in BROKERS if broker != _KILLED}
    while waiting:
        assert time.perf_counter() - began < LIMIT_S, f"{len(waiting)} of {count} transactions are still open"
        for name, broker in _coordinators(clients[_ASKED], list(waiting)).items():
            if broker in clients and _commit(clients[broker], name, *waiting[name]):
                del waiting[name]
                first_s = first_s or time.perf_counter() - began
    last_s = time.perf_counter() - began
    for client in clients.values():
        client.close()
    return {
        f"coordinator of {count:,} open transactions killed: first commit, s": first_s,
        f"coordinator of {count:,} open transactions killed: last commit, s": last_s,
    }


def _coordinated_by(cluster: ReplicatedCluster, broker: int, count: int) -> list[str]:
    """Return so many transactional ids of the broker, as soon as every id has a coordinator."""
    names = [f"lost-{number}" for number in range(count * 6)]
    client = RawClient(cluster.brokers[_ASKED].port)
    found: dict[str, int] = {}

    def are_found() -> bool:
        found.update(_coordinators(client, names))
        return len(found) == len(names)

    wait_until(are_found, what="coordinators of all ids", timeout_s=60)
    client.close()
    chosen = [name for name in names if found[name] == broker][:count]
    assert len(chosen) == count, f"broker {broker} coordinates only {len(chosen)} of {len(names)} ids"
    return chosen


def _coordinators(client: RawClient, names: list[str]) -> dict[str, int]:
    """Return the coordinator of each id that has one."""
    found: dict[str, int] = {}
    for start in range(0, len(names), _KEYS_AT_ONCE):
        request = FindCoordinatorRequest(key_type=1, coordinator_keys=names[start : start + _KEYS_AT_ONCE])
        answers: list[Any] = client.call(request).coordinators
        found.update({answer.key: answer.node_id for answer in answers if not answer.error_code})
    return found


def _commit(client: RawClient, name: str, producer_id: int, epoch: int) -> bool:
    request = EndTxnRequest(transactional_id=name, producer_id=producer_id, producer_epoch=epoch, committed=True)
    return not client.call(request, 4).error_code
