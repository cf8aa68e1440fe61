"""What is measured on a running node. Every function returns figures by name; the same code drives both sides."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

from barnabas.protocol.messages.api_versions import ApiVersionsRequest
from barnabas.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.protocol.messages.metadata import MetadataRequest
from bench.sides import start_measured, usage_of
from tests.interop.raw_client import RawClient
from tests.peers import KafkaNode, run_class
from tests.peers.command_node import CommandNode

__all__ = ["measure"]

Figures = dict[str, float]
AnyNode = KafkaNode | CommandNode

_RECORD_BYTES = 1000
_SETTLE_S = 3
_PRODUCED = re.compile(r"([\d.]+) records/sec \(([\d.]+) MB/sec\)")


def measure(node: AnyNode, *, records: int, topics: int) -> Figures:
    """One round on one node: start, load, many topics, stop."""
    figures: Figures = {}
    elapsed, usage = start_measured(node)
    figures["start to ready, s"] = elapsed
    figures["CPU of start, s"] = usage.cpu_s
    try:
        time.sleep(_SETTLE_S)
        figures["resident idle, MiB"] = usage_of(node.pid).resident_mib
        figures.update(_round_trips(node))
        figures.update(_throughput(node, records))
        figures["resident after load, MiB"] = usage_of(node.pid).resident_mib
        figures.update(_many_topics(node, topics))
    finally:
        node.stop()
    return figures


def _round_trips(node: AnyNode, count: int = 5000) -> Figures:
    """ApiVersions from one connection, one request at a time."""
    client = RawClient(node.port)
    request = ApiVersionsRequest(client_software_name="bench", client_software_version="1")
    for _ in range(count // 5):
        client.call(request)
    before, began = usage_of(node.pid).cpu_s, time.perf_counter()
    for _ in range(count):
        client.call(request)
    elapsed = time.perf_counter() - began
    cpu = usage_of(node.pid).cpu_s - before
    client.close()
    return {"ApiVersions round trips/s": count / elapsed, "CPU per ApiVersions, us": cpu / count * 1e6}


def _throughput(node: AnyNode, records: int) -> Figures:
    figures: Figures = {}
    _create(node, "perf", 1)
    for name, properties in (
        ("acks=1", ("acks=1", "enable.idempotence=false")),
        ("acks=all", ("acks=all", "enable.idempotence=false")),
        ("idempotent", ("acks=all", "enable.idempotence=true")),
    ):
        before = usage_of(node.pid).cpu_s
        figures[f"produce {name}, MB/s"] = _produce(node, records, properties)
        figures[f"CPU of produce {name}, s"] = usage_of(node.pid).cpu_s - before
    before = usage_of(node.pid).cpu_s
    figures["consume, MB/s"] = _consume(node, records * 3)
    figures["CPU of consume, s"] = usage_of(node.pid).cpu_s - before
    return figures


def _produce(node: AnyNode, records: int, properties: tuple[str, ...]) -> float:
    done = run_class(
        "producer-perf",
        "--topic", "perf",
        "--num-records", str(records),
        "--record-size", str(_RECORD_BYTES),
        "--throughput", "-1",
        "--producer-props", f"bootstrap.servers={node.bootstrap_servers}", *properties,
        timeout_s=600,
    )  # fmt: skip
    *_, last = _PRODUCED.findall(done.stdout)
    return float(last[1])


def _consume(node: AnyNode, records: int) -> float:
    """The time without forming the group, which the tool reports separately."""
    done = run_class(
        "consumer-perf",
        "--topic", "perf",
        "--num-records", str(records),
        "--bootstrap-server", node.bootstrap_servers,
        "--timeout", "60000",
        timeout_s=600,
    )  # fmt: skip
    columns = [column.strip() for column in done.stdout.strip().splitlines()[-1].split(",")]
    return float(columns[8])


def _create(node: AnyNode, name: str, partitions: int) -> None:
    client = RawClient(node.port, timeout_s=60)
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
    client.call(CreateTopicsRequest(topics=[topic], timeout_ms=60000))
    client.close()


def _many_topics(node: AnyNode, total: int, per_request: int = 500) -> Figures:
    """One-partition topics: 1,000 in small requests, then up to ``total`` in larger ones; then Metadata of all."""
    figures: Figures = {}
    client = RawClient(node.port, timeout_s=300)
    first = min(1000, total)
    figures[f"create {first} topics, s"] = _create_topics(client, 0, first, 10)
    if total > first:
        figures[f"create {total - first} more topics, s"] = _create_topics(client, first, total, per_request)
    _wait_for_topics(client, total)
    times = []
    for _ in range(20):
        began = time.perf_counter()
        client.exchange(MetadataRequest(topics=None), 12)
        times.append(time.perf_counter() - began)
    figures[f"Metadata of {total} topics, ms"] = sorted(times)[len(times) // 2] * 1000
    client.close()
    return figures


def _create_topics(client: RawClient, start: int, end: int, per_request: int) -> float:
    began = time.perf_counter()
    for base in range(start, end, per_request):
        request = CreateTopicsRequest(
            topics=[
                CreatableTopic(name=f"bench-{number:06d}", num_partitions=1, replication_factor=1)
                for number in range(base, min(base + per_request, end))
            ],
            timeout_ms=120000,
        )
        for result in client.call(request).topics:
            if result.error_code:
                raise AssertionError(f"{result.name}: error {result.error_code} {result.error_message}")
    return time.perf_counter() - began


def _wait_for_topics(client: RawClient, total: int) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        answer: Any = client.call(MetadataRequest(topics=None), 12)
        led = sum(
            1
            for topic in answer.topics
            if topic.name.startswith("bench-") and all(p.leader_id >= 0 for p in topic.partitions)
        )
        if led == total:
            return
        time.sleep(0.2)
    raise AssertionError(f"not all of {total} topics appeared")


def folder_for(base: Path, side: str, number: int) -> Path:
    return base / f"{side}-{number}"
