"""One connection to a leader. It sends one request at a time, as its ``ReplicaFetcher`` decides."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from barnabas.broker.replication.replica_fetcher import FETCH_VERSION_MIN
from barnabas.clients.errors import ClientError, ConnectFailed, UnsupportedVersion
from barnabas.common.errors import Transient
from barnabas.network.stepped_responses import serve_others
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import DecodeError, EncodeError

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.broker.replication.replica_fetcher import ReplicaFetcher
    from barnabas.clients.node_connection import NodeConnection
    from barnabas.protocol.schema import Message

__all__ = ["FetchConnection", "LeaderAddress"]

log = logging.getLogger(__name__)

_BYTES_AT_ONCE = 1024 * 1024
_PARTITIONS_AT_ONCE = 32
"""How much is written in one turn of the event loop. The first record of a partition creates files."""


class LeaderAddress(Protocol):
    """The address of a leader, and how to connect to it."""

    leader_id: int

    def now_ms(self) -> int: ...

    def is_open(self, connection: NodeConnection) -> bool:
        """Return whether the connection still leads to the leader."""
        ...

    async def connect(self) -> NodeConnection:
        """Connect. Raise ClientError."""
        ...

    def count(self, written_bytes: int) -> None: ...


class FetchConnection:
    """The connection of one fetcher to its leader. Call ``wake`` when the fetcher has new work."""

    def __init__(self, leader: LeaderAddress, fetcher: ReplicaFetcher, on_round: Callable[[], None]) -> None:
        """``on_round`` is called when a request was answered or has failed."""
        self.fetcher = fetcher
        self.is_waiting = False
        """Whether a request is in flight."""
        self._leader = leader
        self._on_round = on_round
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._connection: NodeConnection | None = None
        self._logged_error = ""

    def start(self) -> None:
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    def wake(self) -> None:
        self._changed.set()

    def cancel(self) -> asyncio.Task[None] | None:
        """Cancel and return the task if it was started. A pending answer is ignored."""
        if self._task is not None:
            self._task.cancel()
        return self._task

    async def _run(self) -> None:
        try:
            while True:
                try:
                    await self._round()
                except Exception:
                    log.exception("copying from broker %d failed and will be retried", self._leader.leader_id)
                    self.fetcher.lost(self._leader.now_ms())
        finally:
            if self._connection is not None:
                await self._connection.close()

    async def _round(self) -> None:
        """Exchange one request and its answer, or wait until a request is due."""
        fetcher, now_ms = self.fetcher, self._leader.now_ms
        self._changed.clear()
        due_ms = fetcher.wakeup_ms()
        if due_ms is None or due_ms > now_ms():
            await self._wait(None if due_ms is None else due_ms - now_ms())
            return
        try:
            connection = await self._connect_in_time()
            request = fetcher.next_request(now_ms(), fetch_version=connection.version_of(ApiKey.FETCH))
            if request is None:
                return
            self.is_waiting = True
            connection.silence_limit_s = fetcher.silence_limit_ms / 1000
            response = await connection.request(request)
        except (ClientError, DecodeError, EncodeError) as error:
            self._log_problem(error)
            fetcher.lost(now_ms())
        else:
            self._logged_error = ""
            await self._take(request, response)
        finally:
            self.is_waiting = False
        self._on_round()

    async def _take(self, request: Message, response: Message) -> None:
        left = _BYTES_AT_ONCE
        for number, written in enumerate(self.fetcher.receive(request, response, self._leader.now_ms()), 1):
            self._leader.count(written)
            left -= written
            if left < 0 or number % _PARTITIONS_AT_ONCE == 0:
                left = _BYTES_AT_ONCE
                await serve_others()

    async def _wait(self, for_ms: int | None) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(None if for_ms is None else for_ms / 1000):
                await self._changed.wait()

    async def _connect_in_time(self) -> NodeConnection:
        limit_s = self.fetcher.connect_limit_ms / 1000
        try:
            async with asyncio.timeout(limit_s):
                return await self._connect()
        except TimeoutError as error:
            raise ConnectFailed(f"no connection could be opened within {limit_s:g} s") from error

    async def _connect(self) -> NodeConnection:
        known = self._connection
        if known is not None:
            if self._leader.is_open(known):
                return known
            await known.close()
        self._connection = connection = await self._leader.connect()
        if connection.version_of(ApiKey.FETCH) < FETCH_VERSION_MIN:
            raise UnsupportedVersion(
                f"the broker at {connection.address} is too old to copy from: it does not support Fetch "
                f"version {FETCH_VERSION_MIN}"
            )
        return connection

    def _log_problem(self, error: Exception) -> None:
        """Log the first error of its kind; repetitions are not logged."""
        name = type(error).__name__
        if name != self._logged_error:
            self._logged_error = name
            level = logging.WARNING if isinstance(error, Transient) else logging.ERROR
            log.log(level, "cannot copy partitions from broker %d at the moment: %s", self._leader.leader_id, error)
