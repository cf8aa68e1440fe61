"""Carries out the catalogue against a running node and judges what the well-behaved client felt."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from barnabas.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
)
from tests.peers.secure import SecureNode
from tests.siege.entry import Entry
from tests.siege.good_client import GoodClient, Latencies
from tests.siege.measure import Watch, settle
from tests.siege.stage import ADMIN, Scene, logged_in

__all__ = ["BARS", "Outcome", "besiege"]

PROJECT = Path(__file__).resolve().parent.parent.parent
MIB = 1024 * 1024
_CALM_S = 1.0
_AFTER_S = 0.5
_MEMORY_FREE = 16 * MIB
"""Memory that may be taken whatever was sent: allocators take it in pieces of such sizes."""
_LOG_WINDOW_S = 30.0
"""Lines are limited in windows of up to so long: a burst at the beginning of one says nothing about a minute."""
_MEDIAN_FREE_S = 0.001
"""A median below this is not felt, whatever its ratio."""


class Outcome(NamedTuple):
    """What one entry did."""

    name: str
    calm: Latencies
    besieged: Latencies
    memory: int
    in_flight: int
    log_per_minute: float
    cpu_s: float
    sent: int
    opened: int
    answers: int
    leader_changes: int

    @property
    def median_ratio(self) -> float:
        return self.besieged.median_s / self.calm.median_s

    @property
    def cpu_ns_per_byte(self) -> float:
        return 1e9 * self.cpu_s / max(self.sent, 1)

    def failures(self) -> list[str]:
        """The bars that it breaks."""
        return [name for name, holds in BARS.items() if not holds(self)]


BARS: dict[str, Callable[[Outcome], bool]] = {
    "median": lambda it: it.median_ratio <= 2 or it.besieged.median_s <= _MEDIAN_FREE_S,
    "worst": lambda it: it.besieged.worst_s < 0.25,
    "memory": lambda it: it.memory <= max(3 * it.in_flight, _MEMORY_FREE),
    "log": lambda it: it.log_per_minute <= MIB,
    "leaders": lambda it: it.leader_changes == 0,
}


def besiege(
    node: SecureNode,
    scene: Scene,
    entries: Iterable[Entry],
    *,
    seconds: float,
    seed: int,
    tell: Callable[[Outcome], None],
) -> list[Outcome]:
    good = GoodClient(scene)
    outcomes = []
    try:
        time.sleep(1.0)
        for entry in entries:
            outcome = _carry_out(node, scene, good, entry, seconds, seed)
            tell(outcome)
            outcomes.append(outcome)
    finally:
        good.stop()
    return outcomes


def _carry_out(node: SecureNode, scene: Scene, good: GoodClient, entry: Entry, seconds: float, seed: int) -> Outcome:
    pid = node.process.pid
    attacker = _attacker(entry, scene, seconds, seed)
    try:
        assert attacker.stdout is not None
        assert attacker.stdin is not None
        if attacker.stdout.readline().strip() != "ready":
            raise RuntimeError(f"the attacker of {entry.name!r} did not start")
        settle(pid)
        epoch = _leader_epoch(scene)
        calm_from = time.perf_counter()
        time.sleep(_CALM_S)
        calm_until = time.perf_counter()
        watch = Watch(pid, node.process.log)
        attacker.stdin.write("\n")
        attacker.stdin.flush()
        done = json.loads(attacker.communicate(timeout=seconds + 60)[0])
        time.sleep(_AFTER_S)
        ended = time.perf_counter()
        deadline = ended + 60
        while not good.is_idle() and time.perf_counter() < deadline:
            time.sleep(0.05)
        memory, log_bytes, cpu = watch.end()
    finally:
        attacker.kill()
        attacker.wait()
    return Outcome(
        name=entry.name,
        calm=good.between(calm_from, calm_until),
        besieged=good.between(calm_until, ended),
        memory=memory,
        in_flight=done["in_flight"],
        log_per_minute=log_bytes * 60 / max(ended - calm_until, _LOG_WINDOW_S),
        cpu_s=cpu,
        sent=done["sent"],
        opened=done["opened"],
        answers=done["answers"],
        leader_changes=_leader_epoch(scene) - epoch,
    )


def _attacker(entry: Entry, scene: Scene, seconds: float, seed: int) -> subprocess.Popen[str]:
    given = {"ports": scene.ports, "topic_id": scene.topic_id.hex(), "own_topic_id": scene.own_topic_id.hex()}
    command = [sys.executable, "-m", "tests.siege.attacker", entry.name, json.dumps(given), str(seconds), str(seed)]
    return subprocess.Popen(command, cwd=PROJECT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _leader_epoch(scene: Scene) -> int:
    client = logged_in(scene.ports["SASL_PLAINTEXT"], ADMIN)
    topic = DescribeQuorumRequestTopicData(
        topic_name="__cluster_metadata", partitions=[DescribeQuorumRequestPartitionData(partition_index=0)]
    )
    answer = client.call(DescribeQuorumRequest(topics=[topic]), 1)
    client.close()
    epoch: int = answer.topics[0].partitions[0].leader_epoch
    return epoch
