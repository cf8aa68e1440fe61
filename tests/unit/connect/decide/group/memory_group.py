"""Workers in one group with the real coordinator, on a clock that the test controls; no sockets.

A worker follows its notices: it runs its assigned units, takes a while to stop them, and reads the configs. A checker
verifies that no unit ever has two owners.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count
from typing import Any

from barnabas.clients.client_config import Address
from barnabas.common.error_code import ErrorCode
from barnabas.connect.decide.group.group_requests import ConnectionPurpose, GroupRequest
from barnabas.connect.decide.group.group_settings import GroupSettings
from barnabas.connect.decide.group.membership import DropConnections, Membership, Phase
from barnabas.connect.decide.group.membership_events import Assigned, Lost, MembershipEvent, ReadConfigs, StopWork
from barnabas.connect.identifiers import ConnectorTaskId
from barnabas.coordinator.deferred import Deferred
from barnabas.coordinator.group.group_request_context import GroupRequestContext
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from tests.unit.connect.decide.group.configs import Configs
from tests.unit.coordinator.group_driver import GroupDriver

__all__ = ["GROUP", "MemoryGroup", "Worker"]

GROUP = "connect-cluster"
NODE = Address("localhost", 9092)
LATENCY_MS = 2
VERSIONS = {ApiKey.JOIN_GROUP: 9, ApiKey.SYNC_GROUP: 5, ApiKey.HEARTBEAT: 4, ApiKey.LEAVE_GROUP: 5}

Work = str | ConnectorTaskId


class Worker:
    """With ``reads_configs`` False, the worker sees no new configs and can't read the config topic on request."""

    def __init__(self, group: MemoryGroup, name: str, settings: GroupSettings, stop_ms: int) -> None:
        self.group = group
        self.name = name
        self.stop_ms = stop_ms
        self.client_id = f"connect-{name}"
        self.running: set[Work] = set()
        self.notices: list[MembershipEvent] = []
        self.configs = group.configs
        self.reads_configs = True
        self.polls = True
        self.is_alive = True
        self.is_cut_off = False
        self.lost_requests: list[ApiKey] = []
        self.lost_answers: list[ApiKey] = []
        """The next ones that get lost, over connections that stay."""
        self.connection_number = 0
        self.membership = Membership(settings, snapshot=lambda: self.configs)
        self.last_assigned: Assigned | None = None

    def of_type(self, kind: type[Any]) -> list[Any]:
        return [notice for notice in self.notices if isinstance(notice, kind)]


class MemoryGroup:
    def __init__(self) -> None:
        self.driver = GroupDriver()
        self.driver.load()
        self.driver.now_ms = 0
        self.configs = Configs()
        self.workers: list[Worker] = []
        self.is_reachable = True
        self.owner_problems: list[str] = []
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()

    @property
    def now_ms(self) -> int:
        return self.driver.now_ms

    # -- actions of tests

    def add(self, name: str, *, stop_ms: int = 50, **options: Any) -> Worker:
        settings = GroupSettings(GROUP, f"http://{name}:8083/", **options)
        worker = Worker(self, name, settings, stop_ms)
        self.workers.append(worker)
        worker.membership.start(self.now_ms)
        self._drain(worker)
        return worker

    def configure(self, **task_counts: int) -> None:
        """Write a new state to the config topic; all workers read it and request a rebalance."""
        self.configs = Configs(self.configs.offset + 2, dict(task_counts))
        for worker in self._alive():
            if worker.reads_configs:
                self.catch_up(worker)

    def catch_up(self, worker: Worker) -> None:
        """Let the worker read the new records of the config topic."""
        worker.reads_configs = True
        worker.configs = self.configs
        worker.membership.request_rejoin("the configs have changed", self.now_ms)
        self._drain(worker)

    def kill(self, worker: Worker) -> None:
        worker.is_alive = False
        worker.running.clear()

    def leave(self, worker: Worker) -> None:
        """Stop all work and then leave, as workers do."""
        worker.running.clear()
        worker.membership.leave("the worker stops", self.now_ms)
        self._drain(worker)

    def run(self, for_ms: int) -> None:
        end_ms = self.now_ms + for_ms
        while True:
            at_ms = min([end_ms, *(event[0] for event in self._events[:1]), *map(self._due_ms, self._alive())])
            self._advance_to(max(at_ms, self.now_ms))
            if at_ms >= end_ms:
                return

    def run_until(self, condition: Callable[[], bool], within_ms: int = 60_000) -> int:
        """Run until the condition holds, and return the elapsed milliseconds."""
        start_ms = self.now_ms
        while not condition():
            assert self.now_ms - start_ms <= within_ms, "the condition did not become true in time"
            self.run(20)
        return self.now_ms - start_ms

    def settle(self, within_ms: int = 60_000) -> int:
        return self.run_until(lambda: self.is_settled, within_ms)

    @property
    def is_settled(self) -> bool:
        """Return whether all members are in one generation and run everything configured."""
        members = [worker.membership for worker in self._members()]
        wanted = {*self.configs.connectors()} | {
            task for connector in self.configs.connectors() for task in self.configs.tasks(connector)
        }
        return (
            all(member.is_settled for member in members)
            and len({member.generation for member in members}) <= 1
            and sorted(map(str, wanted)) == sorted(str(unit) for worker in self._members() for unit in worker.running)
        )

    # -- internals

    def _alive(self) -> list[Worker]:
        return [worker for worker in self.workers if worker.is_alive]

    def _members(self) -> list[Worker]:
        return [worker for worker in self._alive() if worker.membership.phase is not Phase.OUT]

    def _due_ms(self, worker: Worker) -> float:
        return max(worker.membership.next_due_ms, self.now_ms + 1)

    def _later(self, in_ms: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.now_ms + in_ms, next(self._order), action))

    def _advance_to(self, at_ms: float) -> None:
        self.driver.advance(int(at_ms) + (at_ms != int(at_ms)) - self.now_ms)
        while self._events and self._events[0][0] <= self.now_ms:
            heapq.heappop(self._events)[2]()
        for worker in self._alive():
            if worker.polls:
                worker.membership.poll(self.now_ms, "running")
            worker.membership.tick(self.now_ms)
            self._drain(worker)
        self._check_owners()

    def _drain(self, worker: Worker) -> None:
        while outputs := worker.membership.take():
            for output in outputs:
                if isinstance(output, GroupRequest):
                    self._send(worker, output)
                elif isinstance(output, DropConnections):
                    worker.connection_number += 1
                else:
                    worker.notices.append(output)
                    self._follow(worker, output)

    def _follow(self, worker: Worker, notice: MembershipEvent) -> None:
        now = worker.membership
        if isinstance(notice, Assigned):
            worker.last_assigned = notice
            worker.running |= {*notice.assignment.connectors, *notice.assignment.tasks}
        elif isinstance(notice, StopWork):
            gone = {*notice.connectors, *notice.tasks}

            def stopped() -> None:
                worker.running -= gone
                if worker.is_alive:
                    now.work_stopped(notice.stop_id, self.now_ms)
                    self._drain(worker)

            self._later(worker.stop_ms, stopped)
        elif isinstance(notice, ReadConfigs):

            def read() -> None:
                if worker.reads_configs:
                    worker.configs = self.configs
                    now.configs_read(self.now_ms)
                else:
                    now.configs_unreadable(self.now_ms)
                self._drain(worker)

            self._later(30 if worker.reads_configs else notice.timeout_ms, read)
        elif isinstance(notice, Lost):
            worker.last_assigned = None

    def _check_owners(self) -> None:
        owners: dict[Work, str] = {}
        for worker in self._alive():
            for unit in worker.running:
                if unit in owners:
                    self.owner_problems.append(f"{unit} runs on {owners[unit]} and {worker.name} at {self.now_ms}")
                owners[unit] = worker.name

    # -- the network

    def _send(self, worker: Worker, request: GroupRequest) -> None:
        number = worker.connection_number
        sent_ms = self.now_ms

        def answer(response: Any) -> None:
            if worker.is_cut_off or not self.is_reachable or _lost(worker.lost_answers, request):
                return
            self._later(LATENCY_MS, lambda: arrive(response))

        def arrive(response: Any) -> None:
            if worker.is_alive and number == worker.connection_number and not worker.is_cut_off:
                worker.membership.answered(request.request_id, response, self.now_ms)
                self._drain(worker)

        def reach() -> None:
            if not self.is_reachable:
                give_up()
            elif not worker.is_cut_off and not _lost(worker.lost_requests, request):
                self._handle(worker, request, answer)

        def give_up() -> None:
            if worker.is_alive:
                worker.membership.failed(request.request_id, f"no answer since {sent_ms}", self.now_ms)
                self._drain(worker)

        self._later(LATENCY_MS, reach)
        self._later(request.timeout_ms, give_up)

    def _handle(self, worker: Worker, request: GroupRequest, answer: Callable[[Any], None]) -> None:
        if request.api_key is ApiKey.FIND_COORDINATOR:
            assert request.to is None
            found = Coordinator(key=GROUP, node_id=1, host=NODE.host, port=NODE.port, error_code=ErrorCode.NONE)
            answer(FindCoordinatorResponse(coordinators=[found]))
            return
        assert request.to == NODE
        assert (request.purpose is ConnectionPurpose.HEARTBEAT) == (
            request.api_key in (ApiKey.HEARTBEAT, ApiKey.LEAVE_GROUP)
        )
        version = VERSIONS[request.api_key]
        context = GroupRequestContext(version, worker.client_id, "/127.0.0.1")
        message: Any = request.message(version)
        coordinator = self.driver.coordinator
        deferred: Deferred[Any]
        if request.api_key is ApiKey.HEARTBEAT:
            deferred = coordinator.heartbeat(message, self.now_ms)
        elif request.api_key is ApiKey.JOIN_GROUP:
            deferred = coordinator.join_group(context, message, self.now_ms)
        elif request.api_key is ApiKey.SYNC_GROUP:
            deferred = coordinator.sync_group(message, self.now_ms)
        else:
            deferred = coordinator.leave_group(context, message, self.now_ms)
        deferred.on_complete(answer)


def _lost(api_keys: list[ApiKey], request: GroupRequest) -> bool:
    if request.api_key not in api_keys:
        return False
    api_keys.remove(request.api_key)
    return True
