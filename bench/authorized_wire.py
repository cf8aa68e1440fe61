"""What access control costs over the wire: 504 topics, a caller without super user rights, 3 and then 7,000 ACLs.

All rules are on one prefix, each for another principal: the shape of a production outage. The requests are Metadata
of all topics, the same with authorized operations, and DescribeTopicPartitions, which always returns them.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import count, islice
from pathlib import Path
from typing import NamedTuple

from barnabas.common.acl import AclBinding, AclOperation, AclPermissionType
from barnabas.common.resource import PatternType, ResourceType
from barnabas.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.schema import Message, Request
from bench.authorized_start import measure_start_with_acls
from bench.sides import SIDES, new_node, usage_of
from tests.interop.raw_client import RawClient
from tests.peers import KafkaNode
from tests.peers.acl_matrix import ADMIN
from tests.peers.acl_stage import create_acls, log_in, secure_settings
from tests.peers.command_node import CommandNode

__all__ = ["ACL_COUNTS", "CALLER", "QUESTIONS", "TOPICS", "measure_authorized_wire", "measure_wire"]

CALLER = "caller"
TOPICS = 504
ACL_COUNTS = (3, 7000)
_PREFIX = "wire-"
_PASSES = 4
_SLOW_S = 0.2
_AT_LEAST_S = 1.0
_AT_LEAST_TIMES = 3
_WARM_UP_S = 3.0

QUESTIONS: dict[str, tuple[Request[Message], int]] = {
    "list 504 topics": (MetadataRequest(topics=None), 12),
    "list 504 topics with operations": (
        MetadataRequest(topics=None, include_topic_authorized_operations=True),
        12,
    ),
    "describe 504 topics with operations": (
        DescribeTopicPartitionsRequest(topics=[], response_partition_limit=2000),
        0,
    ),
}


class Cost(NamedTuple):
    elapsed_ms: float
    cpu_ms: float


def measure_wire(rounds: int) -> dict[str, dict[str, float]]:
    """The best of the rounds by side, which take turns, and once the start with a million rules."""
    found: dict[str, list[dict[str, float]]] = {side: [] for side in SIDES}
    with tempfile.TemporaryDirectory(prefix="barnabas-bench-") as name:
        for number in range(rounds):
            for side in SIDES if number % 2 == 0 else reversed(SIDES):
                found[side].append(measure_authorized_wire(new_node(side, Path(name) / f"{side}-{number}")))
                for figure, value in found[side][-1].items():
                    print(f"access: {side}: {figure} {value:,.2f}", flush=True)
        started = measure_start_with_acls(Path(name) / "start")
    figures = {}
    for side, of_rounds in found.items():
        best = {key: min(figures[key] for figures in of_rounds) for key in of_rounds[0]}
        figures[side] = best | started[side]
        print(f"access: {side}: {started[side]}", flush=True)
    return figures


def measure_authorized_wire(node: KafkaNode | CommandNode) -> dict[str, float]:
    """One round on a node that is new: neither formatted nor started. It is stopped at the end."""
    node.change_settings(secure_settings(node, [CALLER]))
    node.start()
    try:
        figures: dict[str, float] = {}
        admin = log_in(node.port, ADMIN, timeout_s=120)
        _create_topics(admin)
        bindings = _bindings()
        made = 0
        for total in ACL_COUNTS:
            create_acls(admin, islice(bindings, total - made))
            made = total
            figures.update(_ask_all(node, f"{total:,} ACLs"))
        admin.close()
        return figures
    finally:
        node.stop()


def _ask_all(node: KafkaNode | CommandNode, label: str) -> dict[str, float]:
    figures: dict[str, float] = {}
    caller = log_in(node.port, CALLER, timeout_s=120)
    for question, (request, version) in QUESTIONS.items():
        cost = _cost(node.pid, lambda: caller.exchange(request, version))  # noqa: B023
        figures[f"{question}, {label}, ms"] = cost.elapsed_ms
        figures[f"CPU to {question}, {label}, ms"] = cost.cpu_ms
    described = caller.call(DescribeTopicPartitionsRequest(response_partition_limit=2000), 0).topics
    assert len(described) == TOPICS, f"{len(described)} topics are seen, not {TOPICS}"
    caller.close()
    return figures


def _cost(pid: int, ask: Callable[[], object]) -> Cost:
    """The best of several passes after a warm-up, because the machine can only add to it.

    A question that takes seconds is asked in one pass, three times.
    """
    warm_until = time.perf_counter() + _WARM_UP_S
    while time.perf_counter() < warm_until:
        began = time.perf_counter()
        ask()
        elapsed = time.perf_counter() - began
    passes = [_pass(pid, ask) for _ in range(_PASSES if elapsed < _SLOW_S else 1)]
    return Cost(min(cost.elapsed_ms for cost in passes), min(cost.cpu_ms for cost in passes))


def _pass(pid: int, ask: Callable[[], object]) -> Cost:
    """The median, and the mean of the CPU: the system counts it in hundredths of a second."""
    times: list[float] = []
    cpu, began = usage_of(pid).cpu_s, time.perf_counter()
    while len(times) < _AT_LEAST_TIMES or time.perf_counter() - began < _AT_LEAST_S:
        asked = time.perf_counter()
        ask()
        times.append(time.perf_counter() - asked)
    return Cost(statistics.median(times) * 1000, (usage_of(pid).cpu_s - cpu) / len(times) * 1000)


def _create_topics(client: RawClient) -> None:
    names = [f"{_PREFIX}{number:04}" for number in range(TOPICS)]
    for start in range(0, TOPICS, 100):
        topics = [
            CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in names[start : start + 100]
        ]
        for result in client.call(CreateTopicsRequest(topics=topics, timeout_ms=60_000)).topics:
            assert result.error_code == 0, result


def _bindings() -> Iterator[AclBinding]:
    """One rule for each of endless principals on one prefix; the first is the caller's."""
    for number in count():
        yield AclBinding(
            ResourceType.TOPIC,
            _PREFIX,
            PatternType.PREFIXED,
            f"User:user-{number:05}" if number else f"User:{CALLER}",
            "*",
            AclOperation.READ,
            AclPermissionType.ALLOW,
        )
