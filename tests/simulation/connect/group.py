"""Our own group coordinator behind a network that delays and loses messages and can be cut."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from barnabas.clients.client_config import Address
from barnabas.connect.decide.group.client_ids import default_client_id
from barnabas.connect.decide.group.group_requests import GroupRequest
from barnabas.coordinator.group.group_request_context import GroupRequestContext
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from tests.simulation.connect.world import World
from tests.unit.coordinator.group_driver import GroupDriver

__all__ = ["SimulatedCoordinator"]

_ADDRESS = Address("broker", 9092)
_VERSIONS = {
    ApiKey.FIND_COORDINATOR: 6,
    ApiKey.JOIN_GROUP: 9,
    ApiKey.SYNC_GROUP: 5,
    ApiKey.HEARTBEAT: 4,
    ApiKey.LEAVE_GROUP: 5,
}


class SimulatedCoordinator:
    def __init__(self, world: World) -> None:
        self.loses_messages = True
        """Whether single messages are lost while others arrive."""
        self._world = world
        self._driver = GroupDriver()
        self._driver.now_ms = self._now_ms
        self._driver.load()
        self._tick()

    @property
    def _now_ms(self) -> int:
        return 1_000_000 + int(self._world.now_ms)

    def _tick(self) -> None:
        """Advance the coordinator regularly, so that its deadlines are at most 250 ms late."""
        self._advance()
        self._world.after(250, self._tick)

    def _advance(self) -> None:
        driver = self._driver
        if driver.now_ms < self._now_ms:
            driver.advance(self._now_ms - driver.now_ms)

    def send(
        self,
        worker: str,
        request: GroupRequest,
        answered: Callable[[Any], None],
        failed: Callable[[str], None],
    ) -> None:
        """Send a request; either ``answered`` or ``failed`` is called, once."""
        world = self._world
        is_over = False

        def answer(response: Any) -> None:
            nonlocal is_over
            if not is_over and world.reaches(worker, "brokers"):
                is_over = True
                answered(response)

        def fail() -> None:
            nonlocal is_over
            if not is_over:
                is_over = True
                failed("the coordinator does not answer")

        def arrive() -> None:
            if not world.reaches(worker, "brokers"):
                world.after(50, fail)
                return
            if world.random.random() < 0.01:  # The connection breaks before or after the request was handled.
                world.after(world.random.uniform(1, 1_500), fail)
                if world.random.random() < 0.5:
                    return
            if self.loses_messages and world.random.random() < 0.01:  # Only the request or its answer is lost.
                if world.random.random() < 0.5:
                    self._handle(worker, request, lambda _: None)
                return
            self._handle(worker, request, lambda response: world.after(world.delay_ms(), lambda: answer(response)))

        world.after(request.timeout_ms, fail)
        world.after(world.delay_ms(), arrive)

    def _handle(self, worker: str, request: GroupRequest, answer: Callable[[Any], None]) -> None:
        self._advance()
        version = _VERSIONS[request.api_key]
        message: Any = request.message(version)
        coordinator, now_ms = self._driver.coordinator, self._driver.now_ms
        context = GroupRequestContext(version, default_client_id(f"{worker}:8083"), "/127.0.0.1")
        if request.api_key is ApiKey.FIND_COORDINATOR:
            found = Coordinator(key=message.coordinator_keys[0], host=_ADDRESS.host, port=_ADDRESS.port)
            answer(FindCoordinatorResponse(coordinators=[found]))
        elif request.api_key is ApiKey.JOIN_GROUP:
            coordinator.join_group(context, message, now_ms).on_complete(answer)
        elif request.api_key is ApiKey.SYNC_GROUP:
            coordinator.sync_group(message, now_ms).on_complete(answer)
        elif request.api_key is ApiKey.HEARTBEAT:
            coordinator.heartbeat(message, now_ms).on_complete(answer)
        else:
            coordinator.leave_group(context, message, now_ms).on_complete(answer)
