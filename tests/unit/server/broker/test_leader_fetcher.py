"""One leader's partitions over its two connections: which requests are sent when, without sockets."""

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
from tests.unit.broker.replication.follower import CONFIG, FETCH_VERSION, MemoryReplica, asked, data, response


class Connection:
    """Keeps what is asked; the test answers."""

    is_open = True
    address = "leader:9092"

    def __init__(self, version: int = FETCH_VERSION) -> None:
        self.asked: list[FetchRequest] = []
        self.answers: list[asyncio.Future[Any]] = []
        self.is_closed = False
        self._version = version

    def version_of(self, api_key: int) -> int:
        return self._version

    async def request(self, request: FetchRequest) -> Any:
        self.asked.append(request)
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


def tell(story: Callable[[World], Awaitable[None]]) -> None:
    async def main() -> None:
        world = World()
        try:
            await story(world)
        finally:
            await asyncio.gather(*world.source.end(), return_exceptions=True)

    asyncio.run(main())


def test_newcomers_are_asked_for_while_the_first_request_waits_and_named_by_the_next_one() -> None:
    async def story(world: World) -> None:
        old, new = MemoryReplica(0), MemoryReplica(1)
        world.source.follow(old, 5)
        await world.settle()
        world.source.follow(new, 5)
        await world.settle()
        first, second = world.leader.connections
        assert [list(asked(request)) for request in first.asked] == [[0]]
        assert [(list(asked(each)), each.session_id, each.session_epoch) for each in second.asked] == [([1], 0, -1)]
        second.answers[0].set_result(response(data(1, [5, 5]), session_id=0))
        await world.settle()
        assert new.epochs == [5, 5]
        first.answers[0].set_result(response(data(0)))
        await world.settle()
        assert asked(first.asked[1]) == {1: (2, 5, 5, 0)}
        assert second.is_closed
        assert [each.replica for each in world.source.partitions()] == [old, new]

    tell(story)


def test_the_answer_for_newcomers_that_comes_too_late_is_not_looked_at() -> None:
    async def story(world: World) -> None:
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
        assert asked(first.asked[1])[1][0] == written

    tell(story)


def test_a_partition_with_a_new_epoch_is_asked_for_at_once() -> None:
    async def story(world: World) -> None:
        world.source.follow(MemoryReplica(0), 5)
        await world.settle()
        world.source.follow(MemoryReplica(0), 5)  # Nothing new.
        world.source.follow(MemoryReplica(0), 6)
        await world.settle()
        first, second = world.leader.connections
        assert len(first.asked) == 1
        assert asked(second.asked[0]) == {0: (0, 6, -1, 0)}

    tell(story)


def test_nothing_is_written_to_what_is_stopped_in_either_lane() -> None:
    async def story(world: World) -> None:
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

    tell(story)


def test_a_leader_that_cannot_be_reached_is_tried_again_later(caplog: pytest.LogCaptureFixture) -> None:
    async def story(world: World) -> None:
        world.leader.refusal = Disconnected("the leader closed the connection")
        world.source.follow(MemoryReplica(0), 5)
        await world.settle()
        assert world.leader.connections == []
        world.leader.refusal = None
        world.leader.ms = 50
        world.source.follow(MemoryReplica(1), 5)  # Wakes it; it would have come back by itself.
        await world.settle()
        assert set(asked(world.leader.connections[0].asked[0])) == {0, 1}

    tell(story)
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_a_leader_that_is_too_old_is_said_to_be(caplog: pytest.LogCaptureFixture) -> None:
    async def story(world: World) -> None:
        world.leader.version = 12
        world.source.follow(MemoryReplica(0), 5)
        await world.settle()
        assert world.leader.connections[0].asked == []

    tell(story)
    assert "too old to copy from" in caplog.text


def test_what_newcomers_lost_stays_lost_in_that_epoch() -> None:
    async def story(world: World) -> None:
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
        assert asked(first.asked[1]) == {}
        assert world.source.failed_count == 1

    tell(story)
