"""Drive a membership: sockets and the loop's clock, without decisions.

Everything runs on the event loop of ``start``, and nothing waits for the worker: heartbeats are sent
while it starts, stops or reads. So blocking work belongs on a thread. Notices are passed to ``on_notice`` immediately;
it may call this client again.

JoinGroup may wait for a minute in the coordinator, which answers a connection's requests in order. So heartbeats,
and the LeaveGroup request, have a connection of their own.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable

import structlog

from barnabas.clients.client_config import Address
from barnabas.clients.errors import ClientError
from barnabas.clients.network_client import NetworkClient
from barnabas.clients.node_connection import NodeConnection
from barnabas.common.errors import Terminal
from barnabas.connect.decide.group.assignor import ConfigSnapshot
from barnabas.connect.decide.group.group_requests import ConnectionPurpose, GroupRequest
from barnabas.connect.decide.group.group_settings import GroupSettings
from barnabas.connect.decide.group.membership import DropConnections, Membership, Phase
from barnabas.connect.decide.group.membership_events import MembershipEvent

__all__ = ["GroupClient"]

_log = structlog.get_logger(__name__)

_TIMER_MAX_S = 3600.0


class GroupClient:
    """The caller owns ``network``. ``snapshot`` is called whenever the group needs the configuration."""

    def __init__(
        self,
        network: NetworkClient,
        settings: GroupSettings,
        *,
        snapshot: Callable[[], ConfigSnapshot],
        on_notice: Callable[[MembershipEvent], None],
    ) -> None:
        self.membership = Membership(settings, snapshot=snapshot)
        self._network = network
        self._on_notice = on_notice
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._requests: set[asyncio.Task[None]] = set()
        self._closing: set[asyncio.Task[None]] = set()
        self._connections: dict[ConnectionPurpose, NodeConnection] = {}
        self._opening = {purpose: asyncio.Lock() for purpose in ConnectionPurpose}
        self._left = asyncio.Event()
        self._is_pumping = False
        self._is_closed = False

    # -- calls of the worker

    def start(self) -> None:
        """Become a member; notices report the result."""
        self._loop = asyncio.get_running_loop()
        self.membership.start(self._now_ms())
        self._pump()

    def poll(self, doing: str = "") -> None:
        """Report that the worker is alive; see ``Membership.poll``."""
        self.membership.poll(self._now_ms(), doing)
        self._pump()

    def request_rejoin(self, reason: str) -> None:
        self.membership.request_rejoin(reason, self._now_ms())
        self._pump()

    def work_stopped(self, stop_id: int) -> None:
        self.membership.work_stopped(stop_id, self._now_ms())
        self._pump()

    def configs_read(self) -> None:
        self.membership.configs_read(self._now_ms())
        self._pump()

    def configs_unreadable(self) -> None:
        self.membership.configs_unreadable(self._now_ms())
        self._pump()

    async def leave(self, reason: str) -> None:
        """Leave for good, after all work has stopped. Return when the coordinator has answered, or is unreachable."""
        self.membership.leave(reason, self._now_ms())
        self._pump()
        await self._left.wait()

    async def close(self) -> None:
        """Release everything. Without ``leave`` before, the group notices when the session ends."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        tasks = [*self._requests, *self._closing]
        for task in self._requests:
            task.cancel()
        connections = list(self._connections.values())
        self._connections.clear()
        for connection in connections:
            await connection.close()
        await asyncio.gather(*tasks, return_exceptions=True)

    # -- driving

    def _now_ms(self) -> float:
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        return self._loop.time() * 1000

    def _pump(self) -> None:
        """Carry out the requests and notices of the membership, and schedule its next tick."""
        if self._is_pumping or self._is_closed:
            return
        self._is_pumping = True
        try:
            while outputs := self.membership.take():
                for output in outputs:
                    if isinstance(output, GroupRequest):
                        self._start(output)
                    elif isinstance(output, DropConnections):
                        self._drop_connections()
                    else:
                        self._on_notice(output)
        finally:
            self._is_pumping = False
        if self.membership.phase in (Phase.OUT, Phase.FAILED):
            self._left.set()
        else:
            self._left.clear()
        self._set_timer()

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due_ms = self.membership.next_due_ms
        if self._loop is not None and not math.isinf(due_ms):
            in_s = min(max(0.0, (due_ms - self._now_ms()) / 1000), _TIMER_MAX_S)
            self._timer = self._loop.call_later(in_s, self._tick)

    def _tick(self) -> None:
        self.membership.tick(self._now_ms())
        self._pump()

    # -- the network

    def _start(self, request: GroupRequest) -> None:
        task = asyncio.ensure_future(self._request(request))
        self._requests.add(task)
        task.add_done_callback(self._requests.discard)

    async def _request(self, request: GroupRequest) -> None:
        try:
            async with asyncio.timeout(request.timeout_ms / 1000):
                connection = await self._connection(request)
            version = connection.version_of(request.api_key)
            response = await connection.request(
                request.message(version), version=version, timeout_s=request.timeout_ms / 1000
            )
        except TimeoutError:
            where = request.to or self._network.address
            why = f"{where} could not be reached for {request.api_key.name} in {request.timeout_ms / 1000:g} s"
            self.membership.failed(request.request_id, why, self._now_ms())
        except ClientError as error:
            is_terminal = isinstance(error, Terminal)
            self.membership.failed(request.request_id, str(error), self._now_ms(), is_terminal=is_terminal)
        except Exception as error:
            _log.exception("a request to the group's coordinator failed unexpectedly")
            self.membership.failed(request.request_id, f"{type(error).__name__}: {error}", self._now_ms())
        else:
            self.membership.answered(request.request_id, response, self._now_ms())
        self._pump()

    async def _connection(self, request: GroupRequest) -> NodeConnection:
        if request.to is None:
            return await self._network.connect()
        return await self._connection_to(request.to, request.purpose)

    async def _connection_to(self, address: Address, purpose: ConnectionPurpose) -> NodeConnection:
        async with self._opening[purpose]:
            known = self._connections.get(purpose)
            if known is not None and known.is_open and known.address == address:
                return known
            connection = self._connections[purpose] = await self._network.open(address)
        if known is not None:
            await known.close()
        return connection

    def _drop_connections(self) -> None:
        this = asyncio.current_task()
        for task in self._requests:
            if task is not this:
                task.cancel()
        for connection in self._connections.values():
            closing = asyncio.ensure_future(connection.close())
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)
        self._connections.clear()
