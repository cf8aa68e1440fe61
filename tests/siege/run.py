"""Executes the catalogue against a running node, and compares the effects on the well-behaved client with the bounds.

Calm latencies are measured before and after each attack. An entry that exceeds a bound is repeated, because the machine
may have been busy; the best attempt counts, and the number of attempts is reported. An entry that ends the node breaks
the bound ``answers``, and a new stage is built for the entries after it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from barnabas.protocol.messages.describe_groups import DescribeGroupsRequest
from barnabas.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
)
from tests.peers.node_process import NodeProcess
from tests.peers.secure import SecureNode
from tests.siege.entry import Entry
from tests.siege.good_client import GoodClient, GoodRequests, KafkaRequests, Latencies, RestRequests
from tests.siege.measure import Watch, settle
from tests.siege.stage import ADMIN, WORKER_GROUP, Scene, logged_in

__all__ = ["BARS", "Besieged", "Outcome", "besiege", "besieged_node", "besieged_worker", "members_of_worker"]

PROJECT = Path(__file__).resolve().parent.parent.parent
MIB = 1024 * 1024
_CALM_S = 0.6
"""Before the attack and again after it."""
_AFTER_S = 0.5
_SERVED_WITHIN_S = 30.0
"""The limit after an attack; an attack that blocks clients for longer has ended the stage."""
_ATTEMPTS = 3
_MEMORY_FREE = 16 * MIB
"""Memory growth that is always allowed: allocators reserve memory in pieces of such sizes."""
_LOG_WINDOW_S = 30.0
"""The longest window of log limits: a burst at the beginning of one is not representative of a minute."""
_MEDIAN_FREE_S = 0.001
"""A median below this is not noticeable, whatever its ratio."""


class Outcome(NamedTuple):
    """The measured effects of one entry."""

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
    attempts: int = 1
    why_over: str = ""
    """The error of the well-behaved client or of the process; the figures end there."""

    @property
    def median_ratio(self) -> float:
        return self.besieged.median_s / max(self.calm.median_s, 1e-6)

    @property
    def own_median_ratio(self) -> float:
        return self.besieged.own_median_s / max(self.calm.own_median_s, 1e-6)

    @property
    def cpu_ns_per_byte(self) -> float:
        return 1e9 * self.cpu_s / max(self.sent, 1)

    def failures(self) -> list[str]:
        """Return the bounds that it exceeds."""
        return [name for name, holds in BARS.items() if not holds(self)]

    def own_failures(self) -> list[str]:
        """Return the bounds that it exceeds if waits for a processor are subtracted."""
        calm, besieged = (
            measurement._replace(median_s=measurement.own_median_s, worst_s=measurement.own_worst_s)
            for measurement in (self.calm, self.besieged)
        )
        return self._replace(calm=calm, besieged=besieged).failures()


BARS: dict[str, Callable[[Outcome], bool]] = {
    "median": lambda outcome: outcome.median_ratio <= 2 or outcome.besieged.median_s <= _MEDIAN_FREE_S,
    "worst": lambda outcome: outcome.besieged.worst_s < 0.25,
    "memory": lambda outcome: outcome.memory <= max(3 * outcome.in_flight, _MEMORY_FREE),
    "log": lambda outcome: outcome.log_per_minute <= MIB,
    "leaders": lambda outcome: outcome.leader_changes == 0,
    "answers": lambda outcome: not outcome.why_over,
}


class NotServed(Exception):
    """The process runs, but the well-behaved client receives no answer."""


class Besieged(NamedTuple):
    """A process under siege: a node, or a Connect worker.

    ``has_one_loop``: its first thread answers all requests. ``leadership`` is constant as long as leadership does not
    change.
    """

    process: NodeProcess
    requests: GoodRequests
    has_one_loop: bool
    leadership: Callable[[], object]


def besieged_node(node: SecureNode, scene: Scene, *, has_one_loop: bool) -> Besieged:
    return Besieged(node.process, KafkaRequests(scene), has_one_loop, lambda: _leader_epoch(scene))


def besieged_worker(worker: NodeProcess, scene: Scene, *, has_one_loop: bool) -> Besieged:
    return Besieged(worker, RestRequests(scene), has_one_loop, lambda: members_of_worker(scene))


def besiege(
    target: Besieged,
    scene: Scene,
    entries: Iterable[Entry],
    *,
    seconds: float,
    seed: int,
    report: Callable[[Outcome], None],
) -> list[Outcome]:
    """Execute entries until one of them ends the stage; its outcome is then the last."""
    good = GoodClient(target.requests, target.process.pid if target.has_one_loop else None)
    outcomes: list[Outcome] = []
    try:
        time.sleep(1.0)
        for entry in entries:
            outcome = _best_of(lambda: _carry_out(target, scene, good, entry, seconds, seed))  # noqa: B023
            report(outcome)
            outcomes.append(outcome)
            if outcome.why_over:
                break
    finally:
        good.stop()
    return outcomes


def _best_of(attempt: Callable[[], Outcome]) -> Outcome:
    """Return the first attempt within all bounds, or the one that exceeds the fewest. An attempt that ends the stage is
    the last."""
    made: list[Outcome] = []
    while not made or (made[-1].failures() and len(made) < _ATTEMPTS):
        made.append(attempt())
        if made[-1].why_over:
            return made[-1]._replace(attempts=len(made))
    best = min(made, key=lambda outcome: (len(outcome.failures()), outcome.besieged.worst_s))
    return best._replace(attempts=len(made))


def _carry_out(target: Besieged, scene: Scene, good: GoodClient, entry: Entry, seconds: float, seed: int) -> Outcome:
    began = time.perf_counter()
    try:
        return _attack(target, scene, good, entry, seconds, seed)
    except (AssertionError, ConnectionError, RuntimeError, TimeoutError, FileNotFoundError, NotServed) as error:
        # ``FileNotFoundError``: the process has ended.
        why = error if good.failure is None else good.failure
        if good.failure is None and target.process.is_running and not isinstance(error, NotServed):
            raise
        over = Latencies.of([(time.perf_counter() - began, 0.0)])
        return Outcome(
            name=entry.name, calm=Latencies.of([(0.0, 0.0)]), besieged=over, memory=0, in_flight=0, log_per_minute=0,
            cpu_s=0, sent=0, opened=0, answers=0, leader_changes=0, why_over=f"{type(why).__name__}: {why}",
        )  # fmt: skip


def _attack(target: Besieged, scene: Scene, good: GoodClient, entry: Entry, seconds: float, seed: int) -> Outcome:
    pid = target.process.pid
    attacker = _attacker(entry, scene, seconds, seed)
    try:
        assert attacker.stdout is not None
        assert attacker.stdin is not None
        if attacker.stdout.readline().strip() != "ready":
            raise RuntimeError(f"the attacker of {entry.name!r} did not start")
        settle(pid)
        leadership = _leadership(target)
        before = _peace()
        began = time.perf_counter()
        watch = Watch(pid, target.process.log_path)
        attacker.stdin.write("\n")
        attacker.stdin.flush()
        done = json.loads(attacker.communicate(timeout=seconds + 60)[0])
        time.sleep(_AFTER_S)
        ended = time.perf_counter()
        deadline = ended + _SERVED_WITHIN_S
        while not good.is_idle():
            if time.perf_counter() > deadline:
                raise NotServed(f"no answer for {time.perf_counter() - began:.0f} s")
            time.sleep(0.05)
        memory, log_bytes, cpu = watch.end()
    finally:
        attacker.kill()
        attacker.wait()
    settle(pid)
    return Outcome(
        name=entry.name,
        calm=good.between(before, _peace()),
        besieged=good.between((began, ended)),
        memory=memory,
        in_flight=done["in_flight"],
        log_per_minute=log_bytes * 60 / max(ended - began, _LOG_WINDOW_S),
        cpu_s=cpu,
        sent=done["sent"],
        opened=done["opened"],
        answers=done["answers"],
        leader_changes=int(_leadership(target) != leadership),
    )


def _leadership(target: Besieged) -> object:
    """Raise NotServed if the process does not answer: an attack may leave it so busy that it answers too late."""
    try:
        return target.leadership()
    except TimeoutError as error:
        raise NotServed("the leadership request was not answered in time") from error


def _peace() -> tuple[float, float]:
    """Wait for a span without an attack, and return its bounds."""
    began = time.perf_counter()
    time.sleep(_CALM_S)
    return began, time.perf_counter()


def _attacker(entry: Entry, scene: Scene, seconds: float, seed: int) -> subprocess.Popen[str]:
    given = {"ports": scene.ports, "topic_id": scene.topic_id.hex(), "own_topic_id": scene.own_topic_id.hex()}
    command = [sys.executable, "-m", "tests.siege.attacker", entry.name, json.dumps(given), str(seconds), str(seed)]
    return subprocess.Popen(command, cwd=PROJECT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def members_of_worker(scene: Scene) -> tuple[str, list[str]]:
    """Return the state of the worker's group, and the member id, which changes when a worker is removed from the
    group."""
    client = logged_in(scene.ports["SASL_PLAINTEXT"], ADMIN)
    (group,) = client.call(DescribeGroupsRequest(groups=[WORKER_GROUP]), 5).groups
    client.close()
    return group.group_state, [member.member_id for member in group.members]


def _leader_epoch(scene: Scene) -> int:
    client = logged_in(scene.ports["SASL_PLAINTEXT"], ADMIN)
    topic = DescribeQuorumRequestTopicData(
        topic_name="__cluster_metadata", partitions=[DescribeQuorumRequestPartitionData(partition_index=0)]
    )
    answer = client.call(DescribeQuorumRequest(topics=[topic]), 1)
    client.close()
    epoch: int = answer.topics[0].partitions[0].leader_epoch
    return epoch
