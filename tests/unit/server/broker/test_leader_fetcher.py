"""One leader's partitions over its two connections: when requests are sent, without sockets."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from barnabas.broker.replication.replica_fetcher import ReplicaFetcher
from barnabas.clients.errors import ClientError, Disconnected
from barnabas.clients.node_connection import NodeConnection
from barnabas.protocol.messages.fetch import FetchRequest
from barnabas.server.broker.leader_fetcher import LeaderSource
from tests.unit.broker.replication.follower import (
    CONFIG,
    FETCH_VERSION,
    MemoryReplica,
    data,
    requested_partitions,
    response,
)


class Connection:
    """Keeps the requests; the test answers them."""

    is_open = True
    address = "leader:9092"

    def __init__(self, version: int = FETCH_VERSION) -> None:
        self.requests: list[FetchRequest] = []
        self.answers: list[asyncio.Future[Any]] = []
        self.is_closed = False
        self._version = version

    def version_of(self, api_key: int) -> int:
        return self._version

    async def request(self, request: FetchRequest) -> Any:
        self.requests.append(request)
        self.answers.append(asyncio.get_running_loop().create_future())
        return await self.answers[-1]

    async def close(self) -> None:
        self.is_closed = True


class Leader:
    leader_id = 1

    def __init__(self) -> None:
        self.connections: list[Connection] = []
        self.refusal: ClientError | None = None
        self.version = FETCH_VERSION
        self.ms = 0
        self.written = 0

    def now_ms(self) -> int:
        return self.ms

    def is_open(self, connection: NodeConnection) -> bool:
        return connection.is_open

    async def connect(self) -> NodeConnection:
        if self.refusal is not None:
            raise self.refusal
        self.connections.append(Connection(self.version))
        return cast("NodeConnection", self.connections[-1])

    def count(self, written_bytes: int) -> None:
        self.written += written_bytes


class World:
    def __init__(self) -> None:
        self.leader = Leader()
        self.source = LeaderSource(self.leader, self._new_fetcher)
        self.source.start()

    def _new_fetcher(self, has_session: bool) -> ReplicaFetcher:
        return ReplicaFetcher(broker_id=2, config=CONFIG, broker_epoch=lambda: 1, has_session=has_session)

    async def settle(self) -> None:
        for _ in range(10):
            await asyncio.sleep(0)


def run_scenario(scenario: Callable[[World], Awaitable[None]]) -> None:
    async def main() -> None:
        world = World()
        try:
            await scenario(world)
        finally:
            await asyncio.gather(*world.source.end(), return_exceptions=True)

    asyncio.run(main())


def test_new_partitions_are_fetched_on_the_second_connection_while_the_first_waits() -> None:
    async def scenario(world: World) -> None:
        old, new = MemoryReplica(0), MemoryReplica(1)
        world.source.follow(old, 5)
        await world.settle()
        world.source.follow(new, 5)
        await world.settle()
        first, second = world.leader.connections
        assert [list(requested_partitions(request)) for request in first.requests] == [[0]]
        assert [
            (list(requested_partitions(request)), request.session_id, request.session_epoch)
            for request in second.requests
        ] == [([1], 0, -1)]
        second.answers[0].set_result(response(data(1, [5, 5]), session_id=0))
        await world.settle()
        assert new.epochs == [5, 5]
        first.answers[0].set_result(response(data(0)))
        await world.settle()
        assert requested_partitions(first.requests[1]) == {1: (2, 5, 5, 0)}
        assert second.is_closed
        assert [partition.replica for partition in world.source.partitions()] == [old, new]

    run_scenario(scenario)


def test_a_late_response_for_new_partitions_is_ignored() -> None:
    async def scenario(world: World) -> None:
        new = MemoryReplica(1)
        world.source.follow(MemoryReplica(0), 5)
        await world.settle()
        world.source.follow(new, 5)
        await world.settle()
        first, second = world.leader.connections
        second.answers[0].set_result(response(data(1, [5]), session_id=0))
        first.answers[0].set_result(response(data(0)))
        await world.settle()
        written = len(new.epochs)
        assert requested_partitions(first.requests[1])[1][0] == written

    run_scenario(scenario)


def test_a_partition_with_a_new_epoch_is_fetched_immediately() -> None:
    async def scenario(world: World) -> None:
        world.source.follow(MemoryReplica(0), 5)
        await world.settle()
        world.source.follow(MemoryReplica(0), 5)  # Nothing new.
        world.source.follow(MemoryReplica(0), 6)
        await world.settle()
        first, second = world.leader.connections
        assert len(first.requests) == 1
        assert requested_partitions(second.requests[0]) == {0: (0, 6, -1, 0)}

    run_scenario(scenario)


def test_nothing_is_written_to_stopped_partitions_on_either_connection() -> None:
    async def scenario(world: World) -> None:
        replicas = [MemoryReplica(0), MemoryReplica(1)]
        for replica in replicas:
            world.source.follow(replica, 5)
            await world.settle()
        for replica in replicas:
            world.source.stop(replica.topic_partition)
        assert world.source.is_idle
        for number, connection in enumerate(world.leader.connections):
            connection.answers[0].set_result(response(data(number, [5]), session_id=0))
        await world.settle()
        assert [replica.epochs for replica in replicas] == [[], []]
        assert world.leader.written == 0

    run_scenario(scenario)


def test_an_unreachable_leader_is_tried_again_later(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(world: World) -> None:
        world.leader.refusal = Disconnected("the leader closed the connection")
        world.source.follow(MemoryReplica(0), 5)
        await world.settle()
        assert world.leader.connections == []
        world.leader.refusal = None
        world.leader.ms = 50
        world.source.follow(MemoryReplica(1), 5)  # Wakes it; it would also retry without this.
        await world.settle()
        assert set(requested_partitions(world.leader.connections[0].requests[0])) == {0, 1}

    run_scenario(scenario)
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_a_leader_that_is_too_old_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(world: World) -> None:
        world.leader.version = 12
        world.source.follow(MemoryReplica(0), 5)
        await world.settle()
        assert world.leader.connections[0].requests == []

    run_scenario(scenario)
    assert "too old to copy from" in caplog.text


def test_a_failed_new_partition_stays_failed_in_that_epoch() -> None:
    async def scenario(world: World) -> None:
        bad = MemoryReplica(1)
        world.source.follow(MemoryReplica(0), 5)
        await world.settle()
        world.source.follow(bad, 5)
        await world.settle()
        bad.fails_with = OSError("input/output error")
        first, second = world.leader.connections
        second.answers[0].set_result(response(data(1, [5]), session_id=0))
        await world.settle()
        assert world.source.failed_count == 1
        first.answers[0].set_result(response(data(0)))
        await world.settle()
        assert requested_partitions(first.requests[1]) == {}
        assert world.source.failed_count == 1

    run_scenario(scenario)
