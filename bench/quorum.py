"""The times of a quorum of controllers: start, failover, forwarded requests, loading a snapshot.

The same requests go to both sides. A controller counts as active when it has committed a requested change.

- start: three formatted voters are launched at once, with nothing in the log.
- forwarding: through a broker-only node, by one client and by 16 concurrent ones, each one request after another.
- failover: SIGKILL to the active one of three, and a broker receives a change immediately, and again until it succeeds.
- failover of a filled quorum: the same for three voters with partitions in their logs, requesting the new active one.
- snapshot: one voter, killed and started again, with ACLs and partitions in a snapshot and next to nothing in the log;
  and the same voter with nothing. Its brokers don't run, so that it is alone on the machine.
"""

from __future__ import annotations

import math
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from barnabas.common.resource import ResourceType
from barnabas.protocol.messages.create_acls import CreateAclsRequest
from barnabas.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.protocol.messages.describe_acls import DescribeAclsRequest
from barnabas.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.protocol.schema import Message, Request
from bench.admin import check_answer, version_of
from bench.quorum_cluster import (
    acl,
    active_controller,
    broker_of,
    quorum_of,
    wait_for_change,
    wait_until_followed,
)
from bench.sides import SIDES
from tests.interop.raw_client import RawClient
from tests.peers.quorums import ControllerNode, Quorum, wait_until

__all__ = ["QUICK", "QuorumSizes", "measure_quorum", "percentile"]

_VOTERS = 3
_CLIENTS = (1, 16)
_PARTITIONS_PER_TOPIC = 100
_PARTITIONS_PER_LARGE_TOPIC = 1_000
_ACLS_PER_REQUEST = 1_000
_ANSWER_S = 90
_TOPIC = "forwarded-settings"
_ANY = 1
_SET = 0
_FILLED = {"broker.session.timeout.ms": "600000"}
"""Keeps the broker of the partitions registered as alive after it has stopped."""
_SNAPSHOTS = "metadata.log.max.record.bytes.between.snapshots"
_SNAPSHOT_BYTES_PER_ACL = 40
"""Less than an ACL takes in a snapshot: a smaller file is not the one that is waited for."""


class QuorumSizes(NamedTuple):
    """How much of everything; the default is what the page is about."""

    starts: int = 3
    kills: int = 5
    warm_up: int = 10
    requests_of_one: int = 200
    requests_of_each: int = 50
    """With 16 clients."""
    acls: int = 100_000
    partitions: int = 10_000
    restarts: int = 3
    failover_partitions: int = 100_000
    failover_kills: int = 3


QUICK = QuorumSizes(
    starts=1,
    kills=1,
    warm_up=2,
    requests_of_one=20,
    requests_of_each=5,
    acls=5_000,
    partitions=500,
    restarts=1,
    failover_partitions=2_000,
    failover_kills=1,
)
"""Shows that everything works, and no more."""

Figures = dict[str, float]


def measure_quorum(rounds: int, sizes: QuorumSizes | None = None) -> dict[str, list[Figures]]:
    """The figures of each round by side; the sides take turns."""
    found: dict[str, list[Figures]] = {side: [] for side in SIDES}
    with tempfile.TemporaryDirectory(prefix="barnabas-bench-") as folder:
        for number in range(rounds):
            for side in SIDES if number % 2 == 0 else reversed(SIDES):
                began = time.monotonic()
                found[side].append(_measure_round(side, Path(folder) / f"{side}-{number}", sizes or QuorumSizes()))
                for name, value in found[side][-1].items():
                    print(f"quorum: {side}: {name} {value:,.4g}", flush=True)
                print(f"quorum: {side}: round {number + 1} took {time.monotonic() - began:.0f} s", flush=True)
    return found


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that this share of the values doesn't exceed."""
    return sorted(values)[max(math.ceil(share * len(values)) - 1, 0)]


def _measure_round(side: str, folder: Path, sizes: QuorumSizes) -> Figures:
    figures: Figures = {}
    starts = []
    for number in range(sizes.starts):
        quorum = quorum_of(side, folder / f"quorum-{number}", _VOTERS)
        try:
            starts.append(_start_to_active(quorum, "start"))
            if number == sizes.starts - 1:
                figures["start to active, 3 fresh voters, s"] = statistics.median(starts)
                figures.update(_with_broker(side, folder / "broker", quorum, sizes))
        finally:
            quorum.kill()
    figures.update(_filled_failovers(side, folder, sizes))
    figures.update(_snapshot_load(side, folder, sizes))
    return figures


def _start_to_active(quorum: Quorum, principal: str) -> float:
    began = time.perf_counter()
    for controller in quorum.controllers:
        controller.launch()
    return wait_for_change(quorum, principal) - began


def _with_broker(side: str, folder: Path, quorum: Quorum, sizes: QuorumSizes) -> Figures:
    broker = broker_of(side, folder, quorum)
    broker.start()
    try:
        return {**_forwarding(broker.port, sizes), **_failovers(broker.port, quorum, sizes.kills)}
    finally:
        broker.kill()


def _forwarding(port: int, sizes: QuorumSizes) -> Figures:
    figures: Figures = {}
    topic = CreatableTopic(name=_TOPIC, num_partitions=1, replication_factor=1)
    _exchange_all(port, [CreateTopicsRequest(topics=[topic], timeout_ms=60_000)])
    makers: dict[str, Callable[[str, int], Request[Message]]] = {
        "createTopics": _new_topic,
        "createAcls": _new_acl,
        "incrementalAlterConfigs": _new_setting,
    }
    for name, maker in makers.items():
        _run_clients(port, maker, "warm-up", max(_CLIENTS), sizes.warm_up)
        for clients in _CLIENTS:
            count = sizes.requests_of_one if clients == 1 else sizes.requests_of_each
            elapsed, times = _run_clients(port, maker, f"of-{clients}", clients, count)
            what = f"forwarded {name}, {clients} client{'s' * (clients > 1)}"
            figures[f"{what}: median, ms"] = statistics.median(times) * 1000
            figures[f"{what}: p99, ms"] = percentile(times, 0.99) * 1000
            figures[f"{what}: requests/s"] = len(times) / elapsed
    return figures


def _new_topic(client: str, number: int) -> CreateTopicsRequest:
    topic = CreatableTopic(name=f"forwarded-{client}-{number:06}", num_partitions=1, replication_factor=1)
    return CreateTopicsRequest(topics=[topic], timeout_ms=60_000)


def _new_acl(client: str, number: int) -> CreateAclsRequest:
    return CreateAclsRequest(creations=[acl(client, number)])


def _new_setting(client: str, number: int) -> IncrementalAlterConfigsRequest:
    value = str(86_400_000 + number * 100 + sum(client.encode()) % 100)
    change = AlterableConfig(name="retention.ms", config_operation=_SET, value=value)
    topic = AlterConfigsResource(resource_type=ResourceType.TOPIC, resource_name=_TOPIC, configs=[change])
    return IncrementalAlterConfigsRequest(resources=[topic])


def _run_clients(
    port: int, maker: Callable[[str, int], Request[Message]], label: str, clients: int, count: int
) -> tuple[float, list[float]]:
    """Seconds in all, and of each request. Each client has a connection, and ``count`` requests of its own."""
    work = [[maker(f"{label}-{client}", number) for number in range(count)] for client in range(clients)]
    times: list[float] = []
    failures: list[BaseException] = []

    def run(requests: list[Request[Message]]) -> None:
        try:
            times.extend(_exchange_all(port, requests))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(requests,)) for requests in work]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    elapsed = time.perf_counter() - began
    if failures:
        raise failures[0]
    return elapsed, times


def _exchange_all(port: int, requests: list[Request[Message]]) -> list[float]:
    """Return the seconds of each. Raise AssertionError unless everything was done; decode after all answers arrived."""
    times, frames = [], []
    client = RawClient(port, timeout_s=_ANSWER_S)
    try:
        for request in requests:
            began = time.perf_counter()
            frames.append(client.exchange(request, version_of(request)))
            times.append(time.perf_counter() - began)
    finally:
        client.close()
    for request, frame in zip(requests, frames, strict=True):
        check_answer(request, frame)
    return times


def _failovers(port: int, quorum: Quorum, kills: int) -> Figures:
    times = []
    for number in range(kills):
        wait_until_followed(quorum)
        active = active_controller(quorum)
        client = RawClient(port, timeout_s=_ANSWER_S)
        client.call(_new_acl("before-failover", number))
        active.kill()
        began = time.perf_counter()
        while client.call(_new_acl("failover", number)).results[0].error_code:
            time.sleep(0.005)
        times.append(time.perf_counter() - began)
        client.close()
        active.launch()
    return {"failover, median, s": statistics.median(times), "failover, longest, s": max(times)}


def _filled_failovers(side: str, folder: Path, sizes: QuorumSizes) -> Figures:
    quorum = quorum_of(side, folder / "large", _VOTERS, _FILLED)
    times = []
    try:
        _start_to_active(quorum, "first")
        _start_and_kill_broker(side, folder / "large-broker", quorum)
        _create_partitions(
            active_controller(quorum).controller_port, sizes.failover_partitions, _PARTITIONS_PER_LARGE_TOPIC
        )
        for number in range(sizes.failover_kills):
            wait_until_followed(quorum)
            active = active_controller(quorum)
            active.kill()
            began = time.perf_counter()
            times.append(wait_for_change(quorum, f"large-{number}") - began)
            active.launch()
    finally:
        quorum.kill()
    what = f"failover with {sizes.failover_partitions:,} partitions in the log"
    return {f"{what}, median, s": statistics.median(times), f"{what}, longest, s": max(times)}


def _snapshot_load(side: str, folder: Path, sizes: QuorumSizes) -> Figures:
    quorum = quorum_of(side, folder / "filled", 1, _FILLED)
    (controller,) = quorum.controllers
    try:
        _start_to_active(quorum, "first")
        empty = _restarts(quorum, sizes.restarts, "empty")
        _fill(side, folder / "filled-broker", quorum, sizes)
        _make_snapshot(quorum, sizes.acls)
        filled = _restarts(quorum, sizes.restarts, "filled")
        _check_acls(controller.controller_port, sizes.acls)
    finally:
        quorum.kill()
    what = f"{sizes.acls:,} ACLs and {sizes.partitions:,} partitions"
    return {"restart with nothing, s": empty, f"restart with a snapshot of {what}, s": filled}


def _restarts(quorum: Quorum, count: int, principal: str) -> float:
    times = []
    for number in range(count):
        quorum.kill()
        times.append(_start_to_active(quorum, f"{principal}-{number}"))
    return statistics.median(times)


def _fill(side: str, folder: Path, quorum: Quorum, sizes: QuorumSizes) -> None:
    """Create ACLs and partitions. The broker of the partitions has stopped by then, and creates no files for them."""
    (controller,) = quorum.controllers
    _start_and_kill_broker(side, folder, quorum)
    _exchange_all(
        controller.controller_port,
        [
            CreateAclsRequest(creations=[acl("filled", number) for number in range(start, end)])
            for start, end in _ranges(sizes.acls, _ACLS_PER_REQUEST)
        ],
    )
    _create_partitions(controller.controller_port, sizes.partitions, _PARTITIONS_PER_TOPIC)


def _start_and_kill_broker(side: str, folder: Path, quorum: Quorum) -> None:
    """It stays registered and unfenced for the length of its session."""
    broker = broker_of(side, folder, quorum)
    try:
        broker.start()
    finally:
        broker.kill()


def _create_partitions(port: int, count: int, per_topic: int) -> None:
    _exchange_all(
        port,
        [
            CreateTopicsRequest(
                topics=[CreatableTopic(name=f"filled-{start:06}", num_partitions=end - start, replication_factor=1)],
                timeout_ms=60_000,
            )
            for start, end in _ranges(count, per_topic)
        ],
    )


def _ranges(total: int, step: int) -> list[tuple[int, int]]:
    return [(start, min(start + step, total)) for start in range(0, total, step)]


def _make_snapshot(quorum: Quorum, acls: int) -> None:
    """Restart it so that the next change makes a snapshot, and wait for that; then with its settings as they were."""
    (controller,) = quorum.controllers
    quorum.kill()
    controller.change_settings({_SNAPSHOTS: "1"})
    controller.write_properties()
    _start_to_active(quorum, "snapshot")
    wait_until(lambda: _has_snapshot(controller, acls), what="a snapshot", timeout_s=60)
    quorum.kill()
    controller.change_settings({_SNAPSHOTS: str(20 * 1024 * 1024)})
    controller.write_properties()


def _has_snapshot(controller: ControllerNode, acls: int) -> bool:
    for file in (controller.folder / "data").glob("__cluster_metadata-0/*.checkpoint"):
        with suppress(FileNotFoundError):
            if file.stat().st_size > acls * _SNAPSHOT_BYTES_PER_ACL:
                return True
    return False


def _check_acls(port: int, expected: int) -> None:
    """Check that all loaded data exists, immediately or, with Kafka, some time after the controller is active."""
    client = RawClient(port, timeout_s=_ANSWER_S)
    request = DescribeAclsRequest(
        resource_type_filter=_ANY,
        resource_name_filter=None,
        pattern_type_filter=_ANY,
        principal_filter="User:filled",
        host_filter=None,
        operation=_ANY,
        permission_type=_ANY,
    )

    def all_are_there() -> bool:
        return sum(len(resource.acls) for resource in client.call(request).resources) == expected

    try:
        wait_until(all_are_there, what=f"{expected} ACLs", timeout_s=60)
    finally:
        client.close()
