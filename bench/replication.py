"""The cost of replication, and the time to continue after a leader has stopped: three brokers of each side.

- following: another broker leads 1,000 partitions with a record in each; a follower's additional memory, its CPU.
- leaders move: the broker that leads 1,000 partitions is stopped, and later killed; the time until each accepts a
  record with acks=all from another leader. A killed broker is detected after
  ``broker.session.timeout.ms``, 3 s on both sides.
- producing: Kafka's own tool with acks=all to six partitions with three replicas, at full speed, and at 1,000
  records a second.
- moving: partitions of one replica are reassigned to other brokers.
"""

from __future__ import annotations

import re
import tempfile
import threading
import time
from pathlib import Path
from typing import NamedTuple

from barnabas.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from barnabas.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from bench.replication_cluster import BROKERS, ReplicatedCluster, running_cluster
from bench.sides import SIDES, usage_of
from tests.peers import run_class
from tests.peers.quorums import wait_until

__all__ = ["QUICK", "ReplicationSizes", "measure_replication"]

_PRODUCED = re.compile(r"([\d.]+) records/sec \(([\d.]+) MB/sec\).*?(\d+) ms 50th.*?(\d+) ms 99th")
_RECORD_BYTES = 1_000
_LARGE_RECORD_BYTES = 10_000
_MOVED_PARTITIONS = 4
_MB = 1_000_000

Figures = dict[str, float]


class ReplicationSizes(NamedTuple):
    """How much of everything; the default is what the page is about."""

    partitions: int = 1_000
    idle_s: float = 10
    records: int = 500_000
    slow_records: int = 20_000
    slow_rate: int = 1_000
    moved_mb: int = 2_000


QUICK = ReplicationSizes(partitions=50, idle_s=1, records=20_000, slow_records=1_000, moved_mb=40)
"""Shows that everything works, and no more."""


def measure_replication(rounds: int, sizes: ReplicationSizes | None = None) -> dict[str, list[Figures]]:
    """The figures of each round by side; the sides take turns."""
    found: dict[str, list[Figures]] = {side: [] for side in SIDES}
    with tempfile.TemporaryDirectory(prefix="barnabas-bench-") as folder:
        for number in range(rounds):
            for side in SIDES if number % 2 == 0 else reversed(SIDES):
                began = time.monotonic()
                found[side].append(_measure_round(side, Path(folder) / f"{side}-{number}", sizes or ReplicationSizes()))
                for name, value in found[side][-1].items():
                    print(f"replication: {side}: {name} {value:,.4g}", flush=True)
                print(f"replication: {side}: round {number + 1} took {time.monotonic() - began:.0f} s", flush=True)
    return found


def _measure_round(side: str, folder: Path, sizes: ReplicationSizes) -> Figures:
    with running_cluster(side, folder) as cluster:
        return {
            **_following(cluster, sizes),
            **_leaders_move(cluster, sizes),
            **_producing(cluster, sizes),
            **_moving(cluster, sizes),
        }


def _following(cluster: ReplicatedCluster, sizes: ReplicationSizes) -> Figures:
    follower = cluster.brokers[2].pid
    time.sleep(sizes.idle_s / 2)
    before = usage_of(follower)
    cluster.create("led", [BROKERS] * sizes.partitions)
    cluster.write_to_all("led", 2)
    time.sleep(sizes.idle_s / 2)
    settled = usage_of(follower)
    time.sleep(sizes.idle_s)
    after = usage_of(follower)
    added_kib = (settled.resident_mib - before.resident_mib) * 1024
    return {
        "memory of a follower's partition, KiB": max(added_kib, 0) / sizes.partitions,
        f"CPU of following {sizes.partitions:,} idle partitions, % of a core": (after.cpu_s - settled.cpu_s)
        / sizes.idle_s
        * 100,
    }


def _leaders_move(cluster: ReplicatedCluster, sizes: ReplicationSizes) -> Figures:
    leader = cluster.brokers[1]
    stopping = threading.Thread(target=lambda: leader.stop(timeout_s=60))
    began = time.perf_counter()
    stopping.start()
    cluster.write_to_all("led", 2, without=1)
    stopped = time.perf_counter() - began
    stopping.join()
    leader.start()
    cluster.wait_until_in_sync("led", len(BROKERS))
    cluster.prefer_first_leaders("led")
    leader.kill()
    began = time.perf_counter()
    cluster.write_to_all("led", 2, without=1)
    killed = time.perf_counter() - began
    leader.start()
    cluster.wait_until_in_sync("led", len(BROKERS))
    what = f"{sizes.partitions:,} leaders move"
    return {f"{what}, stopped broker, s": stopped, f"{what}, killed broker, s": killed}


def _producing(cluster: ReplicatedCluster, sizes: ReplicationSizes) -> Figures:
    cluster.create("produced", [[BROKERS[(index + place) % 3] for place in range(3)] for index in range(6)])
    before = sum(usage_of(broker.pid).cpu_s for broker in cluster.brokers.values())
    rate, *_ = _produce(cluster, "produced", sizes.records, _RECORD_BYTES, -1)
    cpu_s = sum(usage_of(broker.pid).cpu_s for broker in cluster.brokers.values()) - before
    _, median, p99 = _produce(cluster, "produced", sizes.slow_records, _RECORD_BYTES, sizes.slow_rate)
    return {
        "produce with acks=all, MB/s": rate,
        "produce with acks=all: CPU of all brokers, s/GB": cpu_s / (sizes.records * _RECORD_BYTES / 1e9),
        f"{sizes.slow_rate:,} records/s with acks=all: median, ms": median,
        f"{sizes.slow_rate:,} records/s with acks=all: p99, ms": p99,
    }


def _moving(cluster: ReplicatedCluster, sizes: ReplicationSizes) -> Figures:
    cluster.create("moved", [[1]] * _MOVED_PARTITIONS)
    _produce(cluster, "moved", sizes.moved_mb * _MB // _LARGE_RECORD_BYTES, _LARGE_RECORD_BYTES, -1, acks="1")
    partitions = [
        ReassignablePartition(partition_index=index, replicas=[2 + index % 2]) for index in range(_MOVED_PARTITIONS)
    ]
    topics = [ReassignableTopic(name="moved", partitions=partitions)]
    began = time.perf_counter()
    answer = cluster.ask(1, AlterPartitionReassignmentsRequest(topics=topics, timeout_ms=60_000))
    if answer.error_code or any(each.error_code for each in answer.responses[0].partitions):
        raise AssertionError(answer)
    wait_until(
        lambda: not cluster.ask(2, ListPartitionReassignmentsRequest(topics=None)).topics,
        what="the end of a reassignment",
        timeout_s=600,
    )
    return {f"{sizes.moved_mb:,} MB reassigned, MB/s": sizes.moved_mb / (time.perf_counter() - began)}


def _produce(
    cluster: ReplicatedCluster, topic: str, records: int, record_bytes: int, rate: int, *, acks: str = "all"
) -> tuple[float, float, float]:
    """MB/s, and median and p99 of the time that a record took, in ms."""
    done = run_class(
        "producer-perf",
        "--topic", topic,
        "--num-records", str(records),
        "--record-size", str(record_bytes),
        "--throughput", str(rate),
        "--producer-props", f"bootstrap.servers={cluster.bootstrap_servers}", f"acks={acks}",
        timeout_s=900,
    )  # fmt: skip
    *_, last = _PRODUCED.findall(done.stdout)
    return float(last[1]), float(last[2]), float(last[3])
