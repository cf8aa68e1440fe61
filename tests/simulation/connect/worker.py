"""One worker: the product's herder and membership in a simulated environment."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any

from barnabas.connect.decide.group.group_requests import GroupRequest
from barnabas.connect.decide.group.group_settings import GroupSettings
from barnabas.connect.decide.group.membership import DropConnections, Membership
from barnabas.connect.decide.herder.herder import Herder
from barnabas.connect.decide.herder.herder_settings import HerderSettings, RestartBudget
from barnabas.connect.decide.session_key import KeyRotation
from barnabas.connect.identifiers import ConnectorType
from tests.simulation.cluster.virtual_loop import Owner
from tests.simulation.connect.outside import GRACEFUL_STOP_MS, SimulatedOutside

if TYPE_CHECKING:
    from tests.simulation.connect.cluster import SimulatedCluster

__all__ = ["KEY_TTL_MS", "SimulatedWorker"]

KEY_TTL_MS = 25_000

Answer = Callable[[object, Exception | None], None]


class _Plugins:
    def connector_type(self, config: Mapping[str, str | None]) -> ConnectorType:
        return ConnectorType.SOURCE

    def connector_version(self, config: Mapping[str, str | None]) -> str | None:
        return "1.0"


class SimulatedWorker:
    """A simulated worker. All events reach it through ``enter``, so that its death cancels their consequences."""

    def __init__(self, cluster: SimulatedCluster, name: str) -> None:
        self.cluster = cluster
        self.world = cluster.world
        self.name = name
        self.url = f"http://{name}:8083/"
        self.life = Owner(name)
        self.is_started = False
        self.wall_skew_ms = 0
        self._is_driving = False
        self._wake_at_ms = float("inf")
        self._pending: dict[Answer, None] = {}
        rotation = KeyRotation(
            algorithm="HmacSHA256", size=32, ttl_ms=KEY_TTL_MS, random_bytes=self.world.random.randbytes
        )
        settings = HerderSettings(
            worker_id=f"{name}:8083",
            url=self.url,
            group_id="workers",
            write_timeout_ms=10_000,
            exactly_once=cluster.exactly_once,
            restart_budget=RestartBudget(max_attempts=50, backoff_ms=500, backoff_max_ms=4_000, reset_ms=20_000),
        )
        self.outside = SimulatedOutside(self)
        self.herder = Herder(settings, _Plugins(), rotation, self.outside)
        self.membership = Membership(
            GroupSettings(
                group_id="workers",
                url=self.url,
                protocol=cluster.protocol,
                rebalance_timeout_ms=20_000,
                worker_unsync_backoff_ms=10_000,
                scheduled_rebalance_max_delay_ms=cluster.max_delay_ms,
                task_shutdown_graceful_timeout_ms=GRACEFUL_STOP_MS,
                reassign_immediately=cluster.reassigns_immediately,
            ),
            snapshot=lambda: self.herder.config,
        )
        self.configs = cluster.config_topic.open(name, self._config_received)
        self.statuses = cluster.status_topic.open(name, self._status_received)
        self._read_topics()

    # -- life

    @property
    def is_dead(self) -> bool:
        return not self.life.is_alive

    def enter(self, what: Callable[[], object]) -> None:
        """Run an event as a part of this worker, unless it is dead."""
        if not self.is_dead:
            self.world.loop.start_as(self.life, what)

    def later(self, delay_ms: float, what: Callable[[], object]) -> None:
        self.world.after(delay_ms, lambda: self.enter(what))

    def _read_topics(self) -> None:
        """Read the status topic and then the config topic to their ends; retry until this succeeds."""

        def failed(_: str) -> None:
            self.later(500, self._read_topics)

        def statuses_read() -> None:
            if not self.is_dead:
                self.configs.read_to_end(5_000, lambda: self.enter(self._begin), failed)

        self.statuses.read_to_end(5_000, statuses_read, failed)

    def _begin(self) -> None:
        if self.is_started:
            return
        self.is_started = True
        self.herder.topics_read()
        self.membership.start(self.world.now_ms)
        self._poll()

    def _poll(self) -> None:
        """Report regularly to the membership that the worker's loop is responsive."""
        self.membership.poll(self.world.now_ms, "")
        self.drive_membership()
        self.later(1_000, self._poll)

    def kill(self) -> None:
        """End the worker without any notification, as kill -9 does."""
        self.outside.leave_zombies()
        tasks = list(self.life.tasks)
        self.life.die()
        self.outside.die()
        for task in tasks:
            task.get_coro().close()
        self.cluster.config_topic.close(self.configs)
        self.cluster.status_topic.close(self.statuses)
        self.configs.is_closed = self.statuses.is_closed = True
        self.cluster.checks.released_all(self.name)
        pending, self._pending = self._pending, {}
        for answer in pending:
            answer(None, ConnectionError("the worker has died"))

    def stop(self) -> None:
        """Stop gracefully, leave the group, and end."""

        def stopped(_: object, __: Exception | None) -> None:
            self.enter(leave)
            self.world.after(2_000, lambda: None if self.is_dead else self.kill())

        def leave() -> None:
            self.membership.leave("the worker stops", self.world.now_ms)
            self.drive_membership()

        self.request(lambda herder: herder.shut_down(), stopped)

    def request(self, steps: Callable[[Herder], Coroutine[Any, Any, object]], answer: Answer) -> None:
        """Send a request as a user does over REST. ``answer`` receives the result, or an error if the worker dies."""
        self._pending[answer] = None

        def done(value: object, error: Exception | None) -> None:
            if answer in self._pending:
                del self._pending[answer]
                self.world.after(self.world.delay_ms(), lambda: answer(value, error))

        async def run() -> None:
            try:
                value = await steps(self.herder)
            except AssertionError as error:  # A violated check or a bug, not an answer.
                self.world.failures.append(error)
            except Exception as error:
                done(None, error)
            else:
                done(value, None)

        self.enter(lambda: self.world.loop.create_task(run()))

    # -- the membership

    def drive_membership(self) -> None:
        """Execute the outputs of the membership, and schedule its next wake-up."""
        if self._is_driving or self.is_dead:
            return
        self._is_driving = True
        try:
            self.membership.tick(self.world.now_ms)
            while outputs := self.membership.take():
                for output in outputs:
                    self._output(output)
                self.membership.tick(self.world.now_ms)
        finally:
            self._is_driving = False
        due_ms = max(self.membership.next_due_ms, self.world.now_ms + 0.1)
        if due_ms < self._wake_at_ms:
            self._wake_at_ms = due_ms
            self.later(due_ms - self.world.now_ms, lambda: self._wake(due_ms))

    def _wake(self, due_ms: float) -> None:
        if self._wake_at_ms == due_ms:  # Otherwise an earlier wake-up has replaced this one.
            self._wake_at_ms = float("inf")
            self.drive_membership()

    def _config_received(self, key: bytes, value: bytes | None, offset: int) -> None:
        self.enter(lambda: self.herder.replay_config(key, value, offset))

    def _status_received(self, key: bytes, value: bytes | None, offset: int) -> None:
        self.enter(lambda: self.herder.replay_status(key, value))

    def _output(self, output: object) -> None:
        if isinstance(output, GroupRequest):
            request_id = output.request_id

            def answered(response: Any) -> None:
                self.enter(lambda: self.membership.answered(request_id, response, self.world.now_ms))
                self.enter(self.drive_membership)

            def failed(reason: str) -> None:
                self.enter(lambda: self.membership.failed(request_id, reason, self.world.now_ms))
                self.enter(self.drive_membership)

            self.cluster.coordinator.send(self.name, output, answered, failed)
        elif not isinstance(output, DropConnections):
            self.herder.notice(
                output,  # type: ignore[arg-type]
                self.membership.owners,
                self.membership.member_urls,
                are_all_members_ours=self.membership.are_all_members_ours,
            )
