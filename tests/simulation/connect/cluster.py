"""The workers of a run, the requests of users, and the faults."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from barnabas.connect.decide.group.connect_protocol import ProtocolVersion
from barnabas.connect.decide.herder.herder import Herder
from barnabas.connect.decide.herder.herder_settings import ExactlyOnceSupport
from barnabas.connect.decide.herder.outside import ConfigMap
from barnabas.connect.decide.session_key import SessionKey
from barnabas.connect.errors import (
    AlreadyExists,
    BadRequest,
    NotAssigned,
    NotFound,
    NotLeader,
    RebalanceNeeded,
    RequestFailed,
)
from barnabas.connect.identifiers import ConnectorTaskId, TargetState
from tests.simulation.connect.checks import Checks, session_key_of
from tests.simulation.connect.group import SimulatedCoordinator
from tests.simulation.connect.producers import Producers
from tests.simulation.connect.topics import SharedTopic
from tests.simulation.connect.worker import SimulatedWorker
from tests.simulation.connect.world import World

__all__ = ["SimulatedCluster", "simulate"]

_NOTHING_DONE = (AlreadyExists, BadRequest, NotFound, NotLeader, NotAssigned, RebalanceNeeded)
_REQUESTS = ("create", "put", "put", "patch", "delete", "pause", "resume", "resume", "stop", "restart", "restart_task")
_FAULTS_MS = 60_000
_HEALED_MS = 75_000


@dataclass
class Expected:
    """The possible states of a connector after all acknowledged requests. None: it does not exist."""

    stamps: set[str | None] = field(default_factory=lambda: {None})
    states: set[TargetState] = field(default_factory=lambda: {TargetState.STARTED})


class SimulatedCluster:
    def __init__(self, seed: int) -> None:
        self.world = World(seed)
        random = self.world.random
        self.protocol = random.choice(
            [ProtocolVersion.SESSIONED, ProtocolVersion.SESSIONED, ProtocolVersion.COMPATIBLE, ProtocolVersion.EAGER]
        )
        self.max_delay_ms = random.choice([0, 4_000, 12_000])
        self.reassigns_immediately = random.random() < 0.5
        self.task_failure_rate = random.choice([0.0, 0.25])
        self.exactly_once = random.choice([ExactlyOnceSupport.DISABLED, ExactlyOnceSupport.ENABLED])
        self.config_topic = SharedTopic(self.world, "configs")
        self.producers = Producers(self.config_topic)
        self.status_topic = SharedTopic(self.world, "statuses")
        self.coordinator = SimulatedCoordinator(self.world)
        self.checks = Checks(self)
        self.expected: dict[str, Expected] = {}
        self.workers: dict[str, SimulatedWorker] = {}
        self.answers: dict[str, int] = {}
        """Name of the outcome to the number of requests."""
        self._stamps = 0
        self._keys: list[tuple[int, SessionKey]] = []
        self._keys_seen = 0
        self._has_faults = True
        for number in range(random.choice([2, 3, 3])):
            self._start(f"worker{number}")

    # -- workers

    def alive(self) -> list[SimulatedWorker]:
        return [worker for worker in self.workers.values() if not worker.is_dead]

    def by_url(self, url: str | None) -> SimulatedWorker | None:
        return next((worker for worker in self.alive() if worker.url == url), None)

    def look(self) -> None:
        """Check all invariants that hold at any moment."""
        for worker in self.alive():
            self.checks.look_at(worker)

    def session_keys(self) -> Iterable[tuple[int, SessionKey]]:
        """Return all session keys that were ever written, with their offsets."""
        records = self.config_topic.records
        while self._keys_seen < len(records):
            key = session_key_of(*records[self._keys_seen])
            if key is not None:
                self._keys.append((self._keys_seen, key))
            self._keys_seen += 1
        return self._keys

    def _start(self, name: str) -> None:
        if name not in self.workers or self.workers[name].is_dead:
            self.workers[name] = SimulatedWorker(self, name)

    async def send_task_configs(
        self, sender: SimulatedWorker, leader_url: str, connector: str, configs: Sequence[ConfigMap]
    ) -> None:
        """Send new task configs to the leader."""
        await self._send(sender, leader_url, lambda herder: herder.internal.put_task_configs(connector, configs))

    async def send_fence(self, sender: SimulatedWorker, leader_url: str, connector: str) -> None:
        await self._send(sender, leader_url, lambda herder: herder.internal.fence_zombies(connector))

    async def _send(
        self, sender: SimulatedWorker, leader_url: str, steps: Callable[[Herder], Coroutine[Any, Any, None]]
    ) -> None:
        """Send a signed request to the leader, with the checks of REST."""
        key = sender.herder.keys.key
        world = self.world
        await world.pause(world.delay_ms())
        leader = self.by_url(leader_url)
        if leader is None or not leader.is_started or not world.reaches(sender.name, leader.name):
            await world.pause(100)
            raise RequestFailed(500, "the leader can't be reached")
        refusal = self._refusal(leader, key)
        if refusal is not None:
            await world.pause(world.delay_ms())
            raise refusal
        answered: asyncio.Future[Exception | None] = world.loop.create_future()
        leader.request(steps, lambda _, error: None if answered.done() else answered.set_result(error))
        error = await answered
        if error is not None:
            raise RequestFailed(getattr(error, "http_status", 500), str(error))

    def _refusal(self, leader: SimulatedWorker, key: SessionKey | None) -> RequestFailed | None:
        if leader.herder.context.group.protocol_version < ProtocolVersion.SESSIONED:
            return None
        current = leader.herder.keys.key
        if key is None:
            return RequestFailed(400, "Internal request missing required signature")
        if current is None:
            return RequestFailed(503, "still starting up")
        if current.key != key.key:
            return RequestFailed(403, "Internal request contained invalid signature.")
        self.checks.accepted(leader, key)
        return None

    # -- users: each has separate connectors, and waits for an answer before the next request

    def start_user(self, number: int) -> None:
        names = [f"user{number}-connector{index}" for index in range(2)]
        for name in names:
            self.expected[name] = Expected()

        def act() -> None:
            if not self._has_faults:
                return
            name = self.world.random.choice(names)
            self._act(name, lambda: self.world.after(self.world.random.uniform(50, 6_000), act))

        self.world.after(self.world.random.uniform(0, 2_000), act)

    def _act(self, name: str, next_: Callable[[], None]) -> None:
        expected, random = self.expected[name], self.world.random
        self._stamps += 1
        stamp = str(self._stamps)
        config = {"connector.class": "Simulated", "tasks.max": str(random.choice([1, 2, 3])), "stamp": stamp}
        steps: Callable[[Herder], Coroutine[Any, Any, object]]
        stamps: set[str | None] | None = None
        states: set[TargetState] | None = None
        kind = random.choice(_REQUESTS)
        if kind == "create":
            initial = random.choice([None, TargetState.PAUSED, TargetState.STOPPED])
            steps = lambda herder: herder.connectors.create(name, config, initial)  # noqa: E731
            stamps, states = {stamp}, {initial or TargetState.STARTED}
        elif kind == "put":
            steps = lambda herder: herder.connectors.put(name, config)  # noqa: E731
            stamps = {stamp}
        elif kind == "patch":
            steps = lambda herder: herder.connectors.patch(name, {"stamp": stamp})  # noqa: E731
            stamps = {stamp}
        elif kind == "delete":
            steps = lambda herder: herder.connectors.delete(name)  # noqa: E731
            stamps, states = {None}, {TargetState.STARTED}
        elif kind == "restart":
            flags = random.random() < 0.7, random.random() < 0.5
            steps = lambda herder: herder.restarts.restart(  # noqa: E731
                name, include_tasks=flags[0], only_failed=flags[1]
            )
        elif kind == "restart_task":
            steps = lambda herder: herder.restarts.restart_task(ConnectorTaskId(name, 0))  # noqa: E731
        else:
            method = {"pause": "pause", "resume": "resume", "stop": "stop"}[kind]
            steps = lambda herder: getattr(herder.states, method)(name)  # noqa: E731
            states = {
                "pause": {TargetState.PAUSED},
                "resume": {TargetState.STARTED},
                "stop": {TargetState.STOPPED},
            }[kind]

        def answered(_: object, error: Exception | None) -> None:
            outcome = type(error).__name__
            self.answers[outcome] = self.answers.get(outcome, 0) + 1
            if error is None:
                expected.stamps = stamps or expected.stamps
                expected.states = states or expected.states
            elif not isinstance(error, _NOTHING_DONE):
                expected.stamps |= stamps or set()
                expected.states |= states or set()
                if kind == "stop":
                    expected.states |= {TargetState.STOPPED}
            next_()

        self._request(random.choice(list(self.workers.values())), steps, answered, hops=2)

    def _request(
        self,
        worker: SimulatedWorker,
        steps: Callable[[Herder], Coroutine[Any, Any, object]],
        answered: Callable[[object, Exception | None], None],
        hops: int,
    ) -> None:
        """Send a request to a worker, and follow its redirects to the responsible one."""
        if worker.is_dead or not worker.is_started:
            answered(None, RebalanceNeeded("the worker is not running"))
            return

        def answer(value: object, error: Exception | None) -> None:
            if isinstance(error, NotLeader | NotAssigned) and hops:
                other = self.by_url(error.url)
                if other is not None:
                    self._request(other, steps, answered, hops - 1)
                    return
            answered(value, error)

        worker.request(steps, answer)

    # -- faults

    def inject_fault(self) -> None:
        random = self.world.random
        if not self._has_faults:
            return
        alive = self.alive()
        kind = random.choice(["kill", "kill", "stop", "cut", "cut", "isolate", "refuse", "clock", "add"])
        victim = random.choice(alive) if alive else None
        if kind == "kill" and victim is not None:
            victim.kill()
            self.world.after(random.uniform(500, 20_000), lambda: self._start(victim.name))
        elif kind == "stop" and victim is not None and victim.is_started and len(alive) > 1:
            victim.stop()
            self.world.after(random.uniform(9_000, 20_000), lambda: self._restart(victim))
        elif kind == "cut" and victim is not None:
            self._cut(victim.name, "brokers", random.uniform(200, 15_000))
        elif kind == "isolate" and victim is not None:
            for other in self.workers:
                if other != victim.name:
                    self._cut(victim.name, other, random.uniform(1_000, 10_000))
        elif kind == "refuse":
            self.config_topic.refuses_writes = True
            self.world.after(random.uniform(500, 10_000), self._accept_writes)
        elif kind == "clock" and victim is not None:
            victim.wall_skew_ms += random.choice([-1, 1]) * random.randrange(3_600_000)
        elif kind == "add" and len(self.workers) < 4:
            self._start(f"worker{len(self.workers)}")
        self.world.after(random.uniform(1_000, 15_000), self.inject_fault)

    def _restart(self, worker: SimulatedWorker) -> None:
        if not worker.is_dead:
            worker.kill()  # It has exceeded the time for a graceful stop.
        self._start(worker.name)

    def _cut(self, first: str, second: str, duration_ms: float) -> None:
        pair = frozenset((first, second))
        self.world.cut.add(pair)
        self.world.after(duration_ms, lambda: self.world.cut.discard(pair))

    def _accept_writes(self) -> None:
        self.config_topic.refuses_writes = False

    def heal(self) -> None:
        self._has_faults = False
        self.world.cut.clear()
        self.coordinator.loses_messages = False
        self.task_failure_rate = 0.0
        self._accept_writes()
        for name in list(self.workers):
            self._start(name)


def simulate(seed: int) -> SimulatedCluster:
    """Run a seed. Raises Violation, or an unexpected error of a herder."""
    cluster = SimulatedCluster(seed)
    for number in range(2):
        cluster.start_user(number)
    cluster.world.after(cluster.world.random.uniform(1_000, 10_000), cluster.inject_fault)
    try:
        cluster.world.run(_FAULTS_MS, cluster.look)
        cluster.heal()
        cluster.world.run(_HEALED_MS, cluster.look)
        cluster.checks.check_quiet()
    finally:
        for worker in cluster.alive():
            worker.kill()
    return cluster
